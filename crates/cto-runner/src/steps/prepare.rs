//! Workspace and plan: the copy that the backend gets, and everything that will be in force.

use std::sync::Arc;

use cto_agent::{Engine, FakeChange, Places};
use cto_checkout::{BaselineCache, GitDir, OverlaidTree, WorkingCopy, Workspace};
use cto_contract::blocker::BlockerCode;
use cto_contract::event::{EventKind, PlanUpdated};
use cto_contract::identity::Identity;
use cto_contract::ids::Digest;
use cto_contract::plan::{LaunchPlan, TreeKind};
use cto_contract::words::Lane;
use cto_evidence::canonical::{digest_of, hash_reader};

use crate::checks::Checker;
use crate::live::{Live, Prepared, StepError, StepResult};
use crate::{VERSION, error_chain};

/// From so many files on, checks run in overlays. Below it a copy costs no more than finding out whether one can be
/// mounted. In an overlay a directory of the tree can't be renamed, which checks have no business doing.
const OVERLAY_FILES_MIN: usize = 100;
/// From so many files on, an agent works in an overlay too. Below it a copy is quick, and in it every rename works.
const AGENT_OVERLAY_FILES_MIN: usize = 2_000;

impl Live<'_> {
    pub(crate) fn step_prepare(&mut self) -> StepResult {
        let environment = |what: String| StepError::Environment {
            what: format!("the workspace could not be made: {what}"),
            code: BlockerCode::ArtifactWriteFailure,
        };
        let cache = BaselineCache::at(self.harness.home.baselines());
        let case = &self.request.case;
        let baseline = case
            .baseline(&cache, &self.work.join("import"))
            .map_err(|e| environment(error_chain(&e)))?;
        let git_dir =
            GitDir::create(&self.work.join("git")).map_err(|e| environment(error_chain(&e)))?;
        let oracle_dir = self.work.join("oracle");
        let oracle = case
            .lay_out("oracle", &oracle_dir)
            .map_err(|e| environment(error_chain(&e)))?
            .then_some(oracle_dir);
        for dir in ["scratch/home", "scratch/tmp"] {
            std::fs::create_dir_all(self.work.join(dir))
                .map_err(|e| environment(format!("scratch: {e}")))?;
        }
        let checker = Arc::new(Checker {
            launcher: self.harness.launcher.clone(),
            contract: self.contract.clone(),
            path: self.search_path(),
            oracle,
            limits: self.limits,
            stop: self.stop.clone(),
            known: self.known.clone(),
            places: self.places.clone(),
        });
        let files = baseline.manifest.len();
        let agent_files_min = match self.request.lane {
            // It renames no directory.
            Lane::Fake => OVERLAY_FILES_MIN,
            Lane::Command | Lane::Case | Lane::Codex | Lane::Pi | Lane::Acp => {
                AGENT_OVERLAY_FILES_MIN
            }
        };
        let overlay = files >= OVERLAY_FILES_MIN
            && checker.can_overlay(&baseline.root, &self.work.join("try"));
        let checks_kind = if overlay {
            TreeKind::Overlay
        } else {
            TreeKind::Copy
        };
        let copy = |name: &str| WorkingCopy::make(&baseline, &self.work.join(name));
        let workspace = if overlay && files >= agent_files_min {
            OverlaidTree::make(&baseline, &self.work.join("upper")).map(Workspace::Overlay)
        } else {
            copy("workspace").map(Workspace::Copy)
        }
        .map_err(|e| environment(error_chain(&e)))?;
        // Made while nothing else runs: beside the checks of the baseline it would take twice as long.
        let fresh = match checks_kind {
            TreeKind::Overlay => None,
            TreeKind::Copy => Some(copy("checked").map_err(|e| environment(error_chain(&e)))?),
        };
        self.parts.prepared = Some(Prepared {
            checks_kind,
            baseline,
            workspace,
            fresh,
            git_dir,
            checker,
        });
        Ok(Vec::new())
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
        let case = &self.request.case;
        let refused = |e: crate::CaseError| failed(error_chain(&e));
        match self.request.lane {
            Lane::Fake => {
                if let Some(patch) = case.patch(self.request.cheat.as_deref()).map_err(refused)? {
                    return Ok(Engine::Fake(FakeChange::Patch(patch)));
                }
                let dir = self.work.join("fake");
                if case.lay_out("fake", &dir).map_err(refused)? {
                    return Ok(Engine::Fake(FakeChange::Overlay {
                        directory: dir.to_string_lossy().into_owned(),
                    }));
                }
                Err(refused(crate::CaseError::NoFakeChange {
                    id: case.file.id.clone(),
                }))
            }
            lane @ (Lane::Command | Lane::Case | Lane::Codex | Lane::Pi | Lane::Acp) => Err(
                failed(format!("the {lane} lane is not part of this version")),
            ),
        }
    }

    pub(crate) fn step_plan(&mut self) -> StepResult {
        let engine = self.engine()?;
        let text = |p: &std::path::Path| p.to_string_lossy().into_owned();
        let scratch = self.work.join("scratch");
        let places = Places {
            workspace: text(&self.work.join("workspace")),
            scratch: text(&scratch),
            home: text(&scratch.join("home")),
        };
        let path = self.search_path();
        let spec = engine.launch_spec(&places, &path);
        for (name, bytes) in &spec.scratch_files {
            let full = scratch.join(name);
            let written = std::fs::File::create_new(&full)
                .and_then(|mut f| std::io::Write::write_all(&mut f, bytes));
            written.map_err(|source| StepError::Artifact {
                path: format!("$SCRATCH/{name}"),
                source,
            })?;
        }
        let work = text(&self.work);
        let shown = |arg: &String| {
            arg.replace(&format!("{work}/scratch"), "$SCRATCH")
                .replace(&format!("{work}/workspace"), "$WORKSPACE")
                .replace(&work, "$CTO_HOME/work/$RUN")
        };
        let argv: Vec<String> = spec.argv.iter().map(shown).collect();
        let environment_names: Vec<String> = spec.env.keys().cloned().collect();
        let sandbox = self
            .parts
            .sandbox
            .clone()
            .unwrap_or_else(crate::steps::backend::no_sandbox);
        let identity = Identity {
            lane: engine.lane(),
            adapter_revision: engine.adapter_revision(),
            binary_digest: spec
                .argv
                .first()
                .and_then(|program| digest_program(program, &path)),
            version_output: None,
            model_provider: None,
            model: None,
            sandbox_class: sandbox.class,
            argv: argv.clone(),
            environment_names: environment_names.clone(),
            harness_version: VERSION.to_owned(),
        };
        let prepared = self
            .parts
            .prepared
            .as_ref()
            .ok_or_else(|| missing("the workspace"))?;
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
        };
        let some = Some(identity);
        self.parts.identity_digest = digest_of(&some).ok();
        self.parts.launch = Some(spec);
        if let Some(identity) = some {
            self.record(EventKind::PlanUpdated(PlanUpdated { plan, identity }))?;
        }
        Ok(Vec::new())
    }
}

pub(crate) fn missing(what: &str) -> StepError {
    StepError::Environment {
        what: format!("{what} is not there, though an earlier step made it"),
        code: BlockerCode::ArtifactWriteFailure,
    }
}

/// SHA-256 of the program that `PATH` gives for a name.
fn digest_program(program: &str, path: &str) -> Option<Digest> {
    let candidates: Vec<std::path::PathBuf> = if program.contains('/') {
        vec![program.into()]
    } else {
        path.split(':')
            .map(|d| std::path::Path::new(d).join(program))
            .collect()
    };
    let found = candidates.into_iter().find(|p| p.is_file())?;
    hash_reader(std::fs::File::open(found).ok()?)
        .ok()
        .map(|(digest, _)| digest)
}
