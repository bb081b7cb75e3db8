//! The end of a run: every required artifact is there, every marker is written, and the verdict is recorded.

use std::path::Path;

use cto_contract::artifact::{ELIGIBILITY, PATCH, TASK_CONTRACT, TEST_LOG};
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{EventKind, Step, StepFinished, StepStarted};
use cto_contract::task::TaskContract;
use cto_contract::words::SandboxClass;
use cto_evidence::canonical::to_canonical;
use cto_evidence::writer::PackWriter;
use cto_rules::eligibility::{ModelState, decide};
use cto_rules::lifecycle::{RunState, conclude};

use crate::journal::JournalError;
use crate::live::{Book, Live};
use crate::steps::{GatheredFacts, gather};
use crate::{Environment, clock, error_chain};

impl Live<'_> {
    /// Writes what is missing, then the verdict: the last line of the log.
    pub(crate) fn complete(&mut self) -> Result<(), JournalError> {
        let was_recovered = self.state().recovered.is_some();
        let mut blockers = Vec::new();
        if !was_recovered {
            self.record(EventKind::StepStarted(StepStarted {
                step: Step::Complete,
            }))?;
        }
        if let Some(checks) = self.parts.baseline_checks.take() {
            // The run ended before it looked at them; they are stopped, and what they showed is not used.
            checks.stop.kill();
            drop(checks.join(&self.stop));
        }
        if let Err(what) = self.check_source()? {
            blockers.push(Blocker::new(BlockerCode::SourceChangedDuringRun, "", what));
        }
        let state = self.state().clone();
        if let Err(what) = write_missing(&self.pack, &state, &self.contract, &mut self.book) {
            blockers.push(Blocker::new(BlockerCode::ArtifactWriteFailure, "", what));
        }
        if self.journal().clock().went_back() {
            blockers.push(Blocker::new(
                BlockerCode::ClockUndecidable,
                "",
                "the wall clock went backwards during the run",
            ));
        }
        if !was_recovered {
            self.record(EventKind::StepFinished(StepFinished {
                step: Step::Complete,
                blockers,
            }))?;
        }
        let verdict = conclude(self.state());
        self.record(EventKind::RunCompleted(verdict))
    }
}

impl Live<'_> {
    /// Looks at the source a last time, if a backend ran that was given a copy of it.
    fn check_source(&mut self) -> Result<Result<(), String>, JournalError> {
        // What held the backend, not what was expected to.
        let ran = self.state().backend.as_ref();
        let class = ran.map_or(SandboxClass::None, |b| b.sandbox.class);
        let Some(source) = self.parts.source.as_ref() else {
            return Ok(Ok(()));
        };
        if !self.state().backend_started {
            return Ok(Ok(()));
        }
        match source.check(class) {
            Ok(checked) => self.record(EventKind::SourceChecked(checked)).map(Ok),
            Err(error) => Ok(Err(format!(
                "the source could not be looked at again: {}",
                error_chain(&error)
            ))),
        }
    }
}

/// Writes the artifacts that no step wrote, each saying why there is nothing in it, and the markers of the blockers.
pub(crate) fn write_missing(
    pack: &Path,
    state: &RunState,
    contract: &TaskContract,
    book: &mut Book,
) -> Result<(), String> {
    let writer = PackWriter::open(pack).map_err(|e| error_chain(&e))?;
    let mut put = |name: &str, bytes: &[u8]| -> Result<(), String> {
        if pack.join(name).symlink_metadata().is_ok() {
            if !book.has(name) {
                book.note(name, cto_contract::artifact::FreshnessSource::Checked);
            }
            return Ok(());
        }
        writer
            .write_new(name, bytes)
            .map_err(|e| format!("`{name}`: {}", error_chain(&e)))?;
        book.note(name, cto_contract::artifact::FreshnessSource::Written);
        Ok(())
    };
    put(
        TASK_CONTRACT,
        &to_canonical(contract).map_err(|e| e.to_string())?,
    )?;
    put(PATCH, b"")?;
    let reason = if state.gate_blocked.is_some() {
        "the run was blocked before anything was started"
    } else {
        "the run ended before its checks"
    };
    put(
        TEST_LOG,
        format!("No verification ran: {reason}.\n").as_bytes(),
    )?;
    let undecided = gather(GatheredFacts {
        env: &Environment::default(),
        contract,
        lane: state.lane,
        stage: state.started.stage,
        asked_stage: None,
        disabled_by_config: false,
        evidence: Err("the run ended before a decision".to_owned()),
        confinement: Err("the run ended before a decision".to_owned()),
        repository: None,
        start_tree_clean: None,
        model: ModelState::Unusable("the run ended before a decision".to_owned()),
        unmeterable: Vec::new(),
        at: clock::now(),
    });
    put(
        ELIGIBILITY,
        &to_canonical(&decide(&undecided).record).map_err(|e| e.to_string())?,
    )?;
    for blocker in conclude(state).blockers {
        if let Some(marker) = blocker.code.row().marker_path(state.lane) {
            put(
                &marker,
                format!(
                    "{}: {}\nnext: {}\n",
                    blocker.code, blocker.message, blocker.hint
                )
                .as_bytes(),
            )?;
        }
    }
    Ok(())
}
