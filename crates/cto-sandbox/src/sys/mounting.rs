//! Mount calls that no safe library offers.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What to change about a mount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    pub(crate) set: u64,
    /// Shows the owners of files through this user namespace. Works only before the mount is attached anywhere.
    pub(crate) owners: Option<BorrowedFd<'a>>,
    pub(crate) reach: Reach,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// This mount alone.
    One,
    /// All mounts below it too.
    Tree,
}

/// Changes the mount of `fd` and cuts it off from what is mounted elsewhere later.
pub(crate) fn set_attributes(fd: BorrowedFd<'_>, change: Attributes<'_>) -> io::Result<()> {
    let idmap = match change.owners {
        Some(_) => libc::MOUNT_ATTR_IDMAP,
        None => 0,
    };
    let userns = change.owners.map_or(0, |owners| owners.as_raw_fd());
    let attributes = libc::mount_attr {
        attr_set: change.set | idmap,
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: u64::try_from(userns).unwrap_or(0),
    };
    let recursive = match change.reach {
        Reach::One => 0,
        Reach::Tree => libc::AT_RECURSIVE,
    };
    // SAFETY: the path is empty and ends with NUL, and the structure's size is told with it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const attributes,
            mem::size_of::<libc::mount_attr>(),
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
