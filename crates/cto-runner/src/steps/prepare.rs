//! The trees and rooms of a run: the copy that the backend gets, and what the checks will run in.

use std::sync::Arc;

use cto_checkout::{
    Baseline, BaselineCache, GitDir, GitLayer, History, OverlaidTree, RepositoryError, TreePath,
    WorkingCopy, Workspace,
};
use cto_contract::input::InputPath;
use cto_contract::lanes::WorkspaceGit;
use cto_contract::plan::{HiddenPath, InputPlan, SourcePlan, TreeKind};
use cto_contract::words::HistoryClass;
use cto_rules::paths::Withheld;
use cto_rules::read_paths::ClosedBy;
use cto_rules::verdicts::Fault;
use cto_sandbox::{Means, Recorder};
use rustix::fs::FlockOperation;

use crate::adapters;
use crate::checks::Checker;
use crate::error_chain;
use crate::inputs::ResolvedInput;
use crate::inside::{Inside, Viewer};
use crate::limits::memory_hold;
use crate::open_run::{OpenRun, StepError};
use crate::retention::note_use;
use crate::room::{BACKEND_ROOM, BACKEND_TREE, CHECKED_TREE, Renames, Room, Rooms, Tree, View};
use crate::sandbox::RunSandbox;
use crate::source::{self, Source};
use crate::task::Task;
use crate::trees::{Below, RunTrees};

/// From so many files on, backend and checks work in overlays. Below it a copy costs no more than finding out whether one
/// can be mounted.
const OVERLAY_FILES_MIN: usize = 100;

/// Everything that a backend and the checks work in.
pub(crate) struct Prepared {
    pub(crate) trees: Arc<RunTrees>,
    pub(crate) below: Below,
    pub(crate) checker: Checker,
    /// What the backend works in.
    pub(crate) workspace: Workspace,
    /// Where the backend works.
    pub(crate) room: Room,
    pub(crate) source_plan: Option<SourcePlan>,
    pub(crate) inputs: Vec<InputPlan>,
    pub(crate) seen_paths: SeenPaths,
}

/// Names for a pack of what is shown of the operator's own, and of what is not.
#[derive(Debug, Default)]
pub(crate) struct SeenPaths {
    pub(crate) read: Vec<String>,
    pub(crate) hidden: Vec<HiddenPath>,
}

/// What the patch is applied to.
pub(crate) enum PatchBase {
    /// Where checks run in overlays, only the files that the patch touches are laid out.
    Layer,
    /// It is checked against the patch's tree, whoever touched it.
    Copy(WorkingCopy),
}

/// A baseline, and what of it comes from a repository.
struct Base {
    baseline: Baseline,
    git_layer: Option<GitLayer>,
    source_plan: Option<SourcePlan>,
}

fn unmade(error: &dyn std::error::Error) -> StepError {
    let why = error_chain(error);
    Fault::WorkspaceNotMade { why }.into()
}

