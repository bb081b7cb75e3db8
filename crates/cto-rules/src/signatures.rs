//! Whether a signature counts: in which slot it was asked for, by whose key it is, and what it shows.
//!
//! The bytes are checked by others; here stands what has to be true besides. Every fault is named, not only the first.

use cto_contract::operator::{OperatorName, SlotOpened};
use cto_contract::time::Utc;
use cto_contract::words::Presence;

use crate::operators::meets;

/// The last slot of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastSlot<'a> {
    pub opened: &'a SlotOpened,
    pub is_closed: bool,
}

/// What may be done with the slot of a ledger when somebody wants one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotChoice {
    /// Nobody is asked: it can be opened.
    Free,
    /// Its time is over: it is closed first, unused.
    Expired,
    /// Somebody is asked already.
    Taken,
}

/// Says whether a slot can be opened now. One at a time: whoever is asked to touch a key must know for what.
pub fn choose_slot(last: Option<LastSlot<'_>>, now: Utc) -> SlotChoice {
    match last {
        None => SlotChoice::Free,
        Some(slot) if slot.is_closed => SlotChoice::Free,
        Some(slot) if slot.opened.expires_at <= now => SlotChoice::Expired,
        Some(_) => SlotChoice::Taken,
    }
}

/// How a statement stands to the slot that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    Open,
    /// The ledger never opened it.
    Unknown,
    /// It was used or given up.
    Closed,
    Expired,
    /// It is open for another statement.
    OtherStatement,
}

/// Whose key made a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// The signer's, and it counts.
    Active,
    Revoked,
    /// Nobody's, or another operator's than the statement says.
    Unknown,
}

/// What is known of a signature that holds for its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureFacts {
    pub signer: OperatorName,
    pub is_of_this_ledger: bool,
    pub slot: SlotState,
    pub key: KeyState,
    pub counter_rises: bool,
    pub presence: Presence,
    pub floor: Presence,
}

/// Why a signature does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    #[error("it was signed for another ledger")]
    OtherLedger,
    #[error("nobody here asked for it: its signing slot is unknown")]
    SlotUnknown,
    #[error("its signing slot was used or given up: a signature counts once")]
    SlotClosed,
    #[error("its signing slot has expired")]
    SlotExpired,
    #[error("its signing slot was opened for another statement")]
    OtherStatement,
    #[error("`{0}` has no such key here")]
    UnknownKey(OperatorName),
    #[error("the key of `{0}` was revoked")]
    RevokedKey(OperatorName),
    #[error("the key's counter did not rise: the key was copied, or the signature is old")]
    CounterStuck,
    #[error("it shows presence `{shown}`, and `{needed}` is needed")]
    PresenceTooLow { shown: Presence, needed: Presence },
}

impl SignatureFault {
    /// Machine-readable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::OtherLedger => "signature_other_ledger",
            Self::SlotUnknown => "signing_slot_unknown",
            Self::SlotClosed => "signing_slot_closed",
            Self::SlotExpired => "signing_slot_expired",
            Self::OtherStatement => "signing_slot_other_statement",
            Self::UnknownKey(_) => "signature_key_unknown",
            Self::RevokedKey(_) => "signature_key_revoked",
            Self::CounterStuck => "signature_counter_stuck",
            Self::PresenceTooLow { .. } => "signature_presence_too_low",
        }
    }
}

/// Every reason why a signature does not count; none when it does.
pub fn judge_signature(facts: &SignatureFacts) -> Vec<SignatureFault> {
    let mut faults = Vec::new();
    if !facts.is_of_this_ledger {
        faults.push(SignatureFault::OtherLedger);
    }
    match facts.slot {
        SlotState::Open => {}
        SlotState::Unknown => faults.push(SignatureFault::SlotUnknown),
        SlotState::Closed => faults.push(SignatureFault::SlotClosed),
        SlotState::Expired => faults.push(SignatureFault::SlotExpired),
        SlotState::OtherStatement => faults.push(SignatureFault::OtherStatement),
    }
    match facts.key {
        KeyState::Active => {}
        KeyState::Revoked => faults.push(SignatureFault::RevokedKey(facts.signer.clone())),
        KeyState::Unknown => faults.push(SignatureFault::UnknownKey(facts.signer.clone())),
    }
    if !facts.counter_rises {
        faults.push(SignatureFault::CounterStuck);
    }
    if !meets(facts.presence, facts.floor) {
        faults.push(SignatureFault::PresenceTooLow {
            shown: facts.presence,
            needed: facts.floor,
        });
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use cto_contract::ids::{Digest, Nonce};

    fn at(text: &str) -> Utc {
        text.parse().unwrap()
    }

    #[test]
    fn one_slot_is_open_at_a_time_and_not_for_ever() {
        let opened = SlotOpened {
            nonce: Nonce::from_bytes(&[1; 32]),
            statement: Digest::from_bytes(&[2; 32]),
            purpose: "add an operator".to_owned(),
            at: at("2026-06-01T00:00:00Z"),
            expires_at: at("2026-06-01T00:05:00Z"),
        };
        let choose = |is_closed, now| {
            let last = LastSlot {
                opened: &opened,
                is_closed,
            };
            choose_slot(Some(last), at(now))
        };
        assert_eq!(choose_slot(None, opened.at), SlotChoice::Free);
        assert_eq!(choose(false, "2026-06-01T00:04:59Z"), SlotChoice::Taken);
        assert_eq!(choose(false, "2026-06-01T00:05:00Z"), SlotChoice::Expired);
        for now in ["2026-06-01T00:04:59Z", "2026-06-01T00:05:00Z"] {
            assert_eq!(choose(true, now), SlotChoice::Free);
        }
    }

    /// All of it: each fact that is wrong gives its own fault, whatever the others are, and nothing else does.
    #[test]
    fn a_signature_counts_exactly_when_nothing_is_wrong_with_it() {
        use SlotState::{Closed, Expired, Open, OtherStatement, Unknown};
        let mut rows = 0;
        for is_of_this_ledger in [true, false] {
            for slot in [Open, Unknown, Closed, Expired, OtherStatement] {
                for key in [KeyState::Active, KeyState::Revoked, KeyState::Unknown] {
                    for counter_rises in [true, false] {
                        for presence in Presence::ALL.iter().copied() {
                            for floor in Presence::ALL.iter().copied() {
                                let facts = SignatureFacts {
                                    signer: "olga".parse().unwrap(),
                                    is_of_this_ledger,
                                    slot,
                                    key,
                                    counter_rises,
                                    presence,
                                    floor,
                                };
                                let wrong = [
                                    !is_of_this_ledger,
                                    slot != Open,
                                    key != KeyState::Active,
                                    !counter_rises,
                                    !meets(presence, floor),
                                ];
                                let count = wrong.iter().filter(|wrong| **wrong).count();
                                assert_eq!(judge_signature(&facts).len(), count, "{facts:?}");
                                rows += 1;
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(rows, 2 * 5 * 3 * 2 * 16);
    }
}
