//! The launch plan: everything that will be in force, recorded before anything starts.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use cto_agent::{
    Adapter, LanePlan, ScratchContent, ScratchEntry, StdinUse, Surroundings, WorkingDirectory,
};
use cto_checkout::{Baseline, Workspace};
use cto_contract::event::{EventKind, PlanUpdated};
use cto_contract::identity::{Identity, NO_MODEL, ProgramDigest, ProgramRole, SteeringDigest};
use cto_contract::ids::Digest;
use cto_contract::lanes::{LadderRule, ProgramSource};
use cto_contract::plan::{Ladder, LaunchPlan, SandboxPlan, TreeKind};
use cto_contract::words::{Lane, NetworkClass, SandboxClass};
use cto_evidence::canonical::{digest_of, hash_reader, sha256, to_canonical};
use cto_rules::paths::is_steering;
use cto_rules::programs::ProgramProblem;
use cto_rules::verdicts::Fault;
use cto_sandbox::{Access, Bind, Endpoint, LaunchRequest, Stdin};

use crate::adapters;
use crate::checks::to_os;
use crate::limits::memory_hold;
use crate::model;
use crate::open_run::{OpenRun, StepError};
use crate::program::{ProgramFile, ProgramsBeside};
use crate::room::Room;
use crate::source::Source;
use crate::steps::Permission;
use crate::steps::inspection;
use crate::steps::landing_plan;
use crate::steps::prepare::Prepared;
use crate::trees::Below;

/// Longest wait for a program to tell its version, and most that it may print.
const VERSION_WALL: Duration = Duration::from_secs(30);
const VERSION_BYTES_MAX: u64 = 4 * 1024;
/// Most steering files that a plan names.
const STEERING_MAX: usize = 1_000;

/// A launch as it was planned.
pub(crate) struct Planned {
    pub(crate) adapter: Box<dyn Adapter>,
    pub(crate) lane_plan: LanePlan,
    pub(crate) request: LaunchRequest,
    /// Asks the program for its version; none for a lane that does not.
    pub(crate) version_request: Option<LaunchRequest>,
    /// The file whose digest stands in the identity; none for a lane whose program is the system's and was not found.
    pub(crate) program: Option<ProgramFile>,
    /// What else of an installed program runs.
    pub(crate) beside: ProgramsBeside,
    pub(crate) identity_digest: cto_contract::ids::Digest,
    /// What is foreseen to hold it.
    pub(crate) sandbox: SandboxPlan,
}

impl Planned {
    /// Whether a file of the program is not the one any more whose digest was taken.
    pub(crate) fn is_replaced(&self) -> bool {
        let files = self.program.iter().chain(&self.beside.interpreter);
        files.into_iter().any(|file| !file.is_unchanged())
    }

    /// Takes other trees to lie below, once the setup has made one more.
    pub(crate) fn lay_over(&mut self, below: &Below) {
        let requests = std::iter::once(&mut self.request).chain(&mut self.version_request);
        for overlay in requests.filter_map(|request| request.overlay.as_mut()) {
            overlay.lowers.clone_from(below);
        }
    }
}

