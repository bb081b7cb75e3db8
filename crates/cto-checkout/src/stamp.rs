//! What the kernel says about a file without reading it, and when that is proof that it is unchanged.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::fs::{Stat, fstat};
use sha2::{Digest as _, Sha256};

use crate::platform::{keeps_honest_times, mode_bits, nameless_file, wide};

/// Identity and times of a file. Its change time cannot be set by an unprivileged process, so on a file system that
/// moves it with every write an equal stamp means equal content, whatever was done to the modification time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) mtime: Instant,
    pub(crate) ctime: Instant,
}

/// Seconds and nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(pub(crate) i64, pub(crate) u32);

impl Stamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            dev: wide(stat.st_dev),
            ino: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            mode: mode_bits(stat.st_mode),
            mtime: Instant(
                stat.st_mtime,
                u32::try_from(stat.st_mtime_nsec).unwrap_or_default(),
            ),
            ctime: Instant(
                stat.st_ctime,
                u32::try_from(stat.st_ctime_nsec).unwrap_or_default(),
            ),
        }
    }

    /// All but the device number, which is not stable over a restart of the machine.
    pub(crate) fn bytes(&self) -> [u8; STAMP_BYTES] {
        let nanoseconds = u64::from(self.mtime.1) << 32 | u64::from(self.ctime.1);
        let numbers = [
            self.ino,
            self.size,
            self.mode.into(),
            self.mtime.0.cast_unsigned(),
            self.ctime.0.cast_unsigned(),
            nanoseconds,
        ];
        let mut bytes = [0; STAMP_BYTES];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

const STAMP_BYTES: usize = 48;

/// A digest of stamps in order: an equal one means that every one of them is equal.
pub(crate) fn digest<'a>(stamps: impl IntoIterator<Item = &'a Stamp>) -> String {
    let mut sha = Sha256::new();
    for stamp in stamps {
        sha.update(stamp.bytes());
    }
    in_hex(sha)
}

pub(crate) fn in_hex(sha: Sha256) -> String {
    let digits = sha.finalize();
    digits.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Longest wait for the clock of the file system to move on; its tick is between 1 and 10 ms.
const SETTLE_TRIES: u32 = 12;
const SETTLE_PAUSE: Duration = Duration::from_millis(1);

/// Keeps the stamps that will prove something later; `None` means: read the file.
///
/// A file stamped in the same tick of the clock in which it is changed afterwards would look unchanged, so this waits
/// until a probe file shows a later time, and gives up those stamps that are still not older.
pub(crate) fn settle(root: BorrowedFd<'_>, stamps: Vec<Stamp>) -> Vec<Option<Stamp>> {
    let Some(newest) = stamps.iter().map(|stamp| stamp.ctime).max() else {
        return Vec::new();
    };
    let now = if keeps_honest_times(root) {
        probe(root, newest)
    } else {
        None
    };
    let settled = |stamp: Stamp| now.filter(|now| stamp.ctime < *now).map(|_| stamp);
    stamps.into_iter().map(settled).collect()
}

/// Returns the time of the file system, later than `newest` if that can be had within a few milliseconds.
fn probe(root: BorrowedFd<'_>, newest: Instant) -> Option<Instant> {
    let file = nameless_file(root).ok()?;
    let mut now = None;
    for _ in 0..SETTLE_TRIES {
        rustix::io::write(&file, b".").ok()?;
        let seen = Stamp::of(&fstat(&file).ok()?).ctime;
        now = Some(seen);
        if seen > newest {
            break;
        }
        std::thread::sleep(SETTLE_PAUSE);
    }
    now
}
