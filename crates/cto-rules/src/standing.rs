//! Whether the ledger is the one it was, and whether the files of trust are those that it holds.
//!
//! Facts are gathered by others: what checkpoints say, what the ledger has at their places, what lies on the disk.

use cto_contract::ids::Digest;

/// What one checkpoint says, and what the ledger has at that place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// Where it was found, for people.
    pub place: String,
    pub ledger: Digest,
    pub length: u64,
    pub head: Digest,
    /// The digest of the ledger's entry with that number; none where it has none.
    pub entry: Option<Digest>,
}

/// What is known of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerFacts {
    pub ledger: Digest,
    pub length: u64,
    /// How many signed decisions it holds.
    pub decisions: u64,
    pub witnesses: Vec<Witness>,
    /// Checkpoints that can't be read or do not hold: place and reason.
    pub unreadable: Vec<(String, String)>,
}

/// Why a ledger is not the one it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerFault {
    #[error(
        "checkpoint {place} is of ledger {}, and this is ledger {}",
        theirs.short(),
        ours.short()
    )]
    OtherLedger {
        place: String,
        theirs: Digest,
        ours: Digest,
    },
    #[error("the ledger has {length} entries, and checkpoint {place} saw {seen}")]
    Behind {
        place: String,
        length: u64,
        seen: u64,
    },
    #[error("entry {seen} is not the one that checkpoint {place} saw")]
    Differs { place: String, seen: u64 },
    #[error("checkpoint {place} does not hold: {why}")]
    Unreadable { place: String, why: String },
    #[error(
        "the ledger holds {decisions} decisions of operators, and there is no checkpoint of any"
    )]
    Unwitnessed { decisions: u64 },
}

impl LedgerFault {
    /// What to do about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::OtherLedger { .. } => {
                "use the home that this config directory belongs to, or another --config; whoever starts anew moves its checkpoints/ and operators.allowed_signers away"
            }
            Self::Behind { .. } | Self::Differs { .. } => {
                "an older or another database lies in home: restore the newest before anything else"
            }
            Self::Unreadable { .. } => {
                "restore the file from the second place or a backup; `cto ledger verify` names all of them"
            }
            Self::Unwitnessed { .. } => {
                "restore checkpoints/ of the config directory; `cto ledger checkpoint` makes one if you know that nothing was taken back"
            }
        }
    }
}

/// Every reason why a ledger is not the one it was; none where it is.
pub fn judge_ledger(facts: &LedgerFacts) -> Vec<LedgerFault> {
    let mut faults: Vec<LedgerFault> = facts
        .unreadable
        .iter()
        .map(|(place, why)| LedgerFault::Unreadable {
            place: place.clone(),
            why: why.clone(),
        })
        .collect();
    for witness in &facts.witnesses {
        let place = witness.place.clone();
        if witness.ledger != facts.ledger {
            faults.push(LedgerFault::OtherLedger {
                place,
                theirs: witness.ledger.clone(),
                ours: facts.ledger.clone(),
            });
        } else if witness.length > facts.length {
            faults.push(LedgerFault::Behind {
                place,
                length: facts.length,
                seen: witness.length,
            });
        } else if witness.entry.as_ref() != Some(&witness.head) {
            faults.push(LedgerFault::Differs {
                place,
                seen: witness.length,
            });
        }
    }
    if facts.decisions > 0 && facts.witnesses.is_empty() && facts.unreadable.is_empty() {
        faults.push(LedgerFault::Unwitnessed {
            decisions: facts.decisions,
        });
    }
    faults
}

/// A file that is written from the ledger, as it lies on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    Same,
    /// The ledger says otherwise: an older one, or one that somebody wrote.
    Other,
    Missing,
    /// The ledger knows nothing of it.
    Extra,
}

/// A file of trust that is not the one that the ledger holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{file}` {}", match state {
    FileState::Same => "is as it should be",
    FileState::Other => "is not what the ledger holds: an older one was put back, or somebody changed it",
    FileState::Missing => "is missing, and the ledger holds it",
    FileState::Extra => "is there, and the ledger holds nothing of it",
})]
pub struct TrustFileFault {
    pub file: String,
    pub state: FileState,
}