pub(crate) fn plan(
    run: &mut OpenRun<'_>,
    permission: &Permission,
    prepared: &Prepared,
    source: Option<&Source>,
) -> Result<Planned, StepError> {
    let room = &prepared.room;
    let adapter = adapters::adapter(run, &room.own_scratch())?;
    let lane_plan = lane_plan(run, adapter.as_ref(), permission, room)?;
    if let Some(why) = adapter.objection(&lane_plan) {
        return Err(Fault::NothingToStart { why }.into());
    }
    lay_out(&lane_plan, &room.own_scratch())?;
    for file in &lane_plan.pack_files {
        run.artifact(&format!("backend/{}", file.path), &file.bytes)?;
    }
    let mut request = launch_request(run, room, &lane_plan, ("backend", &lane_plan.argv))?;
    request.endpoint = permission
        .model
        .as_ref()
        .map(|_| Endpoint { port: model::PORT });
    request.stdin = match lane_plan.stdin {
        StdinUse::Closed => Stdin::Closed,
        StdinUse::Dialogue => Stdin::Written,
    };
    let version_request = match &lane_plan.version_probe {
        None => None,
        Some(probe) => {
            let mut request = launch_request(run, room, &lane_plan, ("version", &probe.argv))?;
            request.limits.wall = request.limits.wall.min(VERSION_WALL);
            request.limits.output_bytes = VERSION_BYTES_MAX;
            Some(request)
        }
    };
    let path = run.search_path();
    let limits = run.limits.limits;
    let installed = adapters::installed_program(run).transpose()?;
    let (foreseen, program, beside) = std::thread::scope(|scope| {
        // Large files are hashed while the kernel is asked.
        let program = scope.spawn(|| match &installed {
            Some(installed) => ProgramFile::at(&installed.program),
            None => ProgramFile::find(lane_plan.argv.first()?, &path),
        });
        let beside = scope.spawn(|| installed.as_ref().map(ProgramsBeside::of).transpose());
        let foreseen = permission.sandbox.plan_of(&request, &limits);
        (foreseen, program.join().ok().flatten(), beside.join())
    });
    let beside = match beside {
        Ok(Ok(beside)) => beside.unwrap_or_default(),
        Ok(Err(error)) => return Err(unread(run.request.lane, &lane_plan, &error).into()),
        Err(_) => return Err(Fault::ProgramReplaced.into()),
    };
    let argv = shown_argv(run, room, &lane_plan.argv, source);
    let is_own = adapter.lane().traits().program != ProgramSource::System;
    if is_own && program.is_none() {
        let program = argv.first().cloned().unwrap_or_default();
        return Err(Fault::ProgramMissing { program }.into());
    }
    // What starts is what a record admitted, even if the file was replaced in between.
    let found = program.as_ref().map(|file| &file.digest);
    let loaded = beside.tree.as_ref().map(|(_, digest)| digest);
    let is_admitted = permission.program.as_ref() == found && permission.package.as_ref() == loaded;
    if permission.program.is_some() && !is_admitted {
        return Err(Fault::ProgramReplaced.into());
    }
    let sandbox = SandboxPlan {
        read_paths: prepared.seen_paths.read.clone(),
        hidden_paths: prepared.seen_paths.hidden.clone(),
        ..foreseen
    };
    let names = lane_plan.env.keys().cloned().collect();
    let identity = Identity {
        command_line: landing_plan::command_line(run, &lane_plan.argv, &argv, names)?,
        ..identity(run, adapter.as_ref(), program.as_ref(), sandbox.class)
    };
    let identity_digest = digest_of(&identity).map_err(|e| no_form("identity", &e))?;
    let plan = LaunchPlan {
        landing: landing_plan::landing_plan(run, prepared, source, &identity)?,
        inspection: inspection::inspected(run, &lane_plan, source)?.map(Box::new),
        programs: shown_programs(run, program.as_ref(), &beside),
        steering: steering(&prepared.trees.baseline)?,
        ..launch_plan(run, prepared, (&lane_plan, argv), sandbox.clone())?
    };
    run.record(EventKind::PlanUpdated(PlanUpdated { plan, identity }))?;
    Ok(Planned {
        adapter,
        lane_plan,
        request,
        version_request,
        program,
        beside,
        identity_digest,
        sandbox,
    })
}

/// A package that can't be read whole has no digest, and what has none is not started.
fn unread(lane: Lane, plan: &LanePlan, error: &std::io::Error) -> Fault {
    Fault::ProgramUnusable {
        lane,
        program: plan.argv.first().cloned().unwrap_or_default(),
        problem: ProgramProblem::Refused(format!("its package can't be read whole: {error}")),
    }
}

