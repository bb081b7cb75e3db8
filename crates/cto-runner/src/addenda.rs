//! The signed records beside a pack: written in their order, each once, and taken up where a dead process left them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_contract::addendum::{Addendum, AddendumKind, AddendumSchema, Body, Bound};
use cto_contract::approval::AddendumAdded;
use cto_contract::ids::{Digest, RunId};
use cto_contract::ledger::Record;
use cto_contract::time::Utc;
use cto_evidence::addendum::{addendum_bytes, read_addendum};
use cto_evidence::canonical::{CanonicalError, sha256, to_canonical};
use cto_store::{Found, StoreError};

use crate::harness::Harness;
use crate::home::{HomeError, make_private};
use crate::open_run::sync_dir;

/// Most records of one pack.
const NUMBER_MAX: u32 = 9_999;

/// Why a record could not be put beside a pack.
#[derive(Debug, thiserror::Error)]
pub enum AddendaError {
    #[error("the ledger can't be used")]
    Store(#[from] StoreError),
    #[error("a record has no canonical form")]
    Canonical(#[from] CanonicalError),
    #[error("the directory of addenda can't be made")]
    Home(#[from] HomeError),
    #[error("could not write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("`{path}` is not the record that the ledger knows")]
    Changed { path: PathBuf },
}

impl AddendaError {
    /// Machine-readable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::Canonical(_) => "addendum_not_encoded",
            Self::Home(error) => error.code(),
            Self::Write { .. } => "addendum_not_written",
            Self::Changed { .. } => "addendum_changed",
        }
    }
}

/// The records of one run, as the ledger has them.
pub(crate) struct Addenda<'h> {
    harness: &'h Harness,
    run_id: RunId,
    pack_digest: Digest,
    dir: PathBuf,
    entered: Vec<(AddendumKind, Bound)>,
}

impl<'h> Addenda<'h> {
    pub(crate) fn of(
        harness: &'h Harness,
        run_id: &RunId,
        pack_digest: &Digest,
    ) -> Result<Self, AddendaError> {
        let mut entered = Vec::new();
        for number in 1..=NUMBER_MAX {
            let found: Option<Found<Record>> =
                harness.store().find(&AddendumAdded::key(run_id, number))?;
            let Some(Record::AddendumAdded(added)) = found.map(|found| found.record) else {
                break;
            };
            let id = format!("{number:04}-{}.dsse.json", added.addendum);
            let digest = added.digest;
            entered.push((added.addendum, Bound { id, digest }));
        }
        Ok(Self {
            harness,
            run_id: run_id.clone(),
            pack_digest: pack_digest.clone(),
            dir: harness.home.addenda(run_id),
            entered,
        })
    }

    /// The names of all records.
    pub(crate) fn names(&self) -> Vec<String> {
        self.entered.iter().map(|(_, b)| b.id.clone()).collect()
    }

    /// The last record of a kind.
    pub(crate) fn last(&self, kind: AddendumKind) -> Option<&Bound> {
        let mut of_kind = self.entered.iter().rev().filter(|(k, _)| *k == kind);
        of_kind.next().map(|(_, bound)| bound)
    }

    /// What the last record of a kind says, if its file is the one that the ledger knows.
    pub(crate) fn body(&self, kind: AddendumKind) -> Result<Option<Body>, AddendaError> {
        let Some(bound) = self.last(kind) else {
            return Ok(None);
        };
        let path = self.dir.join(&bound.id);
        let changed = || AddendaError::Changed { path: path.clone() };
        let bytes = fs::read(&path).map_err(|_| changed())?;
        if sha256(&bytes) != bound.digest {
            return Err(changed());
        }
        let addendum = read_addendum(&bytes).ok_or_else(changed)?;
        Ok(Some(addendum.body))
    }

    /// Adds a record, unless there is one of its kind. A file that a dead process left without an entry is taken as it is.
    pub(crate) fn add(&mut self, at: Utc, body: Body) -> Result<Bound, AddendaError> {
        let kind = body.kind();
        if let Some(there) = self.last(kind) {
            return Ok(there.clone());
        }
        make_private(&self.dir)?;
        let addendum = Addendum {
            schema: AddendumSchema,
            run_id: self.run_id.clone(),
            pack_digest: self.pack_digest.clone(),
            number: u32::try_from(self.entered.len()).unwrap_or(NUMBER_MAX) + 1,
            previous: self.entered.last().map(|(_, bound)| bound.digest.clone()),
            at,
            harness_public_key: self.harness.public_key().to_base64(),
            body,
        };
        let path = self.dir.join(addendum.file_name());
        let bytes = match fs::read(&path) {
            Ok(there) => there,
            Err(_) => {
                let bytes = addendum_bytes(addendum.clone(), &self.harness.key)?;
                write_new(&path, &bytes)?;
                bytes
            }
        };
        let written =
            read_addendum(&bytes).ok_or_else(|| AddendaError::Changed { path: path.clone() })?;
        if let Body::Proof {
            file_name, payload, ..
        } = &written.body
        {
            write_new(&self.dir.join(file_name.as_str()), &to_canonical(payload)?)?;
        }
        let bound = Bound {
            id: addendum.file_name(),
            digest: sha256(&bytes),
        };
        // Another file than the ledger knows is a conflict there, and so an error here.
        let added = Record::AddendumAdded(AddendumAdded {
            run_id: self.run_id.clone(),
            number: addendum.number,
            addendum: kind,
            digest: bound.digest.clone(),
            at: written.at,
        });
        self.harness.store().append(&added)?;
        self.harness.mark_ledger();
        self.entered.push((kind, bound.clone()));
        Ok(bound)
    }
}

/// Writes a file whole, durably, or not at all.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), AddendaError> {
    let failed = |source| AddendaError::Write {
        path: path.to_owned(),
        source,
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    // Beside the directory: whatever lies in it is a record.
    let part = dir.with_extension(format!("{name}.part"));
    let written = fs::File::create(&part).and_then(|mut file| {
        io::Write::write_all(&mut file, bytes)?;
        file.sync_data()?;
        fs::rename(&part, path)?;
        sync_dir(dir)
    });
    written.map_err(failed)
}