/// The command that writes the files of trust from the ledger.
pub const REPAIR: &str = "`cto trust repair` writes the files again from the ledger";

/// Every file of trust that is not the one that the ledger holds.
pub fn judge_trust(files: &[(String, FileState)]) -> Vec<TrustFileFault> {
    let differs = |state: FileState| match state {
        FileState::Same => false,
        FileState::Other | FileState::Missing | FileState::Extra => true,
    };
    files
        .iter()
        .filter(|(_, state)| differs(*state))
        .map(|(file, state)| TrustFileFault {
            file: file.clone(),
            state: *state,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn digest(n: u8) -> Digest {
        Digest::from_bytes(&[n; 32])
    }

    /// A ledger of so many entries, entry `n` with digest `n`.
    fn facts(length: u8, witnesses: &[(u8, u8, u8)]) -> LedgerFacts {
        let witnesses = witnesses.iter().map(|(ledger, seen, head)| Witness {
            place: format!("checkpoints/{seen}"),
            ledger: digest(*ledger),
            length: u64::from(*seen),
            head: digest(*head),
            entry: (*seen <= length).then(|| digest(*seen)),
        });
        LedgerFacts {
            ledger: digest(200),
            length: u64::from(length),
            decisions: 1,
            witnesses: witnesses.collect(),
            unreadable: Vec::new(),
        }
    }

    #[test]
    fn a_ledger_that_has_every_entry_that_was_seen_is_the_one_it_was() {
        assert_eq!(judge_ledger(&facts(9, &[(200, 3, 3), (200, 9, 9)])), []);
        let code = |witness: (u8, u8, u8)| {
            let faults = judge_ledger(&facts(9, &[(200, 3, 3), witness]));
            assert_eq!(faults.len(), 1, "{faults:?}");
            match &faults[0] {
                LedgerFault::OtherLedger { .. } => "other",
                LedgerFault::Behind { .. } => "behind",
                LedgerFault::Differs { .. } => "differs",
                LedgerFault::Unreadable { .. } => "unreadable",
                LedgerFault::Unwitnessed { .. } => "unwitnessed",
            }
        };
        assert_eq!(code((201, 3, 3)), "other");
        assert_eq!(code((200, 10, 10)), "behind");
        assert_eq!(code((200, 9, 8)), "differs");
    }

    #[test]
    fn decisions_without_any_witness_are_not_believed() {
        let lonely = facts(9, &[]);
        assert_eq!(
            judge_ledger(&lonely),
            [LedgerFault::Unwitnessed { decisions: 1 }]
        );
        let fresh = LedgerFacts {
            decisions: 0,
            ..lonely.clone()
        };
        assert_eq!(judge_ledger(&fresh), []);
        let unreadable = LedgerFacts {
            unreadable: vec![("x".to_owned(), "torn".to_owned())],
            ..lonely
        };
        assert!(matches!(
            judge_ledger(&unreadable)[..],
            [LedgerFault::Unreadable { .. }]
        ));
    }

    proptest! {
        /// Cutting entries off the end never mends a ledger that had a witness of them.
        #[test]
        fn a_shorter_ledger_never_looks_better(
            length in 1_u8..20, cut in 0_u8..20, seen in proptest::collection::vec(1_u8..25, 1..5),
        ) {
            let witnesses: Vec<(u8, u8, u8)> = seen.iter().map(|n| (200, *n, *n)).collect();
            let before = judge_ledger(&facts(length, &witnesses)).len();
            let after = judge_ledger(&facts(length.saturating_sub(cut), &witnesses)).len();
            prop_assert!(after >= before);
        }
    }

    #[test]
    fn every_file_that_differs_is_named() {
        let all = [
            ("a".to_owned(), FileState::Same),
            ("b".to_owned(), FileState::Other),
            ("c".to_owned(), FileState::Missing),
            ("d".to_owned(), FileState::Extra),
        ];
        let named: Vec<String> = judge_trust(&all).into_iter().map(|f| f.file).collect();
        assert_eq!(named, ["b", "c", "d"]);
    }
}
