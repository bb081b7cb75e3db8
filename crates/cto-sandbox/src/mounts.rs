//! The mounts of one request: the overlay and the read-only paths.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;

use crate::sys;
use crate::wire::{Failure, OverlayPolicy, Policy, Raw, Step};

/// Mounts all that the policy names. A failure ends the launch: a missing mount would show the command another tree.
pub(crate) fn mount_all(policy: &Policy) -> Result<(), Failure> {
    let at = policy.overlay.as_ref().map(|overlay| overlay.at.path());
    let (within, outside): (Vec<_>, Vec<_>) = policy
        .read_only
        .iter()
        .partition(|path| at.is_some_and(|at| path.path().starts_with(at)));
    // A path within the overlay exists only once it is mounted; a path around it would take the overlay along.
    for path in outside {
        bind_read_only(path)?;
    }
    if let Some(overlay) = &policy.overlay {
        mount_overlay(overlay)?;
    }
    for path in within {
        bind_read_only(path)?;
    }
    Ok(())
}

fn bind_read_only(path: &Raw) -> Result<(), Failure> {
    let bind = || -> io::Result<()> {
        let place = path.c_string()?;
        rustix::mount::mount_bind_recursive(&place, &place)?;
        sys::mount_read_only(&place)
    };
    bind().map_err(|error| failure(Step::BindReadOnly(path.clone()), &error))
}

fn mount_overlay(overlay: &OverlayPolicy) -> Result<(), Failure> {
    // Named by descriptor: mount options cannot carry every byte of a path, and the page they share is short.
    let lowers = overlay
        .lowers
        .iter()
        .map(open_part)
        .collect::<Result<Vec<_>, _>>()?;
    let upper = open_part(&overlay.upper)?;
    let work = open_part(&overlay.work)?;
    let part = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let options = format!(
        "lowerdir={},upperdir={},workdir={},userxattr",
        lowers.iter().map(part).collect::<Vec<_>>().join(":"),
        part(&upper),
        part(&work),
    );
    // Without `volatile` the end of the namespace syncs the whole upper file system.
    mount_overlay_with(&overlay.at, &format!("{options},volatile"))
        .or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => mount_overlay_with(&overlay.at, &options),
            Some(_) | None => Err(error),
        })
        .map_err(|error| failure(Step::MountOverlay(overlay.at.clone()), &error))
}

fn mount_overlay_with(at: &Raw, options: &str) -> io::Result<()> {
    let at = at.c_string()?;
    let options = CString::new(options)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(c"overlay", &at, c"overlay", flags, options.as_c_str())?;
    Ok(())
}

fn open_part(path: &Raw) -> Result<OwnedFd, Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path.path(), flags, Mode::empty())
        .map_err(|error| failure(Step::OpenOverlayPart(path.clone()), &error.into()))
}

pub(crate) fn failure(step: Step, error: &io::Error) -> Failure {
    Failure {
        step,
        errno: error.raw_os_error().unwrap_or(libc::EINVAL),
    }
}
