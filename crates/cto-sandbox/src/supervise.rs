//! One launch as the harness sees it: start, poll loop, end. It waits on everything at once and on nothing without a deadline.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::attempt::Said;
use crate::endpoint::{Host, Reception};
use crate::error::LaunchError;
use crate::escalation::{Action, Escalation};
use crate::facts::{Applied, Facts, Fallback};
use crate::launch_failure::failure_error;
use crate::launcher::Launcher;
use crate::launcher_report::LauncherReport;
use crate::layers::{self, Asked};
use crate::memory_group::MemoryGroup;
use crate::outcome::{Class, End, Outcome, OutputTotals, Proof, StopCause, Stream, Survivors};
use crate::output::{Output, Sink, not_now};
use crate::process::{Process, io_error, spawn, unblock};
use crate::provider::provider_stderr::ProviderStderr;
use crate::provider::{Means, container};
use crate::request::LaunchRequest;
use crate::stop::{StopToken, Wanted};
use crate::wire::{self, HOSTED, KILL, TERMINATE};

/// How long a launcher may take to say its first word. Generous: the machine may be very busy.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn launch(
    launcher: &Launcher,
    request: &LaunchRequest,
    stop: &StopToken,
    sink: Sink<'_>,
    host: Option<Host<'_>>,
) -> Result<Outcome, LaunchError> {
    let start = Instant::now();
    if stop.wanted() > Wanted::Nothing {
        return Ok(not_started(request, start));
    }
    let mut said = ProviderStderr::default();
    let mut heard = |said_now: Said<'_>| {
        said.take(&said_now);
        sink(said_now);
    };
    let mut running = Running::start(launcher, request, &mut heard, host)?;
    let ending = running.watch(request, stop, start)?;
    let outcome = running.conclude(launcher, request, &ending, start);
    outcome.map_err(|error| said.explain(error, &launcher.means))
}

fn not_started(request: &LaunchRequest, start: Instant) -> Outcome {
    let uid = rustix::process::geteuid().as_raw();
    let nothing = Facts::group(Some(Fallback::NotTried), uid, Applied::NotAsked);
    let survivors = Survivors::None {
        proof: Proof::NothingStarted,
    };
    Outcome {
        end: End::NotStarted,
        stopped_by: Some(StopCause::Asked),
        started: false,
        wall: start.elapsed(),
        cpu: None,
        peak_rss_bytes: None,
        output: OutputTotals::default(),
        confinement: layers::confinement(&nothing, Some(asked(request)), survivors),
        limit_hit: None,
        proof: None,
        facts: None,
        recorded: None,
    }
}

fn asked(request: &LaunchRequest) -> Asked<'_> {
    Asked {
        limits: &request.limits,
        tree: request.tree,
        network: request.network,
        read_only: request.read_only_paths(),
    }
}

struct Running<'a, 'h> {
    process: Process,
    container: Option<container::Running>,
    memory: Option<MemoryGroup>,
    exit: OwnedFd,
    output: Output<'a>,
    /// What is still to be written: the policy, then control bytes.
    outgoing: Vec<u8>,
    report: LauncherReport,
    reception: Reception<'h>,
}

struct Ending {
    /// `None`: given up, something hangs in the kernel.
    status: Option<ExitStatus>,
    cause: Option<StopCause>,
    /// The launcher never said a word in time.
    silent: bool,
}

