//! The last steps of the forked child before it becomes the command.

use std::ffi::CString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use serde::{Deserialize, Serialize};

use crate::canary::{self, Plan};
use crate::facts::Applied;
use crate::mounts::failure as failed;
use crate::proof::InsideProof;
use crate::request::Stdin;
use crate::ruleset::Rules;
use crate::sys;
use crate::wire::{Failure, Policy, RlimitPolicy, Step, candidates};

/// Exit code of a child that did not become the command; its report says why.
const EXIT_NOT_EXECUTED: u8 = 127;
/// More than a whole mount table and the longest paths take.
const REPORT_BYTES_MAX: u64 = 256 * 1024;

/// The command in the kernel's form, made before the fork.
#[derive(Debug)]
pub(crate) struct Image {
    programs: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    stdin: Stdin,
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
            stdin: policy.stdin,
            limits: policy.limits,
        })
    }

    /// Where processes of others count too, the kernel's bound would hit at once.
    pub(crate) fn without_process_limit(mut self) -> Self {
        self.limits.processes = None;
        self
    }

    pub(crate) fn stdin(&self) -> Stdin {
        self.stdin
    }

    pub(crate) fn limits(&self) -> RlimitPolicy {
        self.limits
    }
}

/// The layers that a process puts on itself, made before the fork.
#[derive(Debug)]
pub(crate) struct Restrictions {
    pub(crate) rules: Rules,
    pub(crate) filter: Vec<libc::sock_filter>,
    /// Put on instead by a command that is recorded.
    pub(crate) asking: Option<Vec<libc::sock_filter>>,
}

/// What the command's process puts on, and what it tries once it has.
pub(crate) struct Held<'a> {
    pub(crate) restrictions: &'a Restrictions,
    pub(crate) plan: &'a Plan,
}

/// What the child says before it is the command, each as one line.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    Proved(Proved),
    Failed(Failure),
}

/// What the child saw of its sandbox from within.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proved {
    pub(crate) proof: InsideProof,
    /// Whether the kernel gave a listener: an old one does not, nor one that has given one to somebody around this process.
    pub(crate) recorder: Applied,
}

/// All that a child said.
#[derive(Debug, Default)]
pub(crate) struct ChildReport {
    pub(crate) proved: Option<Proved>,
    /// Why it did not become the command; `None` if it did.
    pub(crate) failure: Option<Failure>,
}

/// Becomes the command. Returns only when that failed, after writing why to `report`, which an execution closes.
///
/// The number of the recorder's listener is written to `listener`, for the init to fetch it: once the filter is in force, a
/// message with a descriptor in it would have to be asked about too.
pub(crate) fn become_command(
    image: &Image,
    held: Option<&Held<'_>>,
    stdin: Option<OwnedFd>,
    report: PipeWriter,
    listener: &PipeWriter,
) -> u8 {
    let stdin = stdin.map_or(Ok(()), |stdin| sys::become_stdin(stdin.as_fd()));
    let prepared = stdin
        .map_err(|error| failed(Step::Prepare, &error))
        .and_then(|()| prepare(image, held, listener));
    let failure = match prepared {
        Err(failure) => failure,
        Ok(proved) => {
            let told = proved.map_or(Ok(()), |proved| tell(&report, &Report::Proved(proved)));
            match told {
                Ok(()) => try_programs(image),
                Err(error) => failed(Step::Prove("nothing could be told".to_owned()), &error),
            }
        }
    };
    tell(&report, &Report::Failed(failure)).ok();
    EXIT_NOT_EXECUTED
}

fn tell(mut report: &PipeWriter, said: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    report.write_all(&line)
}

/// Reads all that the child says. Blocks while it is between fork and execution.
pub(crate) fn read_report(report: PipeReader) -> ChildReport {
    let mut bytes = Vec::new();
    let mut all = ChildReport::default();
    if let Err(error) = report.take(REPORT_BYTES_MAX).read_to_end(&mut bytes) {
        all.failure = Some(failed(Step::Execute, &error));
    }
    for line in bytes.split(|&byte| byte == b'\n').filter(|l| !l.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(Report::Proved(proved)) => all.proved = Some(proved),
            Ok(Report::Failed(failure)) => all.failure = Some(failure),
            // It was killed in the middle of a word.
            Err(error) => all.failure = Some(failed(Step::Execute, &error.into())),
        }
    }
    all
}

