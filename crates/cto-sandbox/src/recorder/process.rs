//! Who called: name and number, from the status that the kernel keeps (pure but for the reading).

use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, OFlags};

const STATUS_BYTES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 64;

/// A process as it is known inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) name: String,
    pub(super) pid: u32,
}

impl Who {
    pub(super) fn of(proc: BorrowedFd<'_>, thread: u32) -> Self {
        read(proc, &format!("{thread}/status"), STATUS_BYTES_MAX)
            .and_then(|status| Self::parse(&status))
            .unwrap_or_else(|| Self {
                name: "?".to_owned(),
                pid: 0,
            })
    }

    /// Reads a status. The name is the process's own choice; the kernel escapes what would end its line.
    fn parse(status: &[u8]) -> Option<Self> {
        let field = |name: &[u8]| {
            let mut lines = status.split(|&byte| byte == b'\n');
            lines.find_map(|line| line.strip_prefix(name))
        };
        let ids = std::str::from_utf8(field(b"NStgid:")?).ok()?;
        Some(Self {
            name: super::memory::lossy(field(b"Name:\t")?, NAME_BYTES_MAX),
            pid: ids.split_ascii_whitespace().next_back()?.parse().ok()?,
        })
    }
}

/// Reads the beginning of a file of `/proc`.
pub(super) fn read(proc: BorrowedFd<'_>, name: &str, most: usize) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(proc, name, flags, Mode::empty()).ok()?;
    let mut bytes = vec![0; most];
    let mut filled = 0;
    while filled < most {
        match rustix::io::read(&file, &mut bytes[filled..]).ok()? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_inside() {
        let status =
            b"Name:\tsh\\nNStgid:\t9\nUmask:\t0022\nTgid:\t500\nNStgid:\t500\t3\nNSpid:\t501\t4\n";
        let who = Who::parse(status).unwrap();
        assert_eq!((who.name.as_str(), who.pid), ("sh\\nNStgid:\t9", 3));
        assert_eq!(Who::parse(b"Name:\tsh\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            Who::parse(&bytes);
        }
    }
}
