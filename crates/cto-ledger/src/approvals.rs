//! Requests, what operators say to them, and the one run that uses a grant up.

use cto_contract::addendum::Bound;
use cto_contract::approval::{
    Bindings, DenialStatement, GrantConsumed, GrantStatement, OutcomeStatement, RequestId,
    RequestOpened, RequesterStatement,
};
use cto_contract::ids::RunId;
use cto_contract::ledger::{Record, RecordKind, RunCreated, Seal};
use cto_contract::operator::{OperatorName, Signed};
use cto_contract::time::Utc;
use cto_contract::words::Presence;
use cto_rules::approval::{
    ApprovalRefusal, ConsumptionFacts, Decided, DecisionFacts, DecisionFault, DecisionKind,
    GrantFacts, Standing, judge_asking, judge_consumption, judge_decision,
};
use cto_rules::eligibility::ConsumedApproval;
use cto_rules::operators::floor;
use cto_rules::signatures::KeyState;
use cto_store::{Found, LedgerHead, LedgerTransaction, StoreError};

use crate::authority::Authority;
use crate::error::LedgerError;
use crate::ledger::Ledger;

/// Most minutes by which a request is moved so that its sentence is its own.
const SENTENCE_TRIES: i64 = 240;

/// What an operator said to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Granted(Box<Signed<GrantStatement>>),
    Denied(Box<Signed<DenialStatement>>),
}

/// A request with everything that became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestState {
    pub opened: RequestOpened,
    /// Where it stands.
    pub place: LedgerHead,
    /// The operator who asked, if one signed for it.
    pub asked: Option<Box<Signed<RequesterStatement>>>,
    pub decision: Option<(LedgerHead, Decision)>,
    pub consumed: Option<(LedgerHead, GrantConsumed)>,
}

impl RequestState {
    /// What was decided, in the rules' words.
    pub fn decided(&self) -> Decided {
        match &self.decision {
            None => Decided::Nothing,
            Some((_, Decision::Granted(_))) => Decided::Granted,
            Some((_, Decision::Denied(denial))) => Decided::Denied {
                by: denial.statement.signer.clone(),
            },
        }
    }

    /// The operator who is known to have asked, by his signature.
    pub fn requested_by(&self) -> Option<&OperatorName> {
        self.asked.as_ref().map(|asked| &asked.statement.signer)
    }

    /// The grant, if there is one.
    pub fn grant(&self) -> Option<(&LedgerHead, &Signed<GrantStatement>)> {
        match &self.decision {
            Some((place, Decision::Granted(grant))) => Some((place, grant)),
            Some((_, Decision::Denied(_))) | None => None,
        }
    }
}

/// A run that is about to start and wants to use a grant up.
#[derive(Debug, Clone)]
pub struct Consumption<'a> {
    pub request_id: &'a RequestId,
    pub run_id: &'a RunId,
    /// Where the run's creation stands in the ledger.
    pub epoch: u64,
    /// What the run is.
    pub asked: Bindings,
    pub now: Utc,
}

/// Why a grant was not used up.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// The rules are against it, for each of these reasons.
    #[error("the approval does not let this run start")]
    Refused(Vec<ApprovalRefusal>),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn find(
    ledger: &mut LedgerTransaction<'_>,
    id: &RequestId,
) -> Result<Option<RequestState>, StoreError> {
    let found: Option<Found<Record>> = ledger.find(&RequestOpened::key(id))?;
    let Some(Found {
        place,
        record: Record::RequestOpened(opened),
    }) = found
    else {
        return Ok(None);
    };
    let asked: Option<Found<Record>> = ledger.find(&Signed::<RequesterStatement>::key(id))?;
    let decision: Option<Found<Record>> = ledger.find(&RequestOpened::decision_key(id))?;
    let consumed: Option<Found<Record>> = ledger.find(&GrantConsumed::key(id))?;
    Ok(Some(RequestState {
        opened,
        place,
        asked: asked.and_then(|f| {
            let Record::RequestSigned(asked) = f.record else {
                return None;
            };
            Some(Box::new(asked))
        }),
        decision: decision.and_then(|f| decision_of(f.record).map(|d| (f.place, d))),
        consumed: consumed.and_then(|f| {
            let Record::GrantConsumed(consumed) = f.record else {
                return None;
            };
            Some((f.place, consumed))
        }),
    }))
}

fn decision_of(record: Record) -> Option<Decision> {
    if let Record::RequestGranted(grant) = record {
        return Some(Decision::Granted(Box::new(grant)));
    }
    if let Record::RequestDenied(denial) = record {
        return Some(Decision::Denied(Box::new(denial)));
    }
    None
}

/// Signed records that are named and are others now, by their ids.
fn changed_records(authority: &Authority, named: &[Bound]) -> Vec<String> {
    let stands = |bound: &&Bound| {
        let mut all = authority.admissions.all();
        !all.any(|known| known.statement.digest == bound.digest)
    };
    let changed = named.iter().filter(stands);
    changed.map(|bound| bound.id.clone()).collect()
}

