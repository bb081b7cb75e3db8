//! Recovery: a run whose harness died is closed as interrupted, never taken up again.

mod closing;
mod litter;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_contract::artifact::ATTESTATION;
use cto_contract::ids::{CommitId, RunId};
use cto_contract::ledger::{Record, RunCreated};
use cto_contract::outputs::{RecoveredAs, RecoveredRun};
use cto_sandbox::Launcher;
use cto_store::StoreError;

use crate::clock;
use crate::harness::Harness;
use crate::landing::{LandError, LandingResult};
use crate::lock::{Holder, LOCK, Lock, LockError, is_gone};
use crate::open_run::DRAFT;
use crate::sealing::{clear, clear_scratch};
use closing::{finish_entry, seal_interrupted};

/// What became of one work directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// Its harness still works on it.
    Live { run_id: RunId, pid: u32 },
    /// It was sealed as interrupted now.
    Sealed { run_id: RunId, bytes_cut: u64 },
    /// Its pack had been sealed; only scratch was left.
    Cleared { run_id: RunId },
    /// No run id had been given out, or the directory of the run is gone.
    Discarded { name: String, is_lost: bool },
    /// Its landing was finished now.
    Landed { run_id: RunId, commit: CommitId },
    /// Its landing was ended now, with nothing landed.
    NotLanded { run_id: RunId, reason: String },
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
            Recovered::Discarded { name, is_lost } => {
                let lost = "the run was begun, but its directory is gone";
                let detail = is_lost.then(|| lost.to_owned());
                row(name, RecoveredAs::Discarded, detail)
            }
            Recovered::Landed { run_id, commit } => row(
                run_id.to_string(),
                RecoveredAs::Landed,
                Some(format!("commit {commit}")),
            ),
            Recovered::NotLanded { run_id, reason } => {
                row(run_id.to_string(), RecoveredAs::NotLanded, Some(reason))
            }
            Recovered::Failed { name, reason } => row(name, RecoveredAs::Failed, Some(reason)),
        }
    }
}

/// Why recovery could not even look.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("the database can't be used")]
    Store(#[from] StoreError),
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
            let holder = Holder::read(&e.path().join(LOCK))?;
            holder.is_alive().then_some((run_id, holder))
        })
        .collect();
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

/// How far recovery looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// At the work directories, and at runs that the ledger has open: cheap, before every run.
    Known,
    /// Also at every run directory, for `cto recover`.
    All,
}

/// Closes every run whose process is gone. Sealed runs leave nothing to look at.
pub fn recover_all(harness: &Harness, search: Search) -> Result<Vec<Recovered>, RecoverError> {
    let home = &harness.home;
    Launcher::sweep();
    litter::sweep(harness);
    let mut names: BTreeSet<String> = names_in(&home.work())?
        .into_iter()
        .filter(|name| maker(name).is_none() || is_abandoned(name))
        .collect();
    let open = harness.store().unsealed()?;
    let without_work = |id: &RunId| !home.work_of(id).exists();
    let has_pack = |id: &RunId| home.pack(id).is_dir();
    let open = open
        .into_iter()
        .filter(|id| without_work(id) && has_pack(id));
    names.extend(open.map(|id| id.to_string()));
    if search == Search::All {
        for name in names_in(&home.runs())? {
            let run = name.strip_prefix(DRAFT).unwrap_or(&name);
            let is_open = || !home.runs().join(&name).join(ATTESTATION).exists();
            if run.parse().is_ok_and(|id| without_work(&id)) && is_open() {
                names.insert(run.to_owned());
            }
        }
    }
    let mut found: Vec<Recovered> = names
        .iter()
        .map(|name| recover_one(harness, name))
        .collect();
    found.extend(harness.finish_landings().into_iter().map(landed));
    if let Err(error) = harness.finish_addenda() {
        found.push(Recovered::Failed {
            name: "addenda".to_owned(),
            reason: crate::error_chain(&error),
        });
    }
    Ok(found)
}

/// What became of a landing that a dead process had left.
fn landed((run_id, done): (RunId, Result<LandingResult, LandError>)) -> Recovered {
    match done {
        Ok(LandingResult {
            commit: Some(commit),
            ..
        }) => Recovered::Landed { run_id, commit },
        Ok(result) => Recovered::NotLanded {
            run_id,
            reason: (result.blockers.first()).map_or_else(String::new, |b| b.message.clone()),
        },
        Err(error) => Recovered::Failed {
            name: run_id.to_string(),
            reason: crate::error_chain(&error),
        },
    }
}

