//! Memory that belongs to no process: files without a name and System V segments hold it even when nobody has mapped them.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, MemfdFlags, Mode, OFlags};

/// The unit of a file's blocks, on every file system.
const BLOCK_BYTES: u64 = 512;
/// Column of `/proc/sysvipc/shm` that holds the resident bytes.
const RESIDENT_COLUMN: usize = 14;

#[derive(Debug)]
pub(crate) struct HiddenMemory {
    /// The file system on which the kernel keeps files without a name.
    device: u64,
}

impl HiddenMemory {
    pub(crate) fn new() -> io::Result<Self> {
        let sample = rustix::fs::memfd_create(c"sample", MemfdFlags::CLOEXEC)?;
        Ok(Self {
            device: rustix::fs::fstat(&sample)?.st_dev,
        })
    }

    /// Returns the bytes that these processes hold open, each file once. Who has made himself unreadable is not seen.
    pub(crate) fn bytes(&self, proc: &OwnedFd, processes: impl Iterator<Item = u32>) -> u64 {
        let mut seen = BTreeSet::new();
        let mut total = segments(proc);
        for pid in processes {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let name = format!("{pid}/fd");
            let Ok(folder) = rustix::fs::openat(proc, name, flags, Mode::empty()) else {
                continue;
            };
            let Ok(entries) = Dir::read_from(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                let stat = rustix::fs::statat(folder.as_fd(), entry.file_name(), AtFlags::empty());
                let Ok(stat) = stat else { continue };
                if stat.st_dev == self.device && seen.insert(stat.st_ino) {
                    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
                    total += blocks.saturating_mul(BLOCK_BYTES);
                }
            }
        }
        total
    }
}

fn segments(proc: &OwnedFd) -> u64 {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(proc, "sysvipc/shm", flags, Mode::empty()) else {
        return 0;
    };
    // Longer than all segments that a namespace may have by default.
    let mut table = vec![0; 1024 * 1024];
    let mut filled = 0;
    while let Some(room) = table.get_mut(filled..).filter(|room| !room.is_empty()) {
        match rustix::io::read(&file, room) {
            Ok(0) | Err(_) => break,
            Ok(count) => filled += count,
        }
    }
    parse_segments(table.get(..filled).unwrap_or_default())
}

fn parse_segments(table: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(table);
    let resident = |line: &str| {
        let column = line.split_ascii_whitespace().nth(RESIDENT_COLUMN);
        column.and_then(|number| number.parse::<u64>().ok())
    };
    text.lines()
        .filter_map(resident)
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn resident_bytes_of_all_segments_are_added() {
        let head =
            "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap";
        let row = |rss: u32| format!("  6 0 666 9999 3 3 0 1 1 1 1 0 0 9 {rss} 0");
        let table = [head.to_owned(), row(4096), row(8192)].join("\n");
        assert_eq!(parse_segments(table.as_bytes()), 12_288);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse_segments(&bytes);
        }
    }
}
