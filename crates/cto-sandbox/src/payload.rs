//! The last steps of the forked child before it becomes the command.

use std::ffi::CString;
use std::io::{self, PipeWriter, Write};
use std::os::fd::IntoRawFd;

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::ruleset::Rules;
use crate::sys;
use crate::wire::{Failure, Policy, RlimitPolicy, Step, candidates};

/// Exit code of a child that did not become the command; its report says why.
const EXIT_NOT_EXECUTED: u8 = 127;
/// What a child that did not become the command writes: step and error number.
pub(crate) const REPORT_BYTES: usize = 5;

/// The command in the kernel's form, made before the fork.
#[derive(Debug)]
pub(crate) struct Image {
    programs: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    limits: RlimitPolicy,
}

impl Image {
    pub(crate) fn of(policy: &Policy) -> io::Result<Self> {
        let nul = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let program = policy.argv.first().ok_or(io::ErrorKind::InvalidInput)?;
        let programs = candidates(program, &policy.env)
            .into_iter()
            .map(|path| CString::new(path.into_os_string().into_encoded_bytes()).map_err(nul))
            .collect::<io::Result<_>>()?;
        let argv = policy
            .argv
            .iter()
            .map(|text| text.c_string())
            .collect::<io::Result<_>>()?;
        let env = policy
            .env
            .iter()
            .map(|(name, value)| CString::new([&name.0[..], b"=", &value.0].concat()).map_err(nul))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            programs,
            argv,
            env,
            cwd: policy.cwd.c_string()?,
            limits: policy.limits,
        })
    }

    /// Where processes of others count too, the kernel's bound would hit at once.
    pub(crate) fn without_process_limit(mut self) -> Self {
        self.limits.processes = None;
        self
    }

    pub(crate) fn limits(&self) -> RlimitPolicy {
        self.limits
    }
}

/// The layers that a process puts on itself, made before the fork.
#[derive(Debug)]
pub(crate) struct Armour {
    pub(crate) rules: Rules,
    pub(crate) filter: Vec<libc::sock_filter>,
    /// Worn instead by a command that is recorded.
    pub(crate) asking: Option<Vec<libc::sock_filter>>,
}

/// Which of its two filters a process puts on.
pub(crate) enum Wear<'a> {
    Plain,
    /// The one that asks, if there is one. The number of its listener is written here, for the init to fetch it: once the
    /// filter is in force, a message with a descriptor in it would have to be asked about too.
    Asking(&'a PipeWriter),
}

/// What can go wrong between fork and execution; small enough to be told in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Session,
    Limits,
    Privileges,
    Landlock,
    Seccomp,
    Directory,
    NotFound,
    NoInterpreter,
    Execute,
}

const TROUBLES: [Trouble; 9] = [
    Trouble::Session,
    Trouble::Limits,
    Trouble::Privileges,
    Trouble::Landlock,
    Trouble::Seccomp,
    Trouble::Directory,
    Trouble::NotFound,
    Trouble::NoInterpreter,
    Trouble::Execute,
];

impl Trouble {
    fn step(self) -> Step {
        match self {
            Self::Session => Step::Session,
            Self::Limits => Step::SetLimits,
            Self::Privileges => Step::DropPrivileges,
            Self::Landlock => Step::Landlock,
            Self::Seccomp => Step::Seccomp,
            Self::Directory => Step::EnterDirectory,
            Self::NotFound => Step::FindCommand,
            Self::NoInterpreter => Step::FindInterpreter,
            Self::Execute => Step::Execute,
        }
    }
}

/// Becomes the command. Returns only when that failed, after writing why to `report`, which an execution closes.
pub(crate) fn become_command(
    image: &Image,
    armour: Option<&Armour>,
    mut report: PipeWriter,
    listener: &PipeWriter,
) -> u8 {
    let (trouble, error) = execute(image, armour, Wear::Asking(listener));
    let index = TROUBLES.iter().position(|&t| t == trouble).unwrap_or(0);
    let errno = error.raw_os_error().unwrap_or(libc::EINVAL).to_le_bytes();
    let mut bytes = [u8::try_from(index).unwrap_or(0); REPORT_BYTES];
    bytes[1..].copy_from_slice(&errno);
    report.write_all(&bytes).ok();
    EXIT_NOT_EXECUTED
}

