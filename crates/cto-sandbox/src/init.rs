//! The supervisor next to the command: reaps, obeys the harness, and leaves nobody behind.
//!
//! In class `process` it is the init of the pid namespace; in class `group` it is the launcher itself, as subreaper.
//! It is one thread and one poll, so that no hang-up of the life-line goes unseen.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::activity::{self, Activity};
use crate::canary::Plan;
use crate::limit_hit::{LimitHit, LimitName};
use crate::mounts::failure;
use crate::outcome::{Class, End};
use crate::payload::{self, Held, Image, Restrictions};
use crate::recorder::handover::{RecorderSetup, hand_over};
use crate::request::Stdin;
use crate::stdin;
use crate::sys::{self, Notice};
use crate::tree_watch::TreeWatch;
use crate::wire::{self, Ended, Failure, KILL, LOOK, Message, RlimitPolicy, Step, TERMINATE};

/// How often a subreaper looks for descendants that have just become its children while it kills.
const KILL_ROUND: Duration = Duration::from_millis(5);

/// Runs the command to its end and returns the supervisor's exit code. All descendants are dead and reaped by then,
/// unless the harness is gone: then an init just ends, and the kernel does the rest.
pub(crate) fn supervise(
    control: &UnixStream,
    image: &Image,
    setup: Option<RootSetup>,
    class: Class,
) -> u8 {
    match start(control, image, setup, class) {
        Ok(Some(mut supervisor)) => supervisor.watch(),
        // The harness is gone or wants an end.
        Ok(None) => wire::EXIT_ORDERLY,
        Err(failure) => {
            say(control, &Message::Failed(failure));
            wire::EXIT_ORDERLY
        }
    }
}

/// Tells the harness. When it does not listen any more, the hang-up will be seen by the next poll.
pub(crate) fn say(mut control: &UnixStream, message: &Message) {
    if let Ok(line) = message.encode() {
        control.write_all(&line).ok();
    }
}

/// Starts the command. `None`: nothing is to be started.
fn start<'a>(
    control: &'a UnixStream,
    image: &Image,
    setup: Option<RootSetup>,
    class: Class,
) -> Result<Option<Supervisor<'a>>, Failure> {
    let stdin = match image.stdin() {
        Stdin::Closed => None,
        Stdin::Written => match stdin::receive(control) {
            Ok(Some(stdin)) => Some(stdin),
            Ok(None) => return Ok(None),
            Err(error) => return Err(failure(Step::Prepare, &error)),
        },
    };
    let fork = |error: io::Error| failure(Step::Fork, &error);
    let notices = sys::notice_fd().map_err(fork)?;
    let (report, writer) = io::pipe().map_err(fork)?;
    let (mut number, to_number) = io::pipe().map_err(fork)?;
    let (confined, watch, recorder) = match setup {
        Some(setup) => (
            Some((setup.restrictions, setup.plan)),
            setup.watch,
            setup.recorder,
        ),
        None => (None, None, None),
    };
    let held = confined
        .as_ref()
        .map(|(restrictions, plan)| Held { restrictions, plan });
    let (held, limits) = (held.as_ref(), image.limits());
    // The closure owns its descriptors: here they are closed with it, in the child by the execution.
    let child = move || payload::become_command(image, held, stdin, writer, &to_number);
    let payload = sys::fork_into(0, child).map_err(fork)?;
    if let Some(recorder) = recorder {
        let mover = held.and_then(|held| recorder.mover(image, held.restrictions));
        let handed = hand_over(payload, &mut number, recorder, mover);
        handed.map_err(|error| failure(Step::Recorder, &error))?;
    }
    Ok(Some(Supervisor {
        control,
        class,
        notices,
        payload,
        report: Some(report),
        failure: None,
        status: None,
        term_wanted: false,
        told: false,
        killing: false,
        limits,
        watch,
        limit_hit: None,
    }))
}

struct Supervisor<'a> {
    control: &'a UnixStream,
    class: Class,
    notices: OwnedFd,
    payload: Pid,
    /// Open until it is known whether the command was executed.
    report: Option<PipeReader>,
    failure: Option<Failure>,
    status: Option<WaitStatus>,
    term_wanted: bool,
    told: bool,
    killing: bool,
    limits: RlimitPolicy,
    watch: Option<TreeWatch>,
    limit_hit: Option<LimitHit>,
}

/// What comes with a root from nothing.
pub(crate) struct RootSetup {
    pub(crate) restrictions: Restrictions,
    pub(crate) plan: Plan,
    pub(crate) watch: Option<TreeWatch>,
    pub(crate) recorder: Option<RecorderSetup>,
}

