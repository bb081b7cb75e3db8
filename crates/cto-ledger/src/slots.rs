//! One signature at a time: what is to be signed is fixed first, asked for in a slot, and entered in one transaction that
//! checks all of it.

use std::fs;
use std::path::PathBuf;

use cto_contract::ids::{Digest, Nonce};
use cto_contract::ledger::{Record, RecordKind, Subject};
use cto_contract::operator::{OperatorSignature, SlotClosed, SlotOpened, Statement};
use cto_contract::time::Utc;
use cto_contract::words::{Custody, Presence};
use cto_evidence::canonical::{sha256, to_canonical};
use cto_evidence::signed::join;
use cto_evidence::sshsig::SshSig;
use cto_rules::signatures::{
    KeyState, LastSlot, SignatureFacts, SlotChoice, SlotState, choose_slot, judge_signature,
};
use cto_store::{Found, LedgerHead, LedgerTransaction, StoreError};

use crate::authority::Authority;
use crate::error::LedgerError;
use crate::files::write_private;
use crate::ledger::Ledger;

/// What a statement has to name: the ledger, its slot and the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    pub ledger: Digest,
    pub nonce: Nonce,
    pub at: Utc,
}

/// A statement that waits for its signature.
#[derive(Debug, Clone)]
pub struct Asked<T> {
    pub statement: T,
    /// The bytes to be signed: the RFC 8785 form of the statement.
    pub message: Vec<u8>,
    /// A file with exactly these bytes, for a signature that is made elsewhere.
    pub file: PathBuf,
    pub purpose: String,
    pub expires_at: Utc,
}

/// What is left to do after a decision is in the ledger.
#[derive(Debug)]
pub enum Unfinished {
    Files(LedgerError),
    Checkpoint(LedgerError),
}

/// A decision that is in the ledger.
#[derive(Debug)]
pub struct Entered {
    pub place: LedgerHead,
    pub presence: Presence,
    pub custody: Custody,
    /// Where its checkpoint is.
    pub checkpoint: Option<PathBuf>,
    /// What could not be written after it. The decision counts all the same.
    pub unfinished: Vec<Unfinished>,
}

/// The last slot, if there ever was one.
fn last_slot(ledger: &mut LedgerTransaction<'_>) -> Result<Option<(SlotOpened, bool)>, StoreError> {
    let found: Option<Found<Record>> =
        ledger.last(RecordKind::SlotOpened.as_str(), &Subject::slot())?;
    let Some(Found {
        record: Record::SlotOpened(opened),
        ..
    }) = found
    else {
        return Ok(None);
    };
    let closed: Option<Found<Record>> = ledger.find(&SlotClosed::key(&opened.nonce))?;
    Ok(Some((opened, closed.is_some())))
}

fn close(
    ledger: &mut LedgerTransaction<'_>,
    nonce: &Nonce,
    used: bool,
    at: Utc,
) -> Result<(), StoreError> {
    let closed = SlotClosed {
        nonce: nonce.clone(),
        used,
        at,
    };
    ledger.append(&Record::SlotClosed(closed)).map(drop)
}

