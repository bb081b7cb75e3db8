//! Checkpoints: after each decision the head of the ledger, signed, in the config directory and in a second place.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_contract::checkpoint::{Checkpoint, CheckpointSchema, PAYLOAD_TYPE, SUFFIX};
use cto_contract::time::Utc;
use cto_contract::trust::TrustedKey;
use cto_evidence::canonical::{CanonicalError, to_canonical};
use cto_evidence::dsse::{EnvelopeError, envelope_bytes, open_envelope, seal_envelope};
use cto_evidence::key::{KeyError, PublicKey};
use cto_store::StoreError;

use crate::files::write_private;
use crate::ledger::Ledger;
use crate::program::{GitPlace, Program, ProgramError};

/// Largest checkpoint that is read.
const CHECKPOINT_BYTES_MAX: u64 = 64 << 10;

/// Where checkpoints go besides the config directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecondPlace {
    Directory(PathBuf),
    /// A ref of a repository: one commit for each checkpoint.
    Git {
        repository: PathBuf,
        reference: String,
    },
    /// A program that gets each checkpoint on its standard input. What it keeps can't be read back.
    Command(Vec<String>),
}

/// A checkpoint that could not be written, or does not hold.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("the ledger can't be read")]
    Store(#[from] StoreError),
    #[error("could not {what} `{path}`")]
    Io {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("the checkpoint has no canonical form")]
    Canonical(#[from] CanonicalError),
    #[error("it is not a signed checkpoint")]
    Envelope(#[from] EnvelopeError),
    #[error("it does not say what a checkpoint says")]
    Payload(#[source] serde_json::Error),
    #[error("its key can't be used")]
    Key(#[from] KeyError),
    #[error("its signature does not hold")]
    Signature,
    #[error("no harness key that is known here signed it")]
    Stranger,
    #[error("it is too large or no plain file")]
    Special,
    #[error("the second place did not take it")]
    Second(#[from] ProgramError),
}

impl CheckpointError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Second(_) => "checkpoint_second_place",
            Self::Store(_) | Self::Io { .. } | Self::Canonical(_) => "checkpoint_not_written",
            Self::Envelope(_)
            | Self::Payload(_)
            | Self::Key(_)
            | Self::Signature
            | Self::Stranger
            | Self::Special => "checkpoint_invalid",
        }
    }
}

/// A checkpoint that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witnessed {
    pub checkpoint: Checkpoint,
    pub path: PathBuf,
    /// Where it went besides.
    pub second: Option<String>,
}

/// A checkpoint that was found, or why it does not hold.
pub(crate) type Read = (String, Result<Checkpoint, CheckpointError>);

/// Reads one checkpoint: its signature must hold, by a key that somebody here knows.
pub fn read_checkpoint(
    bytes: &[u8],
    known: &BTreeSet<String>,
) -> Result<Checkpoint, CheckpointError> {
    let opened = open_envelope(bytes, PAYLOAD_TYPE)?;
    let checkpoint: Checkpoint =
        serde_json::from_slice(&opened.payload).map_err(CheckpointError::Payload)?;
    let key = PublicKey::from_base64(&checkpoint.harness_public_key)?;
    if !opened.is_signed_by(&key) {
        return Err(CheckpointError::Signature);
    }
    if known.contains(&checkpoint.harness_public_key) {
        Ok(checkpoint)
    } else {
        Err(CheckpointError::Stranger)
    }
}

fn read_file(path: &Path, known: &BTreeSet<String>) -> Result<Checkpoint, CheckpointError> {
    let io = |source| CheckpointError::Io {
        what: "read",
        path: path.to_owned(),
        source,
    };
    let found = fs::symlink_metadata(path).map_err(io)?;
    if !found.is_file() || found.len() > CHECKPOINT_BYTES_MAX {
        return Err(CheckpointError::Special);
    }
    read_checkpoint(&fs::read(path).map_err(io)?, known)
}

/// Reads every checkpoint of a directory, in the order of their names. One that is not there has none.
fn read_directory(
    name: &str,
    directory: &Path,
    known: &BTreeSet<String>,
) -> Result<Vec<Read>, CheckpointError> {
    let io = |source| CheckpointError::Io {
        what: "read",
        path: directory.to_owned(),
        source,
    };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io(e)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(io)?.path();
        if path.to_str().is_some_and(|name| name.ends_with(SUFFIX)) {
            paths.push(path);
        }
    }
    paths.sort();
    // Named without the path before it: what is said here goes into packs.
    let read = |path: PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        (format!("{name}/{file}"), read_file(&path, known))
    };
    Ok(paths.into_iter().map(read).collect())
}

impl Ledger<'_> {
    /// Signs how far the ledger has come, and keeps it.
    pub fn checkpoint(&self, now: Utc) -> Result<Witnessed, CheckpointError> {
        let head = self.store.ledger_head()?;
        let checkpoint = Checkpoint {
            schema: CheckpointSchema,
            ledger: self.store.ledger_id()?,
            length: head.seq,
            head: head.digest,
            at: now,
            harness_public_key: self.key.public_base64(),
        };
        let payload = to_canonical(&checkpoint)?;
        let bytes = envelope_bytes(&seal_envelope(PAYLOAD_TYPE, &payload, self.key))?;
        let path = self.checkpoints().join(checkpoint.file_name());
        write(&path, &bytes)?;
        let second = match &self.second {
            None => None,
            Some(place) => Some(self.send(place, &checkpoint, &bytes)?),
        };
        Ok(Witnessed {
            checkpoint,
            path,
            second,
        })
    }

    fn send(
        &self,
        place: &SecondPlace,
        checkpoint: &Checkpoint,
        bytes: &[u8],
    ) -> Result<String, CheckpointError> {
        match place {
            SecondPlace::Directory(directory) => {
                let path = directory.join(checkpoint.file_name());
                write(&path, bytes)?;
                Ok(path.display().to_string())
            }
            SecondPlace::Git {
                repository,
                reference,
            } => {
                let git = GitPlace {
                    path: &self.path,
                    repository,
                    reference,
                };
                Ok(git.commit(&checkpoint.file_name(), bytes)?)
            }
            SecondPlace::Command(argv) => {
                Program::of(argv, &self.path)?.feed(bytes)?;
                Ok(argv.join(" "))
            }
        }
    }

    /// Every checkpoint that can be read back, and why others can't.
    pub(crate) fn witnesses(&self, trusted: &[&TrustedKey]) -> Result<Vec<Read>, CheckpointError> {
        let mut known: BTreeSet<String> = trusted.iter().map(|k| k.public_key.clone()).collect();
        known.insert(self.key.public_base64());
        let mut all = read_directory("checkpoints", &self.checkpoints(), &known)?;
        match &self.second {
            None | Some(SecondPlace::Command(_)) => {}
            Some(SecondPlace::Directory(directory)) => {
                all.extend(read_directory("the second place", directory, &known)?);
            }
            Some(SecondPlace::Git {
                repository,
                reference,
            }) => {
                let git = GitPlace {
                    path: &self.path,
                    repository,
                    reference,
                };
                if let Some(bytes) = git.last()? {
                    all.push((reference.clone(), read_checkpoint(&bytes, &known)));
                }
            }
        }
        Ok(all)
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    write_private(path, bytes).map_err(|source| CheckpointError::Io {
        what: "write",
        path: path.to_owned(),
        source,
    })
}
