//! One launch as the harness sees it: start, poll loop, end. It waits on everything at once and on nothing without a deadline.

mod ending;

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::dialogue::Dialogue;
use crate::endpoint::{Host, Reception};
use crate::error::LaunchError;
use crate::escalation::{Action, Escalation};
use crate::launcher::Launcher;
use crate::launcher_report::LauncherReport;
use crate::memory_group::MemoryGroup;
use crate::message::{Listener, Replies, SandboxMessage};
use crate::outcome::{Outcome, Stream};
use crate::output::{Output, not_now};
use crate::process::{Process, io_error, spawn, unblock};
use crate::provider::provider_stderr::ProviderStderr;
use crate::provider::{Means, container};
use crate::request::LaunchRequest;
use crate::stdin::StdinPipe;
use crate::stop::{StopToken, Wanted};
use crate::wire::{HOSTED, KILL, LOOK, TERMINATE};

use ending::{Ending, not_started};

/// How long a launcher may take to say its first word. Generous: the machine may be very busy.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn launch(
    launcher: &Launcher,
    request: &LaunchRequest,
    stop: &StopToken,
    listener: &mut Listener<'_>,
    host: Option<Host<'_>>,
) -> Result<Outcome, LaunchError> {
    let start = Instant::now();
    if stop.wanted() > Wanted::Nothing {
        return Ok(not_started(request, start));
    }
    let mut stderr = ProviderStderr::default();
    let mut listener = |message: SandboxMessage<'_>, replies: &mut Replies| {
        stderr.take(&message);
        listener(message, replies);
    };
    let dialogue = Dialogue::new(&mut listener, request.stdin, start);
    let mut running = Running::start(launcher, request, dialogue, host)?;
    let ending = running.watch(request, stop, start)?;
    let outcome = running.conclude(launcher, request, &ending, start);
    outcome.map_err(|error| stderr.explain(error, &launcher.means))
}

struct Running<'l, 'h> {
    process: Process,
    container: Option<container::Running>,
    memory: Option<MemoryGroup>,
    exit: OwnedFd,
    output: Output,
    stdin: StdinPipe,
    dialogue: Dialogue<'l>,
    /// What is still to be written: the policy, then control bytes.
    outgoing: Vec<u8>,
    report: LauncherReport,
    reception: Reception<'h>,
}