impl<'a, 'h> Running<'a, 'h> {
    fn start(
        launcher: &Launcher,
        request: &LaunchRequest,
        sink: Sink<'a>,
        host: Option<Host<'h>>,
    ) -> Result<Self, LaunchError> {
        let outgoing = launcher.policies(request)?;
        let (stdout, to_stdout) = io::pipe().map_err(io_error("make an output pipe"))?;
        let (stderr, to_stderr) = io::pipe().map_err(io_error("make an output pipe"))?;
        for end in [stdout.as_fd(), stderr.as_fd()] {
            unblock(end).map_err(io_error("make a pipe non-blocking"))?;
        }
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
            output: Output::new(stdout, stderr, request.limits.output_bytes, sink),
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
            if self.report.nothing && !silent && now >= answer_by {
                silent = true;
                self.give_up();
            }
            if let Some(action) = escalation.tick(now, wanted) {
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
            let deadline = escalation.deadline().into_iter().chain(answer_by).min();
            let ready = self.poll(stop, wanted, deadline)?;
            self.serve(&ready)?;
            if ready.exit {
                let status = self
                    .process
                    .wait()
                    .map_err(io_error("wait for the launcher"))?;
                self.hear()?;
                self.output.read_rest();
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
        let mut fds = Vec::with_capacity(5);
        let control = match self.outgoing.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
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
        if ready.stdout {
            self.output.read(Stream::Stdout);
        }
        if ready.stderr {
            self.output.read(Stream::Stderr);
        }
        if ready.control {
            self.tell();
            self.hear()?;
        }
        Ok(())
    }

    /// Writes what the socket takes. An error is a hang-up, which the end of the launcher explains.
    fn tell(&mut self) {
        let Some(control) = &mut self.process.control else {
            return;
        };
        if self.outgoing.is_empty() {
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
                    for attempt in self.report.attempts.drain(..) {
                        self.output.tell(&attempt);
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

    fn conclude(
        self,
        launcher: &Launcher,
        request: &LaunchRequest,
        ending: &Ending,
        start: Instant,
    ) -> Result<Outcome, LaunchError> {
        let container = self.container.map(container::Running::finish);
        let wall = start.elapsed();
        let output = self.output.totals();
        let report = self.report;
        if let Some(failure) = report.failure {
            return Err(failure_error(&failure, request));
        }
        let Some(mut facts) = report.facts.filter(|_| !ending.silent) else {
            return match ending.cause {
                Some(cause) if !ending.silent => Ok(Outcome {
                    stopped_by: Some(cause),
                    ..not_started(request, start)
                }),
                Some(_) | None => Err(LaunchError::NoAnswer {
                    program: launcher.program.clone(),
                    how: ending.how(),
                }),
            };
        };
        facts.memory_group = match self.memory {
            Some(_) => Applied::Yes,
            None => Applied::NotAsked,
        };
        facts.fallback = facts.fallback.or(report.refusal.map(Fallback::Refused));
        let proof = report.proved.map(|proved| {
            facts.inner.recorder = proved.recorder;
            proved.proof
        });
        // A supervisor that is killed at once may not have said it; only the command writes there.
        let started = report.started || output.stdout_bytes > 0;
        let (end, stopped_by) = match (&report.ended, started) {
            (Some(ended), _) => (ended.end, ending.cause.filter(|_| ended.told)),
            // The kernel kills the rest of a tree whose supervisor is dead.
            (None, true) => (
                End::Signaled(Signal::KILL.as_raw()),
                ending.cause.or(Some(StopCause::SandboxDied)),
            ),
            (None, false) => (
                End::NotStarted,
                ending.cause.or(Some(StopCause::SandboxDied)),
            ),
        };
        Ok(Outcome {
            end,
            stopped_by,
            started,
            wall,
            cpu: report
                .ended
                .as_ref()
                .map(|ended| Duration::from_micros(ended.cpu_micros)),
            peak_rss_bytes: report.ended.as_ref().map(|ended| ended.peak_rss_bytes),
            output,
            confinement: layers::confinement(
                &facts,
                Some(asked(request)),
                container.unwrap_or_else(|| ending.survivors(facts.class)),
            ),
            limit_hit: report
                .ended
                .as_ref()
                .and_then(|ended| ended.limit_hit)
                .or_else(|| self.memory.as_ref().and_then(MemoryGroup::hit)),
            proof,
            facts: Some(facts),
            recorded: report.recorded,
        })
    }
}

impl Ending {
    fn how(&self) -> String {
        match self.status {
            _ if self.silent => format!("nothing came in {} s", ANSWER_PATIENCE.as_secs()),
            Some(status) => status.to_string(),
            None => "it could not be killed".to_owned(),
        }
    }

    fn survivors(&self, class: Class) -> Survivors {
        let waited = |codes: &[u8]| {
            let code = self.status.and_then(|status| status.code());
            codes.iter().any(|&known| code == Some(i32::from(known)))
        };
        let proof = match class {
            Class::Process | Class::Full
                if waited(&[
                    wire::EXIT_ORDERLY,
                    wire::EXIT_INIT_DIED,
                    wire::EXIT_INIT_KILLED,
                ]) =>
            {
                Proof::InitWaited
            }
            Class::None | Class::Group | Class::Weak if waited(&[wire::EXIT_ORDERLY]) => {
                Proof::SubreaperEmpty
            }
            Class::Process | Class::Full | Class::None | Class::Group | Class::Weak => {
                return Survivors::Unknown {
                    reason: match self.status {
                        Some(status) => format!("the launcher ended unexpectedly ({status})"),
                        None => "a killed process did not end in time".to_owned(),
                    },
                };
            }
        };
        Survivors::None { proof }
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
