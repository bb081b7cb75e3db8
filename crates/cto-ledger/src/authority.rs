//! What the signed records of a ledger come to, checked from the first one on.

use std::collections::BTreeMap;

use cto_contract::ids::Digest;
use cto_contract::ledger::{Record, RecordKind};
use cto_contract::operator::{OperatorChange, OperatorStatement, Signed, Statement};
use cto_contract::words::{Custody, Presence};
use cto_evidence::signed::{SignedError, check};
use cto_rules::authority::{AdmissionBook, AdmissionFault, TrustBook, TrustFault};
use cto_rules::operators::{Counters, OperatorFault, Operators, SignedBy};
use cto_store::{Found, LedgerTransaction, Store};

use crate::error::LedgerError;

/// Why a signed record of the ledger does not hold.
#[derive(Debug, thiserror::Error)]
pub enum RecordFault {
    #[error("it was signed for another ledger")]
    OtherLedger,
    #[error("the key that signed it was no operator's then")]
    UnknownKey,
    #[error("the counter of its key did not rise")]
    CounterStuck,
    #[error("its signature does not hold")]
    Signature(#[from] SignedError),
    #[error("it changes the operators as nobody could")]
    Operator(#[from] OperatorFault),
    #[error("it changes the trusted keys as nobody could")]
    Trust(#[from] TrustFault),
    #[error("it replaces a record as nobody could")]
    Admission(#[from] AdmissionFault),
    #[error("only the first change of operators takes keys over")]
    TakesOver,
}

/// Who decides here, and what they have decided.
#[derive(Debug, Clone, Default)]
pub struct Authority {
    pub operators: Operators,
    pub counters: Counters,
    pub trust: TrustBook,
    pub admissions: AdmissionBook,
    /// How each key was used, by its line.
    pub uses: BTreeMap<String, KeyUse>,
}

/// What the signatures of a key have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyUse {
    pub count: u64,
    /// Of the last one.
    pub presence: Presence,
    pub custody: Custody,
}

/// The kinds that the fold reads.
pub(crate) fn signed_kinds() -> Vec<RecordKind> {
    let kinds = RecordKind::ALL.iter().copied();
    kinds.filter(|kind| kind.is_signed()).collect()
}

impl Authority {
    /// Reads what stands in the ledger.
    pub fn read(store: &Store) -> Result<Self, LedgerError> {
        let records = store.ledger_of_kinds(&signed_kinds())?;
        Self::fold(&store.ledger_id()?, records)
    }

    /// The same inside a transaction: it stays true until what is appended is in.
    pub fn read_in(ledger: &mut LedgerTransaction<'_>) -> Result<Self, LedgerError> {
        let records = ledger.of_kinds(&signed_kinds())?;
        Self::fold(&ledger.id()?, records)
    }

    fn fold(ledger: &Digest, records: Vec<Found<Record>>) -> Result<Self, LedgerError> {
        let mut authority = Self::default();
        for Found { place, record } in records {
            authority
                .take(ledger, place.seq, &record)
                .map_err(|source| LedgerError::Forged {
                    seq: place.seq,
                    source,
                })?;
        }
        Ok(authority)
    }

    /// Whether somebody decides here. Before there is anybody, nothing needs a signature.
    pub fn is_governed(&self) -> bool {
        !self.operators.is_empty()
    }

    /// Takes one record: its signature must hold, by a key that counted then. Each new kind of signed record has an arm.
    pub(crate) fn take(
        &mut self,
        ledger: &Digest,
        seq: u64,
        record: &Record,
    ) -> Result<(), RecordFault> {
        match record {
            Record::OperatorChanged(signed) => self.take_operator(ledger, signed),
            Record::TrustChanged(signed) => {
                self.take_signature(ledger, signed)?;
                Ok(self.trust.apply(&signed.statement.keys)?)
            }
            Record::AdmissionChanged(signed) => {
                self.take_signature(ledger, signed)?;
                Ok(self.admissions.apply(seq, signed)?)
            }
            Record::Genesis(_)
            | Record::RunCreated(_)
            | Record::RunSealed(_)
            | Record::RunTakenUp(_)
            | Record::LedgerLost(_)
            | Record::RequestOpened(_)
            | Record::GrantConsumed(_)
            | Record::AddendumAdded(_)
            | Record::LandingIntended(_)
            | Record::LandingEnded(_)
            | Record::ConformanceRecorded(_)
            | Record::StagePassed(_)
            | Record::ValidationHome(_)
            | Record::SlotOpened(_)
            | Record::SlotClosed(_) => Ok(()),
            Record::RequestSigned(signed) => self.take_signature(ledger, signed).map(drop),
            Record::RequestGranted(signed) => self.take_signature(ledger, signed).map(drop),
            Record::RequestDenied(signed) => self.take_signature(ledger, signed).map(drop),
            Record::OutcomeRecorded(signed) => self.take_signature(ledger, signed).map(drop),
        }
    }

    fn take_operator(
        &mut self,
        ledger: &Digest,
        signed: &Signed<OperatorStatement>,
    ) -> Result<(), RecordFault> {
        let is_first = self.operators.is_empty();
        let statement = &signed.statement;
        let presence = if is_first {
            self.take_bytes(ledger, signed, statement.claims_presence)?
        } else {
            self.take_signature(ledger, signed)?
        };
        let by = SignedBy {
            public_key: &signed.signature.public_key,
            presence,
        };
        self.operators.apply(statement, by)?;
        if statement.change == OperatorChange::Revoke {
            self.admissions.revoke(&statement.public_key);
        }
        match (is_first, statement.takes_over.is_empty()) {
            (true, _) => self.trust.take_over(&statement.takes_over),
            (false, true) => {}
            (false, false) => return Err(RecordFault::TakesOver),
        }
        Ok(())
    }

    /// Checks a record of one who is an operator.
    fn take_signature<T: Statement>(
        &mut self,
        ledger: &Digest,
        signed: &Signed<T>,
    ) -> Result<Presence, RecordFault> {
        let (signer, key) = (signed.statement.signer(), &signed.signature.public_key);
        let key = self.operators.find(signer, key);
        let claims_presence = key.ok_or(RecordFault::UnknownKey)?.claims_presence;
        self.take_bytes(ledger, signed, claims_presence)
    }

    fn take_bytes<T: Statement>(
        &mut self,
        ledger: &Digest,
        signed: &Signed<T>,
        claims_presence: bool,
    ) -> Result<Presence, RecordFault> {
        if signed.statement.ledger() != ledger {
            return Err(RecordFault::OtherLedger);
        }
        check(signed, claims_presence)?;
        let told = &signed.signature;
        if !self.counters.rises(&told.public_key, told.counter) {
            return Err(RecordFault::CounterStuck);
        }
        let count = self.uses.get(&told.public_key).map_or(0, |used| used.count);
        let used = KeyUse {
            count: count + 1,
            presence: told.presence,
            custody: told.custody,
        };
        self.uses.insert(told.public_key.clone(), used);
        Ok(told.presence)
    }
}