/// Makes the trees, and notes that the baseline is in use before anybody may take it out of the cache.
pub(crate) fn prepare(
    run: &mut OpenRun<'_>,
    sandbox: &RunSandbox,
    source: Option<&Source>,
) -> Result<(Prepared, PatchBase), StepError> {
    let home = &run.harness.home;
    run.names
        .make(&run.work)
        .map_err(|e| StepError::not_written("rooms", &e))?;
    let _choosing = home
        .lock_baselines(FlockOperation::LockShared)
        .map_err(|e| StepError::not_written("baselines", &e))?;
    let base = base(run, source)?;
    let baseline_use =
        note_use(&base.baseline.root).map_err(|e| StepError::not_written("baselines", &e))?;
    let git_dir = GitDir::create(&run.work.join("git")).map_err(|e| unmade(&e))?;
    check_inputs(run, &base.baseline)?;
    let has_setup = !run.contract.setup_commands.is_empty();
    let needs_mounts = has_setup || !run.inputs.is_empty();
    if needs_mounts && !sandbox.has_mounts() {
        return Err(Fault::MountsRefused.into());
    }
    let (rooms, seen_paths) = rooms(run, sandbox, source)?;
    let files = base.baseline.manifest.len();
    let renames = match has_setup {
        true => Renames::Optional,
        false => Renames::Needed,
    };
    let can_overlay = (files >= OVERLAY_FILES_MIN || has_setup)
        && rooms.can_overlay(
            home,
            &sandbox.launcher,
            &base.baseline.root,
            run.limits.sandbox(),
            &run.stop,
            renames,
        );
    if has_setup && !can_overlay {
        return Err(Fault::MountsRefused.into());
    }
    let points = rooms.mount_points().map_err(|e| unmade(&e))?;
    let below: Below = points
        .into_iter()
        .chain(base.git_layer.iter().map(|layer| layer.root.clone()))
        .chain([base.baseline.root.clone()])
        .collect();
    let trees = RunTrees {
        baseline: base.baseline,
        git_dir,
        git_layer: base.git_layer,
        rooms,
        checks_kind: match can_overlay {
            true => TreeKind::Overlay,
            false => TreeKind::Copy,
        },
        _baseline_use: baseline_use,
    };
    let (workspace, tree) = workspace(run, &trees, &below)?;
    // Made while nothing else runs: beside the checks of the baseline it would take twice as long.
    let patch_base = match trees.checks_kind {
        TreeKind::Overlay => PatchBase::Layer,
        TreeKind::Copy => {
            let made = WorkingCopy::make(&trees.baseline, &run.names.place(CHECKED_TREE));
            PatchBase::Copy(made.map_err(|e| unmade(&e))?)
        }
    };
    let room = trees
        .rooms
        .room(BACKEND_ROOM, tree)
        .map_err(|e| unmade(&e))?;
    let prepared = Prepared {
        checker: checker(run, sandbox)?,
        trees: Arc::new(trees),
        below,
        workspace,
        room,
        source_plan: base.source_plan,
        inputs: run.inputs.iter().map(ResolvedInput::plan).collect(),
        seen_paths,
    };
    run.keep_reserve()?;
    Ok((prepared, patch_base))
}

/// What the backend works in.
fn workspace(
    run: &OpenRun<'_>,
    trees: &RunTrees,
    below: &Below,
) -> Result<(Workspace, Tree), StepError> {
    let caps = run.limits.scan_caps();
    if trees.checks_kind == TreeKind::Overlay {
        let upper = run.names.place(BACKEND_TREE);
        let made = OverlaidTree::make(&trees.baseline, &upper).map_err(|e| unmade(&e))?;
        let made = made.with_caps(caps);
        let lowers = below.clone();
        return Ok((Workspace::Overlay(made), Tree::Overlay { lowers, upper }));
    }
    let made = WorkingCopy::make(&trees.baseline, &run.names.place(BACKEND_TREE))
        .map_err(|e| unmade(&e))?;
    let made = made.with_caps(caps);
    if let Some(layer) = &trees.git_layer {
        layer.copy_into(&made).map_err(|e| unmade(&e))?;
    }
    let path = made.path().to_owned();
    Ok((Workspace::Copy(made), Tree::Copy(path)))
}

/// What commands of this run see of the machine, and the names of what is the operator's own in it.
fn rooms(
    run: &OpenRun<'_>,
    sandbox: &RunSandbox,
    source: Option<&Source>,
) -> Result<(Rooms, SeenPaths), StepError> {
    let launcher = &sandbox.launcher;
    let recorder = match sandbox.is_native() {
        true => Recorder::On,
        false => Recorder::Off,
    };
    let inputs = run.inputs.clone();
    if launcher.means == Means::None {
        let rooms = Rooms::new((&run.work, &run.names), View::Host, inputs, recorder);
        return Ok((rooms, SeenPaths::default()));
    }
    let program = adapters::installed_program(run).transpose()?;
    let viewer = Viewer {
        path: &run.search_path(),
        words: &adapters::shown_words(run),
        program: program.as_ref(),
        repository: source.and_then(|s| s.repository.work_tree()),
        id: launcher.id_inside(),
        closed_by: match (sandbox.expected.changes_user(), sandbox.has_mounts()) {
            (true, _) => ClosedBy::Kernel,
            (false, true) => ClosedBy::Masks,
            (false, false) => ClosedBy::LeavingOut,
        },
    };
    let inside = Inside::find(run.harness, viewer, &run.names.place("masks"));
    let inside = inside.map_err(|e| unmade(&e))?;
    if let Some(program) = &program {
        adapters::check_shown(run.request.lane, program, &inside)?;
    }
    let seen = SeenPaths {
        read: inside.shown.clone(),
        hidden: inside.hidden.clone(),
    };
    let view = match sandbox.has_mounts() {
        true => View::Built(inside),
        false => View::InPlace(inside),
    };
    Ok((
        Rooms::new((&run.work, &run.names), view, inputs, recorder),
        seen,
    ))
}

