//! The contract's setup, run once in a layer that lies below every tree of the run.

use cto_checkout::{ScanCaps, upper_changes};
use cto_contract::artifact::FreshnessSource;
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{EventKind, SandboxDenied, SetupCompleted, Step};
use cto_contract::text::{path_text, shorten};
use cto_evidence::writer::PackWriter;

use crate::bench::Tree;
use crate::checks::Execution;
use crate::error_chain;
use crate::live::{Live, StepError, StepResult};
use crate::steps::prepare::missing;

const SETUP_LOG: &str = "backend/setup.log";

fn environment(what: String) -> StepError {
    StepError::Environment {
        what: format!("the setup could not run: {what}"),
        code: BlockerCode::ProviderUnavailable,
    }
}

impl Live<'_> {
    pub(crate) fn step_setup(&mut self) -> StepResult {
        let prepared = self
            .parts
            .prepared
            .as_ref()
            .ok_or_else(|| missing("the workspace"))?;
        let layer = self.work.join("setup");
        let tree = Tree::Overlay {
            lowers: prepared.below.clone(),
            upper: layer.clone(),
        };
        let failed = |e: std::io::Error| environment(e.to_string());
        let bench = prepared.ground.bench("setup", tree).map_err(failed)?;
        let executions = prepared.checker.setup(&bench).map_err(failed)?;
        let left = upper_changes(&layer, &prepared.baseline.manifest, &ScanCaps::default())
            .map_err(|e| environment(error_chain(&e)))?;
        let mut blockers = Vec::new();
        if let Some(bad) = executions.iter().find(|e| !e.result.passed) {
            let why = bad.result.reason.as_deref().unwrap_or("it failed");
            blockers.push(Blocker::new(
                BlockerCode::ProviderUnavailable,
                "",
                format!(
                    "the setup command `{}` did not succeed: {}",
                    shorten(&bad.line, 120),
                    shorten(why, 200)
                ),
            ));
        }
        let changed: Vec<String> = left
            .changes
            .iter()
            .filter(|c| !c.is_new())
            .map(|c| path_text(c.path.as_bytes()))
            .collect();
        if !changed.is_empty() {
            blockers.push(Blocker::new(
                BlockerCode::DirtyStartingTree,
                "",
                format!(
                    "the setup changed files of the baseline: {}",
                    shorten(&changed.join(", "), 400)
                ),
            ));
        }
        let files = left.changes.iter().filter(|c| c.is_new()).count() as u64;
        self.keep_setup_log(&executions)?;
        let words = self.denial_words();
        let tried = executions.iter().flat_map(|e| &e.attempts);
        // The commands are the contract's own: what they try is told, and is no attempt of the agent.
        let tried: Vec<SandboxDenied> = tried
            .filter(|attempt| attempt.what != "exec")
            .filter_map(|attempt| words.denial(attempt, Step::Setup))
            .map(|denial| SandboxDenied {
                action: None,
                ..denial
            })
            .collect();
        for denial in tried {
            self.record(EventKind::SandboxDenied(denial))?;
        }
        if blockers.is_empty() {
            self.lay_below(layer)?;
        }
        self.record(EventKind::SetupCompleted(SetupCompleted {
            commands: executions.into_iter().map(|e| e.result).collect(),
            files,
            blockers,
        }))?;
        Ok(Vec::new())
    }

    fn keep_setup_log(&mut self, executions: &[Execution]) -> Result<(), StepError> {
        let failed = |source| StepError::Artifact {
            path: SETUP_LOG.to_owned(),
            source,
        };
        let other = |e: &dyn std::error::Error| std::io::Error::other(error_chain(e));
        let writer = PackWriter::open(&self.pack).map_err(|e| failed(other(&e)))?;
        let file = writer
            .create_new(SETUP_LOG)
            .map_err(|e| failed(other(&e)))?;
        let mut log = std::io::BufWriter::new(file);
        for execution in executions {
            crate::steps::verification::section(&mut log, "setup", execution).map_err(failed)?;
        }
        std::io::Write::flush(&mut log).map_err(failed)?;
        self.book.note(SETUP_LOG, FreshnessSource::Written);
        Ok(())
    }

    /// Puts what the setup left below the backend's tree and below those of the checks.
    fn lay_below(&mut self, layer: std::path::PathBuf) -> Result<(), StepError> {
        let prepared = self
            .parts
            .prepared
            .as_mut()
            .ok_or_else(|| missing("the workspace"))?;
        prepared.below.insert(0, layer);
        prepared.bench.set_lowers(&prepared.below);
        Ok(())
    }
}
