//! Closes one run from its log: as interrupted, or, if it was sealed, by entering it where it may be missing.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use cto_contract::artifact::{EVENTS, TASK_CONTRACT};
use cto_contract::event::{EventKind, RunEvent, RunRecovered, Step, StepFinished, StepStarted};
use cto_contract::ids::RunId;
use cto_contract::task::TaskContract;
use cto_contract::verify::Integrity;
use cto_evidence::canonical::digest_of;
use cto_evidence::chain::recover_tail;
use cto_evidence::pack::PackDir;
use cto_rules::lifecycle::conclude;
use cto_rules::secrets::Known;
use cto_rules::verdicts::{self, Fault};
use cto_store::{RunCreated, RunSealed};

use crate::artifact_times::ArtifactTimes;
use crate::harness::{Harness, does_not_verify};
use crate::journal::Journal;
use crate::last_scan::{ScanError, scan_files, scan_log};
use crate::leftovers::clear_leftovers;
use crate::reconcile::is_of_this_home;
use crate::sealing::{Closing, identity_digest};
use crate::steps::write_missing;

/// A pack that was sealed just before the crash may be missing in ledger and index.
pub(super) fn finish_entry(harness: &Harness, run_id: &RunId, pack: &Path) -> Result<(), String> {
    let refused = |why: &str| format!("{why}; do not rely on it: look at it, then move it away");
    let row = crate::harness::index_row(harness, pack).map_err(|why| refused(&why))?;
    if !is_of_this_home(harness, run_id, &row) {
        return Err(refused(
            "the pack in its place was not sealed by this home for this run",
        ));
    }
    let store = harness.store();
    store
        .run_created(&created_row(&row))
        .and_then(|_| store.run_sealed(&row))
        .map(drop)
        .map_err(|e| crate::error_chain(&e))
}

/// What the ledger was told of a run at its creation, again: a ledger that was begun anew has not heard of it.
fn created_row(row: &RunSealed) -> RunCreated {
    RunCreated {
        run_id: row.run_id.clone(),
        case_id: row.case_id.clone(),
        backend: row.backend,
        stage: row.stage,
        started_at: row.started_at,
        title: row.title.clone(),
        conformance: row.conformance,
        fake_baseline: row.fake_baseline,
    }
}

/// Reads a file of a pack. A link, a pipe or a device is none, and is neither followed nor waited for.
fn read_plain(pack: &Path, name: &str) -> io::Result<Vec<u8>> {
    let mut file = PackDir::open(pack)?.open_path(name)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn fault_text(fault: &Fault) -> String {
    verdicts::fault(Step::Complete, fault).message
}

/// The last look at the pack of a dead run. What its model's key was is not known any more: that was kept out as it came.
fn scan(
    harness: &Harness,
    run_id: &RunId,
    pack: &Path,
    journal: &mut Journal,
    times: &mut ArtifactTimes,
) -> Result<(), String> {
    if journal.state().completed.is_some() {
        return Ok(());
    }
    let known = Known::new(harness.env.secrets());
    let quarantine = harness.home.quarantine(run_id);
    let mut quiet = |_: &RunEvent| {};
    let failed = |e: ScanError| crate::error_chain(&e);
    scan_log(journal, &quarantine, &known, &mut quiet).map_err(failed)?;
    let found = scan_files(pack, &quarantine, &known, times).map_err(failed)?;
    let blockers = verdicts::exposed(&found);
    if blockers.is_empty() {
        return Ok(());
    }
    let step = Step::Seal;
    let said = [
        EventKind::StepStarted(StepStarted { step }),
        EventKind::StepFinished(StepFinished { step, blockers }),
    ];
    for kind in said {
        journal
            .record(kind, &mut quiet)
            .map_err(|e| crate::error_chain(&e))?;
    }
    Ok(())
}

pub(super) fn seal_interrupted(
    harness: &Harness,
    run_id: &RunId,
    pack: &Path,
    started_boot_ns: u64,
) -> Result<u64, String> {
    let text = |e: &dyn std::error::Error| crate::error_chain(e);
    let path = pack.join(EVENTS);
    let bytes = read_plain(pack, EVENTS).map_err(|e| {
        let what = match e.kind() == io::ErrorKind::NotFound {
            true => "it has no log, so nothing can be said of the run".to_owned(),
            false => format!("its log can't be read ({e})"),
        };
        format!("{what}; look at `{}`, then move it away", pack.display())
    })?;
    let tail = recover_tail(&bytes).map_err(|e| text(&e))?;
    let cut = tail.bytes_cut;
    let first = tail.log.as_ref().and_then(|log| log.events.first());
    if let Some(first) = first.filter(|first| first.run_id != *run_id) {
        return Err(format!(
            "the log in `{}` is of run {}; give the directory that name again, or move it away",
            pack.display(),
            first.run_id
        ));
    }
    if cut > 0 {
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|f| f.set_len(tail.valid_len))
            .map_err(|e| text(&e))?;
    }
    let log = tail
        .log
        .ok_or("not even the first line of the log is whole")?;
    let nonce = log.nonce.clone();
    let contract: TaskContract = read_plain(pack, TASK_CONTRACT)
        .map_err(|e| text(&e))
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|e| text(&e)))?;
    let mut journal = Journal::resume(&path, log).map_err(|e| text(&e))?;
    let state = journal.state();
    let created = RunCreated {
        run_id: run_id.clone(),
        case_id: state.case_id.clone(),
        backend: state.lane,
        stage: state.started.stage,
        started_at: state.started_at,
        title: state.started.title.clone(),
        conformance: state.started.conformance,
        fake_baseline: state.started.fake_baseline,
    };
    harness
        .store()
        .run_created(&created)
        .map_err(|e| text(&e))?;
    let mut quiet = |_: &RunEvent| {};
    if state.recovered.is_none() {
        let step = state.open_step;
        let during = step.map_or_else(
            || "between two steps".to_owned(),
            |s| format!("during `{s}`"),
        );
        let data = RunRecovered {
            bytes_cut: cut,
            interrupted_step: step,
            backend_had_started: state.backend_started,
            reason: format!("the harness died {during}; the run was closed by recovery"),
        };
        journal
            .record(EventKind::RunRecovered(data), &mut quiet)
            .map_err(|e| text(&e))?;
    }
    // From here on every step can be taken again: whoever dies on the way leaves what the next one clears.
    let mut times = ArtifactTimes::new(started_boot_ns, nonce, journal.clock());
    clear_leftovers(pack, journal.state(), &mut times).map_err(|e| text(&e))?;
    write_missing(pack, journal.state(), &contract, &mut times)
        .map_err(|fault| fault_text(&fault))?;
    scan(harness, run_id, pack, &mut journal, &mut times)?;
    if journal.state().completed.is_none() {
        let verdict = conclude(journal.state());
        journal
            .record(EventKind::RunCompleted(verdict), &mut quiet)
            .map_err(|e| text(&e))?;
    }
    journal.sync().map_err(|e| text(&e))?;
    let state = journal.state();
    let closing = Closing {
        harness,
        pack,
        events: journal.events(),
        state,
        contract_digest: digest_of(&contract).map_err(|e| text(&e))?,
        identity_digest: identity_digest(state).map_err(|e| text(&e))?,
        contract: &contract,
        times,
    };
    let (_, verified) = closing
        .close()
        .map_err(|e| crate::error_chain(e.as_ref()))?;
    match verified.integrity {
        Integrity::Ok => Ok(cut),
        Integrity::Broken => Err(does_not_verify(pack, &verified)),
    }
}
