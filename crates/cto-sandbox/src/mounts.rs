//! The mounts of one request: the overlay and the binds.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;

use crate::request::Access;
use crate::sources::{attach, detach_at};
use crate::sys;
use crate::sys::mounting::Reach;
use crate::wire::{BindPolicy, Failure, OverlayPolicy, Policy, Raw, Step};

/// Mounts all that the policy names. A failure ends the launch: a missing mount would show the command another tree.
pub(crate) fn mount_all(policy: &Policy) -> Result<(), Failure> {
    let overlay_at = policy.overlay.as_ref().map(|overlay| overlay.at.path());
    let is_within = |path: &Raw| overlay_at.is_some_and(|at| path.path().starts_with(at));
    // What comes from somewhere else is copied before any mount can hide it, or come along with it.
    let opened = policy
        .binds
        .iter()
        .map(|bind| match bind.from == bind.at {
            true => Ok(None),
            false => detach_at(rustix::fs::CWD, bind.from.path(), Reach::Tree)
                .map(Some)
                .map_err(|error| failure(Step::OpenBind(bind.from.clone()), &error)),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let (within, outside): (Vec<_>, Vec<_>) = policy
        .binds
        .iter()
        .zip(&opened)
        .partition(|(bind, _)| is_within(&bind.at));
    // A path within the overlay exists only once it is mounted; a path around it would take the overlay along.
    for (path, from) in outside {
        bind(path, from.as_ref())?;
    }
    if let Some(overlay) = &policy.overlay {
        mount_overlay(overlay)?;
    }
    for (path, from) in within {
        bind(path, from.as_ref())?;
    }
    Ok(())
}

fn bind(policy: &BindPolicy, from: Option<&OwnedFd>) -> Result<(), Failure> {
    let mount = || -> io::Result<()> {
        let at = policy.at.c_string()?;
        match from {
            None => rustix::mount::mount_bind_recursive(&at, &at)?,
            Some(tree) => attach(tree.as_fd(), open_point(&policy.at)?.as_fd())?,
        }
        match policy.access {
            Access::ReadOnly => sys::mount_read_only(&at),
            Access::Writable => Ok(()),
        }
    };
    mount().map_err(|error| failure(Step::Bind(policy.at.clone()), &error))
}

pub(crate) fn by_descriptor(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn open_point(path: &Raw) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path.path(), flags, Mode::empty())?)
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
    overlay
        .at
        .c_string()
        .and_then(|at| mount_overlay_at(&at, &lowers, &upper, &work))
        .map_err(|error| failure(Step::MountOverlay(overlay.at.clone()), &error))
}

/// Mounts an overlay of opened directories.
pub(crate) fn mount_overlay_at(
    at: &CStr,
    lowers: &[OwnedFd],
    upper: &OwnedFd,
    work: &OwnedFd,
) -> io::Result<()> {
    let lowers: Vec<_> = lowers.iter().map(by_descriptor).collect();
    let options = format!(
        "lowerdir={},upperdir={},workdir={},userxattr",
        lowers.join(":"),
        by_descriptor(upper),
        by_descriptor(work),
    );
    // Without `volatile` the end of the namespace syncs the whole upper file system.
    mount_overlay_with(at, &format!("{options},volatile")).or_else(|error| {
        match error.raw_os_error() {
            Some(libc::EINVAL) => mount_overlay_with(at, &options),
            Some(_) | None => Err(error),
        }
    })
}

fn mount_overlay_with(at: &CStr, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(c"overlay", at, c"overlay", flags, options.as_c_str())?;
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
