//! What an operator said of a run, put beside its pack: the outcome, and the closeout that binds all that belongs to it.

use cto_contract::addendum::{AddendumKind, Body, Bound, Closeout};
use cto_contract::approval::OutcomeStatement;
use cto_contract::blocker::Blocker;
use cto_contract::ids::RunId;
use cto_contract::ledger::Record;
use cto_contract::operator::Signed;
use cto_contract::outputs::PendingOutcome;
use cto_contract::words::RunStatus;
use cto_evidence::canonical::{CanonicalError, digest_of};
use cto_ledger::{LedgerError, RequestState};
use cto_store::StoreError;

use crate::addenda::{Addenda, AddendaError};
use crate::harness::Harness;
use crate::landing::LandError;

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
    #[error("a record can't be put beside the pack")]
    Addenda(#[from] AddendaError),
    #[error("what the outcome asks for could not be done")]
    Land(#[from] LandError),
}

impl OutcomeError {
    /// Machine-readable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoOutcome(_) => "outcome_missing",
            Self::Ledger(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Canonical(_) => "addendum_not_encoded",
            Self::Addenda(error) => error.code(),
            Self::Land(error) => error.code(),
        }
    }
}

/// What was put beside a pack, and what kept a rollback from being done.
#[derive(Debug)]
pub struct OutcomeWritten {
    pub addenda: Vec<String>,
    pub rollback: Option<Blocker>,
}

impl Harness {
    /// Puts the outcome of a run and what follows from it beside the pack: a rollback or a proof, and the closeout. Whoever
    /// died on the way is taken up: what is there stays, what is missing is done.
    pub fn write_addenda(&self, run_id: &RunId) -> Result<OutcomeWritten, OutcomeError> {
        let ledger = self.ledger();
        let (_, outcome) = ledger
            .outcome(run_id)?
            .ok_or_else(|| OutcomeError::NoOutcome(run_id.clone()))?;
        let statement = &outcome.statement;
        let mut addenda = Addenda::of(self, run_id, &statement.pack_digest)?;
        // The time of the decision, so that making a record again gives the same.
        let at = statement.at;
        addenda.add(at, outcome_body(&outcome))?;
        let rollback = self.roll_back(statement, &mut addenda)?;
        self.prove_owned(statement, &mut addenda)?;
        let closeout = self.closeout(run_id, &outcome, &addenda)?;
        addenda.add(at, closeout)?;
        Ok(OutcomeWritten {
            addenda: addenda.names(),
            rollback,
        })
    }

    fn closeout(
        &self,
        run_id: &RunId,
        outcome: &Signed<OutcomeStatement>,
        addenda: &Addenda<'_>,
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
            landing: addenda.last(AddendumKind::Landing).cloned(),
            proof: addenda.last(AddendumKind::Proof).cloned(),
            outcome: addenda.last(AddendumKind::Outcome).cloned(),
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
                let addenda = Addenda::of(self, run_id, &outcome.statement.pack_digest)?;
                if addenda.last(AddendumKind::Closeout).is_none() {
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
        signed: Box::new(outcome.clone()),
    }
}