impl Ledger<'_> {
    /// Opens the slot and fixes what is to be signed in it, for so many seconds. Nothing is asked for on top of a ledger
    /// that was put back.
    pub fn ask<T: Statement>(
        &self,
        purpose: &str,
        nonce: Nonce,
        (now, seconds): (Utc, i64),
        make: impl FnOnce(Slot) -> T,
    ) -> Result<Asked<T>, LedgerError> {
        self.check_standing()?;
        let slot = Slot {
            ledger: self.id()?,
            nonce: nonce.clone(),
            at: now,
        };
        let statement = make(slot);
        let message = to_canonical(&statement)?;
        let opened = SlotOpened {
            statement: sha256(&message),
            purpose: purpose.to_owned(),
            at: now,
            expires_at: now.plus_seconds(seconds),
            nonce,
        };
        let expires_at = opened.expires_at;
        let file = self.keep_draft(&opened.nonce, &message)?;
        self.store.transact(|ledger| {
            let last = last_slot(ledger)?;
            let facts = last.as_ref().map(|(opened, is_closed)| LastSlot {
                opened,
                is_closed: *is_closed,
            });
            match (choose_slot(facts, now), &last) {
                (SlotChoice::Expired, Some((expired, _))) => {
                    close(ledger, &expired.nonce, false, now)?;
                }
                (SlotChoice::Taken, Some((taken, _))) => {
                    return Err(LedgerError::SlotTaken {
                        purpose: taken.purpose.clone(),
                        until: taken.expires_at,
                    });
                }
                (SlotChoice::Free | SlotChoice::Expired | SlotChoice::Taken, _) => {}
            }
            ledger.append(&Record::SlotOpened(opened))?;
            Ok(())
        })?;
        Ok(Asked {
            statement,
            message,
            file,
            purpose: purpose.to_owned(),
            expires_at,
        })
    }

    /// What waits for a signature now, if it is a statement of this type.
    pub fn asked<T: Statement>(&self, now: Utc) -> Result<Asked<T>, LedgerError> {
        let last = self.open_slot(now)?;
        let opened = last.ok_or(LedgerError::NothingAsked)?;
        let file = self.draft(&opened.nonce);
        let changed = || LedgerError::DraftChanged { path: file.clone() };
        let message = fs::read(&file).map_err(|_| changed())?;
        if sha256(&message) != opened.statement {
            return Err(changed());
        }
        let other = |_| LedgerError::OtherAsked {
            purpose: opened.purpose.clone(),
        };
        let statement: T = serde_json::from_slice(&message).map_err(other)?;
        Ok(Asked {
            statement,
            message,
            purpose: opened.purpose,
            expires_at: opened.expires_at,
            file,
        })
    }

    /// The slot that is open now.
    pub fn open_slot(&self, now: Utc) -> Result<Option<SlotOpened>, LedgerError> {
        let last = self.store.transact(last_slot)?;
        let open = last.filter(|(opened, is_closed)| !is_closed && opened.expires_at > now);
        Ok(open.map(|(opened, _)| opened))
    }

    /// Gives up the slot that is open: whatever is signed for it counts for nothing.
    pub fn release(&self, now: Utc) -> Result<Option<SlotOpened>, LedgerError> {
        let given_up = self.store.transact(|ledger| {
            let open = last_slot(ledger)?.filter(|(_, is_closed)| !is_closed);
            if let Some((opened, _)) = &open {
                close(ledger, &opened.nonce, false, now)?;
            }
            Ok::<_, StoreError>(open.map(|(opened, _)| opened))
        })?;
        if let Some(opened) = &given_up {
            fs::remove_file(self.draft(&opened.nonce)).ok();
        }
        Ok(given_up)
    }

    /// Enters a signed statement. One transaction checks ledger, slot, key, counter, presence and what the statement itself
    /// may say, asks `also`, appends the record and closes the slot: all of it or nothing. Then files and checkpoint follow.
    pub fn enter<T: Statement, E: From<LedgerError> + From<StoreError>>(
        &self,
        statement: T,
        signature: &SshSig,
        (floor, now): (Presence, Utc),
        also: impl FnOnce(&mut LedgerTransaction<'_>, &Authority) -> Result<(), E>,
    ) -> Result<Entered, E> {
        let nonce = statement.slot().clone();
        let (place, signature) = self.store.transact(|ledger| {
            let mut authority = Authority::read_in(ledger)?;
            let (record, signature) =
                accept(ledger, &authority, statement, signature, (floor, now))?;
            also(ledger, &authority)?;
            let id = ledger.id()?;
            let next = ledger.head()?.seq + 1;
            // What could not be read back must not get in: nothing could ever take it out again.
            authority
                .take(&id, next, &record)
                .map_err(|fault| E::from(refusal(fault, next)))?;
            let place = ledger.append(&record)?.place();
            close(ledger, &nonce, true, now)?;
            Ok::<_, E>((place, signature))
        })?;
        fs::remove_file(self.draft(&nonce)).ok();
        let mut entered = Entered {
            place,
            presence: signature.presence,
            custody: signature.custody,
            checkpoint: None,
            unfinished: Vec::new(),
        };
        if let Err(error) = self.write_files() {
            entered.unfinished.push(Unfinished::Files(error));
        }
        match self.checkpoint(now) {
            Ok(witnessed) => entered.checkpoint = Some(witnessed.path),
            Err(error) => entered
                .unfinished
                .push(Unfinished::Checkpoint(error.into())),
        }
        Ok(entered)
    }

    fn draft(&self, nonce: &Nonce) -> PathBuf {
        self.drafts().join(format!("{nonce}.json"))
    }

    fn keep_draft(&self, nonce: &Nonce, message: &[u8]) -> Result<PathBuf, LedgerError> {
        let path = self.draft(nonce);
        write_private(&path, message).map_err(|source| LedgerError::Draft {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }
}

fn refusal(fault: crate::RecordFault, seq: u64) -> LedgerError {
    use crate::RecordFault;
    match fault {
        RecordFault::Operator(fault) => fault.into(),
        RecordFault::Trust(fault) => fault.into(),
        RecordFault::Admission(fault) => fault.into(),
        RecordFault::Signature(fault) => fault.into(),
        source @ (RecordFault::OtherLedger
        | RecordFault::UnknownKey
        | RecordFault::CounterStuck
        | RecordFault::TakesOver) => LedgerError::Forged { seq, source },
    }
}

/// Makes the record of a statement whose signature counts.
fn accept<T: Statement>(
    ledger: &mut LedgerTransaction<'_>,
    authority: &Authority,
    statement: T,
    signature: &SshSig,
    (floor, now): (Presence, Utc),
) -> Result<(Record, OperatorSignature), LedgerError> {
    let digest = sha256(&to_canonical(&statement)?);
    let (signer, nonce) = (statement.signer().clone(), statement.slot().clone());
    let is_of_this_ledger = *statement.ledger() == ledger.id()?;
    let public_key = signature.key.to_openssh();
    let enrolment = authority.operators.enrolment(&public_key);
    let claims = enrolment.is_some_and(|key| key.claims_presence);
    let mut record = T::into_record(join(statement, signature, claims)?);
    let mut key = match enrolment {
        Some(key) if key.operator != signer => KeyState::Unknown,
        Some(key) if key.revoked_at.is_some() => KeyState::Revoked,
        Some(_) => KeyState::Active,
        None => KeyState::Unknown,
    };
    // The first operator signs for himself: his enrolment is the statement, and its own rules say whether it may be.
    if let Record::OperatorChanged(first) = &record
        && !authority.is_governed()
    {
        let statement = first.statement.clone();
        let claims = statement.claims_presence;
        key = KeyState::Active;
        record = Record::OperatorChanged(join(statement, signature, claims)?);
    }
    // Every statement's record is a signed one.
    let signature = record.signature().cloned();
    let signature = signature.ok_or(LedgerError::NothingAsked)?;
    let facts = SignatureFacts {
        signer,
        is_of_this_ledger,
        slot: slot_state(ledger, &nonce, &digest, now)?,
        key,
        counter_rises: authority
            .counters
            .clone()
            .rises(&public_key, signature.counter),
        presence: signature.presence,
        floor,
    };
    let faults = judge_signature(&facts);
    if faults.is_empty() {
        Ok((record, signature))
    } else {
        Err(LedgerError::Refused(faults))
    }
}

fn slot_state(
    ledger: &mut LedgerTransaction<'_>,
    nonce: &Nonce,
    digest: &Digest,
    now: Utc,
) -> Result<SlotState, StoreError> {
    let opened: Option<Found<Record>> = ledger.find(&SlotOpened::key(nonce))?;
    let Some(Found {
        record: Record::SlotOpened(opened),
        ..
    }) = opened
    else {
        return Ok(SlotState::Unknown);
    };
    let closed: Option<Found<Record>> = ledger.find(&SlotClosed::key(nonce))?;
    Ok(if closed.is_some() {
        SlotState::Closed
    } else if opened.expires_at <= now {
        SlotState::Expired
    } else if opened.statement != *digest {
        SlotState::OtherStatement
    } else {
        SlotState::Open
    })
}