/// The files of an installed program, by names that fit a pack.
fn shown_programs(
    run: &OpenRun<'_>,
    program: Option<&ProgramFile>,
    beside: &ProgramsBeside,
) -> Vec<ProgramDigest> {
    let home = run.harness.env.get("HOME").filter(|home| home.len() > 1);
    let name = |path: &Path| match home.map(|home| path.strip_prefix(home)) {
        Some(Ok(below)) => format!("~/{}", below.display()),
        Some(Err(_)) | None => path.display().to_string(),
    };
    let shown = |role: ProgramRole, path: &Path, digest: &Digest| ProgramDigest {
        role,
        path: name(path),
        digest: digest.clone(),
    };
    if !beside.is_installed {
        return Vec::new();
    }
    let own = program.map(|p| shown(ProgramRole::Program, p.path(), &p.digest));
    let runs_it = beside.interpreter.as_ref();
    let runs_it = runs_it.map(|p| shown(ProgramRole::Interpreter, p.path(), &p.digest));
    let tree = beside.tree.as_ref();
    let tree = tree.map(|(path, digest)| shown(ProgramRole::Tree, path, digest));
    own.into_iter().chain(runs_it).chain(tree).collect()
}

/// Digests of what in the baseline steers agents. The workspace begins as the baseline, so no agent reads another one.
fn steering(baseline: &Baseline) -> Result<Vec<SteeringDigest>, StepError> {
    let mut found = Vec::new();
    let paths = baseline.manifest.iter().map(|(path, _)| path);
    for path in paths {
        let Some(text) = std::str::from_utf8(path.as_bytes()).ok() else {
            continue;
        };
        if !is_steering(text) {
            continue;
        }
        let digest = digest_at(&baseline.root.join(text));
        let digest =
            digest.map_err(|e| StepError::not_written(&format!("digest of {text}"), &e))?;
        found.push(SteeringDigest {
            path: text.to_owned(),
            digest,
        });
        if found.len() == STEERING_MAX {
            break;
        }
    }
    Ok(found)
}

/// Of a file its bytes, of a link where it leads.
fn digest_at(path: &Path) -> std::io::Result<Digest> {
    if std::fs::symlink_metadata(path)?.is_symlink() {
        let target = std::fs::read_link(path)?;
        return Ok(sha256(target.as_os_str().as_encoded_bytes()));
    }
    let file = File::open(path)?;
    let (digest, _) = hash_reader(file).map_err(std::io::Error::other)?;
    Ok(digest)
}

/// Which lane, in which build and with which model, does the work.
fn identity(
    run: &OpenRun<'_>,
    adapter: &dyn Adapter,
    program: Option<&ProgramFile>,
    class: SandboxClass,
) -> Identity {
    Identity {
        lane: adapter.lane(),
        adapter_revision: adapter.revision(),
        binary_digest: program.map(|p| p.digest.clone()),
        model_provider: run.pair.as_ref().map(|pair| pair.provider.clone()),
        model: match &run.pair {
            Some(pair) => Some(pair.model.clone()),
            None => (adapter.lane() == Lane::Command && run.contract.network == NetworkClass::None)
                .then(|| NO_MODEL.to_owned()),
        },
        sandbox_class: class,
        command_line: None,
    }
}

