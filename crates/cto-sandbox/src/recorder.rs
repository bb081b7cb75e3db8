//! The recorder: answers for the filter, and notes what was tried.
//!
//! It is the launcher itself, that is outside the pid namespace, where nobody inside can see or signal it. Should it end,
//! the init ends with it, and the kernel refuses what would have been asked. What the filter forbids is refused here by the
//! filter's own verdict on the registers, which nobody can change any more; all else goes on, whatever was seen. What lies in
//! memory decides only how a `clone3` is refused, which never goes on.

mod address;
pub(crate) mod handover;
mod memory;
mod moving;
mod notes;
mod observer;
mod places;
mod process;
mod refused;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::net::SendFlags;
use rustix::process::{Pid, Signal};
use rustix::thread::LinkNameSpaceType;

use crate::init::say;
use crate::inside::{InitEnd, init_end, wait_for_init};
use crate::mounts::failure;
use crate::seccomp::{self, Verdict};
use crate::sys::notifying::{Answer, Asked, Listener};
use crate::sys::{self, Notice};
use crate::wire::{Message, Policy, Step};

use handover::Handover;
use moving::Movers;
use notes::{Notes, Observation};
use observer::Observer;
use places::Places;

/// Waits for the init like the launcher does without a recorder, and serves the calls of all processes inside.
pub(crate) fn attend(
    init: Pid,
    control: &UnixStream,
    from_init: UnixStream,
    policy: &Policy,
) -> InitEnd {
    let mut recorder = RecorderLoop {
        init,
        control,
        policy,
        state: State::Waiting(from_init),
        notes: Notes::default(),
        served: false,
    };
    let end = match sys::notice_fd() {
        Ok(notices) => recorder.watch(&notices),
        // Without it nothing would be noticed.
        Err(_) => {
            recorder.kill_init();
            wait_for_init(init)
        }
    };
    recorder.finish();
    end
}

enum State {
    /// For the listener, which comes when the command is about to start.
    Waiting(UnixStream),
    Serving(Box<Service>),
    /// Nobody is left who could ask.
    Idle,
}

struct RecorderLoop<'a> {
    init: Pid,
    control: &'a UnixStream,
    policy: &'a Policy,
    state: State,
    notes: Notes,
    /// Whether there ever was a recorder.
    served: bool,
}

impl RecorderLoop<'_> {
    fn watch(&mut self, notices: &OwnedFd) -> InitEnd {
        loop {
            let ready = self.poll(notices);
            if ready.signalled {
                while let Some(notice) = sys::read_notice(notices) {
                    if notice == Notice::Term {
                        self.kill_init();
                    }
                }
                if let Some(end) = init_end(self.init) {
                    return end;
                }
            }
            if ready.moved
                && let State::Serving(service) = &mut self.state
            {
                service.pass_on();
            }
            if ready.asked {
                self.serve();
            } else if ready.deserted {
                self.rest();
            }
        }
    }

    /// Safe from reuse: the number is free only after it was waited for.
    fn kill_init(&self) {
        rustix::process::kill_process(self.init, Signal::KILL).ok();
    }

    fn poll(&self, notices: &OwnedFd) -> Ready {
        let mut fds = vec![PollFd::new(notices, PollFlags::IN)];
        match &self.state {
            State::Waiting(socket) => fds.push(PollFd::new(socket, PollFlags::IN)),
            State::Serving(service) => {
                fds.push(PollFd::new(service.listener.fd(), PollFlags::IN));
                if let Some(movers) = &service.movers {
                    fds.push(PollFd::new(movers.fd(), PollFlags::IN));
                }
            }
            State::Idle => {}
        }
        rustix::event::poll(&mut fds, None).ok();
        let seen = |index: usize| fds.get(index).map_or(PollFlags::empty(), PollFd::revents);
        Ready {
            signalled: !seen(0).is_empty(),
            asked: seen(1).contains(PollFlags::IN),
            deserted: !seen(1).is_empty(),
            moved: !seen(2).is_empty(),
        }
    }

    /// Nobody who wears the filter is left.
    fn rest(&mut self) {
        if let State::Serving(service) = &mut self.state {
            for observation in service.observer.rest() {
                self.notes.take(observation);
            }
        }
        self.state = State::Idle;
    }

    fn serve(&mut self) {
        match &mut self.state {
            State::Waiting(socket) => {
                let handover = Handover::receive(socket);
                self.state = match handover.and_then(|handover| self.begin(handover)) {
                    Ok(state) => {
                        self.served = matches!(state, State::Serving(_));
                        state
                    }
                    // The command waits at its execution: it has not started yet.
                    Err(error) => {
                        let failure = failure(Step::Recorder, &error);
                        say(self.control, &Message::Failed(failure));
                        self.kill_init();
                        State::Idle
                    }
                };
            }
            State::Serving(service) => {
                if service.serve(&mut self.notes, self.control).is_err() {
                    // Without an answer to any call the command could only go wrong.
                    self.kill_init();
                    self.rest();
                }
            }
            State::Idle => {}
        }
    }

    fn begin(&self, handover: Option<Handover>) -> io::Result<State> {
        let Some(handover) = handover else {
            return Ok(State::Idle);
        };
        let served = enter(&handover, self.policy).and_then(|observer| {
            Ok(Service {
                listener: Listener::of(handover.listener.try_clone()?)?,
                filter: seccomp::filter(),
                movers: handover.mover.map(Movers::new),
                observer,
                begun: false,
            })
        });
        if served.is_err() {
            // Before the listener closes, or the command would go on without it for a moment.
            self.kill_init();
        }
        Ok(State::Serving(Box::new(served?)))
    }

    /// Tells what has not been told yet; by now nobody waits for an answer any more.
    fn finish(&mut self) {
        if !self.served {
            return;
        }
        self.rest();
        for place in self.notes.places() {
            if let Some(attempt) = self.notes.untold(place) {
                say(self.control, &Message::Attempted(attempt.clone()));
            }
        }
        say(self.control, &Message::Recorded(self.notes.totals()));
    }
}