impl<'l, 'h> Running<'l, 'h> {
    fn start(
        launcher: &Launcher,
        request: &LaunchRequest,
        dialogue: Dialogue<'l>,
        host: Option<Host<'h>>,
    ) -> Result<Self, LaunchError> {
        let outgoing = launcher.policies(request)?;
        let (stdout, to_stdout) = io::pipe().map_err(io_error("make an output pipe"))?;
        let (stderr, to_stderr) = io::pipe().map_err(io_error("make an output pipe"))?;
        for end in [stdout.as_fd(), stderr.as_fd()] {
            unblock(end).map_err(io_error("make a pipe non-blocking"))?;
        }
        let stdin = StdinPipe::new(request.stdin).map_err(io_error("make an input pipe"))?;
        let output = [to_stdout.into(), to_stderr.into()];
        let (pid, ours, container) = match &launcher.means {
            Means::Container(engine) => {
                let started = container::start(launcher, engine, request, output)?;
                let pid = i32::try_from(started.engine.id()).ok();
                let pid = pid.and_then(Pid::from_raw);
                (pid, started.control, Some(started.running))
            }
            Means::Native | Means::Weak | Means::Bwrap { .. } | Means::None => {
                let (pid, ours) = spawn(launcher, output)?;
                (Some(pid), ours, None)
            }
        };
        let process = Process {
            pid,
            control: Some(ours),
        };
        // Before the launcher is told what to do: all that it starts is in the group from its first page on.
        let memory = MemoryGroup::of(request, &launcher.means);
        let memory = memory.filter(|group| pid.is_some_and(|pid| group.take_in(pid).is_ok()));
        let exit = pid
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|error| io_error("watch the launcher")(error.into()))?;
        Ok(Self {
            process,
            container,
            memory,
            exit,
            output: Output::new(stdout, stderr, request.limits.output_bytes),
            stdin,
            dialogue,
            outgoing,
            report: LauncherReport::new(),
            reception: Reception::new(host),
        })
    }

    /// Runs until the launcher has ended, or until waiting makes no sense any more.
    fn watch(
        &mut self,
        request: &LaunchRequest,
        stop: &StopToken,
        start: Instant,
    ) -> Result<Ending, LaunchError> {
        let mut escalation = Escalation::new(start, request.limits.wall, request.grace);
        let answer_by = start + ANSWER_PATIENCE;
        let mut silent = false;
        loop {
            let now = Instant::now();
            let wanted = stop.wanted();
            self.dialogue.tick(now);
            self.stdin.write(&mut self.dialogue.replies);
            if self.dialogue.replies.take_look() && self.report.started {
                self.outgoing.push(LOOK);
            }
            if self.report.nothing && !silent && now >= answer_by {
                silent = true;
                self.give_up();
            }
            if let Some(action) = escalation.tick(now, wanted, self.dialogue.replies.end()) {
                match action {
                    Action::Terminate => self.outgoing.push(TERMINATE),
                    Action::Kill => self.outgoing.push(KILL),
                    Action::Force => self.signal(Signal::TERM),
                    Action::Abandon => {
                        self.give_up();
                        self.process.leave_behind();
                        return Ok(Ending {
                            status: None,
                            cause: escalation.cause(),
                            silent,
                        });
                    }
                }
            }
            let answer_by = (self.report.nothing && !silent).then_some(answer_by);
            let deadlines = [escalation.deadline(), answer_by, self.dialogue.deadline()];
            let deadline = deadlines.into_iter().flatten().min();
            let ready = self.poll(stop, wanted, deadline)?;
            self.serve(&ready)?;
            if ready.exit {
                let status = self
                    .process
                    .wait()
                    .map_err(io_error("wait for the launcher"))?;
                self.hear()?;
                self.output.read_rest(&mut self.dialogue);
                return Ok(Ending {
                    status: Some(status),
                    cause: escalation.cause(),
                    silent,
                });
            }
        }
    }

    fn poll(
        &self,
        stop: &StopToken,
        seen: Wanted,
        deadline: Option<Instant>,
    ) -> Result<Ready, LaunchError> {
        let mut fds = Vec::with_capacity(6);
        let control = match self.has_outgoing() {
            false => PollFlags::IN,
            true => PollFlags::IN | PollFlags::OUT,
        };
        let exit = add(&mut fds, Some(self.exit.as_fd()), PollFlags::IN);
        let control = add(
            &mut fds,
            self.process.control.as_ref().map(AsFd::as_fd),
            control,
        );
        let stdout = add(
            &mut fds,
            self.output.stdout.as_ref().map(AsFd::as_fd),
            PollFlags::IN,
        );
        let stderr = add(
            &mut fds,
            self.output.stderr.as_ref().map(AsFd::as_fd),
            PollFlags::IN,
        );
        add(
            &mut fds,
            self.stdin.waiting(&self.dialogue.replies),
            PollFlags::OUT,
        );
        add(
            &mut fds,
            stop.wake_above(seen).map(AsFd::as_fd),
            PollFlags::IN,
        );
        let timeout = deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
            // A time beyond what the kernel can count is as good as none.
            .and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io_error("poll the launch")(error.into())),
        }
        let ready = |index: Option<usize>| {
            let fd = index.and_then(|index| fds.get(index));
            fd.is_some_and(|fd| !fd.revents().is_empty())
        };
        Ok(Ready {
            exit: ready(exit),
            control: ready(control),
            stdout: ready(stdout),
            stderr: ready(stderr),
        })
    }

    fn serve(&mut self, ready: &Ready) -> Result<(), LaunchError> {
        if ready.control {
            self.tell();
        }
        // The launcher says that the command is about to start before the command can print, so its word is read first.
        if ready.control || !self.dialogue.has_begun() {
            self.hear()?;
        }
        if ready.stdout {
            self.output.read(Stream::Stdout, &mut self.dialogue);
        }
        if ready.stderr {
            self.output.read(Stream::Stderr, &mut self.dialogue);
        }
        Ok(())
    }

    /// Whether there is something to write to the launcher now.
    fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty() || (self.report.facts.is_some() && self.stdin.is_here())
    }

    /// Writes what the socket takes. An error is a hang-up, which the end of the launcher explains.
    fn tell(&mut self) {
        let Some(control) = &mut self.process.control else {
            return;
        };
        if self.outgoing.is_empty() {
            // Everything else stands by then.
            if self.report.facts.is_some() {
                self.stdin.hand_over(control);
            }
            return;
        }
        match control.write(&self.outgoing) {
            Ok(count) => drop(self.outgoing.drain(..count)),
            Err(error) if not_now(&error) => {}
            Err(_) => self.outgoing.clear(),
        }
    }

    fn hear(&mut self) -> Result<(), LaunchError> {
        let Some(control) = &self.process.control else {
            return Ok(());
        };
        let mut bytes = [0; 4096];
        loop {
            match self.reception.receive(control, &mut bytes) {
                Ok(0) => break self.process.control = None,
                Ok(count) => {
                    self.report.take(&bytes[..count])?;
                    if self.report.facts.is_some() {
                        self.dialogue.begin(Instant::now());
                    }
                    for attempt in self.report.attempts.drain(..) {
                        self.dialogue.attempt(&attempt);
                    }
                    if let Some(activity) = self.report.activity.take() {
                        self.dialogue.activity(activity);
                    }
                }
                Err(error) if not_now(&error) => break,
                // A reset: the other side is gone with our words unread.
                Err(_) => break self.process.control = None,
            }
        }
        if self.report.is_listening && self.reception.hand_over()? {
            self.outgoing.push(HOSTED);
        }
        Ok(())
    }

    /// Cuts the life-line and kills the launcher.
    fn give_up(&mut self) {
        self.process.control = None;
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        rustix::process::pidfd_send_signal(&self.exit, signal).ok();
    }
}

struct Ready {
    exit: bool,
    control: bool,
    stdout: bool,
    stderr: bool,
}

fn add<'f>(
    fds: &mut Vec<PollFd<'f>>,
    fd: Option<BorrowedFd<'f>>,
    flags: PollFlags,
) -> Option<usize> {
    fds.push(PollFd::from_borrowed_fd(fd?, flags));
    Some(fds.len() - 1)
}
