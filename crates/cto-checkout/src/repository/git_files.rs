//! Files of a git directory that is not ours, read beneath its descriptor: no link followed, nothing over its bound.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::beneath;
use crate::repository::error::{RepositoryError, UnsupportedKind};
use crate::stamp::Stamp;
use crate::tree_path::TreePath;

/// A directory that was found to belong to the user who runs this.
#[derive(Debug)]
pub(crate) struct GitFiles {
    path: PathBuf,
    root: OwnedFd,
}

/// A file's bytes and what the kernel said about it when it was opened.
pub(crate) struct GitFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) stamp: Stamp,
}

impl GitFiles {
    pub(crate) fn open(path: &Path) -> Result<Self, RepositoryError> {
        let failed = || RepositoryError::read(path);
        let root = beneath::open_root(path).map_err(failed())?;
        let stat = rustix::fs::fstat(&root).map_err(|errno| failed()(errno.into()))?;
        check_owner(path, stat.st_uid)?;
        Ok(Self {
            path: path.to_owned(),
            root,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Reads a whole file, or returns `None` where there is none.
    pub(crate) fn read(
        &self,
        name: &TreePath,
        max: u64,
    ) -> Result<Option<GitFile>, RepositoryError> {
        let path = || self.path.join(name.as_path());
        if !name.is_well_formed() {
            return Ok(None);
        }
        let opened = beneath::open_file(self.root.as_fd(), name);
        let Some(file) = self.unless_absent(name, opened)? else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&file).map_err(|e| RepositoryError::read(path())(e.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Ok(None),
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => return Err(special_file(&path())),
        }
        let read = || -> io::Result<Option<GitFile>> {
            let stamp = Stamp::of(&stat);
            let room = usize::try_from(stamp.size.min(max)).unwrap_or_default();
            let mut bytes = Vec::with_capacity(room + 1);
            (&file).take(max + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > max {
                return Err(io::Error::other(format!("it has more than {max} bytes")));
            }
            Ok(Some(GitFile { bytes, stamp }))
        };
        read().map_err(RepositoryError::read(path()))
    }

    /// Opens a directory, or returns `None` where there is none.
    pub(crate) fn directory(&self, name: &TreePath) -> Result<Option<OwnedFd>, RepositoryError> {
        // Opened as a directory, a link says only that it is none.
        let opened = match beneath::read_link(self.root.as_fd(), name) {
            Ok(_) => Err(Errno::LOOP.into()),
            Err(_) => beneath::open_directory(self.root.as_fd(), name),
        };
        self.unless_absent(name, opened)
    }

    fn unless_absent<T>(
        &self,
        name: &TreePath,
        opened: io::Result<T>,
    ) -> Result<Option<T>, RepositoryError> {
        let error = match opened {
            Ok(opened) => return Ok(Some(opened)),
            Err(error) => error,
        };
        let path = self.path.join(name.as_path());
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR) => Ok(None),
            Some(Errno::LOOP) => Err(RepositoryError::unsupported(
                UnsupportedKind::LinkInGitDirectory,
                format_args!("`{}` is or lies behind a symbolic link", path.display()),
            )),
            // What the kernel says of a socket, and of a device that nobody serves.
            Some(Errno::NXIO) => Err(special_file(&path)),
            _ => Err(RepositoryError::read(path)(error)),
        }
    }

    /// Reads a file of a fixed name, with only its bytes as the answer.
    pub(crate) fn bytes(&self, name: &str, max: u64) -> Result<Option<Vec<u8>>, RepositoryError> {
        Ok(self.read(&name.into(), max)?.map(|file| file.bytes))
    }
}

/// Nothing of a repository is read that could wait for ever, or do something by being read.
pub(crate) fn special_file(path: &Path) -> RepositoryError {
    RepositoryError::unsupported(
        UnsupportedKind::SpecialFile,
        format_args!(
            "`{}` is a pipe, a device or a socket, and git would wait for it; remove it or clone the repository anew",
            path.display()
        ),
    )
}

/// Git trusts a repository of another user no more than this does: its content was arranged by somebody else.
pub(crate) fn check_owner(path: &Path, owner: u32) -> Result<(), RepositoryError> {
    if owner == geteuid().as_raw() {
        return Ok(());
    }
    let path = path.to_owned();
    Err(RepositoryError::NotOwned { path, owner })
}
