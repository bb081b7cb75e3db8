//! Workspace and plan: the copy that the backend gets, and everything that will be in force.

use std::path::PathBuf;
use std::sync::Arc;

use cto_agent::{CommandCall, Engine, FakeChange};
use cto_checkout::{
    Baseline, BaselineCache, GitDir, GitLayer, History, OverlaidTree, RepositoryError, TreePath,
    WorkingCopy, Workspace,
};
use cto_contract::blocker::BlockerCode;
use cto_contract::event::{EventKind, PlanUpdated};
use cto_contract::identity::Identity;
use cto_contract::input::InputPath;
use cto_contract::plan::{Ladder, LaunchPlan, SandboxPlan, SourcePlan, TreeKind};
use cto_contract::text::shorten;
use cto_contract::words::{HistoryClass, Lane};
use cto_evidence::canonical::{digest_of, to_canonical};
use cto_rules::paths::Withheld;
use cto_sandbox::{Means, Recorder};

use crate::bench::{Ground, Tree, View};
use crate::checks::Checker;
use crate::inputs::ResolvedInput;
use crate::inside::Inside;
use crate::live::{Live, Prepared, StepError, StepResult};
use crate::program::{PlannedLaunch, ProgramFile};
use crate::sandbox::Confining;
use crate::steps::backend::sandbox_plan;
use crate::task::Task;
use crate::{VERSION, error_chain};

/// From so many files on, checks run in overlays. Below it a copy costs no more than finding out whether one can be
/// mounted. In an overlay a directory of the tree can't be renamed, which checks have no business doing.
const OVERLAY_FILES_MIN: usize = 100;
/// From so many files on, an agent works in an overlay too. Below it a copy is quick, and in it every rename works.
const AGENT_OVERLAY_FILES_MIN: usize = 2_000;

/// A baseline, and what of it comes from a repository.
struct Base {
    baseline: Baseline,
    git_layer: Option<GitLayer>,
    source_plan: Option<SourcePlan>,
}