/// Puts on this process all that the command will have, but no filter that asks.
pub(crate) fn restrict_plainly(image: &Image, restrictions: &Restrictions) -> Result<(), Failure> {
    restrict(image, Some(restrictions))?;
    install_plain(restrictions)
}

/// Puts everything on, and tries it.
fn prepare(
    image: &Image,
    held: Option<&Held<'_>>,
    listener: &PipeWriter,
) -> Result<Option<Proved>, Failure> {
    restrict(image, held.map(|held| held.restrictions))?;
    let Some(Held { restrictions, plan }) = held else {
        return Ok(None);
    };
    let (mut proof, recorder) = match &restrictions.asking {
        None => {
            install_plain(restrictions)?;
            (canary::try_places(plan), Applied::NotAsked)
        }
        Some(asking) => {
            // Before the filter, which would ask about each and let it through: what decides is on already.
            let proof = canary::try_places(plan);
            let recorder = match ask(asking, listener) {
                Ok(()) => Applied::Yes,
                Err(error) => {
                    install_plain(restrictions)?;
                    let errno = error.raw_os_error().unwrap_or(libc::EIO);
                    Applied::Refused { errno }
                }
            };
            (proof, recorder)
        }
    };
    proof.canaries.push(canary::try_filter());
    match proof.canaries.iter().find(|canary| !canary.holds()) {
        None => Ok(Some(Proved { proof, recorder })),
        Some(canary) => Err(Failure {
            step: Step::Prove(canary.to_string()),
            errno: canary.errno.unwrap_or(0),
        }),
    }
}

/// Puts on everything but the filter.
fn restrict(image: &Image, restrictions: Option<&Restrictions>) -> Result<(), Failure> {
    let at = |step| move |error: rustix::io::Errno| failed(step, &error.into());
    // An own session: no terminal to push characters into, and one process group to signal.
    rustix::process::setsid().map_err(at(Step::Session))?;
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    set_limits(&image.limits).map_err(at(Step::SetLimits))?;
    rustix::thread::set_no_new_privs(true).map_err(at(Step::DropPrivileges))?;
    drop_capabilities().map_err(at(Step::DropPrivileges))?;
    sys::close_all_on_exec().map_err(|error| failed(Step::DropPrivileges, &error))?;
    // After the capabilities are gone, so that the command starts where it may be.
    rustix::process::chdir(&image.cwd).map_err(at(Step::EnterDirectory))?;
    sys::default_signals();
    match restrictions {
        None => Ok(()),
        Some(restrictions) => {
            let rules = restrictions.rules.put_in_force();
            rules.map_err(|error| failed(Step::Landlock, &error))
        }
    }
}

fn install_plain(restrictions: &Restrictions) -> Result<(), Failure> {
    sys::filtering::install(&restrictions.filter).map_err(|error| failed(Step::Seccomp, &error))
}

/// Puts on the filter that asks. The listener stays open here until the execution, so that it can be fetched.
fn ask(filter: &[libc::sock_filter], mut listener: &PipeWriter) -> io::Result<()> {
    // The init may fetch it from, and the recorder look at, a process that does not hide. Nobody else is there yet.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let fd = sys::notifying::install(filter)?.into_raw_fd();
    // Should the init be gone, so is this process.
    listener.write_all(&fd.to_le_bytes()).ok();
    Ok(())
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
fn try_programs(image: &Image) -> Failure {
    let missing = io::Error::from_raw_os_error(libc::ENOENT);
    let mut worst = failed(Step::FindCommand, &missing);
    for program in &image.programs {
        let error = sys::exec(program, &image.argv, &image.env);
        match error.raw_os_error() {
            Some(libc::ENOENT) if rustix::fs::stat(program).is_ok() => {
                return failed(Step::FindInterpreter, &error);
            }
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            Some(libc::EACCES) => worst = failed(Step::Execute, &error),
            Some(_) | None => return failed(Step::Execute, &error),
        }
    }
    worst
}