impl Ledger<'_> {
    /// Enters a request. Its end is moved by minutes until no other request has its sentence; `make` gets it.
    pub fn open_request(
        &self,
        bindings: &Bindings,
        expires_at: Utc,
        make: impl FnOnce(Utc) -> Result<RequestOpened, LedgerError>,
    ) -> Result<LedgerHead, LedgerError> {
        self.store.transact(|ledger| {
            let others: Vec<Found<Record>> = ledger.of_kinds(&[RecordKind::RequestOpened])?;
            let is_taken = |sentence: &str| {
                let is_it = |record: &Record| matches!(record, Record::RequestOpened(opened) if opened.sentence == sentence);
                others.iter().any(|other| is_it(&other.record))
            };
            let free = (0..SENTENCE_TRIES)
                .map(|minutes| expires_at.plus_seconds(60 * minutes))
                .find(|until| !is_taken(&bindings.sentence(*until)));
            let opened = make(free.ok_or(LedgerError::TooManyRequests)?)?;
            Ok(ledger.append(&Record::RequestOpened(opened))?.place())
        })
    }

    /// A request with everything that became of it.
    pub fn request(&self, id: &RequestId) -> Result<Option<RequestState>, LedgerError> {
        Ok(self.store.transact(|ledger| find(ledger, id))?)
    }

    /// Every request, the newest first.
    pub fn requests(&self) -> Result<Vec<RequestState>, LedgerError> {
        Ok(self.store.transact(|ledger| {
            let opened: Vec<Found<Record>> = ledger.of_kinds(&[RecordKind::RequestOpened])?;
            let mut states = Vec::with_capacity(opened.len());
            for found in opened.iter().rev() {
                if let Record::RequestOpened(opened) = &found.record {
                    states.extend(find(ledger, &opened.request_id)?);
                }
            }
            Ok::<_, StoreError>(states)
        })?)
    }

    /// What an operator said of a run.
    pub fn outcome(
        &self,
        run_id: &RunId,
    ) -> Result<Option<(LedgerHead, Signed<OutcomeStatement>)>, LedgerError> {
        let found: Option<Found<Record>> =
            self.store.find(&Signed::<OutcomeStatement>::key(run_id))?;
        Ok(found.and_then(|f| {
            let Record::OutcomeRecorded(outcome) = f.record else {
                return None;
            };
            Some((f.place, outcome))
        }))
    }

    /// Records that a request or a grant names and that are others now.
    pub fn changed_records(&self, named: &[Bound]) -> Result<Vec<String>, LedgerError> {
        Ok(changed_records(&self.authority()?, named))
    }

    /// Uses a grant up for one run, or says everything that stands against it.
    ///
    /// One transaction reads every signature again, checks every binding and enters the one record that there can be. What
    /// comes back is the right to start, and nothing else makes one.
    pub fn consume(&self, asked: &Consumption<'_>) -> Result<ConsumedApproval, ConsumeError> {
        let (consumable, place) = self.store.transact(|ledger| {
            let authority = Authority::read_in(ledger)?;
            let state = find(ledger, asked.request_id)?;
            let facts = consumption_facts(ledger, &authority, state.as_ref(), asked)?;
            let consumable = judge_consumption(&facts).map_err(ConsumeError::Refused)?;
            let grant = state.as_ref().and_then(RequestState::grant);
            let (place, _) = grant.ok_or_else(|| ConsumeError::Refused(Vec::new()))?;
            let record = Record::GrantConsumed(GrantConsumed {
                request_id: asked.request_id.clone(),
                grant_seq: place.seq,
                grant_digest: place.digest.clone(),
                run_id: asked.run_id.clone(),
                epoch: asked.epoch,
                at: asked.now,
            });
            let place = ledger.append(&record)?.place();
            Ok::<_, ConsumeError>((consumable, place))
        })?;
        Ok(consumable.entered(place.seq))
    }

    /// What stands against using a request up now, as far as it is known before the run is.
    pub fn foresee(
        &self,
        id: &RequestId,
        now: Utc,
        run_id: &RunId,
    ) -> Result<Vec<ApprovalRefusal>, ConsumeError> {
        self.store.transact(|ledger| {
            let authority = Authority::read_in(ledger)?;
            let state = find(ledger, id)?;
            let granted = state.as_ref().and_then(RequestState::grant);
            let granted = granted.map(|(_, grant)| &grant.statement.bindings);
            let opened = state.as_ref().map(|state| &state.opened.bindings);
            let Some(bindings) = granted.or(opened) else {
                return Ok(vec![ApprovalRefusal::Missing {
                    request_id: id.clone(),
                }]);
            };
            let consumption = Consumption {
                request_id: id,
                run_id,
                epoch: 0,
                asked: bindings.clone(),
                now,
            };
            let facts = ConsumptionFacts {
                has_its_turn: true,
                ..consumption_facts(ledger, &authority, state.as_ref(), &consumption)?
            };
            Ok(judge_consumption(&facts).err().unwrap_or_default())
        })
    }
}

