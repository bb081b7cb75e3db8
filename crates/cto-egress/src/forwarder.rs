//! The listener's loop: one thread that accepts, one for each connection, and an end for all of them.

use std::io::{self, PipeWriter};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use cto_contract::words::Wire;
use rustix::event::{PollFd, PollFlags};

use crate::budget::Budget;
use crate::conceal::Telling;
use crate::exchange::{self, Visit};
use crate::link::Route;
use crate::meter::Meter;
use crate::overhear::Marks;
use crate::prices::Prices;
use crate::record::Traffic;
use crate::request::Doorway;
use crate::room::Room;
use crate::socket::StopSign;

/// Connections that are served at once; one more is answered that there are too many.
const CONNECTIONS_MAX: usize = 32;

/// How long anything may take. None of them is a promise of an upstream: the run's own clock is shorter or longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// For the head of a request, from the moment of the connection.
    pub head: Duration,
    /// For the whole request.
    pub request: Duration,
    pub connect: Duration,
    /// Until the first byte of an answer: a model may think.
    pub answer: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
    /// For an agent to take what it asked for.
    pub taking: Duration,
    /// From when on an upstream counts as silent, if whoever waits for it is ended or gives up.
    pub silence: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            request: Duration::from_secs(60),
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(600),
            idle: Duration::from_secs(300),
            taking: Duration::from_secs(60),
            silence: Duration::from_secs(30),
        }
    }
}

/// What is offered, and how much of it.
#[derive(Clone, Debug)]
pub struct Terms {
    pub wires: Vec<Wire>,
    /// The one model that may be asked for; any where none is named.
    pub model: Option<String>,
    pub budget: Budget,
    /// What tokens of the model cost; none where nobody knows.
    pub prices: Option<Prices>,
    /// Passages of answers that are kept; none of them where nobody needs them.
    pub overhears: Option<Marks>,
    pub deadlines: Deadlines,
}

/// Where a forwarder stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub requests: u64,
    pub tokens_at_most: u64,
    /// Requests that are not answered yet.
    pub in_flight: u64,
    /// A budget refused or cut something.
    pub is_spent: bool,
}

/// Why there is no forwarder.
#[derive(Debug, thiserror::Error)]
pub enum ForwarderError {
    #[error("there is nothing to listen on")]
    NoListener,
    #[error("the forwarder could not {what}")]
    Start {
        what: &'static str,
        source: io::Error,
    },
}

/// A forwarder at work. Dropping it stops it.
#[derive(Debug)]
pub struct Forwarder {
    shared: Arc<Shared>,
    /// Its end tells every thread to end.
    alive: Option<PipeWriter>,
    acceptor: Option<JoinHandle<()>>,
}

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) route: Route,
    pub(crate) door: Doorway,
    pub(crate) model: Option<String>,
    pub(crate) overhears: Option<Marks>,
    pub(crate) deadlines: Deadlines,
    pub(crate) meter: Meter,
    pub(crate) room: Room,
    pub(crate) stop: StopSign,
    pub(crate) is_over: AtomicBool,
    /// All that an agent must not read about its upstream.
    pub(crate) telling: Telling,
}

impl Forwarder {
    /// Serves these listeners, which share one port, until it is stopped.
    pub fn start(
        listeners: Vec<TcpListener>,
        route: Route,
        terms: Terms,
    ) -> Result<Self, ForwarderError> {
        let failed = |what| move |source| ForwarderError::Start { what, source };
        let first = listeners.first().ok_or(ForwarderError::NoListener)?;
        let port = first.local_addr().map_err(failed("name its port"))?.port();
        for listener in &listeners {
            let set = listener.set_nonblocking(true);
            set.map_err(failed("prepare its listener"))?;
        }
        let (stop, alive) = io::pipe().map_err(failed("make its stop sign"))?;
        let telling = route.telling_words();
        let shared = Arc::new(Shared {
            route,
            door: Doorway {
                port,
                wires: terms.wires,
            },
            model: terms.model,
            overhears: terms.overhears,
            deadlines: terms.deadlines,
            meter: Meter::new(terms.budget, terms.prices),
            room: Room::default(),
            stop: Arc::new(stop),
            is_over: AtomicBool::new(false),
            telling: Telling(telling),
        });
        let own = Arc::clone(&shared);
        let acceptor = Builder::new()
            .name("cto-egress".to_owned())
            .spawn(move || accept_all(&listeners, &own))
            .map_err(failed("start its thread"))?;
        Ok(Self {
            shared,
            alive: Some(alive),
            acceptor: Some(acceptor),
        })
    }

    /// Returns what passed so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.shared.meter.traffic()
    }

    /// Returns where it stands, for whoever looks often.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.shared.meter.standing()
    }

    /// Ends all connections and threads, and returns what passed.
    #[must_use]
    pub fn stop(mut self) -> Traffic {
        self.end();
        self.traffic()
    }

    fn end(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        drop(self.alive.take());
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.end();
    }
}

fn accept_all(listeners: &[TcpListener], shared: &Arc<Shared>) {
    let mut visits: Vec<JoinHandle<()>> = Vec::new();
    while wait_for_visitor(listeners, shared) {
        for listener in listeners {
            if let Ok((stream, _)) = listener.accept() {
                visits.retain(|visit| !visit.is_finished());
                receive(stream, shared, &mut visits);
            }
        }
    }
    // They have seen the same sign, and none of them waits for anything else.
    for visit in visits {
        visit.join().ok();
    }
}

/// Returns false when all is over.
fn wait_for_visitor(listeners: &[TcpListener], shared: &Shared) -> bool {
    let mut fds: Vec<_> = std::iter::once(shared.stop.as_fd())
        .chain(listeners.iter().map(AsFd::as_fd))
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    match rustix::event::poll(&mut fds, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => fds[0].revents().is_empty(),
        Err(_) => false,
    }
}

fn receive(stream: TcpStream, shared: &Arc<Shared>, visits: &mut Vec<JoinHandle<()>>) {
    if visits.len() >= CONNECTIONS_MAX {
        return exchange::turn_away(stream, shared);
    }
    let own = Arc::clone(shared);
    let visit = Visit::new();
    let spawned = Builder::new()
        .name("cto-egress-visit".to_owned())
        .spawn(move || visit.serve(stream, &own));
    // Without a thread the stream is dropped, which the agent sees as a reset.
    visits.extend(spawned);
}
