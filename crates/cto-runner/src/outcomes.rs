//! What an operator said of a run, put beside its pack: the outcome, and the closeout that binds all that belongs to it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_contract::addendum::{Addendum, AddendumSchema, Body, Bound, Closeout};
use cto_contract::approval::{AddendumAdded, OutcomeStatement};
use cto_contract::ids::{Digest, RunId};
use cto_contract::ledger::Record;
use cto_contract::operator::Signed;
use cto_contract::outputs::PendingOutcome;
use cto_contract::words::RunStatus;
use cto_evidence::addendum::addendum_bytes;
use cto_evidence::canonical::{CanonicalError, digest_of, sha256};
use cto_ledger::{LedgerError, RequestState};
use cto_store::StoreError;

use crate::harness::Harness;
use crate::home::{HomeError, make_private};
use crate::open_run::sync_dir;

/// Why the records of an outcome could not be put beside a pack.
#[derive(Debug, thiserror::Error)]
pub enum OutcomeError {
    #[error("nobody has decided about run {0}")]
    NoOutcome(RunId),
    #[error("the ledger can't be used")]
    Ledger(#[from] LedgerError),
    #[error("the ledger can't be used")]
    Store(#[from] StoreError),
    #[error("a record has no canonical form")]
    Canonical(#[from] CanonicalError),
    #[error("the directory of addenda can't be made")]
    Home(#[from] HomeError),
    #[error("could not write `{path}`")]
    Write { path: PathBuf, source: io::Error },
}

impl OutcomeError {
    /// Machine-readable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoOutcome(_) => "outcome_missing",
            Self::Ledger(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Canonical(_) => "addendum_not_encoded",
            Self::Home(error) => error.code(),
            Self::Write { .. } => "addendum_not_written",
        }
    }
}

/// Writes a file whole, durably, or not at all. One that is there already stays.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), OutcomeError> {
    let failed = |source| OutcomeError::Write {
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

impl Harness {
    /// Puts the outcome of a run and its closeout beside the pack, as the ledger has them. Whoever died on the way is taken up:
    /// what is there stays, what is missing is written.
    pub fn write_addenda(&self, run_id: &RunId) -> Result<Vec<String>, OutcomeError> {
        let ledger = self.ledger();
        let (_, outcome) = ledger
            .outcome(run_id)?
            .ok_or_else(|| OutcomeError::NoOutcome(run_id.clone()))?;
        let dir = self.home.addenda(run_id);
        make_private(&dir)?;
        let first = self.addendum(run_id, &outcome, (1, None), outcome_body(&outcome))?;
        let first = self.put(&dir, first)?;
        let closeout = self.closeout(run_id, &outcome, first.clone())?;
        let previous = (2, Some(first.digest.clone()));
        let second = self.addendum(run_id, &outcome, previous, closeout)?;
        let second = self.put(&dir, second)?;
        Ok(vec![first.id, second.id])
    }

    /// The record with the time of the decision, so that making it again gives the same.
    fn addendum(
        &self,
        run_id: &RunId,
        outcome: &Signed<OutcomeStatement>,
        (number, previous): (u32, Option<Digest>),
        body: Body,
    ) -> Result<Addendum, OutcomeError> {
        Ok(Addendum {
            schema: AddendumSchema,
            run_id: run_id.clone(),
            pack_digest: outcome.statement.pack_digest.clone(),
            number,
            previous,
            at: outcome.statement.at,
            harness_public_key: self.public_key().to_base64(),
            body,
        })
    }

    fn put(&self, dir: &Path, addendum: Addendum) -> Result<Bound, OutcomeError> {
        let path = dir.join(addendum.file_name());
        let added = |digest: &Digest| AddendumAdded {
            run_id: addendum.run_id.clone(),
            number: addendum.number,
            addendum: addendum.body.kind(),
            digest: digest.clone(),
            at: addendum.at,
        };
        let bytes = match fs::read(&path) {
            Ok(there) => there,
            Err(_) => {
                let bytes = addendum_bytes(addendum.clone(), &self.key)?;
                write_new(&path, &bytes)?;
                bytes
            }
        };
        let digest = sha256(&bytes);
        // Another file than the ledger knows is a conflict there, and so an error here.
        self.store()
            .append(&Record::AddendumAdded(added(&digest)))?;
        self.mark_ledger();
        Ok(Bound {
            id: addendum.file_name(),
            digest,
        })
    }

    fn closeout(
        &self,
        run_id: &RunId,
        outcome: &Signed<OutcomeStatement>,
        record: Bound,
    ) -> Result<Body, OutcomeError> {
        let used = self.request_of(run_id)?;
        let request = used.as_ref().map(|state| Bound {
            id: state.opened.request_id.to_string(),
            digest: state.opened.request_digest.clone(),
        });
        let grant = used.as_ref().and_then(RequestState::grant);
        let grant = match grant {
            None => None,
            Some((place, grant)) => Some(Bound {
                id: format!("ledger:{}", place.seq),
                digest: digest_of(&grant)?,
            }),
        };
        Ok(Body::Closeout(Box::new(Closeout {
            request,
            grant,
            run: Bound {
                id: run_id.to_string(),
                digest: outcome.statement.pack_digest.clone(),
            },
            landing: None,
            proof: None,
            outcome: Some(record),
            validation: None,
        })))
    }

    /// Every request of this home, the newest first.
    pub fn requests(&self) -> Result<Vec<RequestState>, OutcomeError> {
        Ok(self.ledger().requests()?)
    }

    /// The request whose grant a run used up.
    pub fn request_of(&self, run_id: &RunId) -> Result<Option<RequestState>, LedgerError> {
        let used = |state: &RequestState| {
            let consumed = state.consumed.as_ref();
            consumed.is_some_and(|(_, consumed)| consumed.run_id == *run_id)
        };
        Ok(self.ledger().requests()?.into_iter().find(used))
    }

    /// Runs that used a grant up, passed, and about which nobody has decided.
    pub fn pending_outcomes(&self) -> Result<Vec<PendingOutcome>, OutcomeError> {
        let mut pending = Vec::new();
        for state in self.ledger().requests()? {
            let Some((_, consumed)) = &state.consumed else {
                continue;
            };
            let row = self.store().get(&consumed.run_id)?;
            let status = row.and_then(|row| row.status);
            if status == Some(RunStatus::Pass) && self.ledger().outcome(&consumed.run_id)?.is_none()
            {
                pending.push(PendingOutcome {
                    run_id: consumed.run_id.clone(),
                    request_id: state.opened.request_id.clone(),
                    status: RunStatus::Pass,
                });
            }
        }
        Ok(pending)
    }

    /// Finishes what a decision left undone when its process died.
    pub fn finish_addenda(&self) -> Result<(), OutcomeError> {
        use cto_contract::ledger::RecordKind;
        let outcomes: Vec<cto_store::Found<Record>> = self
            .store()
            .ledger_of_kinds(&[RecordKind::OutcomeRecorded])?;
        for found in outcomes {
            if let Record::OutcomeRecorded(outcome) = found.record {
                let run_id = &outcome.statement.run_id;
                let last = AddendumAdded::key(run_id, 2);
                if self.store().find::<Record>(&last)?.is_none() {
                    self.write_addenda(run_id)?;
                }
            }
        }
        Ok(())
    }
}

fn outcome_body(outcome: &Signed<OutcomeStatement>) -> Body {
    let (statement, signature) = (&outcome.statement, &outcome.signature);
    Body::Outcome {
        outcome: statement.outcome,
        operator: statement.signer.to_string(),
        presence: signature.presence,
        custody: signature.custody,
        note: statement.note.clone(),
        signature: signature.armour.clone(),
        signed: Some(Box::new(outcome.clone())),
    }
}
