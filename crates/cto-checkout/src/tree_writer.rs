//! Writes a harness-owned tree: plain permissions, nothing overwritten, nothing followed.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{Mode, fchmod, fstat};

use crate::beneath;
use crate::manifest::EntryMode;
use crate::platform::raw_mode;
use crate::stamp::Stamp;
use crate::tree_path::TreePath;

/// Makes the root of a new tree, or takes an empty directory for it.
pub(crate) fn make_root(path: &Path) -> io::Result<OwnedFd> {
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if std::fs::read_dir(path)?.next().is_some() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
        }
        made => made?,
    }
    beneath::open_root(path)
}

/// Gives a new file its final permissions, which the umask may have narrowed, and returns its stamp.
pub(crate) fn finish(file: &File, mode: EntryMode) -> io::Result<Stamp> {
    let stat = fstat(file.as_fd())?;
    let permissions = raw_mode(mode.permissions());
    if stat.st_mode & 0o7777 == permissions {
        return Ok(Stamp::of(&stat));
    }
    fchmod(file.as_fd(), Mode::from_raw_mode(permissions))?;
    Ok(Stamp::of(&fstat(file.as_fd())?))
}

/// Writes a file or link whose content is in memory.
pub(crate) fn write(
    root: BorrowedFd<'_>,
    path: &TreePath,
    mode: EntryMode,
    content: &[u8],
) -> io::Result<()> {
    match mode {
        EntryMode::Symlink => beneath::make_link(root, path, content),
        EntryMode::Regular | EntryMode::Executable => {
            let mut file = beneath::create_file(root, path, mode.permissions())?;
            io::Write::write_all(&mut file, content)?;
            finish(&file, mode).map(drop)
        }
    }
}
