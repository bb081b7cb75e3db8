//! Recovery: a run whose harness died is closed as interrupted, never taken up again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_contract::artifact::{ATTESTATION, EVENTS, TASK_CONTRACT};
use cto_contract::event::{EventKind, RunEvent, RunRecovered, Step};
use cto_contract::ids::RunId;
use cto_contract::outputs::{RecoveredAs, RecoveredRun};
use cto_contract::task::TaskContract;
use cto_evidence::canonical::digest_of;
use cto_evidence::chain::recover_tail;
use cto_rules::lifecycle::conclude;
use cto_rules::verdicts::{self, Fault};
use cto_sandbox::Launcher;
use cto_store::RunCreated;

use crate::artifact_times::ArtifactTimes;
use crate::clock;
use crate::harness::Harness;
use crate::journal::Journal;
use crate::lock::{Holder, Lock, LockError};
use crate::sealing::{Closing, clear, identity_digest};
use crate::steps::write_missing;

/// What became of one work directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// Its harness still works on it.
    Live { run_id: RunId, pid: u32 },
    /// It was sealed as interrupted now.
    Sealed { run_id: RunId, bytes_cut: u64 },
    /// Its pack had been sealed; only scratch was left.
    Cleared { run_id: RunId },
    /// No run id had been given out.
    Discarded { name: String },
    /// It could not be recovered.
    Failed { name: String, reason: String },
}

impl From<Recovered> for RecoveredRun {
    fn from(found: Recovered) -> Self {
        let row = |name: String, outcome, detail| Self {
            name,
            outcome,
            detail,
        };
        match found {
            Recovered::Live { run_id, pid } => row(
                run_id.to_string(),
                RecoveredAs::Live,
                Some(format!("process {pid} works on it")),
            ),
            Recovered::Sealed { run_id, bytes_cut } => row(
                run_id.to_string(),
                RecoveredAs::Sealed,
                Some(format!("{bytes_cut} torn bytes cut")),
            ),
            Recovered::Cleared { run_id } => row(run_id.to_string(), RecoveredAs::Cleared, None),
            Recovered::Discarded { name } => row(name, RecoveredAs::Discarded, None),
            Recovered::Failed { name, reason } => row(name, RecoveredAs::Failed, Some(reason)),
        }
    }
}

/// Why recovery could not even look.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
}

/// Runs that a living harness holds.
pub fn live_runs(home: &crate::Home) -> Vec<(RunId, Holder)> {
    let Ok(entries) = fs::read_dir(home.work()) else {
        return Vec::new();
    };
    let mut out: Vec<(RunId, Holder)> = entries
        .flatten()
        .filter_map(|e| {
            let run_id: RunId = e.file_name().to_str()?.parse().ok()?;
            let holder = Holder::read(&e.path().join("lock"))?;
            holder.is_alive().then_some((run_id, holder))
        })
        .collect();
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

/// Looks at every work directory. Cheap when there is none: sealed runs leave nothing here.
pub fn recover_all(harness: &Harness) -> Result<Vec<Recovered>, RecoverError> {
    let dir = harness.home.work();
    let read = |source| RecoverError::Read {
        path: dir.clone(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir).map_err(read)? {
        names.push(
            entry
                .map_err(read)?
                .file_name()
                .to_string_lossy()
                .into_owned(),
        );
    }
    names.sort();
    Launcher::sweep();
    Ok(names
        .iter()
        .map(|name| recover_one(harness, name))
        .collect())
}

pub(crate) fn recover_one(harness: &Harness, name: &str) -> Recovered {
    let work = harness.home.work().join(name);
    if maker(name).is_some() {
        if is_abandoned(name) {
            clear(&work);
        }
        return Recovered::Discarded {
            name: name.to_owned(),
        };
    }
    let Ok(run_id) = name.parse::<RunId>() else {
        return Recovered::Failed {
            name: name.to_owned(),
            reason: "this is not a run's work directory".to_owned(),
        };
    };
    let holder = Holder::read(&work.join("lock"));
    let started_boot_ns = holder
        .as_ref()
        .filter(|h| h.boot_id == clock::boot_id())
        .map_or_else(clock::boot_ns, |h| h.started_boot_ns);
    let lock = match Lock::take(&work.join("lock"), &Holder::current(started_boot_ns)) {
        Ok(lock) => lock,
        Err(LockError::Held { holder }) => {
            return Recovered::Live {
                run_id,
                pid: holder.pid,
            };
        }
        Err(LockError::HeldUnknown) => return Recovered::Live { run_id, pid: 0 },
        Err(LockError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            // Its owner cleared it while we looked.
            return Recovered::Cleared { run_id };
        }
        Err(error) => {
            return Recovered::Failed {
                name: name.to_owned(),
                reason: crate::error_chain(&error),
            };
        }
    };
    let pack = harness.home.pack(&run_id);
    let outcome = if pack.join(ATTESTATION).exists() {
        finish_entry(harness, &pack).map(|()| Recovered::Cleared {
            run_id: run_id.clone(),
        })
    } else if pack.exists() {
        seal_interrupted(harness, &run_id, &pack, started_boot_ns).map(|bytes_cut| {
            Recovered::Sealed {
                run_id: run_id.clone(),
                bytes_cut,
            }
        })
    } else {
        let fresh = harness.home.runs().join(format!(".new-{run_id}"));
        cto_checkout::remove_tree(&fresh)
            .map_err(|e| crate::error_chain(&e))
            .map(|()| Recovered::Discarded {
                name: name.to_owned(),
            })
    };
    match outcome {
        Ok(done) => {
            clear(&work);
            drop(lock);
            done
        }
        Err(reason) => Recovered::Failed {
            name: name.to_owned(),
            reason,
        },
    }
}

/// The process that made a directory which is no run's: a run without its id, a look at a repository, a plan.
fn maker(name: &str) -> Option<&str> {
    [".new-", ".look-", ".plan-"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .map(|rest| rest.split('-').next().unwrap_or_default())
}

/// Whether a name says that it is no run's, and its maker is gone.
pub(crate) fn is_abandoned(name: &str) -> bool {
    maker(name)
        .is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists())
}

/// A pack that was sealed just before the crash may be missing in ledger and index.
fn finish_entry(harness: &Harness, pack: &Path) -> Result<(), String> {
    let row = crate::harness::index_row(harness, pack)?;
    harness
        .store()
        .run_sealed(&row)
        .map(drop)
        .map_err(|e| crate::error_chain(&e))
}

fn fault_text(fault: &Fault) -> String {
    verdicts::fault(Step::Complete, fault).message
}

fn seal_interrupted(
    harness: &Harness,
    run_id: &RunId,
    pack: &Path,
    started_boot_ns: u64,
) -> Result<u64, String> {
    let text = |e: &dyn std::error::Error| crate::error_chain(e);
    let path = pack.join(EVENTS);
    let bytes = fs::read(&path).map_err(|e| text(&e))?;
    let tail = recover_tail(&bytes).map_err(|e| text(&e))?;
    let cut = tail.bytes_cut;
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
    let contract: TaskContract = fs::read(pack.join(TASK_CONTRACT))
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
    let mut times = ArtifactTimes::new(started_boot_ns, nonce, journal.clock());
    if journal.state().completed.is_none() {
        write_missing(pack, journal.state(), &contract, &mut times)
            .map_err(|fault| fault_text(&fault))?;
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
    closing
        .close()
        .map_err(|e| crate::error_chain(e.as_ref()))?;
    Ok(cut)
}
