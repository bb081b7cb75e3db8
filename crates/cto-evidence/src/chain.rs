//! The hash-chained event log: bytes in, events out, and the other way round.
//!
//! No file is touched here. A line's `prev` is the SHA-256 of the line before it without its newline; that of line 1
//! is the SHA-256 of the nonce's 64 hex digits as text. So the digest of the last line fixes the whole log.

use cto_contract::event::{Actor, EventKind, EventSchema, RunEvent};
use cto_contract::ids::{CaseId, Digest, Nonce, RunId};
use cto_contract::text;
use cto_contract::time::Utc;
use cto_contract::verify::VerifyCode;
use cto_contract::words::Lane;

use crate::canonical::sha256;

/// Longest line that is read.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Most events that one log may hold.
pub const EVENTS_MAX: u64 = 50_000_000;

/// A log that is not a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ChainError {
    /// From 1.
    pub line: u64,
    pub code: VerifyCode,
    pub message: String,
}

/// The writing end: knows the last digest and the next number.
#[derive(Debug, Clone)]
pub struct LineChain {
    run_id: RunId,
    case_id: CaseId,
    backend: Lane,
    next_seq: u64,
    head: Digest,
}

/// One finished line.
#[derive(Debug, Clone)]
pub struct Line {
    /// Exactly what goes into the file, with its newline.
    pub bytes: Vec<u8>,
    pub event: RunEvent,
}

impl LineChain {
    /// Starts the log of a run. The first event must be `run.started` with this nonce.
    pub fn start(nonce: &Nonce, run_id: RunId, case_id: CaseId, backend: Lane) -> Self {
        Self {
            run_id,
            case_id,
            backend,
            next_seq: 1,
            head: sha256(nonce.as_str().as_bytes()),
        }
    }

    /// Goes on where a log that was read ends.
    pub fn resume(log: &Log) -> Self {
        Self {
            run_id: log.run_id.clone(),
            case_id: log.case_id.clone(),
            backend: log.backend,
            next_seq: log.events.len() as u64 + 1,
            head: log.head.clone(),
        }
    }

    /// The log of the same run from its first line on, for whoever writes it again.
    pub fn restart(&self, nonce: &Nonce) -> Self {
        Self {
            next_seq: 1,
            head: sha256(nonce.as_str().as_bytes()),
            ..self.clone()
        }
    }

    /// Makes the next line and moves on.
    ///
    /// Whoever fails to write the bytes afterwards must not append again: the chain is already past them.
    pub fn append(
        &mut self,
        ts: Utc,
        actor: Actor,
        kind: EventKind,
    ) -> Result<Line, serde_json::Error> {
        let event = RunEvent {
            schema_version: EventSchema,
            seq: self.next_seq,
            ts,
            run_id: self.run_id.clone(),
            case_id: self.case_id.clone(),
            backend: self.backend,
            kind,
            actor,
            prev: self.head.clone(),
        };
        let mut bytes = serde_json::to_vec(&event)?;
        self.head = sha256(&bytes);
        self.next_seq += 1;
        bytes.push(b'\n');
        Ok(Line { bytes, event })
    }

    /// SHA-256 of the last line (of the nonce before the first).
    pub fn head(&self) -> &Digest {
        &self.head
    }

    /// How many lines there are.
    pub fn len(&self) -> u64 {
        self.next_seq - 1
    }

    /// True before the first line.
    pub fn is_empty(&self) -> bool {
        self.next_seq == 1
    }
}

/// A log that was read and is a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    pub run_id: RunId,
    pub case_id: CaseId,
    pub backend: Lane,
    pub nonce: Nonce,
    pub events: Vec<RunEvent>,
    /// SHA-256 of the last line without its newline.
    pub head: Digest,
}

/// Reads a log piece by piece, so that a hostile one is refused before it fills the memory.
#[derive(Default)]
pub struct LogReader {
    log: Option<Log>,
    /// The bytes of a line whose newline has not come yet.
    rest: Vec<u8>,
    /// Length of all lines read so far, with their newlines.
    taken: u64,
    error: Option<ChainError>,
}

