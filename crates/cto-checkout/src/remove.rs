//! Removes a tree that an agent may have made hard to remove: closed directories, links, thousands of levels.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, openat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::platform;

/// Deeper directories are first moved up to the root: descriptors and stack stay bounded at any depth.
const HELD_LEVELS: usize = 32;

/// Why a tree is still there.
#[derive(Debug, thiserror::Error)]
#[error("could not remove `{path}`")]
pub struct RemoveError {
    path: PathBuf,
    source: io::Error,
}

/// Removes whatever is at `path`; nothing there is fine too. Links are removed, never followed.
pub fn remove_tree(path: &Path) -> Result<(), RemoveError> {
    remove(path).map_err(|errno| RemoveError {
        path: path.to_owned(),
        source: errno.into(),
    })
}

fn remove(path: &Path) -> rustix::io::Result<()> {
    let kind = match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    if kind != FileType::Directory {
        return unlinkat(CWD, path, AtFlags::empty());
    }
    let root = open_unlocked(CWD, path)?;
    let removal = Removal {
        root: root.as_fd(),
        moved: AtomicU64::new(0),
    };
    loop {
        let before = removal.moved.load(Ordering::Relaxed);
        // Opened anew for each pass: a descriptor that was listed to its end shows nothing of what was moved in.
        let listing = open_unlocked(&root, c".")?;
        removal.empty(listing.as_fd(), 0)?;
        if removal.moved.load(Ordering::Relaxed) == before {
            break;
        }
    }
    unlinkat(CWD, path, AtFlags::REMOVEDIR)
}

struct Removal<'a> {
    root: BorrowedFd<'a>,
    moved: AtomicU64,
}

impl Removal<'_> {
    fn empty(&self, directory: BorrowedFd<'_>, depth: usize) -> rustix::io::Result<()> {
        let subdirectories = unlink_files(directory)?;
        let remove = |name: &CString| {
            if depth == HELD_LEVELS {
                return self.move_up(directory, name);
            }
            let below = open_unlocked(directory, name.as_c_str())?;
            self.empty(below.as_fd(), depth + 1)?;
            unlinkat(directory, name, AtFlags::REMOVEDIR)
        };
        if subdirectories.len() < 8 {
            subdirectories.iter().try_for_each(remove)
        } else {
            subdirectories.par_iter().try_for_each(remove)
        }
    }

    fn move_up(&self, directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
        // A directory can change its parent only if its owner may write in it.
        drop(open_unlocked(directory, name)?);
        loop {
            let number = self.moved.fetch_add(1, Ordering::Relaxed);
            let place = format!("moved-{number}");
            match renameat_with(directory, name, self.root, place, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {}
                moved => return moved,
            }
        }
    }
}

/// Unlinks everything that is no directory and returns the names of those that are.
fn unlink_files(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<CString>> {
    let mut subdirectories = Vec::new();
    platform::each_removable(directory, |name, file_type| {
        if matches!(name.to_bytes(), b"." | b"..") {
            return Ok(());
        }
        if file_type == FileType::Directory {
            subdirectories.push(name.to_owned());
            return Ok(());
        }
        match unlinkat(directory, name, AtFlags::empty()) {
            // Not every file system tells the type in its listing.
            Err(Errno::ISDIR | Errno::PERM) => {
                subdirectories.push(name.to_owned());
                Ok(())
            }
            unlinked => unlinked,
        }
    })?;
    Ok(subdirectories)
}

/// Opens a directory and gives its owner all rights in it.
fn open_unlocked<P: rustix::path::Arg + Copy>(
    at: impl AsFd,
    path: P,
) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = platform::open_unlocked(at, path, flags)?;
    // Through the handle, so that it is the same directory; `.` of a directory cannot be a link.
    openat(&handle, ".", flags | OFlags::RDONLY, Mode::empty())
}
