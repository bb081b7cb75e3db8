//! Opens things beneath one directory descriptor: no link on the way is followed and no `..` leaves it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::platform;
use crate::tree_path::TreePath;

/// Opens the root of a tree. The path to it comes from the operator, so links in it are his own affair.
pub(crate) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

pub(crate) fn open_directory(root: BorrowedFd<'_>, path: &TreePath) -> io::Result<OwnedFd> {
    open(
        root,
        path,
        OFlags::RDONLY | OFlags::DIRECTORY,
        Mode::empty(),
    )
}

/// Opens a directory to start from.
pub(crate) fn open_handle(root: BorrowedFd<'_>, path: &TreePath) -> io::Result<OwnedFd> {
    let flags = platform::HANDLE | OFlags::DIRECTORY;
    open(root, path, flags, Mode::empty())
}

/// Opens for reading without waiting: a fifo put in a file's place must not block us.
pub(crate) fn open_file(root: BorrowedFd<'_>, path: &TreePath) -> io::Result<File> {
    open(
        root,
        path,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
        Mode::empty(),
    )
    .map(File::from)
}

/// Makes a file that must not exist yet.
pub(crate) fn create_file(
    root: BorrowedFd<'_>,
    path: &TreePath,
    permissions: u32,
) -> io::Result<File> {
    open(
        root,
        path,
        OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
        Mode::from_raw_mode(platform::raw_mode(permissions)),
    )
    .map(File::from)
}

/// The same in a directory that is open already; the name has no `/` in it.
pub(crate) fn create_in(parent: BorrowedFd<'_>, name: &[u8], permissions: u32) -> io::Result<File> {
    let name = plain(name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(platform::raw_mode(permissions));
    Ok(File::from(openat(parent, name, flags, mode)?))
}

/// The directory that was used last, kept open: neighbours in a sorted list mostly share theirs.
pub(crate) struct Nearby<'a> {
    pub(crate) root: BorrowedFd<'a>,
    pub(crate) directory: TreePath,
    handle: Option<OwnedFd>,
}

impl<'a> Nearby<'a> {
    pub(crate) fn new(root: BorrowedFd<'a>) -> Self {
        Self {
            root,
            directory: TreePath::root(),
            handle: None,
        }
    }

    /// Returns a directory; `prepare` is called before one is opened that was not used last.
    pub(crate) fn at(
        &mut self,
        directory: &[u8],
        prepare: impl FnOnce(&Self, &TreePath) -> io::Result<()>,
    ) -> io::Result<BorrowedFd<'_>> {
        if directory.is_empty() {
            return Ok(self.root);
        }
        if self.handle.is_none() || self.directory.as_bytes() != directory {
            let directory = TreePath::from(directory);
            prepare(self, &directory)?;
            self.handle = Some(open_handle(self.root, &directory)?);
            self.directory = directory;
        }
        Ok(self.handle.as_ref().map_or(self.root, AsFd::as_fd))
    }

    /// Opens a file as [`open_file`] does.
    pub(crate) fn open_file(&mut self, path: &TreePath) -> io::Result<File> {
        let parent = self.at(path.parent(), |_, _| Ok(()))?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(parent, plain(path.name())?, flags, Mode::empty())?;
        Ok(File::from(file))
    }
}

/// Returns a name that leads nowhere else than to an entry of the directory it is looked up in.
fn plain(name: &[u8]) -> io::Result<&[u8]> {
    if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
        return Err(Errno::XDEV.into());
    }
    Ok(name)
}

/// Makes a directory with exactly the usual permissions, whatever the umask.
pub(crate) fn make_directory(root: BorrowedFd<'_>, path: &TreePath) -> io::Result<()> {
    with_parent(root, path, |parent, name| {
        rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
        if rustix::fs::statat(parent, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?.st_mode & 0o777
            != 0o755
        {
            rustix::fs::chmodat(
                parent,
                name,
                Mode::from_raw_mode(0o755),
                rustix::fs::AtFlags::empty(),
            )?;
        }
        Ok(())
    })
}

pub(crate) fn make_link(root: BorrowedFd<'_>, path: &TreePath, target: &[u8]) -> io::Result<()> {
    with_parent(root, path, |parent, name| {
        rustix::fs::symlinkat(target, parent, name)
    })
}

pub(crate) fn read_link(root: BorrowedFd<'_>, path: &TreePath) -> io::Result<Vec<u8>> {
    with_parent(root, path, |parent, name| {
        rustix::fs::readlinkat(parent, name, Vec::new())
    })
    .map(std::ffi::CString::into_bytes)
}

/// Gives the owner the bits he took from himself: a `chmod 000` must not hide what is there.
pub(crate) fn unlock(root: BorrowedFd<'_>, path: &TreePath, bits: u32) -> io::Result<()> {
    platform::unlock(root, path, bits)
}

pub(crate) fn with_parent<T>(
    root: BorrowedFd<'_>,
    path: &TreePath,
    act: impl FnOnce(BorrowedFd<'_>, &[u8]) -> rustix::io::Result<T>,
) -> io::Result<T> {
    match path.parent() {
        [] => Ok(act(root, path.as_bytes())?),
        parent => {
            let parent = open(
                root,
                &TreePath::from(parent),
                platform::HANDLE | OFlags::DIRECTORY,
                Mode::empty(),
            )?;
            Ok(act(parent.as_fd(), path.name())?)
        }
    }
}

pub(crate) fn open(
    root: BorrowedFd<'_>,
    path: &TreePath,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let whole = if path.is_root() {
        b".".as_slice()
    } else {
        path.as_bytes()
    };
    match platform::open_inside(root, whole, flags, mode) {
        Err(Errno::NOSYS) => open_stepwise(root, path, flags, mode),
        opened => Ok(opened?),
    }
}

/// The same for systems and containers without `openat2`: one component at a time.
fn open_stepwise(
    root: BorrowedFd<'_>,
    path: &TreePath,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    if path.is_root() {
        return Ok(openat(root, ".", flags, mode)?);
    }
    if !path.is_well_formed() {
        return Err(Errno::XDEV.into());
    }
    let step = platform::HANDLE | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut held: Option<OwnedFd> = None;
    let parents = path.depth() - 1;
    for name in path.components().take(parents) {
        let at = held.as_ref().map_or(root, AsFd::as_fd);
        held = Some(openat(at, name, step, Mode::empty())?);
    }
    let at = held.as_ref().map_or(root, AsFd::as_fd);
    Ok(openat(at, path.name(), flags, mode)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_opening_refuse_links_and_parents() {
        let outside = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        File::create(dir.path().join("real/file")).unwrap();
        File::create(outside.path().join("file")).unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("out")).unwrap();
        std::os::unix::fs::symlink("real/file", dir.path().join("link")).unwrap();
        let root = open_root(dir.path()).unwrap();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for way in [open, open_stepwise] {
            assert!(way(root.as_fd(), &"real/file".into(), flags, Mode::empty()).is_ok());
            assert!(way(root.as_fd(), &TreePath::root(), flags, Mode::empty()).is_ok());
            for bad in ["out/file", "link", "../x", "real/../../x", "/etc/passwd"] {
                assert!(
                    way(root.as_fd(), &bad.into(), flags, Mode::empty()).is_err(),
                    "{bad}"
                );
            }
        }
    }
}