/// What one look at the children showed.
enum Reaped {
    SomeLeft,
    NoneLeft,
}

impl Supervisor<'_> {
    fn watch(&mut self) -> u8 {
        loop {
            let ready = self.poll();
            if ready.report {
                self.read_report();
            }
            if ready.control && self.obey().is_err() {
                return self.abandon();
            }
            if ready.notices {
                while let Some(notice) = sys::read_notice(&self.notices) {
                    if notice == Notice::Term {
                        self.kill_tree();
                    }
                }
            }
            if let Reaped::NoneLeft = self.reap() {
                self.read_report();
                self.tell_end();
                return wire::EXIT_ORDERLY;
            }
            if self.killing {
                self.kill_round();
            } else if let Some(hit) = self.watch.as_mut().and_then(TreeWatch::look) {
                self.limit_hit = Some(hit);
                self.kill_tree();
            }
        }
    }

    fn poll(&self) -> Ready {
        let mut fds = vec![
            PollFd::new(self.control, PollFlags::IN),
            PollFd::new(&self.notices, PollFlags::IN),
        ];
        if let Some(report) = &self.report {
            fds.push(PollFd::new(report, PollFlags::IN));
        }
        let round = Timespec::try_from(KILL_ROUND).ok();
        let timeout = match (&self.watch, self.killing) {
            (Some(watch), false) => Timespec::try_from(watch.pause()).ok(),
            (Some(_) | None, _) => round.filter(|_| self.killing && !self.class.has_init()),
        };
        // An interrupted or failed poll shows nothing as ready; the children are looked at all the same.
        rustix::event::poll(&mut fds, timeout.as_ref()).ok();
        let ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Ready {
            control: ready(0),
            notices: ready(1),
            report: ready(2),
        }
    }

    /// Learns whether the command was executed. Blocks only while the child is between fork and execution.
    fn read_report(&mut self) {
        let Some(report) = self.report.take() else {
            return;
        };
        let report = payload::read_report(report);
        if let Some(proved) = report.proved {
            say(self.control, &Message::Proved(proved));
        }
        self.failure = report.failure;
        if self.failure.is_none() {
            say(self.control, &Message::Started);
            self.offer_to_oom_killer();
            if self.term_wanted {
                self.terminate();
            }
        }
    }

    /// When the machine runs out of memory, the command goes first, and not its harness.
    fn offer_to_oom_killer(&self) {
        if self.watch.is_some() {
            let path = format!("/proc/{}/oom_score_adj", self.payload.as_raw_nonzero());
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            if let Ok(file) = rustix::fs::open(path.as_str(), flags, Mode::empty()) {
                rustix::io::write(&file, b"1000").ok();
            }
        }
    }

    /// Returns the bound that was reached; some are told by the signal that ended the command.
    fn hit(&self, cpu_micros: u64) -> Option<LimitHit> {
        let signal = self.status.and_then(WaitStatus::terminating_signal);
        let (limit, allowed, seen) = match (self.limit_hit, signal) {
            (Some(hit), _) => return Some(hit),
            (None, Some(libc::SIGXCPU)) => {
                let allowed = self.limits.cpu_seconds?;
                (
                    LimitName::CpuSeconds,
                    allowed,
                    cpu_micros.div_ceil(1_000_000),
                )
            }
            (None, Some(libc::SIGXFSZ)) => {
                let allowed = self.limits.file_bytes?;
                (LimitName::FileBytes, allowed, allowed)
            }
            (None, Some(_) | None) => return None,
        };
        Some(LimitHit {
            limit,
            allowed,
            seen,
        })
    }

    /// Fails when the harness is gone.
    fn obey(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16];
        let mut control = self.control;
        let count = match control.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        for byte in &bytes[..count] {
            match *byte {
                TERMINATE => self.terminate(),
                KILL => self.kill_tree(),
                LOOK => say(self.control, &Message::Activity(self.activity())),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok(())
    }

    /// What the processes do that this one answers for.
    fn activity(&self) -> Activity {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let command = self.payload.as_raw_nonzero().get();
        let parents = processes();
        let is_own = |pid: i32| self.class.has_init() || descends(pid, me, &parents);
        let own = parents.iter().map(|(pid, _)| *pid);
        let own = own.filter(|pid| *pid != me && is_own(*pid));
        activity::of(command, own)
    }

    fn terminate(&mut self) {
        // Before the execution TERM would end a child that is still ours, and look like an end of the command.
        self.term_wanted = true;
        if self.report.is_none() && self.status.is_none() {
            self.told = true;
            rustix::process::kill_process_group(self.payload, Signal::TERM).ok();
        }
    }

    fn kill_tree(&mut self) {
        self.told |= self.status.is_none();
        self.killing = true;
        self.kill_round();
    }

    fn kill_round(&self) {
        match self.class.has_init() {
            true => sys::kill_all_others(),
            false => kill_descendants(),
        }
    }

    fn reap(&mut self) -> Reaped {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid == self.payload {
                        self.status = Some(status);
                        // The command's end is the tree's end: what it left behind goes in this round.
                        self.killing = true;
                    }
                }
                Ok(None) => return Reaped::SomeLeft,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Reaped::NoneLeft,
            }
        }
    }

    fn tell_end(&self) {
        let usage = sys::children_usage();
        let message = match &self.failure {
            Some(failure) => Message::Failed(failure.clone()),
            None => Message::Ended(Ended {
                end: self
                    .status
                    .map_or(End::Signaled(Signal::KILL.as_raw()), end_of),
                told: self.told,
                limit_hit: self.hit(usage.cpu_micros),
                cpu_micros: usage.cpu_micros,
                peak_rss_bytes: usage.peak_rss_bytes,
            }),
        };
        say(self.control, &message);
    }

    /// The harness is gone: nobody is left to tell, only to kill.
    fn abandon(&mut self) -> u8 {
        match self.class.has_init() {
            // The kernel kills every process of the namespace when its init ends.
            true => {}
            false => loop {
                kill_descendants();
                if let Reaped::NoneLeft = self.reap() {
                    break;
                }
                let round = Timespec::try_from(KILL_ROUND).ok();
                let mut notices = [PollFd::new(&self.notices, PollFlags::IN)];
                rustix::event::poll(&mut notices, round.as_ref()).ok();
                while sys::read_notice(&self.notices).is_some() {}
            },
        }
        wire::EXIT_ORDERLY
    }
}

