//! A run followed to its end, from its log alone: what is new at each look, and whether more will come.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use cto_contract::artifact::{ATTESTATION, EVENTS};
use cto_contract::event::{EventKind, RunEvent};
use cto_contract::words::RunStatus;
use cto_evidence::chain::LINE_BYTES_MAX;
use cto_evidence::pack::PackDir;

use crate::home::Home;
use crate::provenance::OpenedPack;
use crate::recover::live_runs;

/// A log that can't be followed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    #[error("could not read the log of `{pack}`")]
    Unreadable { pack: PathBuf, source: io::Error },
    #[error("a line of the log is no event")]
    NoEvent(#[source] serde_json::Error),
    #[error("a line of the log is longer than any that is written")]
    LongLine,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Somebody works on it.
    GoesOn,
    /// Its pack is sealed: nothing more will come.
    Sealed(RunStatus),
    /// Its pack is sealed and its log has no end.
    SealedWithoutEnd,
    /// It is not sealed and nobody works on it any more.
    Crashed,
}

/// What a look found.
#[derive(Debug)]
pub struct Look {
    /// New since the look before.
    pub events: Vec<RunEvent>,
    pub standing: Standing,
}

/// Follows one run.
pub struct Follower {
    /// Where living runs are held; a pack of elsewhere has no holder.
    home: Option<Home>,
    found: OpenedPack,
    file: File,
    offset: u64,
    /// The beginning of a line whose end is not written yet.
    rest: Vec<u8>,
    verdict: Option<RunStatus>,
}

impl Follower {
    /// Begins at the first event.
    pub fn open(found: OpenedPack, home: Option<Home>) -> Result<Self, FollowError> {
        let file = PackDir::open(&found.pack)
            .and_then(|dir| dir.open_path(EVENTS))
            .map_err(|source| FollowError::Unreadable {
                pack: found.pack.clone(),
                source,
            })?;
        Ok(Self {
            home,
            found,
            file,
            offset: 0,
            rest: Vec::new(),
            verdict: None,
        })
    }

    /// Reads what is new. Never waits.
    pub fn look(&mut self) -> Result<Look, FollowError> {
        // Asked before reading: what was written before its writer went is still read.
        let is_sealed = self.found.pack.join(ATTESTATION).exists();
        let is_held = self.is_held();
        let events = self.new_events()?;
        for event in &events {
            if let EventKind::RunCompleted(completed) = &event.kind {
                self.verdict = Some(completed.status);
            }
        }
        let standing = match (is_sealed, self.verdict) {
            (true, Some(status)) => Standing::Sealed(status),
            (true, None) => Standing::SealedWithoutEnd,
            (false, _) if is_held => Standing::GoesOn,
            (false, _) => Standing::Crashed,
        };
        Ok(Look { events, standing })
    }

    fn is_held(&self) -> bool {
        let live = self.home.as_ref().map(live_runs).unwrap_or_default();
        live.iter()
            .any(|(id, _)| Some(id) == self.found.run_id.as_ref())
    }

    fn new_events(&mut self) -> Result<Vec<RunEvent>, FollowError> {
        let read = self
            .file
            .seek(SeekFrom::Start(self.offset))
            .and_then(|_| self.file.read_to_end(&mut self.rest))
            .map_err(|source| FollowError::Unreadable {
                pack: self.found.pack.clone(),
                source,
            })?;
        self.offset += read as u64;
        let mut events = Vec::new();
        while let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            events.push(serde_json::from_slice(&line).map_err(FollowError::NoEvent)?);
        }
        if self.rest.len() > LINE_BYTES_MAX {
            return Err(FollowError::LongLine);
        }
        Ok(events)
    }
}
