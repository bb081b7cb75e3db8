//! One writer a run: an exclusive lock that says who holds it.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::clock;

/// The lock of a run, in its work directory.
pub(crate) const LOCK: &str = "lock";

/// How long the processes of a killed harness may take to be gone.
const GOING_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Who holds a lock. The start time tells a process from a later one with the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub boot_id: String,
    pub pid: u32,
    pub start_time: u64,
    /// Boot clock at the start of the run, in nanoseconds.
    pub started_boot_ns: u64,
}

/// A held lock; dropping it frees the run.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Why a run can't be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("the run is held by process {}", holder.pid)]
    Held { holder: Holder },
    #[error("the run is being held, but its holder is not written yet")]
    HeldUnknown,
    #[error("could not lock `{path}`")]
    Io { path: PathBuf, source: io::Error },
}

impl Holder {
    /// This process.
    pub fn current(started_boot_ns: u64) -> Self {
        let pid = std::process::id();
        Self {
            boot_id: clock::boot_id(),
            pid,
            start_time: start_time(pid).unwrap_or(0),
            started_boot_ns,
        }
    }

    /// Whether that very process still runs.
    pub fn is_alive(&self) -> bool {
        self.boot_id == clock::boot_id() && start_time(self.pid) == Some(self.start_time)
    }

    /// Reads who holds, or held, a lock file.
    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }
}

/// Start time of a process in clock ticks since boot.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may hold blanks and brackets; the fields after it are plain.
    let fields = stat.rsplit_once(')')?.1;
    fields.split_whitespace().nth(19)?.parse().ok()
}

impl Lock {
    /// Takes the lock of a run whose process is gone, without writing to it: a full disk has no room for a new holder.
    pub(crate) fn of_dead(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        let is_alive = Holder::read(path).is_some_and(|holder| holder.is_alive());
        (!is_alive).then_some(Self { _file: file })
    }

    /// Takes the lock, or says who has it.
    pub(crate) fn take(path: &Path, holder: &Holder) -> Result<Self, LockError> {
        let failed = |source| LockError::Io {
            path: path.to_owned(),
            source,
        };
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        let until = Instant::now() + GOING_WITHIN;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
            let Some(holder) = Holder::read(path) else {
                return Err(LockError::HeldUnknown);
            };
            if holder.is_alive() || Instant::now() > until {
                return Err(LockError::Held { holder });
            }
            // Its holder was killed, and what it had started is just going.
            std::thread::sleep(LOOK_EVERY);
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        if let Ok(before) = serde_json::from_str::<Holder>(&text)
            && before.pid != holder.pid
            && before.is_alive()
        {
            // A free lock with a living holder means that it let go and is still busy: hands off.
            return Err(LockError::Held { holder: before });
        }
        let bytes = serde_json::to_vec(holder).map_err(|e| failed(e.into()))?;
        file.set_len(0).map_err(failed)?;
        io::Seek::rewind(&mut file).map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        Ok(Self { _file: file })
    }
}
