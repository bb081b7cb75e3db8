//! Writing into a pack by directory descriptor: every file is new, no link is followed, nothing is overwritten.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::pack::{Listing, PackDir, is_pack_path, open_below};

const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const SYNC: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// A file that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The name may not stand in a pack.
    #[error("`{0}` is not a name that a pack may hold")]
    BadName(String),
    /// The system refused.
    #[error("could not {action} `{path}`")]
    Io {
        action: &'static str,
        path: String,
        source: io::Error,
    },
}

fn failed<E: Into<io::Error>>(action: &'static str, path: &str) -> impl FnOnce(E) -> WriteError {
    move |source| WriteError::Io {
        action,
        path: path.to_owned(),
        source: source.into(),
    }
}

/// Writes a file that must not be there yet. It is not yet durable: the seal syncs everything at once.
pub fn write_new(dir: BorrowedFd<'_>, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
    let mut file = create_new(dir, name)?;
    file.write_all(bytes).map_err(failed("write", name))
}

/// Creates a file that must not be there yet, with the directories it needs, for writing piece by piece.
pub fn create_new(dir: BorrowedFd<'_>, name: &str) -> Result<File, WriteError> {
    if !is_pack_path(name) {
        return Err(WriteError::BadName(cto_contract::text::shorten(name, 200)));
    }
    if let Some((parents, _)) = name.rsplit_once('/') {
        make_directories(dir, parents)?;
    }
    open_below(dir, name, NEW_FILE, Mode::from_raw_mode(0o644))
        .map(File::from)
        .map_err(failed("create", name))
}

fn make_directories(dir: BorrowedFd<'_>, parents: &str) -> Result<(), WriteError> {
    let mut at: Option<OwnedFd> = None;
    for component in parents.split('/') {
        let here = at.as_ref().map_or(dir, AsFd::as_fd);
        match mkdirat(here, component, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(failed("make directory", parents)(e)),
        }
        at = Some(
            openat(here, component, DIRECTORY, Mode::empty())
                .map_err(failed("open directory", parents))?,
        );
    }
    Ok(())
}

/// A pack that is being written.
#[derive(Debug)]
pub struct PackWriter {
    path: PathBuf,
    dir: PackDir,
}

impl PackWriter {
    /// Makes the directory of a new pack (0755 under a home that is 0700) and opens it.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        let shown = path.display().to_string();
        mkdirat(CWD, path, Mode::from_raw_mode(0o755)).map_err(failed("make directory", &shown))?;
        Self::open(path)
    }

    /// Opens the directory of a pack that is there.
    pub fn open(path: &Path) -> Result<Self, WriteError> {
        let dir =
            PackDir::open(path).map_err(failed("open directory", &path.display().to_string()))?;
        Ok(Self {
            path: path.to_owned(),
            dir,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// See [`write_new`].
    pub fn write_new(&self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        write_new(self.dir.as_fd(), name, bytes)
    }

    /// See [`create_new`].
    pub fn create_new(&self, name: &str) -> Result<File, WriteError> {
        create_new(self.dir.as_fd(), name)
    }

    /// Removes what an interrupted writer left. True when something was there.
    pub fn remove(&self, name: &str) -> Result<bool, WriteError> {
        remove(self.dir.as_fd(), name)
    }

    /// The directory, to look at what is in it.
    pub fn dir(&self) -> &PackDir {
        &self.dir
    }

    /// Removes directories that hold nothing: a writer died between making one and its first file.
    pub fn remove_empty_directories(&self) -> Result<(), WriteError> {
        let mut directories = self.dir.walk().directories;
        // What lies deeper goes first, so that what held only that is empty too.
        directories.sort_by_key(|path| std::cmp::Reverse(path.split('/').count()));
        for path in directories {
            let removed = match path.rsplit_once('/') {
                None => unlinkat(&self.dir, path.as_str(), AtFlags::REMOVEDIR),
                Some((parents, last)) => {
                    let parent = open_below(self.as_fd(), parents, DIRECTORY, Mode::empty())
                        .map_err(failed("open directory", parents))?;
                    unlinkat(&parent, last, AtFlags::REMOVEDIR)
                }
            };
            match removed {
                Ok(()) | Err(Errno::NOTEMPTY | Errno::NOENT) => {}
                Err(e) => return Err(failed("remove", &path)(e)),
            }
        }
        Ok(())
    }
}

impl AsFd for PackWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// Removes a file; none is no error. True when one was there.
pub fn remove(dir: BorrowedFd<'_>, name: &str) -> Result<bool, WriteError> {
    if !is_pack_path(name) {
        return Err(WriteError::BadName(cto_contract::text::shorten(name, 200)));
    }
    let outcome = match name.rsplit_once('/') {
        None => unlinkat(dir, name, AtFlags::empty()).map_err(io::Error::from),
        Some((parents, last)) => open_below(dir, parents, DIRECTORY, Mode::empty())
            .and_then(|parent| unlinkat(&parent, last, AtFlags::empty()).map_err(io::Error::from)),
    };
    match outcome {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(failed("remove", name)(e)),
    }
}

/// Makes the content of every listed file and every directory durable.
///
/// All at once from several threads: the file system then joins them into few journal commits.
pub(crate) fn sync_listing(pack: &PackDir, listing: &Listing) -> Result<(), WriteError> {
    use rayon::prelude::*;
    listing
        .files
        .par_iter()
        .with_max_len(1)
        .try_for_each(|file| {
            let fd = open_below(pack.as_fd(), &file.path, SYNC, Mode::empty())
                .map_err(failed("open", &file.path))?;
            File::from(fd)
                .sync_data()
                .map_err(failed("sync", &file.path))
        })?;
    for directory in &listing.directories {
        let fd = open_below(pack.as_fd(), directory, DIRECTORY, Mode::empty())
            .map_err(failed("open", directory))?;
        fsync(&fd).map_err(failed("sync", directory))?;
    }
    sync_directory(pack.as_fd())
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(dir: BorrowedFd<'_>) -> Result<(), WriteError> {
    fsync(dir).map_err(failed("sync", "."))
}

/// Gives a file its final name.
pub(crate) fn rename(dir: BorrowedFd<'_>, from: &str, to: &str) -> Result<(), WriteError> {
    renameat(dir, from, dir, to).map_err(failed("rename", to))
}