/// What one look at the descriptors showed.
struct Ready {
    signalled: bool,
    asked: bool,
    /// If nothing is asked: nothing will be.
    deserted: bool,
    moved: bool,
}

/// Everything that is needed to answer.
struct Service {
    listener: Listener,
    /// The filter that answers itself.
    filter: Vec<libc::sock_filter>,
    movers: Option<Movers>,
    observer: Observer,
    /// Whether the command was executed. What its process tried before was the sandbox itself.
    begun: bool,
}

/// Enters the user namespace and the root of the command, with the host's `/proc` in hand.
fn enter(handover: &Handover, policy: &Policy) -> io::Result<Observer> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::open(c"/proc", flags, Mode::empty())?;
    let harness = rustix::process::getppid();
    rustix::thread::move_into_link_name_space(
        handover.users.as_fd(),
        Some(LinkNameSpaceType::User),
    )?;
    rustix::process::fchdir(&handover.root)?;
    rustix::process::chroot(c".")?;
    let places = Places::of(policy, proc)?;
    Ok(Observer::new(places, policy.network, harness))
}

impl Service {
    fn pass_on(&mut self) {
        if let Some(movers) = &mut self.movers
            && !movers.pass_on(&self.listener)
        {
            self.movers = None;
        }
    }

    /// Answers the next call.
    fn serve(&mut self, notes: &mut Notes, control: &UnixStream) -> io::Result<()> {
        let Some(asked) = self.listener.receive()? else {
            return Ok(());
        };
        let verdict = seccomp::verdict(&self.filter, &asked.call);
        self.begun |= asked.call.is_execution();
        if !self.begun {
            let refused = verdict != Verdict::Allow;
            let answer = if refused {
                Answer::Fail(libc::EPERM)
            } else {
                Answer::GoOn
            };
            self.listener.answer(asked.id, answer);
            return Ok(());
        }
        let observation = match verdict {
            Verdict::Allow => self.observer.attempt(&asked),
            Verdict::Refuse => Ok(Some(self.observer.denied(&asked))),
            Verdict::Unknown => self.observer.cloning(&asked),
            Verdict::Kill => Ok(Some(self.observer.killed(&asked))),
        };
        // Else the number may belong to another process by now, and so what was seen.
        let is_real = matches!(observation, Ok(None)) || self.listener.waits(asked.id);
        match verdict {
            Verdict::Allow if self.observer.hand_on(self.movers.as_mut()) => {}
            Verdict::Allow => self.listener.answer(asked.id, Answer::GoOn),
            // The C library then uses `clone`.
            Verdict::Unknown if matches!(observation, Ok(None)) => {
                self.listener.answer(asked.id, Answer::Fail(libc::ENOSYS));
            }
            Verdict::Refuse | Verdict::Unknown => {
                self.listener.answer(asked.id, Answer::Fail(libc::EPERM));
            }
            Verdict::Kill => {
                if is_real {
                    kill(&asked);
                }
                self.listener.answer(asked.id, Answer::Fail(libc::EPERM));
            }
        }
        if is_real {
            let observation = observation.unwrap_or_else(|_| {
                notes.count_blind();
                Some(self.observer.unreadable(&asked))
            });
            note(notes, observation, control);
        }
        Ok(())
    }
}

/// Ends the process of a thread that waits for an answer, so that its number cannot be anybody else's.
fn kill(asked: &Asked) {
    if let Some(process) = i32::try_from(asked.thread).ok().and_then(Pid::from_raw) {
        rustix::process::kill_process(process, Signal::KILL).ok();
    }
}

/// Notes what was seen, and tells it if it is new and the harness listens; else it is told at the end.
fn note(notes: &mut Notes, observation: Option<Observation>, control: &UnixStream) {
    let Some(place) = observation.and_then(|observation| notes.take(observation)) else {
        return;
    };
    let line = notes
        .untold(place)
        .map(|attempt| Message::Attempted(attempt.clone()).encode());
    let Some(Ok(line)) = line else { return };
    // The init writes to the same socket. The kernel queues so short a line as a whole or not at all.
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    if rustix::net::send(control, &line, flags) == Ok(line.len()) {
        notes.is_told(place);
    }
}
