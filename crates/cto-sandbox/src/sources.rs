//! What of the host will be seen in a new root, taken hold of before that root exists.
//!
//! Each source is a detached copy of its mounts, already with its final flags: no name of the host is looked up later, and
//! nothing can be reached for a moment with more rights than it will have.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::mount::OpenTreeFlags;

use crate::mounts::failure;
use crate::request::Access;
use crate::sys::mounting::{Attributes, Reach, set_attributes};
use crate::wire::{Failure, OverlayPolicy, Policy, Raw, RootPolicy, Step};

/// The devices that every program may expect.
pub(crate) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const WRITABLE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const DEVICE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// A detached copy of a part of the host's tree.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) at: Raw,
    pub(crate) tree: OwnedFd,
    pub(crate) is_directory: bool,
    pub(crate) access: Access,
}

/// The parts of the overlay, wherever they are opened.
#[derive(Debug)]
pub(crate) struct OverlayParts {
    pub(crate) lowers: Vec<OwnedFd>,
    /// A detached copy that holds both, with the names below it; else `upper` and `work` themselves.
    pub(crate) staged: Option<Staged>,
    pub(crate) upper: OwnedFd,
    pub(crate) work: OwnedFd,
}

/// The upper file system under other owners: one mount for both directories, because the kernel wants them on one.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) tree: OwnedFd,
    pub(crate) upper: Raw,
    pub(crate) work: Raw,
}

#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) shown: Vec<Source>,
    pub(crate) devices: Vec<(&'static str, OwnedFd)>,
    pub(crate) overlay: Option<OverlayParts>,
}

impl Sources {
    /// Takes hold of all that the policy names. With `owners`, what the request binds and lays over is seen through that
    /// user namespace; what the root shows keeps its owners.
    pub(crate) fn open(
        policy: &Policy,
        root: &RootPolicy,
        owners: Option<BorrowedFd<'_>>,
    ) -> Result<Self, Failure> {
        let mut shown = Vec::new();
        for (from, at) in &root.read_only {
            shown.push(source(from, at, Access::ReadOnly, None)?);
        }
        for bind in &policy.binds {
            shown.push(source(&bind.from, &bind.at, bind.access, owners)?);
        }
        let mut devices = Vec::new();
        for name in DEVICES {
            let path = Path::new("/dev").join(name);
            let tree = detach(&path, Reach::One)
                .and_then(|tree| set(&tree, DEVICE, None, Reach::One).map(|()| tree))
                .map_err(|error| failure(Step::OpenBind(Raw::from(&path)), &error))?;
            devices.push((name, tree));
        }
        let overlay = match &policy.overlay {
            Some(overlay) => Some(overlay_parts(overlay, owners)?),
            None => None,
        };
        Ok(Self {
            shown,
            devices,
            overlay,
        })
    }
}

fn source(
    from: &Raw,
    at: &Raw,
    access: Access,
    owners: Option<BorrowedFd<'_>>,
) -> Result<Source, Failure> {
    let flags = match access {
        Access::ReadOnly => READ_ONLY,
        Access::Writable => WRITABLE,
    };
    let open = || -> io::Result<Source> {
        let tree = detach(from.path(), Reach::Tree)?;
        match (set(&tree, flags, owners, Reach::Tree), access) {
            (Ok(()), _) => {}
            // What is only read is mostly readable for all, whoever owns it.
            (Err(_), Access::ReadOnly) if owners.is_some() => {
                set(&tree, flags, None, Reach::Tree)?;
            }
            (Err(error), Access::ReadOnly | Access::Writable) => return Err(error),
        }
        let stat = rustix::fs::statat(&tree, c"", AtFlags::EMPTY_PATH)?;
        Ok(Source {
            at: at.clone(),
            is_directory: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
            tree,
            access,
        })
    };
    open().map_err(|error| failure(Step::OpenBind(from.clone()), &error))
}

fn overlay_parts(
    overlay: &OverlayPolicy,
    owners: Option<BorrowedFd<'_>>,
) -> Result<OverlayParts, Failure> {
    let part = |path: &Raw| {
        open_directory(path.path())
            .map_err(|error| failure(Step::OpenOverlayPart(path.clone()), &error))
    };
    let upper = part(&overlay.upper)?;
    let work = part(&overlay.work)?;
    let lower = |path: &Raw| match owners {
        None => part(path),
        Some(_) => detach(path.path(), Reach::Tree)
            .and_then(|tree| set(&tree, READ_ONLY, owners, Reach::Tree).map(|()| tree))
            .map_err(|error| failure(Step::OpenOverlayPart(path.clone()), &error)),
    };
    let lowers = overlay.lowers.iter().map(lower).collect::<Result<_, _>>()?;
    let staged = match owners {
        None => None,
        Some(owners) => Some(
            stage(overlay, owners)
                .map_err(|error| failure(Step::OpenOverlayPart(overlay.upper.clone()), &error))?,
        ),
    };
    Ok(OverlayParts {
        lowers,
        staged,
        upper,
        work,
    })
}

/// Copies the mount of the nearest directory above both.
fn stage(overlay: &OverlayPolicy, owners: BorrowedFd<'_>) -> io::Result<Staged> {
    let upper = std::fs::canonicalize(overlay.upper.path())?;
    let work = std::fs::canonicalize(overlay.work.path())?;
    let above = upper
        .ancestors()
        .find(|above| work.starts_with(above))
        .unwrap_or(Path::new("/"));
    let below = |path: &Path| {
        let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
        match rest.as_os_str().is_empty() {
            true => Raw::from("."),
            false => Raw::from(rest),
        }
    };
    let tree = detach(above, Reach::One)?;
    set(&tree, WRITABLE, Some(owners), Reach::One)?;
    Ok(Staged {
        upper: below(&upper),
        work: below(&work),
        tree,
    })
}

pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn detach(path: &Path, reach: Reach) -> io::Result<OwnedFd> {
    detach_at(rustix::fs::CWD, path, reach)
}

/// Copies what is mounted at `path`, attached nowhere.
pub(crate) fn detach_at(
    folder: BorrowedFd<'_>,
    path: impl rustix::path::Arg,
    reach: Reach,
) -> io::Result<OwnedFd> {
    let recursive = match reach {
        Reach::One => OpenTreeFlags::empty(),
        Reach::Tree => OpenTreeFlags::AT_RECURSIVE,
    };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | recursive;
    Ok(rustix::mount::open_tree(folder, path, flags)?)
}

fn set(tree: &OwnedFd, flags: u64, owners: Option<BorrowedFd<'_>>, reach: Reach) -> io::Result<()> {
    let change = Attributes {
        set: flags,
        owners,
        reach,
    };
    set_attributes(tree.as_fd(), change)
}

/// Attaches a detached copy.
pub(crate) fn attach(tree: BorrowedFd<'_>, point: BorrowedFd<'_>) -> io::Result<()> {
    use rustix::mount::MoveMountFlags;
    let empty: &CStr = c"";
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, empty, point, empty, flags)?)
}
