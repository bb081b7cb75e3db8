//! Becomes bwrap, with the harness on its standard input and this launcher as the first process inside.
//!
//! Started by root, it first stops being root as a native launch does: what will be bound is staged with other owners in a
//! mount namespace of its own, and bwrap, as the other user, binds from there.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};

use super::bwrap_arguments::{Shown, arguments};
use super::{BwrapPolicy, LAUNCHER_INSIDE};
use crate::init::say;
use crate::mounts::failure;
use crate::request::Access;
use crate::sources::{Sources, attach};
use crate::sys;
use crate::unprivileged;
use crate::wire::{self, Failure, Message, Policy, Raw, RootPolicy, Step};

/// Directories that can be hidden below a stage: bwrap itself needs nothing in them.
const STAGES: [&str; 4] = ["/tmp", "/run", "/var", "/mnt"];
/// What stands for bwrap itself among the sources. It is not shown inside.
const PROGRAM: &str = "/.cto/bwrap";
const STAGE_OPTIONS: &std::ffi::CStr = c"mode=0755,size=1m,nr_inodes=65536";

/// Executes bwrap. Returns only when that failed, after the harness was told.
pub(crate) fn become_provider(control: &UnixStream, policy: &Policy, outer: &BwrapPolicy) -> u8 {
    let failure = match execute(control, policy, outer) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    say(control, &Message::Failed(failure));
    wire::EXIT_ORDERLY
}

enum Never {}

fn execute(control: &UnixStream, policy: &Policy, outer: &BwrapPolicy) -> Result<Never, Failure> {
    let at = |step: Step| move |error: io::Error| failure(step, &error);
    let mut root = policy.root.clone().ok_or(Failure {
        step: Step::Prepare,
        errno: libc::EINVAL,
    })?;
    root.read_only
        .push((outer.launcher.clone(), Raw::from(LAUNCHER_INSIDE)));
    // Found before anything is staged: after that its place may be hidden, or closed to the other user.
    root.read_only
        .push((outer.program.clone(), Raw::from(PROGRAM)));
    let mut shown = match unprivileged::is_root() {
        false => in_place(policy, &root),
        true => staged(policy, &root)?,
    };
    let program = shown
        .extract_if(.., |shown| shown.at.path() == Path::new(PROGRAM))
        .last()
        .map_or(outer.program.clone(), |shown| Raw::from(&shown.from));
    let files = root
        .files
        .iter()
        .map(|(_, bytes)| in_memory(&bytes.0))
        .collect::<io::Result<Vec<_>>>()
        .map_err(at(Step::Prepare))?;
    let numbers: Vec<_> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let id = rustix::process::geteuid().as_raw();
    let line = arguments(policy, &root, &shown, &numbers, id);
    let program = program.c_string().map_err(at(Step::Prepare))?;
    let mut argv = vec![CString::from(c"bwrap")];
    for word in line {
        let word = CString::new(word.as_bytes()).map_err(|error| error.into());
        argv.push(word.map_err(at(Step::Prepare))?);
    }
    sys::become_stdin(control.as_fd()).map_err(at(Step::Prepare))?;
    sys::default_signals();
    let error = sys::exec(&program, &argv, &[]);
    Err(failure(Step::BecomeProvider(outer.program.clone()), &error))
}

fn in_place(policy: &Policy, root: &RootPolicy) -> Vec<Shown> {
    let shown = root.read_only.iter().map(|(from, at)| Shown {
        from: from.path().to_path_buf(),
        at: at.clone(),
        access: Access::ReadOnly,
    });
    let bound = policy.binds.iter().map(|bind| Shown {
        from: bind.from.path().to_path_buf(),
        at: bind.at.clone(),
        access: bind.access,
    });
    shown.chain(bound).collect()
}

/// Stops being root, where the sources can be shown to another user; else bwrap runs as root, and the class says so.
fn staged(policy: &Policy, root: &RootPolicy) -> Result<Vec<Shown>, Failure> {
    let Ok(sources) = unprivileged::open_for(policy, root, None) else {
        return Ok(in_place(policy, root));
    };
    let shown = stage(sources).map_err(|error| failure(Step::DropPrivileges, &error))?;
    unprivileged::become_user(policy.run_as)
        .map_err(|error| failure(Step::DropPrivileges, &error))?;
    Ok(shown)
}

fn stage(sources: Sources) -> io::Result<Vec<Shown>> {
    sys::unshare(libc::CLONE_NEWNS)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change(c"/", private)?;
    let stage = lay()?;
    let mut list = Vec::new();
    for (number, source) in sources.shown.into_iter().enumerate() {
        let point = stage.join(number.to_string());
        match source.is_directory {
            true => std::fs::create_dir(&point)?,
            false => std::fs::File::create_new(&point).map(drop)?,
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = rustix::fs::open(&point, flags, Mode::empty())?;
        attach(source.tree.as_fd(), target.as_fd())?;
        list.push(Shown {
            from: point,
            at: source.at,
            access: source.access,
        });
    }
    Ok(list)
}

fn lay() -> io::Result<PathBuf> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    for place in STAGES {
        match rustix::mount::mount(c"stage", place, c"tmpfs", flags, STAGE_OPTIONS) {
            Ok(()) => return Ok(Path::new(place).to_owned()),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// A file that bwrap inherits and copies inside.
fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(c"cto-file", MemfdFlags::empty())?;
    let mut file = std::fs::File::from(file);
    io::Write::write_all(&mut file, bytes)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}