/// Returns what a report says; `None` for the empty report of a successful execution.
pub(crate) fn read_report(bytes: &[u8]) -> Option<Failure> {
    let (index, errno) = bytes.split_first()?;
    let trouble = TROUBLES
        .get(usize::from(*index))
        .copied()
        .unwrap_or(Trouble::Execute);
    Some(Failure {
        step: trouble.step(),
        errno: errno.try_into().map_or(libc::EIO, i32::from_le_bytes),
    })
}

fn execute(image: &Image, armour: Option<&Armour>, wear: Wear<'_>) -> (Trouble, io::Error) {
    match prepare(image, armour, wear) {
        Err(trouble) => trouble,
        Ok(()) => try_programs(image),
    }
}

/// Puts on this process all that the command will wear.
pub(crate) fn put_on(image: &Image, armour: Option<&Armour>) -> Result<(), Failure> {
    prepare(image, armour, Wear::Plain).map_err(|(trouble, error)| Failure {
        step: trouble.step(),
        errno: error.raw_os_error().unwrap_or(libc::EINVAL),
    })
}

fn prepare(
    image: &Image,
    armour: Option<&Armour>,
    wear: Wear<'_>,
) -> Result<(), (Trouble, io::Error)> {
    let at = |trouble| move |error: rustix::io::Errno| (trouble, io::Error::from(error));
    // An own session: no terminal to push characters into, and one process group to signal.
    rustix::process::setsid().map_err(at(Trouble::Session))?;
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    set_limits(&image.limits).map_err(at(Trouble::Limits))?;
    rustix::thread::set_no_new_privs(true).map_err(at(Trouble::Privileges))?;
    drop_capabilities().map_err(at(Trouble::Privileges))?;
    sys::close_from_on_exec(3).map_err(|error| (Trouble::Privileges, error))?;
    // After the capabilities are gone, so that the command starts where it may be.
    rustix::process::chdir(&image.cwd).map_err(at(Trouble::Directory))?;
    sys::default_signals();
    if let Some(armour) = armour {
        let rules = armour.rules.put_in_force();
        rules.map_err(|error| (Trouble::Landlock, error))?;
        // Last: it refuses what the steps above need.
        let filter = match (wear, &armour.asking) {
            (Wear::Asking(listener), Some(asking)) => ask(asking, listener),
            (Wear::Asking(_) | Wear::Plain, _) => sys::filtering::install(&armour.filter),
        };
        filter.map_err(|error| (Trouble::Seccomp, error))?;
    }
    Ok(())
}

/// Puts on the filter that asks. The listener stays open here until the execution, so that it can be fetched.
fn ask(filter: &[libc::sock_filter], mut listener: &PipeWriter) -> io::Result<()> {
    // The init may fetch it from, and the recorder look at, a process that does not hide. Nobody else is there yet.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let fd = sys::notifying::install(filter)?.into_raw_fd();
    listener.write_all(&fd.to_le_bytes())
}

fn drop_capabilities() -> rustix::io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none)
}

fn set_limits(limits: &RlimitPolicy) -> rustix::io::Result<()> {
    // A core dump would hand the process to the host's crash handler.
    set_limit(Resource::Core, Some(0), 0)?;
    set_limit(Resource::Cpu, limits.cpu_seconds, 1)?;
    set_limit(Resource::Fsize, limits.file_bytes, 0)?;
    set_limit(Resource::Nofile, limits.open_files, 0)?;
    set_limit(Resource::Nproc, limits.processes, 0)
}

/// Sets a soft limit and a hard one that is `more` above it, never above the hard limit that already holds.
fn set_limit(resource: Resource, limit: Option<u64>, more: u64) -> rustix::io::Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    let held = rustix::process::getrlimit(resource)
        .maximum
        .unwrap_or(u64::MAX);
    let new = Rlimit {
        current: Some(limit.min(held)),
        maximum: Some(limit.saturating_add(more).min(held)),
    };
    rustix::process::setrlimit(resource, new)
}

/// Tries one place after the other, as a shell does: what exists but cannot be executed is remembered, the rest is passed by.
fn try_programs(image: &Image) -> (Trouble, io::Error) {
    let mut worst = (
        Trouble::NotFound,
        io::Error::from_raw_os_error(libc::ENOENT),
    );
    for program in &image.programs {
        let error = sys::exec(program, &image.argv, &image.env);
        match error.raw_os_error() {
            Some(libc::ENOENT) if rustix::fs::stat(program).is_ok() => {
                return (Trouble::NoInterpreter, error);
            }
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            Some(libc::EACCES) => worst = (Trouble::Execute, error),
            Some(_) | None => return (Trouble::Execute, error),
        }
    }
    worst
}