/// Everything that will be in force, in words that fit any machine.
fn launch_plan(
    run: &OpenRun<'_>,
    prepared: &Prepared,
    (lane_plan, argv): (&LanePlan, Vec<String>),
    sandbox: SandboxPlan,
) -> Result<LaunchPlan, StepError> {
    Ok(LaunchPlan {
        argv,
        environment_names: lane_plan.env.keys().cloned().collect(),
        working_directory: match &lane_plan.working_directory {
            WorkingDirectory::Workspace => "$WORKSPACE".to_owned(),
            WorkingDirectory::Scratch(below) => format!("$SCRATCH/{below}"),
        },
        limits: run.limits.limits,
        wall_seconds_from: run.limits.wall_from,
        network: run.request.lane.network(run.contract.network),
        sandbox,
        workspace_kind: match prepared.workspace {
            Workspace::Copy(_) => TreeKind::Copy,
            Workspace::Overlay(_) => TreeKind::Overlay,
        },
        checks_kind: prepared.trees.checks_kind,
        baseline_tree_id: crate::trees::tree_id(&prepared.trees.baseline.tree_id)?,
        baseline_files: prepared.trees.baseline.manifest.len() as u64,
        verification: run
            .contract
            .verification_commands
            .iter()
            .map(|c| c.run.clone())
            .collect(),
        setup: run.contract.setup_commands.clone(),
        inputs: prepared.inputs.clone(),
        runtime_model_provider: lane_plan.runtime_model_provider.clone(),
        ladder: match run.request.lane.traits().ladder {
            LadderRule::Ruler => Ladder::NotNeeded,
            LadderRule::Climbs => Ladder::NotEnforced,
        },
        source: prepared.source_plan.clone(),
        landing: None,
        programs: Vec::new(),
        steering: Vec::new(),
        inspection: None,
    })
}

fn no_form(what: &str, error: &dyn std::error::Error) -> StepError {
    StepError::not_written(what, error)
}

/// What the lane wants started, with what every process here gets besides.
fn lane_plan(
    run: &OpenRun<'_>,
    adapter: &dyn Adapter,
    permission: &Permission,
    room: &Room,
) -> Result<LanePlan, StepError> {
    let brief = cto_agent::Brief {
        markdown: cto_agent::brief(&run.contract),
        contract_json: to_canonical(&run.contract).map_err(|e| no_form("task-contract", &e))?,
    };
    let places = room.places();
    let lane = run.request.lane;
    let address = || model::address(lane, run.pair.as_ref());
    let model = permission.model.as_ref().map(|_| address());
    let mut plan = adapter.plan(Surroundings {
        places: &places,
        path: &run.search_path(),
        brief: &brief,
        model: model.as_ref(),
    });
    // A program that is told no name knows its provider by the one that was asked for.
    if let Some(model) = &model {
        let named = plan.runtime_model_provider.take();
        plan.runtime_model_provider = named.or_else(|| model.provider.clone());
    }
    plan.env.extend(room.more_env());
    let first = plan.path_prefix.iter();
    let first = first.map(|below| format!("{}/{below}", places.scratch));
    let path = first.chain([run.search_path()]).collect::<Vec<_>>();
    plan.env.insert("PATH".to_owned(), path.join(":"));
    Ok(plan)
}

/// Lays what the lane wants into scratch.
fn lay_out(plan: &LanePlan, scratch: &Path) -> Result<(), StepError> {
    let own = match &plan.working_directory {
        WorkingDirectory::Workspace => None,
        WorkingDirectory::Scratch(below) => Some(ScratchEntry {
            path: below.clone(),
            content: ScratchContent::Directory,
        }),
    };
    let prefixes = plan.path_prefix.iter().map(|below| ScratchEntry {
        path: below.clone(),
        content: ScratchContent::Directory,
    });
    for entry in own.into_iter().chain(prefixes).chain(plan.scratch.clone()) {
        let written = write_entry(&entry, scratch);
        written.map_err(|e| StepError::not_written(&format!("$SCRATCH/{}", entry.path), &e))?;
    }
    Ok(())
}

/// The first file that must be as planned and is not, before anything is started. Only the harness and the program itself,
/// asked for its version, could write there until now.
pub(super) fn first_changed(plan: &LanePlan, scratch: &Path) -> Option<String> {
    let is_as_planned = |path: &str| {
        let mut entries = plan.scratch.iter().filter(|entry| entry.path == path);
        match entries.next().map(|entry| &entry.content) {
            Some(ScratchContent::File(bytes) | ScratchContent::Program(bytes)) => {
                is_file_with(&scratch.join(path), bytes)
            }
            Some(ScratchContent::Directory) | None => false,
        }
    };
    let mut fixed = plan.fixed.iter();
    fixed.find(|path| !is_as_planned(path)).cloned()
}

