//! Writes a harness-owned tree: plain permissions, nothing overwritten, nothing followed.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, fchmod, fstat, statat, symlinkat};

use crate::beneath;
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

/// The directory that was written in last, kept open: neighbours in a sorted list mostly share theirs.
pub(crate) struct Spot<'a> {
    root: BorrowedFd<'a>,
    directory: TreePath,
    handle: Option<OwnedFd>,
}

impl<'a> Spot<'a> {
    pub(crate) fn new(root: BorrowedFd<'a>) -> Self {
        Self {
            root,
            directory: TreePath::root(),
            handle: None,
        }
    }

    /// Makes a file that must not exist yet, and the directories above it that do not.
    pub(crate) fn create(&mut self, path: &TreePath, mode: EntryMode) -> io::Result<File> {
        let parent = self.at(path.parent())?;
        beneath::create_in(parent, path.name(), mode.permissions())
    }

    /// Makes a link, likewise, and returns its stamp.
    pub(crate) fn link(&mut self, path: &TreePath, target: &[u8]) -> io::Result<Stamp> {
        let parent = self.at(path.parent())?;
        symlinkat(target, parent, path.name())?;
        let stat = statat(parent, path.name(), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Stamp::of(&stat))
    }

    fn at(&mut self, directory: &[u8]) -> io::Result<BorrowedFd<'_>> {
        if directory.is_empty() {
            return Ok(self.root);
        }
        let same = self.directory.as_bytes() == directory;
        let handle = match self.handle.take().filter(|_| same) {
            Some(handle) => handle,
            None => {
                let directory = TreePath::from(directory);
                self.make(&directory)?;
                let opened = beneath::open_handle(self.root, &directory)?;
                self.directory = directory;
                opened
            }
        };
        let handle: &OwnedFd = self.handle.insert(handle);
        Ok(handle.as_fd())
    }

    fn make(&self, directory: &TreePath) -> io::Result<()> {
        let made = self.directory.as_bytes();
        for path in directories_of(std::iter::once(&directory.join(b"x"))) {
            let path_bytes = path.as_bytes();
            let is_made = made.starts_with(path_bytes)
                && matches!(made.get(path_bytes.len()), None | Some(b'/'));
            if is_made {
                continue;
            }
            match beneath::make_directory(self.root, &path) {
                // Another thread was here, or this one with a file further up.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        Ok(())
    }
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
