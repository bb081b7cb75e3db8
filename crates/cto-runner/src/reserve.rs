//! Space that a run keeps for its own end: an agent that fills the disk fills it up to here.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cto_rules::verdicts::{DiskUnit, Fault};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

/// What is kept. The largest part of a seal is the report of a change with as many paths as a log may list, 16 MiB, which
/// it holds as changes and as scopes; everything else of a seal is small beside it.
pub(crate) const RESERVE_BYTES: u64 = 32 << 20;
/// Files that are kept: an empty one takes a place too, and a pack has some twenty.
const RESERVE_FILES: u64 = 32;
/// With less than this nothing of use can be written.
const FULL_BELOW_BYTES: u64 = 1 << 20;
const FULL_BELOW_FILES: u64 = 4;

/// A directory that holds the space; it goes with the work directory of its run.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    /// What was free beside it.
    free_before: Amount,
}

/// Bytes and files of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Amount {
    bytes: u64,
    files: u64,
}

impl Reserve {
    /// Takes the space.
    pub(crate) fn make(work: &Path) -> io::Result<Self> {
        let path = work.join("reserve");
        fs::create_dir(&path)?;
        match fill(&path) {
            Ok(()) => Ok(Self {
                free_before: free(work)?,
                path,
            }),
            Err(error) => {
                fs::remove_dir_all(&path)?;
                Err(error)
            }
        }
    }

    /// What the disk has run out of, with what the run took of it below its directories.
    pub(crate) fn shortage(&self, scratch: &[&Path]) -> Option<Fault> {
        let unit = short_of(&free(&self.path).ok()?)?;
        let (used, before) = (used_below(scratch), self.free_before);
        let (taken, free_before) = match unit {
            DiskUnit::Bytes => (used.bytes.saturating_sub(RESERVE_BYTES), before.bytes),
            DiskUnit::Files => (used.files.saturating_sub(RESERVE_FILES), before.files),
        };
        Some(Fault::DiskFull {
            unit,
            taken,
            free_before,
        })
    }

    /// Gives the space back.
    pub(crate) fn release(self) {
        // What can't be removed now goes with the work directory.
        fs::remove_dir_all(&self.path).ok();
    }
}

fn fill(dir: &Path) -> io::Result<()> {
    let file = File::create_new(dir.join("space"))?;
    match fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES) {
        // A file system that can't promise space: the run goes on with the floor that its gate looked at.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(errno) => return Err(errno.into()),
    }
    for n in 1..RESERVE_FILES {
        drop(File::create_new(dir.join(n.to_string()))?);
    }
    Ok(())
}

/// Whether next to nothing is left of the disk of a file.
pub(crate) fn is_disk_full(place: &Path) -> bool {
    free(place).is_ok_and(|free| short_of(&free).is_some())
}

fn short_of(free: &Amount) -> Option<DiskUnit> {
    if free.bytes < FULL_BELOW_BYTES {
        Some(DiskUnit::Bytes)
    } else if free.files < FULL_BELOW_FILES {
        Some(DiskUnit::Files)
    } else {
        None
    }
}

fn free(place: &Path) -> io::Result<Amount> {
    let stat = statvfs(place)?;
    // A file system that makes room for files as they come counts none.
    let files = match stat.f_files {
        0 => u64::MAX,
        _ => stat.f_favail,
    };
    Ok(Amount {
        bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        files,
    })
}

/// Whether a write failed because there is no space.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// What the files below some directories take of the disk. What can't be looked at counts nothing: it may be an agent's.
fn used_below(dirs: &[&Path]) -> Amount {
    let mut used = Amount { bytes: 0, files: 0 };
    let mut open: Vec<PathBuf> = dirs.iter().map(|dir| dir.to_path_buf()).collect();
    while let Some(path) = open.pop() {
        let Ok(data) = fs::symlink_metadata(&path) else {
            continue;
        };
        used.bytes += data.blocks() * 512;
        used.files += 1;
        if data.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            open.extend(entries.map(|e| e.path()));
        }
    }
    used
}
