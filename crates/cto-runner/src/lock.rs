//! One writer a run: an exclusive lock that says who holds it.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::clock;

/// The lock of a run, in its work directory.
pub(crate) const LOCK: &str = "lock";

/// How long the processes of a killed harness may take to be gone.
const GOING_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A holder takes a few hundred bytes.
const HOLDER_BYTES_MAX: u64 = 1 << 16;

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
        let file = open_plain(path, OFlags::RDONLY).ok()?;
        serde_json::from_str(&text_of(&file).ok()?).ok()
    }
}

/// Opens a lock file. What is a link, a pipe or a device is none, and is neither followed nor waited for.
fn open_plain(path: &Path, how: OFlags) -> io::Result<File> {
    let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    Ok(file)
}

fn text_of(file: &File) -> io::Result<String> {
    let mut text = String::new();
    file.take(HOLDER_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// This process, for the name of something that has no lock yet: its number, and when it started.
pub(crate) fn maker_tag() -> String {
    let pid = std::process::id();
    format!("{pid}.{}", start_time(pid).unwrap_or(0))
}

/// Whether a tag names a process that is gone. Another one may have its number by now. What is no tag names nobody.
pub(crate) fn is_gone(tag: &str) -> bool {
    let (pid, started) = tag.split_once('.').unwrap_or((tag, ""));
    let Ok(pid) = pid.parse::<u32>() else {
        return false;
    };
    match started.parse::<u64>() {
        Ok(started) => start_time(pid) != Some(started),
        Err(_) => !Path::new("/proc").join(pid.to_string()).exists(),
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
        let file = open_plain(path, OFlags::RDONLY).ok()?;
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
        let mut file = open_plain(path, OFlags::RDWR | OFlags::CREATE).map_err(failed)?;
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
        let text = text_of(&file).map_err(failed)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_tells_a_process_from_a_later_one_with_its_number() {
        let own = maker_tag();
        let (pid, started) = own.split_once('.').unwrap();
        assert!(!is_gone(&own));
        assert!(is_gone(&format!("{pid}.{}1", started)));
        // Names of earlier versions tell the number alone.
        assert!(!is_gone(pid));
        assert!(is_gone("999999999"));
        for nobody in ["", "x", ".1", "-1", "1x.2"] {
            assert!(!is_gone(nobody), "{nobody}");
        }
    }

    #[test]
    fn only_a_plain_file_is_a_lock() {
        let dir = tempfile::tempdir().unwrap();
        let holder = Holder::current(0);
        let path = dir.path().join("lock");
        let elsewhere = dir.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(Lock::take(&path, &holder).is_err());
        assert!(!elsewhere.exists());
        fs::remove_file(&path).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(Lock::take(&path, &holder).is_err());
        assert_eq!(Holder::read(&path), None);
        fs::remove_file(&path).unwrap();
        drop(Lock::take(&path, &holder).unwrap());
        assert_eq!(Holder::read(&path), Some(holder));
    }
}
