//! Lists a tree that somebody else made.
//!
//! Directories are opened one at a time from the root, never kept open on the way down: depth costs no descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use rustix::fs::{AtFlags, FileType, statat};

use crate::beneath;
use crate::platform::{Listing, ListingBuffer, wide};
use crate::stamp::Stamp;
use crate::tree_path::{TreePath, is_git_name};

/// Levels with fewer directories are listed on the calling thread.
const PARALLEL_DIRECTORIES: usize = 8;

#[derive(Clone, Copy)]
pub(crate) struct WalkCaps {
    pub(crate) entries: u64,
    pub(crate) depth: usize,
    pub(crate) path_bytes: usize,
}

/// What to do about a directory its owner has closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// It is somebody else's: say so.
    Refuse,
    /// It is in the harness's own copy: open it, or an agent could hide files by `chmod 000`.
    Unlock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundKind {
    Regular,
    Symlink,
    Directory {
        empty: bool,
    },
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
    /// Anything with a name that is `.git` somewhere; not looked into.
    GitNamed,
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) path: TreePath,
    pub(crate) kind: FoundKind,
    pub(crate) stamp: Stamp,
    pub(crate) links: u64,
    /// Which device it is, if it is one: major and minor number in one.
    pub(crate) device: u64,
}

#[derive(Debug)]
pub(crate) enum WalkError {
    Read { path: TreePath, source: io::Error },
    TooManyEntries { path: TreePath, max: u64 },
    TooDeep { path: TreePath, max: usize },
    PathTooLong { path: TreePath, max: usize },
}

struct Listed {
    entries: Vec<Found>,
    directories: Vec<Found>,
}

/// Returns everything below `root`, sorted by path.
pub(crate) fn walk(
    root: BorrowedFd<'_>,
    caps: WalkCaps,
    closed: Closed,
) -> Result<Vec<Found>, WalkError> {
    let seen = AtomicU64::new(0);
    let list =
        |directory: &TreePath, mode| list_directory(root, directory, mode, caps, closed, &seen);
    let top = list(&TreePath::root(), 0o700)?;
    let (mut found, mut level) = (top.entries, top.directories);
    while !level.is_empty() {
        let visit = |directory: &Found| list(&directory.path, directory.stamp.mode);
        let lists: Vec<Result<Listed, WalkError>> = if level.len() < PARALLEL_DIRECTORIES {
            level.iter().map(visit).collect()
        } else {
            level.par_iter().map(visit).collect()
        };
        let mut next = Vec::new();
        for (mut directory, listed) in level.into_iter().zip(lists) {
            let mut listed = listed?;
            let empty = listed.entries.is_empty() && listed.directories.is_empty();
            directory.kind = FoundKind::Directory { empty };
            found.push(directory);
            found.append(&mut listed.entries);
            next.append(&mut listed.directories);
        }
        level = next;
    }
    found.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    Ok(found)
}

fn list_directory(
    root: BorrowedFd<'_>,
    directory: &TreePath,
    mode: u32,
    caps: WalkCaps,
    closed: Closed,
    seen: &AtomicU64,
) -> Result<Listed, WalkError> {
    let failed = |source: io::Error| WalkError::Read {
        path: directory.clone(),
        source,
    };
    if closed == Closed::Unlock && mode & 0o700 != 0o700 {
        beneath::unlock(root, directory, 0o700).map_err(failed)?;
    }
    let handle = beneath::open_directory(root, directory).map_err(failed)?;
    let mut buffer = ListingBuffer::default();
    let mut names =
        Listing::new(handle.as_fd(), &mut buffer).map_err(|errno| failed(errno.into()))?;
    let mut listed = Listed {
        entries: Vec::new(),
        directories: Vec::new(),
    };
    let depth = directory.depth() + 1;
    while let Some(entry) = names.read() {
        let entry = entry.map_err(|errno| failed(errno.into()))?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let path = directory.join(name);
        check_caps(&path, depth, caps, seen)?;
        let stat = match statat(&handle, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(errno) => {
                let source = errno.into();
                return Err(WalkError::Read { path, source });
            }
        };
        let kind = if is_git_name(name) {
            FoundKind::GitNamed
        } else {
            kind_of(FileType::from_raw_mode(stat.st_mode))
        };
        let found = Found {
            path,
            kind,
            stamp: Stamp::of(&stat),
            links: wide(stat.st_nlink),
            device: wide(stat.st_rdev),
        };
        match kind {
            FoundKind::Directory { .. } => listed.directories.push(found),
            FoundKind::Regular
            | FoundKind::Symlink
            | FoundKind::Fifo
            | FoundKind::Socket
            | FoundKind::CharDevice
            | FoundKind::BlockDevice
            | FoundKind::GitNamed
            | FoundKind::Unknown => listed.entries.push(found),
        }
    }
    Ok(listed)
}

fn check_caps(
    path: &TreePath,
    depth: usize,
    caps: WalkCaps,
    seen: &AtomicU64,
) -> Result<(), WalkError> {
    let named = || path.clone();
    if seen.fetch_add(1, Ordering::Relaxed) >= caps.entries {
        let max = caps.entries;
        return Err(WalkError::TooManyEntries { path: named(), max });
    }
    if depth > caps.depth {
        let max = caps.depth;
        return Err(WalkError::TooDeep { path: named(), max });
    }
    if path.as_bytes().len() > caps.path_bytes {
        let max = caps.path_bytes;
        return Err(WalkError::PathTooLong { path: named(), max });
    }
    Ok(())
}

fn kind_of(file_type: FileType) -> FoundKind {
    match file_type {
        FileType::RegularFile => FoundKind::Regular,
        FileType::Directory => FoundKind::Directory { empty: true },
        FileType::Symlink => FoundKind::Symlink,
        FileType::Fifo => FoundKind::Fifo,
        FileType::Socket => FoundKind::Socket,
        FileType::CharacterDevice => FoundKind::CharDevice,
        FileType::BlockDevice => FoundKind::BlockDevice,
        FileType::Unknown => FoundKind::Unknown,
    }
}