struct Ready {
    control: bool,
    notices: bool,
    report: bool,
}

fn end_of(status: WaitStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Exited(code),
        (None, Some(signal)) => End::Signaled(signal),
        (None, None) => End::Signaled(Signal::KILL.as_raw()),
    }
}

/// Kills every process below this one, found through `/proc`.
///
/// A process whose parent has just changed is left for the next round; its number cannot have been reused meanwhile,
/// because the descriptor is opened before the parent is looked at again.
fn kill_descendants() {
    let parents = processes();
    let me = rustix::process::getpid().as_raw_nonzero().get();
    for &(pid, parent) in &parents {
        if !descends(pid, me, &parents) {
            continue;
        }
        let Some(process) = Pid::from_raw(pid) else {
            continue;
        };
        let Ok(handle) = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty())
        else {
            continue;
        };
        if parent_of(pid) == Some(parent) {
            rustix::process::pidfd_send_signal(&handle, Signal::KILL).ok();
        }
    }
}

fn descends(pid: i32, ancestor: i32, parents: &[(i32, i32)]) -> bool {
    let mut current = pid;
    // Bounded: numbers that change while they are read could form a circle.
    for _ in 0..=parents.len() {
        match parents
            .binary_search_by_key(&current, |&(pid, _)| pid)
            .map(|at| parents[at].1)
        {
            Ok(parent) if parent == ancestor => return true,
            Ok(parent) => current = parent,
            Err(_) => return false,
        }
    }
    false
}

/// Returns all processes with their parents, sorted.
fn processes() -> Vec<(i32, i32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut list: Vec<_> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    list.sort_unstable();
    list
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_parent(&stat)
}

/// Returns the parent in a `stat` line. The name before it is the process's own choice and may hold brackets and spaces.
fn parse_parent(stat: &[u8]) -> Option<i32> {
    let end_of_name = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_cannot_hide_its_parent_behind_its_name() {
        let parent = |line: &str| parse_parent(line.as_bytes());
        assert_eq!(parent("12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a) R 99 (b) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 () ) S 7 1"), Some(7));
        assert_eq!(parent("12 (sh"), None);
        assert_eq!(parent(""), None);
    }

    #[test]
    fn descent_is_found_over_generations_and_circles_end() {
        let parents = [(2, 1), (3, 2), (4, 3), (8, 9), (9, 8)];
        let below = |pid| descends(pid, 2, &parents);
        assert_eq!(
            [2, 3, 4, 8, 9, 7].map(below),
            [false, true, true, false, false, false]
        );
    }
}