/// Whether a path is a plain file with these bytes. One of another length is not read at all.
fn is_file_with(path: &Path, bytes: &[u8]) -> bool {
    let is_alike = std::fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.is_file() && meta.len() == bytes.len() as u64);
    is_alike && std::fs::read(path).is_ok_and(|found| found == bytes)
}

fn write_entry(entry: &ScratchEntry, scratch: &Path) -> std::io::Result<()> {
    let full = scratch.join(&entry.path);
    let make = |dir: &Path| DirBuilder::new().recursive(true).mode(0o755).create(dir);
    let (bytes, mode) = match &entry.content {
        ScratchContent::Directory => return make(&full),
        ScratchContent::File(bytes) => (bytes, 0o644),
        ScratchContent::Program(bytes) => (bytes, 0o755),
    };
    if let Some(above) = full.parent() {
        make(above)?;
    }
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&full)?;
    file.write_all(bytes)
}

/// What will be launched: the plan is made from it, too.
fn launch_request(
    run: &OpenRun<'_>,
    room: &Room,
    plan: &LanePlan,
    (name, argv): (&str, &[String]),
) -> Result<LaunchRequest, StepError> {
    let argv = argv.iter().map(Into::into).collect();
    let mut tree = run.limits.tree();
    tree.memory_hold = memory_hold(run.request.lane);
    let limits = (run.limits.sandbox(), tree);
    let mut request = room
        .request(name, argv, to_os(plan.env.clone()), limits)
        .map_err(|e| StepError::not_written("$WORKSPACE", &e))?;
    if room.can_bind() {
        request.binds.extend(read_only_binds(&plan.read_only, room));
    }
    if let WorkingDirectory::Scratch(below) = &plan.working_directory {
        request.cwd = Path::new(&room.places().scratch).join(below);
    }
    Ok(request)
}

/// Binds that keep files of scratch as they are: each file is seen read-only, and each directory above it is a mount of its
/// own, so that it can't be moved aside for another one.
fn read_only_binds(files: &[String], room: &Room) -> Vec<Bind> {
    let (outside, inside) = (room.own_scratch(), room.places().scratch);
    let bind = |below: &Path, access| Bind {
        from: outside.join(below),
        at: Path::new(&inside).join(below),
        access,
    };
    let files: Vec<&Path> = files.iter().map(Path::new).collect();
    let above = files.iter().flat_map(|file| file.ancestors().skip(1));
    let above: BTreeSet<&Path> = above.filter(|dir| !dir.as_os_str().is_empty()).collect();
    // In the order of their names a directory comes before what is in it.
    let directories = above.into_iter().map(|dir| bind(dir, Access::Writable));
    let files = files.iter().map(|file| bind(file, Access::ReadOnly));
    directories.chain(files).collect()
}

/// The command line in words that fit any machine.
fn shown_argv(
    run: &OpenRun<'_>,
    room: &Room,
    argv: &[String],
    source: Option<&Source>,
) -> Vec<String> {
    let places = room.places();
    let work = run.work.to_string_lossy();
    let top = source.and_then(|s| s.repository.work_tree());
    let top = top.map(|top| top.to_string_lossy());
    let user_home = run.harness.env.get("HOME").filter(|home| home.len() > 1);
    let names = [
        (Some(places.scratch.as_str()), "$SCRATCH"),
        (Some(places.workspace.as_str()), "$WORKSPACE"),
        (Some(&*work), "$CTO_HOME/work/$RUN"),
        (top.as_deref(), "$SOURCE"),
        (user_home, "~"),
    ];
    let shown = |arg: &String| {
        names.iter().fold(arg.clone(), |text, (path, name)| {
            path.map_or(text.clone(), |path| text.replace(path, name))
        })
    };
    argv.iter().map(shown).collect()
}
