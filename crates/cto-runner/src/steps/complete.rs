//! The end of a run: every required artifact is there, every marker is written, and the verdict is recorded.

use std::collections::BTreeMap;
use std::path::Path;

use cto_contract::artifact::{ELIGIBILITY, PATCH, TASK_CONTRACT, TEST_LOG};
use cto_contract::blocker::Blocker;
use cto_contract::event::{EventKind, Step, StepFinished, StepStarted};
use cto_contract::task::TaskContract;
use cto_contract::words::SandboxClass;
use cto_evidence::canonical::{decision_id, digest_of, to_canonical};
use cto_evidence::writer::PackWriter;
use cto_rules::eligibility::undecided;
use cto_rules::lifecycle::{RunState, conclude};
use cto_rules::verdicts::{self, Fault};

use crate::artifact_times::ArtifactTimes;
use crate::error_chain;
use crate::harness::RunError;
use crate::journal::JournalError;
use crate::last_scan::ScanError;
use crate::leftovers::clear_leftovers;
use crate::open_run::OpenRun;
use crate::sealing::clear_scratch;
use crate::source::Source;

use super::FakeBaseline;

/// Writes what is missing, then the verdict: the last line of the log.
pub(crate) fn complete(
    run: &mut OpenRun<'_>,
    source: Option<&Source>,
    ruler: Option<&FakeBaseline>,
) -> Result<(), RunError> {
    concluded(run, source, ruler).map_err(|e| run.fatal(e))
}

fn concluded(
    run: &mut OpenRun<'_>,
    source: Option<&Source>,
    ruler: Option<&FakeBaseline>,
) -> Result<(), JournalError> {
    let step = Step::Complete;
    run.release_reserve()?;
    run.record(EventKind::StepStarted(StepStarted { step }))?;
    let unseen = check_source(run, source)?;
    // Nobody works there any more, and its space may be what the end of the run needs.
    clear_scratch(&run.work);
    let state = run.state().clone();
    let written = finish_artifacts(run, &state);
    let unwritten = written.err().map(|fault| verdicts::fault(step, &fault));
    let went_back = run.journal().clock().went_back();
    let went_back = went_back.then(verdicts::clock_went_back);
    // A pack that could not be looked at can't be sealed as clean.
    let scanned = run.scan_pack();
    let exposed = match scanned {
        Ok(files) => verdicts::exposed(&files),
        Err(ScanError::Journal(error)) => return Err(error),
        Err(error) => vec![verdicts::fault(
            step,
            &Fault::PackNotScanned {
                why: error_chain(&error),
            },
        )],
    };
    let blockers = unseen
        .into_iter()
        .chain(exposed)
        .chain(unwritten)
        .chain(went_back)
        .collect();
    run.record(EventKind::StepFinished(StepFinished { step, blockers }))?;
    if let Some(ruler) = ruler.filter(|_| run.state().backend.is_some()) {
        let comparison = ruler.compare(run);
        run.record(EventKind::BaselineCompared(comparison))?;
    }
    let verdict = conclude(run.state());
    run.record(EventKind::RunCompleted(verdict))
}

/// Makes the artifacts what the log says. Where a step failed, one of them can be half written.
fn finish_artifacts(run: &mut OpenRun<'_>, state: &RunState) -> Result<(), Fault> {
    if !state.step_blockers.is_empty() {
        clear_leftovers(&run.pack, state, &mut run.times).map_err(|error| Fault::NotWritten {
            path: PATCH.to_owned(),
            why: error_chain(&error),
        })?;
    }
    write_missing(&run.pack, state, &run.contract, &mut run.times)
}

/// Looks at the source a last time, if a backend ran that was given a copy of it.
fn check_source(
    run: &mut OpenRun<'_>,
    source: Option<&Source>,
) -> Result<Option<Blocker>, JournalError> {
    let Some(source) = source.filter(|_| run.state().backend_started) else {
        return Ok(None);
    };
    // What held the backend, not what was expected to.
    let ran = run.state().backend.as_ref();
    let class = ran.map_or(SandboxClass::None, |b| b.sandbox.class);
    match source.check(class) {
        Ok(checked) => {
            run.record(EventKind::SourceChecked(checked))?;
            Ok(None)
        }
        Err(error) => {
            let why = error_chain(&error);
            let fault = Fault::SourceNotLookedAt { why };
            Ok(Some(verdicts::fault(Step::Complete, &fault)))
        }
    }
}

/// Writes the artifacts that no step wrote, each saying why there is nothing in it, and the markers of the blockers.
pub(crate) fn write_missing(
    pack: &Path,
    state: &RunState,
    contract: &TaskContract,
    times: &mut ArtifactTimes,
) -> Result<(), Fault> {
    let not_written = |path: &str, error: &dyn std::error::Error| Fault::NotWritten {
        path: path.to_owned(),
        why: error_chain(error),
    };
    let writer = PackWriter::open(pack).map_err(|e| not_written("", &e))?;
    let mut put = |name: &str, bytes: &[u8]| -> Result<(), Fault> {
        if pack.join(name).symlink_metadata().is_ok() {
            if !times.has(name) {
                times.note(name, cto_contract::artifact::FreshnessSource::Checked);
            }
            return Ok(());
        }
        writer
            .write_new(name, bytes)
            .map_err(|e| not_written(name, &e))?;
        times.note(name, cto_contract::artifact::FreshnessSource::Written);
        Ok(())
    };
    put(
        TASK_CONTRACT,
        &to_canonical(contract).map_err(|e| not_written(TASK_CONTRACT, &e))?,
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
    let decided = || match &state.eligibility {
        Some(decided) => to_canonical(&decided.decision),
        None => {
            let contract_digest = digest_of(contract)?;
            let about = (state.lane, state.started.stage);
            to_canonical(&undecided(contract, &contract_digest, about, decision_id))
        }
    };
    put(
        ELIGIBILITY,
        &decided().map_err(|e| not_written(ELIGIBILITY, &e))?,
    )?;
    for (marker, text) in markers(state) {
        put(&marker, text.as_bytes())?;
    }
    Ok(())
}

/// The marker files of a run's blockers: each holds every blocker that it stands for.
fn markers(state: &RunState) -> BTreeMap<String, String> {
    let mut markers = BTreeMap::<String, String>::new();
    for blocker in conclude(state).blockers {
        if let Some(marker) = blocker.code.row().marker_path(state.lane) {
            markers.entry(marker).or_default().push_str(&format!(
                "{}: {}\nnext: {}\n",
                blocker.code, blocker.message, blocker.hint
            ));
        }
    }
    markers
}