impl Live<'_> {
    pub(crate) fn step_prepare(&mut self) -> StepResult {
        let base = self.base()?;
        let baseline = &base.baseline;
        let environment = |e: &dyn std::error::Error| unmade(error_chain(e));
        let git_dir = GitDir::create(&self.work.join("git")).map_err(|e| environment(&e))?;
        let oracle = match &self.request.task {
            Task::Repository(_) => None,
            Task::Case(case) => {
                let dir = self.work.join("oracle");
                let laid = case.lay_out("oracle", &dir);
                laid.map_err(|e| environment(&e))?.then_some(dir)
            }
        };
        self.check_inputs(baseline)?;
        let inputs = self.inputs.clone();
        let input_plans = inputs.iter().map(ResolvedInput::plan).collect();
        let launcher = self.parts.launcher()?.clone();
        let has_mounts = self
            .parts
            .confining
            .as_ref()
            .is_some_and(Confining::has_mounts);
        let needs_mounts = !inputs.is_empty() || !self.contract.setup_commands.is_empty();
        if needs_mounts && !has_mounts {
            return Err(unmountable());
        }
        let source = self.parts.source.as_ref();
        let source = source.and_then(|s| s.repository.work_tree());
        let view = match launcher.means {
            Means::None => View::Host,
            Means::Native | Means::Weak | Means::Bwrap { .. } | Means::Container(_) => {
                let inside = Inside::find(
                    self.harness,
                    &self.search_path(),
                    self.request.lane,
                    &self.request.argv,
                    source,
                    launcher.id_inside(),
                );
                if let Some(plan) = &mut self.parts.sandbox {
                    plan.read_paths.clone_from(&inside.shown);
                }
                match has_mounts {
                    true => View::Built(inside),
                    false => View::InPlace(inside),
                }
            }
        };
        let recorder = match self.parts.is_native() {
            true => Recorder::On,
            false => Recorder::Off,
        };
        let ground = Arc::new(Ground::new(&self.work, view, inputs, recorder));
        let checker = Arc::new(Checker {
            launcher: launcher.clone(),
            contract: self.contract.clone(),
            path: self.search_path(),
            oracle,
            limits: self.limits,
            stop: self.stop.clone(),
            known: self.known.clone(),
            places: self.places.clone(),
        });
        let files = baseline.manifest.len();
        let has_setup = !self.contract.setup_commands.is_empty();
        let overlay = (files >= OVERLAY_FILES_MIN || has_setup)
            && ground.can_overlay(
                &self.harness.home,
                &launcher,
                &baseline.root,
                self.limits.sandbox(),
                &self.stop,
            );
        if has_setup && !overlay {
            return Err(unmountable());
        }
        let points = ground.mount_points().map_err(|e| environment(&e))?;
        let below: Vec<PathBuf> = points
            .into_iter()
            .chain(base.git_layer.iter().map(|layer| layer.root.clone()))
            .chain([baseline.root.clone()])
            .collect();
        let agent_files_min = match self.request.lane {
            // It renames no directory.
            Lane::Fake => OVERLAY_FILES_MIN,
            Lane::Command | Lane::Case | Lane::Codex | Lane::Pi | Lane::Claude | Lane::Acp => {
                AGENT_OVERLAY_FILES_MIN
            }
        };
        let copy = |name: &str| {
            WorkingCopy::make(baseline, &self.work.join(name)).map_err(|e| environment(&e))
        };
        let (workspace, tree) = if overlay && (files >= agent_files_min || has_setup) {
            let upper = self.work.join("upper");
            let made = OverlaidTree::make(baseline, &upper).map_err(|e| environment(&e))?;
            let lowers = below.clone();
            (Workspace::Overlay(made), Tree::Overlay { lowers, upper })
        } else {
            let made = copy("copy")?;
            if let Some(layer) = &base.git_layer {
                layer.copy_into(&made).map_err(|e| environment(&e))?;
            }
            let path = made.path().to_owned();
            (Workspace::Copy(made), Tree::Copy(path))
        };
        // Made while nothing else runs: beside the checks of the baseline it would take twice as long.
        let (checks_kind, fresh) = if overlay {
            (TreeKind::Overlay, None)
        } else {
            (TreeKind::Copy, Some(copy("checked")?))
        };
        let bench = ground.bench("backend", tree).map_err(|e| environment(&e))?;
        self.parts.prepared = Some(Prepared {
            checks_kind,
            workspace,
            fresh,
            git_dir,
            checker,
            ground,
            bench,
            below,
            inputs: input_plans,
            git_layer: base.git_layer,
            source_plan: base.source_plan,
            baseline: base.baseline,
        });
        Ok(Vec::new())
    }

    /// The tree to start from, in the cache.
    fn base(&self) -> Result<Base, StepError> {
        let cache = BaselineCache::at(self.harness.home.baselines());
        match &self.request.task {
            Task::Case(case) => {
                let made = case.baseline(&cache, &self.work.join("import"));
                Ok(Base {
                    baseline: made.map_err(|e| unmade(error_chain(&e)))?,
                    git_layer: None,
                    source_plan: None,
                })
            }
            Task::Repository(_) => {
                let source = self
                    .parts
                    .source
                    .as_ref()
                    .ok_or_else(|| missing("the repository"))?;
                let failed = |e: RepositoryError| crate::source::failed(&e);
                let withheld = Withheld::new(&self.contract);
                let history = match self.contract.history {
                    HistoryClass::None => History::None,
                    HistoryClass::Ancestors => History::Ancestors,
                };
                let is_withheld = |path: &TreePath| withheld.holds(path.as_bytes());
                let (made, layer) = source
                    .repository
                    .baseline_and_git(&source.commit, &cache, &is_withheld, history)
                    .map_err(failed)?;
                let pointers = made.lfs_pointers().map_err(failed)?.len() as u64;
                let plan = source.plan(&made, self.contract.history, pointers)?;
                Ok(Base {
                    baseline: made.baseline,
                    git_layer: Some(layer),
                    source_plan: Some(plan),
                })
            }
        }
    }

    /// An input never hides what the repository holds itself.
    fn check_inputs(&self, baseline: &Baseline) -> Result<(), StepError> {
        let hiding = self.inputs.iter().find_map(|input| match &input.path {
            InputPath::Repository(path) if baseline.manifest.holds(path.as_bytes()) => Some(path),
            InputPath::Repository(_) | InputPath::Home(_) | InputPath::Absolute(_) => None,
        });
        hiding.map_or(Ok(()), |path| {
            Err(StepError::Environment {
                what: format!("the input `{path}` is part of the repository's tree already"),
                code: BlockerCode::ProviderUnavailable,
            })
        })
    }

    /// `PATH` for launched processes: the operator's, less what is not absolute or lies in home.
    pub(crate) fn search_path(&self) -> String {
        let own = self.harness.home.root();
        let usable =
            |dir: &&str| dir.starts_with('/') && !std::path::Path::new(dir).starts_with(own);
        let path = self
            .harness
            .env
            .get("PATH")
            .unwrap_or("/usr/local/bin:/usr/bin:/bin");
        path.split(':').filter(usable).collect::<Vec<_>>().join(":")
    }

    fn engine(&self) -> Result<Engine, StepError> {
        let failed = |what: String| StepError::Environment {
            what,
            code: BlockerCode::ProviderUnavailable,
        };
        let refused = |e: crate::CaseError| failed(error_chain(&e));
        match self.request.lane {
            Lane::Fake => {
                let Task::Case(case) = &self.request.task else {
                    return Err(failed("the fake lane does cases only".to_owned()));
                };
                if let Some(patch) = case.patch(self.request.cheat.as_deref()).map_err(refused)? {
                    return Ok(Engine::Fake(FakeChange::Patch(patch)));
                }
                let dir = self.work.join("fake");
                if case.lay_out("fake", &dir).map_err(refused)? {
                    return Ok(Engine::Fake(FakeChange::Overlay {
                        directory: self.parts.prepared.as_ref().map_or_else(
                            || dir.to_string_lossy().into_owned(),
                            |p| p.bench.fake_at(&dir).to_string_lossy().into_owned(),
                        ),
                    }));
                }
                Err(refused(crate::CaseError::NoFakeChange {
                    id: case.file.id.clone(),
                }))
            }
            Lane::Command => Ok(Engine::Command(CommandCall {
                argv: self.request.argv.clone(),
            })),
            lane @ (Lane::Case | Lane::Codex | Lane::Pi | Lane::Claude | Lane::Acp) => Err(failed(
                format!("the {lane} lane is not part of this version"),
            )),
        }
    }

    pub(crate) fn step_plan(&mut self) -> StepResult {
        let engine = self.engine()?;
        let prepared = self
            .parts
            .prepared
            .as_ref()
            .ok_or_else(|| missing("the workspace"))?;
        let places = prepared.bench.places();
        let scratch = prepared.bench.own_scratch();
        let path = self.search_path();
        let brief = cto_agent::Brief {
            markdown: cto_agent::brief(&self.contract),
            contract_json: to_canonical(&self.contract).map_err(|e| StepError::Environment {
                what: format!("the contract has no canonical form: {e}"),
                code: BlockerCode::ArtifactWriteFailure,
            })?,
        };
        let model = self.parts.model.as_ref().map(|_| crate::model::address());
        let mut spec = engine.launch_spec(&places, &path, &brief, model.as_ref());
        spec.env.extend(prepared.bench.more_env());
        for (name, bytes) in &spec.scratch_files {
            let full = scratch.join(name);
            let written = std::fs::File::create_new(&full)
                .and_then(|mut f| std::io::Write::write_all(&mut f, bytes));
            written.map_err(|source| StepError::Artifact {
                path: format!("$SCRATCH/{name}"),
                source,
            })?;
        }
        let work = self.work.to_string_lossy().into_owned();
        let source = self.parts.source.as_ref();
        let source = source
            .and_then(|s| s.repository.work_tree())
            .map(|top| top.to_string_lossy());
        let user_home = self.harness.env.get("HOME").filter(|home| home.len() > 1);
        let shown = |arg: &String| {
            let named = arg
                .replace(&places.scratch, "$SCRATCH")
                .replace(&places.workspace, "$WORKSPACE")
                .replace(&work, "$CTO_HOME/work/$RUN");
            let named = source
                .iter()
                .fold(named, |text, top| text.replace(&**top, "$SOURCE"));
            user_home
                .iter()
                .fold(named, |text, home| text.replace(*home, "~"))
        };
        let argv: Vec<String> = spec.argv.iter().map(shown).collect();
        let environment_names: Vec<String> = spec.env.keys().cloned().collect();
        let request = self.backend_request(&prepared.bench, spec.clone())?;
        let confining = self.parts.confining.as_ref();
        let (foreseen, program) = std::thread::scope(|scope| {
            // A large file is hashed while the kernel is asked.
            let program = scope.spawn(|| ProgramFile::find(spec.argv.first()?, &path));
            let foreseen = confining.map(|confining| {
                let seen = confining.foresight.of(&request);
                sandbox_plan(&seen, &self.limits.limits, confining.from)
            });
            (foreseen, program.join().ok().flatten())
        });
        let read_paths = self.parts.sandbox.as_ref().map(|s| s.read_paths.clone());
        let sandbox = SandboxPlan {
            read_paths: read_paths.unwrap_or_default(),
            ..foreseen.ok_or_else(|| missing("the sandbox"))?
        };
        let identity = Identity {
            lane: engine.lane(),
            adapter_revision: engine.adapter_revision(),
            binary_digest: program.as_ref().map(|p| p.digest.clone()),
            version_output: None,
            model_provider: None,
            model: None,
            sandbox_class: sandbox.class,
            argv: argv.clone(),
            environment_names: environment_names.clone(),
            harness_version: VERSION.to_owned(),
        };
        if engine.lane() == Lane::Command && identity.binary_digest.is_none() {
            return Err(StepError::Environment {
                what: format!(
                    "the program `{}` is neither on PATH nor a file that can be read; name it after `--`",
                    shorten(argv.first().map_or("", String::as_str), 120)
                ),
                code: BlockerCode::ProviderUnavailable,
            });
        }
        let plan = LaunchPlan {
            argv,
            environment_names,
            working_directory: "$WORKSPACE".to_owned(),
            limits: self.limits.limits,
            wall_seconds_from: self.limits.wall_from,
            network: self.contract.network,
            sandbox,
            workspace_kind: match prepared.workspace {
                Workspace::Copy(_) => TreeKind::Copy,
                Workspace::Overlay(_) => TreeKind::Overlay,
            },
            checks_kind: prepared.checks_kind,
            baseline_tree_id: crate::steps::change::tree_id(&prepared.baseline.tree_id)?,
            baseline_files: prepared.baseline.manifest.len() as u64,
            verification: self
                .contract
                .verification_commands
                .iter()
                .map(|c| c.run.clone())
                .collect(),
            setup: self.contract.setup_commands.clone(),
            inputs: prepared.inputs.clone(),
            ladder: match engine.lane() {
                Lane::Fake => Ladder::NotNeeded,
                Lane::Command | Lane::Case | Lane::Codex | Lane::Pi | Lane::Claude | Lane::Acp => {
                    Ladder::NotEnforced
                }
            },
            source: prepared.source_plan.clone(),
        };
        let some = Some(identity);
        self.parts.identity_digest = digest_of(&some).ok();
        self.parts.launch = Some(PlannedLaunch { spec, program });
        if let Some(identity) = some {
            self.record(EventKind::PlanUpdated(PlanUpdated { plan, identity }))?;
        }
        Ok(Vec::new())
    }
}

fn unmade(what: String) -> StepError {
    StepError::Environment {
        what: format!("the workspace could not be made: {what}"),
        code: BlockerCode::ArtifactWriteFailure,
    }
}

fn unmountable() -> StepError {
    StepError::Environment {
        what:
            "`mounts` inputs and setup commands need mounts, which this provider or kernel refuses"
                .to_owned(),
        code: BlockerCode::SandboxUnavailable,
    }
}

pub(crate) fn missing(what: &str) -> StepError {
    StepError::Environment {
        what: format!("{what} is not there, though an earlier step made it"),
        code: BlockerCode::ArtifactWriteFailure,
    }
}
