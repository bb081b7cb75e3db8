//! Whether the ledger is the one it was and the files of trust are those that it holds: facts for the rules.

use cto_contract::trust::TrustedKey;
use cto_rules::standing::{
    FileState, LedgerFacts, LedgerFault, TrustFileFault, Witness, judge_ledger, judge_trust,
};

use crate::authority::{Authority, signed_kinds};
use crate::error::LedgerError;
use crate::ledger::Ledger;

/// How a ledger and its files stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub ledger: LedgerFacts,
    pub files: Vec<(String, FileState)>,
}

impl Standing {
    pub fn ledger_faults(&self) -> Vec<LedgerFault> {
        judge_ledger(&self.ledger)
    }

    pub fn file_faults(&self) -> Vec<TrustFileFault> {
        judge_trust(&self.files)
    }
}

impl Ledger<'_> {
    /// Refuses to go on from a ledger that was put back, or beside files that it does not hold.
    pub fn check_standing(&self) -> Result<Authority, LedgerError> {
        let authority = self.authority()?;
        let standing = self.standing(&authority)?;
        let faults = standing.ledger_faults();
        if !faults.is_empty() {
            return Err(LedgerError::RolledBack(faults));
        }
        let faults = standing.file_faults();
        if !faults.is_empty() {
            return Err(LedgerError::TrustRolledBack(faults));
        }
        Ok(authority)
    }

    /// Gathers what is known: checkpoints against the ledger, files against what it holds.
    pub fn standing(&self, authority: &Authority) -> Result<Standing, LedgerError> {
        let decisions = self
            .store
            .ledger_of_kinds::<cto_contract::ledger::Record>(&signed_kinds())?
            .len();
        let mut facts = LedgerFacts {
            ledger: self.id()?,
            length: self.store.ledger_head()?.seq,
            decisions: decisions as u64,
            witnesses: Vec::new(),
            unreadable: Vec::new(),
        };
        let known: Vec<&TrustedKey> = authority.trust.keys().chain(self.trusted).collect();
        for (place, read) in self.witnesses(&known)? {
            match read {
                Ok(checkpoint) => facts.witnesses.push(Witness {
                    place,
                    entry: self
                        .store
                        .ledger_entry_at(checkpoint.length)?
                        .map(|entry| entry.digest),
                    ledger: checkpoint.ledger,
                    length: checkpoint.length,
                    head: checkpoint.head,
                }),
                Err(error) => facts.unreadable.push((place, error.to_string())),
            }
        }
        Ok(Standing {
            ledger: facts,
            files: self.files().compare(authority)?,
        })
    }
}
