//! Counts what lies below some directories, a few entries at a time, without following a link or leaving a mount.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};

/// Entries of one look: a few milliseconds.
const ENTRIES_PER_LOOK: usize = 2_000;
/// Longest path below a root that is still walked; the kernel resolves not much more in one call.
const PATH_BYTES_MAX: usize = 3_500;
/// Directories that wait to be walked; more are a bomb in themselves.
const PENDING_MAX: usize = 1_000_000;
/// The unit of a file's blocks, on every file system.
const BLOCK_BYTES: u64 = 512;

/// What was counted, of the round that is going on or of the last whole one, whichever is more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    /// A file has exactly the greatest size that is allowed: somebody wanted to write more.
    pub(crate) at_limit: bool,
    pub(crate) too_deep: bool,
}

#[derive(Debug)]
pub(crate) struct DiskWalk {
    roots: Vec<OwnedFd>,
    pending: VecDeque<(usize, PathBuf)>,
    current: Option<(usize, PathBuf, Dir)>,
    round: Counted,
}

impl DiskWalk {
    pub(crate) fn below(roots: Vec<OwnedFd>) -> Self {
        Self {
            roots,
            pending: VecDeque::new(),
            current: None,
            round: Counted::default(),
        }
    }

    /// Walks on, and begins again at the end.
    pub(crate) fn go_on(&mut self, file_bytes: Option<u64>) -> Counted {
        if self.current.is_none() && self.pending.is_empty() {
            self.round = Counted::default();
            self.pending = (0..self.roots.len())
                .map(|root| (root, PathBuf::from(".")))
                .collect();
        }
        for _ in 0..ENTRIES_PER_LOOK {
            if !self.step(file_bytes) {
                break;
            }
        }
        self.round
    }

    /// Looks at one entry. Returns whether there may be more.
    fn step(&mut self, file_bytes: Option<u64>) -> bool {
        let Some((root, path, folder)) = &mut self.current else {
            return self.open_next();
        };
        let Some(Ok(entry)) = folder.next() else {
            self.current = None;
            return true;
        };
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            return true;
        }
        let Ok(at) = folder.fd() else { return true };
        let Ok(stat) = rustix::fs::statat(at, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
            return true;
        };
        let (root, below) = (*root, path.join(OsStr::from_bytes(name)));
        self.round.files += 1;
        let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
        let links = i64::try_from(stat.st_nlink)
            .unwrap_or(1)
            .max(1)
            .unsigned_abs();
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.round.bytes += blocks * BLOCK_BYTES;
                self.enter(root, below);
            }
            FileType::RegularFile => {
                // Each name of a file stands for its part.
                self.round.bytes += blocks * BLOCK_BYTES / links;
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                self.round.at_limit |= file_bytes.is_some_and(|limit| limit > 0 && size == limit);
            }
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {}
        }
        true
    }

    fn enter(&mut self, root: usize, below: PathBuf) {
        let fits = below.as_os_str().len() <= PATH_BYTES_MAX && self.pending.len() < PENDING_MAX;
        if fits {
            self.pending.push_back((root, below));
        } else {
            self.round.too_deep = true;
        }
    }

    fn open_next(&mut self) -> bool {
        let Some((root, path)) = self.pending.pop_front() else {
            return false;
        };
        let opened = self.roots.get(root).and_then(|fd| open_below(fd, &path));
        self.current = opened.map(|folder| (root, path, folder));
        true
    }
}

fn open_below(root: &OwnedFd, path: &Path) -> Option<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let folder = rustix::fs::openat2(root, path, flags, Mode::empty(), resolve).ok()?;
    Dir::new(folder).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    fn counted(folder: &Path, file_bytes: Option<u64>) -> Counted {
        let root: OwnedFd = File::open(folder).unwrap().into();
        let mut walk = DiskWalk::below(vec![root]);
        loop {
            let seen = walk.go_on(file_bytes);
            if walk.current.is_none() && walk.pending.is_empty() {
                return seen;
            }
        }
    }

    #[test]
    fn everything_below_is_counted_once_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/b/c")).unwrap();
        for n in 0..3_000 {
            File::create(at(&format!("a/b/{n}"))).unwrap();
        }
        File::create(at("a/size")).unwrap().set_len(4096).unwrap();
        std::os::unix::fs::symlink("/usr", at("a/link")).unwrap();
        std::os::unix::fs::symlink("..", at("a/b/up")).unwrap();
        let seen = counted(folder.path(), Some(4096));
        assert_eq!(
            (seen.files, seen.at_limit, seen.too_deep),
            (3_006, true, false)
        );
        assert!(seen.bytes < 1_000_000, "a hole takes no room: {seen:?}");
        assert!(!counted(folder.path(), Some(4097)).at_limit);
    }

    #[test]
    fn bytes_are_those_on_disk_and_hard_links_share_them() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        File::create(at("one"))
            .unwrap()
            .write_all(&[7; 1 << 20])
            .unwrap();
        File::open(at("one")).unwrap().sync_all().unwrap();
        let alone = counted(folder.path(), None);
        assert!(alone.bytes >= 1 << 20, "{alone:?}");
        fs::hard_link(at("one"), at("two")).unwrap();
        assert_eq!(counted(folder.path(), None).bytes, alone.bytes);
    }

    #[test]
    fn what_is_too_deep_to_be_walked_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let name = "d".repeat(250);
        let mut path = folder.path().to_path_buf();
        for _ in 0..14 {
            path.push(&name);
        }
        fs::create_dir_all(path).unwrap();
        assert!(counted(folder.path(), None).too_deep);
    }
}
