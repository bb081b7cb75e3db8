//! Writes a harness-owned tree: plain permissions, nothing overwritten, nothing followed.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, fchmod, fstat, statat, symlinkat};

use crate::beneath::{self, Nearby};
use crate::manifest::{EntryMode, directories_of};
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

/// Where a tree is being written: directories are made when the first file in them is.
pub(crate) struct Spot<'a>(Nearby<'a>);

impl<'a> Spot<'a> {
    pub(crate) fn new(root: BorrowedFd<'a>) -> Self {
        Self(Nearby::new(root))
    }

    /// Makes a file that must not exist yet, and the directories above it that do not.
    pub(crate) fn create(&mut self, path: &TreePath, mode: EntryMode) -> io::Result<File> {
        let parent = self.0.at(path.parent(), make_directories)?;
        beneath::create_in(parent, path.name(), mode.permissions())
    }

    /// Makes a link, likewise, and returns its stamp.
    pub(crate) fn link(&mut self, path: &TreePath, target: &[u8]) -> io::Result<Stamp> {
        let parent = self.0.at(path.parent(), make_directories)?;
        symlinkat(target, parent, path.name())?;
        let stat = statat(parent, path.name(), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Stamp::of(&stat))
    }
}

/// Makes a directory and those above it, but for those that lie above the last one too.
fn make_directories(last: &Nearby<'_>, directory: &TreePath) -> io::Result<()> {
    let made = last.directory.as_bytes();
    for path in directories_of(std::iter::once(&directory.join(b"x"))) {
        let bytes = path.as_bytes();
        if made.starts_with(bytes) && matches!(made.get(bytes.len()), None | Some(b'/')) {
            continue;
        }
        match beneath::make_directory(last.root, &path) {
            // Another thread was here, or this one with a file further up.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    Ok(())
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