fn consumption_facts(
    ledger: &mut LedgerTransaction<'_>,
    authority: &Authority,
    state: Option<&RequestState>,
    asked: &Consumption<'_>,
) -> Result<ConsumptionFacts, ConsumeError> {
    let created: Option<Found<Record>> = ledger.find(&RunCreated::key(asked.run_id))?;
    let sealed: Option<Found<Record>> = ledger.find(&Seal::key(asked.run_id))?;
    let has_its_turn =
        created.is_some_and(|created| created.place.seq == asked.epoch) && sealed.is_none();
    let standing = match state.and_then(|s| s.decision.as_ref().map(|(_, d)| (s, d))) {
        None => Standing::Undecided,
        Some((_, Decision::Denied(denial))) => Standing::Denied {
            by: denial.statement.signer.clone(),
        },
        Some((state, Decision::Granted(grant))) => {
            let facts = grant_facts(&ledger.id()?, authority, state, grant);
            Standing::Granted(Box::new(GrantFacts {
                floor: floor(grant.statement.bindings.stage, None),
                ..facts
            }))
        }
    };
    let consumed = state.and_then(|state| state.consumed.as_ref());
    Ok(ConsumptionFacts {
        request_id: asked.request_id.clone(),
        run_id: asked.run_id.clone(),
        now: asked.now,
        asked: asked.asked.clone(),
        standing,
        consumed_by: consumed.map(|(_, consumed)| consumed.run_id.clone()),
        has_its_turn,
    })
}

fn grant_facts(
    ledger: &cto_contract::ids::Digest,
    authority: &Authority,
    state: &RequestState,
    grant: &Signed<GrantStatement>,
) -> GrantFacts {
    let opened = &state.opened;
    let statement = &grant.statement;
    let known = authority.operators.enrolment(&grant.signature.public_key);
    let key = match known {
        Some(key) if key.operator != statement.signer => KeyState::Unknown,
        Some(key) if key.revoked_at.is_some() => KeyState::Revoked,
        Some(_) => KeyState::Active,
        None => KeyState::Unknown,
    };
    let is_of_this_request = statement.request_id == opened.request_id
        && statement.request_digest == opened.request_digest
        && statement.bindings == opened.bindings
        && statement.expires_at == opened.expires_at;
    let sentence = statement.bindings.sentence(statement.expires_at);
    GrantFacts {
        bindings: statement.bindings.clone(),
        expires_at: statement.expires_at,
        signer: statement.signer.clone(),
        key,
        presence: grant.signature.presence,
        floor: Presence::Uv,
        is_of_this_ledger: statement.ledger == *ledger && is_of_this_request,
        sentence_fits: statement.sentence == sentence && opened.sentence == sentence,
        changed_records: changed_records(authority, &statement.records),
        policy: opened.policy.clone(),
        self_approved: statement.self_approved,
        requested_by: state.requested_by().cloned(),
    }
}

/// Whether an operator can still say that he asked: once, and before anybody decides.
pub fn check_asking(
    ledger: &mut LedgerTransaction<'_>,
    id: &RequestId,
    now: Utc,
) -> Result<(), DecideError> {
    let state = find(ledger, id)?.ok_or_else(|| DecideError::Unknown(id.clone()))?;
    let faults = judge_asking(
        &state.decided(),
        (now, state.opened.expires_at),
        state.requested_by(),
    );
    if faults.is_empty() {
        Ok(())
    } else {
        Err(DecideError::Refused(faults))
    }
}

/// Why a decision was not entered.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    #[error("there is no request {0} in this ledger")]
    Unknown(RequestId),
    #[error("the request can't be decided about: {}", list(.0))]
    Refused(Vec<DecisionFault>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn list(faults: &[DecisionFault]) -> String {
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    faults.join("; ")
}

impl DecideError {
    /// Machine-readable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "request_unknown",
            Self::Refused(faults) => faults.first().map_or("request_refused", |f| f.code()),
            Self::Store(error) => error.code(),
        }
    }
}

/// Whether this operator can decide about the request now. Asked again in the transaction that enters the decision.
pub fn check_decision(
    ledger: &mut LedgerTransaction<'_>,
    authority: &Authority,
    id: &RequestId,
    (decides, now): (&OperatorName, Utc),
    decision: DecisionKind,
) -> Result<(), DecideError> {
    let state = find(ledger, id)?.ok_or_else(|| DecideError::Unknown(id.clone()))?;
    let faults = judge_decision(&DecisionFacts {
        decided: state.decided(),
        now,
        expires_at: state.opened.expires_at,
        policy: state.opened.policy.as_ref(),
        decides,
        decision,
        requested_by: state.requested_by(),
        sentence: None,
        changed_records: changed_records(authority, &state.opened.records),
    });
    if faults.is_empty() {
        Ok(())
    } else {
        Err(DecideError::Refused(faults))
    }
}