fn names_in(dir: &Path) -> Result<Vec<String>, RecoverError> {
    let read = |source| RecoverError::Read {
        path: dir.to_owned(),
        source,
    };
    let entries = fs::read_dir(dir).map_err(read)?;
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()
        .map_err(read)
}

/// Closes what one name stands for. Whoever dies here leaves what the next one can close.
pub(crate) fn recover_one(harness: &Harness, name: &str) -> Recovered {
    let work = harness.home.work().join(name);
    let failed = |reason: String| Recovered::Failed {
        name: name.to_owned(),
        reason,
    };
    if maker(name).is_some() {
        return match cto_checkout::remove_tree(&work) {
            Ok(()) => Recovered::Discarded {
                name: name.to_owned(),
                is_lost: false,
            },
            Err(error) => failed(crate::error_chain(&error)),
        };
    }
    let Ok(run_id) = name.parse::<RunId>() else {
        return failed(format!(
            "this is not a run's work directory; if it is not yours either, remove `{}`",
            work.display()
        ));
    };
    if is_no_directory(&work) {
        return failed(format!(
            "`{}` is not a directory, and what it leads to is left alone; remove it",
            work.display()
        ));
    }
    let (lock, started_boot_ns) = match take_over(&work) {
        Ok(taken) => taken,
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
        Err(error) => return failed(crate::error_chain(&error)),
    };
    clear_scratch(&work);
    match close(harness, &run_id, started_boot_ns) {
        Ok(done) => {
            clear(&work);
            drop(lock);
            done
        }
        Err(reason) => failed(reason),
    }
}

/// Gives back the space that runs of dead processes hold: on a full disk nothing can be opened before.
pub(crate) fn free_scratch(home: &crate::Home) {
    for name in names_in(&home.work()).unwrap_or_default() {
        let work = home.work().join(&name);
        if is_abandoned(&name) {
            clear(&work);
        } else if !is_no_directory(&work)
            && let Some(_lock) = Lock::of_dead(&work.join(LOCK))
        {
            clear_scratch(&work);
        }
    }
}

/// Takes the lock of a run, whose work directory may be gone, and says when the run started by the boot clock.
fn take_over(work: &Path) -> Result<(Lock, u64), LockError> {
    let path = work.join(LOCK);
    let started_boot_ns = Holder::read(&path)
        .filter(|holder| holder.boot_id == clock::boot_id())
        .map_or_else(clock::boot_ns, |holder| holder.started_boot_ns);
    match fs::create_dir(work) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            return Err(LockError::Io { path, source });
        }
        Ok(()) | Err(_) => {}
    }
    let lock = Lock::take(&path, &Holder::current(started_boot_ns))?;
    Ok((lock, started_boot_ns))
}

fn close(harness: &Harness, run_id: &RunId, started_boot_ns: u64) -> Result<Recovered, String> {
    let pack = harness.home.pack(run_id);
    let run_id = run_id.clone();
    if is_no_directory(&pack) {
        return Err(format!(
            "`{}` is not a directory, and what it leads to is left alone; put the run's own directory there, or remove it",
            pack.display()
        ));
    }
    if pack.join(ATTESTATION).exists() {
        finish_entry(harness, &run_id, &pack)?;
        return Ok(Recovered::Cleared { run_id });
    }
    if pack.exists() {
        let bytes_cut = seal_interrupted(harness, &run_id, &pack, started_boot_ns)?;
        return Ok(Recovered::Sealed { run_id, bytes_cut });
    }
    let draft = harness.home.runs().join(format!("{DRAFT}{run_id}"));
    cto_checkout::remove_tree(&draft).map_err(|e| crate::error_chain(&e))?;
    let created: Option<cto_store::Found<Record>> = harness
        .store()
        .find(&RunCreated::key(&run_id))
        .map_err(|e| crate::error_chain(&e))?;
    Ok(Recovered::Discarded {
        name: run_id.to_string(),
        is_lost: created.is_some(),
    })
}

/// Whether something else than a directory is in the place of one. A link to one is no directory of this home.
fn is_no_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|data| !data.is_dir())
}

/// The process that made a directory which is no run's: a run without its id, a look at a repository, a plan.
fn maker(name: &str) -> Option<&str> {
    [".new-", ".look-", ".plan-", ".land-"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .map(|rest| rest.split('-').next().unwrap_or_default())
}

/// Whether a name says that it is no run's, and its maker is gone.
pub(crate) fn is_abandoned(name: &str) -> bool {
    maker(name).is_some_and(is_gone)
}