/// What runs the checks, with the case's oracle laid out where no agent sees it.
fn checker(run: &OpenRun<'_>, sandbox: &RunSandbox) -> Result<Checker, StepError> {
    let oracle = match &run.request.task {
        Task::Repository(_) => None,
        Task::Case(case) => {
            let dir = run.names.place("oracle");
            let is_there = case.lay_out("oracle", &dir).map_err(|e| unmade(&e))?;
            is_there.then_some(dir)
        }
    };
    Ok(Checker {
        launcher: sandbox.launcher.clone(),
        contract: run.contract.clone(),
        path: run.search_path(),
        oracle,
        limits: run.limits,
        memory: memory_hold(run.request.lane),
        stop: run.stop.clone(),
        known: run.secrets.clone(),
        home: run.harness.home.root().to_owned(),
    })
}

/// The tree to start from, in the cache.
fn base(run: &OpenRun<'_>, source: Option<&Source>) -> Result<Base, StepError> {
    let cache = BaselineCache::at(run.harness.home.baselines());
    let source = match (&run.request.task, source) {
        (Task::Repository(_), Some(source)) => source,
        (Task::Repository(_), None) => {
            let why = "it was not looked at".to_owned();
            return Err(Fault::RepositoryNotCopied { why }.into());
        }
        (Task::Case(case), _) => {
            let made = case.baseline(&cache, &run.work.join("import"));
            let baseline = made.map_err(|e| unmade(&e))?;
            let git_layer = match run.request.lane.traits().workspace_git {
                WorkspaceGit::AsSource => None,
                WorkspaceGit::Always => Some(GitLayer::of_baseline(&baseline, &cache)),
            };
            return Ok(Base {
                baseline,
                git_layer: git_layer.transpose().map_err(|e| unmade(&e))?,
                source_plan: None,
            });
        }
    };
    let failed = |e: RepositoryError| source::failed(&e);
    let withheld = Withheld::new(&run.contract);
    let history = match run.contract.history {
        HistoryClass::None => History::None,
        HistoryClass::Ancestors => History::Ancestors,
    };
    let is_withheld = |path: &TreePath| withheld.holds(path.as_bytes());
    let (made, layer) = source
        .repository
        .baseline_and_git(&source.commit, &cache, &is_withheld, history)
        .map_err(failed)?;
    let pointers = made.lfs_pointers().map_err(failed)?.len() as u64;
    let plan = source.plan(&made, &run.contract, pointers)?;
    Ok(Base {
        baseline: made.baseline,
        git_layer: Some(layer),
        source_plan: Some(plan),
    })
}

/// An input never hides what the repository holds itself.
fn check_inputs(run: &OpenRun<'_>, baseline: &Baseline) -> Result<(), StepError> {
    let hiding = run.inputs.iter().find_map(|input| match &input.path {
        InputPath::Repository(path) if baseline.manifest.holds(path.as_bytes()) => Some(path),
        InputPath::Repository(_) | InputPath::Home(_) | InputPath::Absolute(_) => None,
    });
    match hiding {
        None => Ok(()),
        Some(path) => Err(Fault::InputInTree {
            path: path.to_string(),
        }
        .into()),
    }
}
