//! A model that does what a script says: for trying every lane with no account, and for every fault that a provider can have.
//!
//! Stateless: the step of the script is the number of tool results in a request, so a request that is sent again gets the
//! same answer again. The first part of the path may name a fault (`/401/v1/…`), and before it may stand whom it meets
//! (`/at-work/401/v1/…`). It listens on loopback alone, and takes every key but those that it is told to refuse.

mod conduct;
mod heard;
mod reply;
mod serving;
mod tool;
mod turn;
mod wire;

use std::io::{self, PipeWriter, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use cto_contract::model_script::{FaultScope, ModelFault, ModelScript};
use rustix::event::{PollFd, PollFlags};

use crate::socket::StopSign;
use serving::Visit;
use turn::Play;

/// The name of the model where it is asked which there are.
pub const SCRIPTED_MODEL: &str = "scripted";
const CONNECTIONS_MAX: usize = 64;

/// What the model does.
pub struct ScriptedOptions {
    pub script: ModelScript,
    /// For requests whose path names no fault of its own.
    pub fault: ModelFault,
    /// Which of these it meets.
    pub scope: FaultScope,
    /// Where requests are written down, a JSON object a line, without their headers.
    pub record: Option<Box<dyn Write + Send>>,
}

/// A scripted model at work. Dropping it stops it.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    alive: Option<PipeWriter>,
    acceptor: Option<JoinHandle<()>>,
}

/// What all visits share.
struct Served {
    play: Play,
    fault: ModelFault,
    scope: FaultScope,
    refused_keys: Vec<String>,
    record: Option<Mutex<Recorder>>,
    stop: StopSign,
}

struct Recorder {
    to: Box<dyn Write + Send>,
    count: u64,
}

impl ScriptedModel {
    /// Listens on a port of loopback; 0 takes any.
    pub fn start(port: u16, options: ScriptedOptions) -> io::Result<Self> {
        Self::start_refusing(port, options, Vec::new())
    }

    /// The same, and these keys are refused.
    pub fn start_refusing(
        port: u16,
        options: ScriptedOptions,
        refused_keys: Vec<String>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, alive) = io::pipe()?;
        let served = Arc::new(Served {
            play: Play::of(&options.script),
            fault: options.fault,
            scope: options.scope,
            refused_keys,
            record: options
                .record
                .map(|to| Mutex::new(Recorder { to, count: 0 })),
            stop: Arc::new(stop),
        });
        let acceptor = Builder::new()
            .name("cto-scripted".to_owned())
            .spawn(move || accept_all(&listener, &served))?;
        Ok(Self {
            address,
            alive: Some(alive),
            acceptor: Some(acceptor),
        })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where chat completions and responses are, with a fault chosen by path.
    #[must_use]
    pub fn base_url(&self, fault: ModelFault) -> String {
        format!("http://{}/{fault}/v1", self.address)
    }

    /// The same with a fault that only an agent at work meets.
    #[must_use]
    pub fn base_url_at_work(&self, fault: ModelFault) -> String {
        let scope = FaultScope::AtWork;
        format!("http://{}/{scope}/{fault}/v1", self.address)
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
    }
}

fn accept_all(listener: &TcpListener, served: &Arc<Served>) {
    let mut visits: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(served.stop.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
        ];
        match rustix::event::poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) if fds[0].revents().is_empty() => {}
            Ok(_) | Err(_) => break,
        }
        let Ok((stream, _)) = listener.accept() else {
            continue;
        };
        visits.retain(|visit| !visit.is_finished());
        if visits.len() >= CONNECTIONS_MAX {
            continue;
        }
        let served = Arc::clone(served);
        let spawned = Builder::new()
            .name("cto-scripted-visit".to_owned())
            .spawn(move || {
                // A peer that goes away is no concern of ours.
                if let Ok(mut visit) = Visit::new(stream, &served) {
                    visit.serve().ok();
                }
            });
        visits.extend(spawned);
    }
    for visit in visits {
        visit.join().ok();
    }
}
