//! Asks the kernel about many paths of a work tree at once, with no link followed on the way.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Stat, statat};
use rustix::io::Errno;

use crate::tree_path::TreePath;
use crate::{beneath, parallel, platform};

/// Returns what is at each path, in order; `None` where there is nothing, or nothing without following a link.
///
/// Neighbours mostly share a directory, which is then opened once: give the paths sorted.
pub(crate) fn stat_all(
    root: BorrowedFd<'_>,
    paths: &[&TreePath],
) -> Result<Vec<Option<Stat>>, (TreePath, io::Error)> {
    let groups: Vec<&[&TreePath]> = paths
        .chunk_by(|left, right| left.parent() == right.parent())
        .collect();
    let found = parallel::map(&groups, |_, group| stat_group(root, group))?;
    Ok(found.into_iter().flatten().collect())
}

fn stat_group(
    root: BorrowedFd<'_>,
    group: &[&TreePath],
) -> Result<Vec<Option<Stat>>, (TreePath, io::Error)> {
    let Some(first) = group.first() else {
        return Ok(Vec::new());
    };
    let failed = |path: &TreePath, error: io::Error| Err((path.clone(), error));
    let parent = TreePath::from(first.parent());
    let flags = platform::HANDLE | OFlags::DIRECTORY;
    let directory = match beneath::open(root, &parent, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(error) if Errno::from_io_error(&error).is_some_and(is_absence) => {
            return Ok(vec![None; group.len()]);
        }
        Err(error) => return failed(&parent, error),
    };
    let mut found = Vec::with_capacity(group.len());
    for path in group {
        match statat(directory.as_fd(), path.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => found.push(Some(stat)),
            Err(errno) if is_absence(errno) => found.push(None),
            Err(errno) => return failed(path, errno.into()),
        }
    }
    Ok(found)
}

fn is_absence(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV
    )
}