impl LogReader {
    /// Takes the next bytes. After the first error nothing more is looked at.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while self.error.is_none() {
            let Some(end) = bytes.iter().position(|b| *b == b'\n') else {
                self.rest.extend_from_slice(bytes);
                self.check_length();
                return;
            };
            let (piece, tail) = (&bytes[..end], &bytes[end + 1..]);
            let outcome = if self.rest.is_empty() {
                self.take(piece)
            } else {
                self.rest.extend_from_slice(piece);
                let line = std::mem::take(&mut self.rest);
                let outcome = self.take(&line);
                self.rest = line;
                self.rest.clear();
                outcome
            };
            if let Err(error) = outcome {
                self.error = Some(error);
            }
            bytes = tail;
        }
    }

    /// The log, if all of it was a chain.
    pub fn finish(self) -> Result<Log, ChainError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let line = self.line() + 1;
        if !self.rest.is_empty() {
            return Err(ChainError {
                line,
                code: VerifyCode::ChainBroken,
                message: "the log does not end with a newline".to_owned(),
            });
        }
        self.log.ok_or_else(|| ChainError {
            line,
            code: VerifyCode::ChainBroken,
            message: "the log is empty".to_owned(),
        })
    }

    fn line(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.events.len() as u64)
    }

    fn check_length(&mut self) {
        if self.rest.len() > LINE_BYTES_MAX {
            self.rest = Vec::new();
            self.error = Some(ChainError {
                line: self.line() + 1,
                code: VerifyCode::FileOversized,
                message: format!("the line has more than {LINE_BYTES_MAX} bytes"),
            });
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), ChainError> {
        let line = self.line() + 1;
        let fail = |code: VerifyCode, message: String| {
            Err(ChainError {
                line,
                code,
                message,
            })
        };
        if line > EVENTS_MAX || bytes.len() > LINE_BYTES_MAX {
            return fail(
                VerifyCode::FileOversized,
                format!("more than {EVENTS_MAX} lines or {LINE_BYTES_MAX} bytes in one"),
            );
        }
        let event: RunEvent = match serde_json::from_slice(bytes) {
            Ok(event) => event,
            Err(e) => {
                return fail(
                    VerifyCode::SchemaInvalid,
                    format!("not an event: {}", text::shorten(&e.to_string(), 300)),
                );
            }
        };
        if event.seq != line {
            return fail(
                VerifyCode::EventSequence,
                format!("has seq {}, expected {line}", event.seq),
            );
        }
        match &mut self.log {
            None => {
                let EventKind::RunStarted(started) = &event.kind else {
                    return fail(
                        VerifyCode::EventOrder,
                        format!("is {}, expected run.started", event.kind.event_type()),
                    );
                };
                let nonce = started.nonce.clone();
                if event.prev != sha256(nonce.as_str().as_bytes()) {
                    return fail(
                        VerifyCode::ChainBroken,
                        "prev is not the digest of the nonce".to_owned(),
                    );
                }
                self.log = Some(Log {
                    run_id: event.run_id.clone(),
                    case_id: event.case_id.clone(),
                    backend: event.backend,
                    nonce,
                    events: vec![event],
                    head: sha256(bytes),
                });
            }
            Some(log) => {
                if event.prev != log.head {
                    return fail(
                        VerifyCode::ChainBroken,
                        "prev is not the digest of the line before".to_owned(),
                    );
                }
                if event.run_id != log.run_id
                    || event.case_id != log.case_id
                    || event.backend != log.backend
                {
                    return fail(
                        VerifyCode::RunMismatch,
                        "belongs to another run, case or backend than line 1".to_owned(),
                    );
                }
                if matches!(event.kind, EventKind::RunStarted(_)) {
                    return fail(VerifyCode::EventOrder, "is a second run.started".to_owned());
                }
                log.events.push(event);
                log.head = sha256(bytes);
            }
        }
        self.taken += bytes.len() as u64 + 1;
        Ok(())
    }
}

/// Reads a whole log.
///
/// Times may go back from line to line (a wall clock can be set); order is `seq` and the chain, never `ts`.
pub fn read_log(bytes: &[u8]) -> Result<Log, ChainError> {
    let mut reader = LogReader::default();
    reader.push(bytes);
    reader.finish()
}

/// What is left of a log after a crash.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// Length of the valid prefix.
    pub valid_len: u64,
    /// Length of the torn last line; 0 when the log is whole.
    pub bytes_cut: u64,
    /// The events of the prefix; none when not even line 1 is whole.
    pub log: Option<Log>,
}

/// Finds where a torn log must be cut.
///
/// Only the last line can be torn: one without a newline, or one that does not parse or chain. Anything wrong
/// earlier is damage that nobody may repair silently, and so an error.
pub fn recover_tail(bytes: &[u8]) -> Result<Tail, ChainError> {
    let mut reader = LogReader::default();
    reader.push(bytes);
    let valid_len = reader.taken;
    if let Some(error) = reader.error {
        let bad = usize::try_from(valid_len)
            .ok()
            .and_then(|at| bytes.get(at..))
            .unwrap_or_default();
        let ends_here = bad
            .iter()
            .position(|b| *b == b'\n')
            .is_none_or(|end| end + 1 == bad.len());
        if !ends_here {
            return Err(error);
        }
    }
    Ok(Tail {
        valid_len,
        bytes_cut: bytes.len() as u64 - valid_len,
        log: reader.log,
    })
}
