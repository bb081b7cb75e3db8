//! Who is an operator: a fold over signed changes, and what each signature has to be worth.
//!
//! The signatures themselves are checked by others; here stands whose signature a change needs.

use std::collections::BTreeMap;

use cto_contract::operator::{OperatorChange, OperatorName, OperatorStatement};
use cto_contract::time::Utc;
use cto_contract::words::{Presence, Stage};

/// A key that counts, or once did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorKey {
    pub operator: OperatorName,
    /// `<type> <base64>`.
    pub public_key: String,
    pub claims_presence: bool,
    pub added_at: Utc,
    pub revoked_at: Option<Utc>,
}

/// Why a change of the operators does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperatorFault {
    #[error("the first operator has to sign for himself, with the key that he adds")]
    FirstSignsItself,
    #[error("there is no operator yet whose key could be revoked")]
    NobodyYet,
    #[error("`{signer}` has no such key here, or no longer")]
    UnknownSigner { signer: OperatorName },
    #[error("a key without presence can't add one that has it")]
    SignerTooWeak,
    #[error("a key without presence revokes only keys of its own operator that have none either")]
    RevokerTooWeak,
    #[error("the key is `{operator}`'s already")]
    KnownKey { operator: OperatorName },
    #[error("the key was revoked, and a revoked key stays revoked")]
    RevokedKey,
    #[error("`{operator}` has no such key")]
    NoSuchKey { operator: OperatorName },
    #[error("it is the last key that counts")]
    LastKey,
}

/// What a signature was seen to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedBy<'a> {
    pub public_key: &'a str,
    pub presence: Presence,
}

/// The keys of all operators, in the order in which they were added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Operators {
    pub keys: Vec<OperatorKey>,
}

impl Operators {
    /// Keys that count now.
    pub fn active(&self) -> impl Iterator<Item = &OperatorKey> {
        self.keys.iter().filter(|key| key.revoked_at.is_none())
    }

    /// Whether nobody was ever added.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key of this operator, if it counts now.
    pub fn find(&self, operator: &OperatorName, public_key: &str) -> Option<&OperatorKey> {
        self.active()
            .find(|key| key.operator == *operator && key.public_key == public_key)
    }

    /// What the enrolment says of a key, whoever's it is and was.
    pub fn enrolment(&self, public_key: &str) -> Option<&OperatorKey> {
        self.keys.iter().find(|key| key.public_key == public_key)
    }

    /// Takes a change whose signature holds.
    pub fn apply(
        &mut self,
        change: &OperatorStatement,
        by: SignedBy<'_>,
    ) -> Result<(), OperatorFault> {
        let is_first = self.is_empty();
        if is_first {
            let for_itself = change.signer == change.operator && by.public_key == change.public_key;
            match change.change {
                OperatorChange::Revoke => return Err(OperatorFault::NobodyYet),
                OperatorChange::Add if !for_itself => return Err(OperatorFault::FirstSignsItself),
                OperatorChange::Add => {}
            }
        } else if self.find(&change.signer, by.public_key).is_none() {
            return Err(OperatorFault::UnknownSigner {
                signer: change.signer.clone(),
            });
        }
        match change.change {
            OperatorChange::Add => self.add(change, by, is_first),
            OperatorChange::Revoke => self.revoke(change, by),
        }
    }

    fn add(
        &mut self,
        change: &OperatorStatement,
        by: SignedBy<'_>,
        is_first: bool,
    ) -> Result<(), OperatorFault> {
        match self.enrolment(&change.public_key) {
            Some(known) if known.revoked_at.is_some() => return Err(OperatorFault::RevokedKey),
            Some(known) => {
                return Err(OperatorFault::KnownKey {
                    operator: known.operator.clone(),
                });
            }
            None => {}
        }
        let is_stronger = is_strong(&change.public_key, change.claims_presence);
        if !is_first && is_stronger && by.presence == Presence::None {
            return Err(OperatorFault::SignerTooWeak);
        }
        self.keys.push(OperatorKey {
            operator: change.operator.clone(),
            public_key: change.public_key.clone(),
            claims_presence: change.claims_presence,
            added_at: change.at,
            revoked_at: None,
        });
        Ok(())
    }

    fn revoke(
        &mut self,
        change: &OperatorStatement,
        by: SignedBy<'_>,
    ) -> Result<(), OperatorFault> {
        let enrolled = self.enrolment(&change.public_key);
        let is_weak = enrolled.is_some_and(|key| !is_strong(&key.public_key, key.claims_presence));
        let is_own = by.public_key == change.public_key;
        let may = is_own || (is_weak && change.signer == change.operator);
        if by.presence == Presence::None && enrolled.is_some() && !may {
            return Err(OperatorFault::RevokerTooWeak);
        }
        let last = self.active().count() == 1;
        let key = self.keys.iter_mut().find(|key| {
            key.revoked_at.is_none()
                && key.operator == change.operator
                && key.public_key == change.public_key
        });
        let key = key.ok_or_else(|| OperatorFault::NoSuchKey {
            operator: change.operator.clone(),
        })?;
        if last {
            return Err(OperatorFault::LastKey);
        }
        key.revoked_at = Some(change.at);
        Ok(())
    }

    /// `operators.allowed_signers`: one line for each key that counts, in OpenSSH's format.
    pub fn allowed_signers(&self, namespace: &str) -> String {
        let mut text = String::from(
            "# Written by cto from its ledger; `cto operator add|revoke` changes it. A change by hand counts for nothing.\n",
        );
        for key in self.active() {
            // The stock tool takes what follows a key for a comment; a verifier elsewhere learns by it what was enrolled.
            let claims = key.claims_presence && !key.public_key.starts_with("sk-");
            let comment = if claims { " presence=claimed" } else { "" };
            text.push_str(&format!(
                "{} namespaces=\"{namespace}\" {}{comment}\n",
                key.operator, key.public_key
            ));
        }
        text
    }
}

/// Whether signatures of a key can show that somebody was there.
fn is_strong(public_key: &str, claims_presence: bool) -> bool {
    claims_presence || public_key.starts_with("sk-")
}

/// How much a presence is worth: a verified person, a touch, an enrolment's word, nothing.
fn rank(presence: Presence) -> u8 {
    match presence {
        Presence::Uv => 3,
        Presence::Up => 2,
        Presence::Claimed => 1,
        Presence::None => 0,
    }
}

/// Whether a signature shows at least as much as is needed.
pub fn meets(presence: Presence, floor: Presence) -> bool {
    rank(presence) >= rank(floor)
}

/// What a decision about a run of this stage has to show. The setting can only raise it.
pub fn floor(stage: Stage, raised_to: Option<Presence>) -> Presence {
    let least = if stage.number() >= 4 {
        Presence::Claimed
    } else {
        Presence::None
    };
    match raised_to {
        Some(raised) if rank(raised) > rank(least) => raised,
        Some(_) | None => least,
    }
}

/// The last count of each security key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u32>);

impl Counters {
    /// Takes the count of a signature. False when it should have risen: then somebody copied the key, or replays.
    #[must_use]
    pub fn rises(&mut self, public_key: &str, counter: Option<u32>) -> bool {
        let Some(counter) = counter else { return true };
        let last = self.0.entry(public_key.to_owned()).or_default();
        // A key that always says zero does not count at all.
        let rises = *last == 0 || counter > *last;
        *last = (*last).max(counter);
        rises
    }
}

#[cfg(test)]
mod tests;
