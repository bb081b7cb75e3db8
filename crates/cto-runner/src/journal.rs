//! The write-ahead log of a run: append, tell the observer, keep the fold.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use cto_contract::event::{Actor, EventKind, RunEvent};
use cto_contract::ids::Digest;
use cto_evidence::chain::{LineChain, Log};
use cto_rules::lifecycle::{ReplayError, RunState, replay};

use crate::clock::RunClock;
use crate::reserve::is_full;

/// Sees every event right after it was written.
pub type Observer<'a> = &'a mut dyn FnMut(&RunEvent);

/// Most bytes that wait for space. An agent that goes on telling after it filled the disk ends its run here.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// The log and what it says.
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    /// Bytes of whole lines in the file.
    len: u64,
    /// Lines that wait for space.
    waiting: Vec<u8>,
    /// Set while space is kept that will be given back: until then a full disk makes lines wait.
    may_wait: bool,
    chain: LineChain,
    clock: RunClock,
    events: Vec<RunEvent>,
    /// Always there between calls; taken out only while an event is applied.
    state: Option<RunState>,
}

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("could not write the log `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("an event could not be encoded")]
    Encode(#[from] serde_json::Error),
    #[error("the log contradicts itself")]
    Replay(#[from] ReplayError),
}

impl Journal {
    /// Starts a log with its first event, durably.
    pub(crate) fn create(
        path: &Path,
        mut chain: LineChain,
        first: EventKind,
        observer: Observer<'_>,
    ) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Write {
            path: path.to_owned(),
            source,
        };
        let mut file = File::options()
            .append(true)
            .create_new(true)
            .open(path)
            .map_err(failed)?;
        let clock = RunClock::default();
        let line = chain.append(clock.now(), Actor::Harness, first)?;
        file.write_all(&line.bytes).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        let state = replay([&line.event])?;
        observer(&line.event);
        Ok(Self {
            file,
            path: path.to_owned(),
            len: line.bytes.len() as u64,
            waiting: Vec::new(),
            may_wait: false,
            chain,
            clock,
            events: vec![line.event],
            state: Some(state),
        })
    }

    /// Goes on with a log that was read; its torn tail must have been cut.
    pub(crate) fn resume(path: &Path, log: Log) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Write {
            path: path.to_owned(),
            source,
        };
        let file = File::options().append(true).open(path).map_err(failed)?;
        let state = replay(&log.events)?;
        let len = file.metadata().map_err(failed)?.len();
        Ok(Self {
            file,
            path: path.to_owned(),
            len,
            waiting: Vec::new(),
            may_wait: false,
            chain: LineChain::resume(&log),
            clock: RunClock::after(state.last_at),
            events: log.events,
            state: Some(state),
        })
    }

    /// Moves to the path that the log has now.
    pub(crate) fn moved_to(&mut self, path: &Path) {
        self.path = path.to_owned();
    }

    pub(crate) fn record(
        &mut self,
        kind: EventKind,
        observer: Observer<'_>,
    ) -> Result<(), JournalError> {
        let line = self.chain.append(self.clock.now(), Actor::Harness, kind)?;
        if let Some(state) = self.state.take() {
            self.state = Some(state.apply(&line.event)?);
        }
        self.waiting.extend_from_slice(&line.bytes);
        match self.write_waiting() {
            Err(error) if !(self.may_wait && is_full(&error)) => return Err(self.failed(error)),
            Err(error) if self.waiting.len() > WAITING_BYTES_MAX => return Err(self.failed(error)),
            Ok(()) | Err(_) => {}
        }
        observer(&line.event);
        self.events.push(line.event);
        Ok(())
    }

    /// Lets lines wait when the disk is full, because somebody keeps space for them.
    pub(crate) fn let_wait(&mut self) {
        self.may_wait = true;
    }

    /// Writes the lines that waited: the space is there now.
    pub(crate) fn write_all(&mut self) -> Result<(), JournalError> {
        self.may_wait = false;
        self.write_waiting().map_err(|source| self.failed(source))
    }

    /// Writes what waits, or nothing of it: a line that is torn by a full disk is taken back.
    fn write_waiting(&mut self) -> io::Result<()> {
        if let Err(error) = self.file.write_all(&self.waiting) {
            self.file.set_len(self.len)?;
            return Err(error);
        }
        self.len += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    fn failed(&self, source: io::Error) -> JournalError {
        JournalError::Write {
            path: self.path.clone(),
            source,
        }
    }

    /// Where the log lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the log anew with these events in the place of its own, each with the time and actor that it had, and gives
    /// the digest of the last line that there was before. Whoever dies on the way leaves the old log.
    pub(crate) fn rewrite(&mut self, kinds: Vec<EventKind>) -> Result<Digest, JournalError> {
        self.write_all()?;
        let old_head = self.chain.head().clone();
        let mut chain = self.chain.restart(&self.state().started.nonce);
        let mut bytes = Vec::new();
        let mut events = Vec::with_capacity(kinds.len());
        for (kind, old) in kinds.into_iter().zip(&self.events) {
            let line = chain.append(old.ts, old.actor, kind)?;
            bytes.extend_from_slice(&line.bytes);
            events.push(line.event);
        }
        let state = replay(&events)?;
        let draft = self.path.with_extension("jsonl.new");
        let written = File::create(&draft).and_then(|mut file| {
            file.write_all(&bytes)?;
            file.sync_data()?;
            std::fs::rename(&draft, &self.path)?;
            File::options().append(true).open(&self.path)
        });
        self.file = written.map_err(|source| self.failed(source))?;
        self.len = bytes.len() as u64;
        self.chain = chain;
        self.events = events;
        self.state = Some(state);
        Ok(old_head)
    }

    /// Makes everything so far durable.
    pub(crate) fn sync(&self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(|source| self.failed(source))
    }

    /// The run's clock, shared by the log and the times of artifacts.
    pub(crate) fn clock(&self) -> RunClock {
        self.clock.clone()
    }

    pub(crate) fn events(&self) -> &[RunEvent] {
        &self.events
    }

    #[expect(
        clippy::expect_used,
        reason = "the state is taken out only inside `record`, which puts it back or fails the run"
    )]
    pub(crate) fn state(&self) -> &RunState {
        self.state.as_ref().expect("a failed event ends the run")
    }
}
