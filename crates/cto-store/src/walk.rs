//! A walk over the chain: whether it holds, and where it first does not.

use cto_contract::ids::Digest;
use cto_contract::wire_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ledger::{Entry, LedgerHead, NOTHING_BEFORE, Record, chain};

wire_enum! {
    /// What is wrong with a record.
    pub enum BreakReason {
        /// Its number is not the one that has to follow.
        Sequence = "sequence",
        /// It does not name the digest of the record before.
        Previous = "previous",
        /// Its digest is not that of its text.
        Digest = "digest",
        /// Its text is not canonical JSON, or a column has no text at all.
        Record = "record",
        /// Its text says another kind, run or number than its columns.
        Columns = "columns",
        /// The first record is no genesis, or a later one is.
        Genesis = "genesis",
    }
}

/// The first place at which the chain does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Break {
    pub seq: u64,
    pub reason: BreakReason,
}

/// What a walk over the ledger showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerCheck {
    /// Digest of the genesis; null when it is broken.
    pub ledger_id: Option<Digest>,
    /// Entries that hold.
    pub entries: u64,
    /// The last entry that holds.
    pub head: Option<LedgerHead>,
    /// Null when all of it holds.
    pub broken: Option<Break>,
}

/// Walks the chain entry by entry and holds only its end.
pub(crate) struct Walk {
    next: u64,
    prev: String,
    ledger_id: Option<Digest>,
}

impl Walk {
    pub(crate) fn new() -> Self {
        Self {
            next: 1,
            prev: NOTHING_BEFORE.to_owned(),
            ledger_id: None,
        }
    }

    /// Checks the entry that follows.
    pub(crate) fn step(&mut self, entry: &Entry) -> Result<(), BreakReason> {
        if u64::try_from(entry.seq) != Ok(self.next) {
            return Err(BreakReason::Sequence);
        }
        if entry.prev != self.prev {
            return Err(BreakReason::Previous);
        }
        let digest = chain(&entry.prev, &entry.record);
        if digest.as_str() != entry.digest {
            return Err(BreakReason::Digest);
        }
        let value: serde_json::Value =
            serde_json::from_str(&entry.record).map_err(|_| BreakReason::Record)?;
        // Only one spelling: a line with a name twice would read differently to different readers.
        if serde_json_canonicalizer::to_string(&value).ok().as_ref() != Some(&entry.record) {
            return Err(BreakReason::Record);
        }
        let text = |name: &str| value.get(name).and_then(serde_json::Value::as_str);
        if text("kind") != Some(&entry.kind)
            || text("run_id") != entry.run_id.as_deref()
            || value.get("seq").and_then(serde_json::Value::as_u64) != Some(self.next)
        {
            return Err(BreakReason::Columns);
        }
        let genesis = entry.kind == "genesis";
        let first = self.next == 1;
        if first != genesis || (first && Record::read(&entry.record).is_err()) {
            return Err(BreakReason::Genesis);
        }
        if first {
            self.ledger_id = Some(digest);
        }
        self.prev.clone_from(&entry.digest);
        self.next += 1;
        Ok(())
    }

    pub(crate) fn finish(self, broken: Option<BreakReason>) -> LedgerCheck {
        let entries = self.next - 1;
        LedgerCheck {
            ledger_id: self.ledger_id,
            entries,
            head: (entries > 0)
                .then(|| self.prev.parse().ok())
                .flatten()
                .map(|digest| LedgerHead {
                    seq: entries,
                    digest,
                }),
            // A ledger without even its genesis is broken at the beginning.
            broken: broken
                .or((entries == 0).then_some(BreakReason::Genesis))
                .map(|reason| Break {
                    seq: self.next,
                    reason,
                }),
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::tests::sample;
    use crate::ledger::{LedgerInit, next_entry};
    use proptest::prelude::*;

    fn check(entries: &[Entry]) -> LedgerCheck {
        let mut walk = Walk::new();
        let broken = entries.iter().find_map(|entry| walk.step(entry).err());
        walk.finish(broken)
    }

    #[test]
    fn an_empty_ledger_is_broken_at_its_beginning() {
        assert_eq!(
            check(&[]).broken,
            Some(Break {
                seq: 1,
                reason: BreakReason::Genesis
            })
        );
    }

    #[test]
    fn a_later_genesis_is_a_break() {
        let mut entries = sample(1);
        let last = entries.last().unwrap().clone();
        let init = LedgerInit {
            random: [8; 32],
            at: "2026-06-02T00:00:00Z".parse().unwrap(),
        };
        entries.push(next_entry(Some((last.seq, last.digest)), &Record::genesis(&init)).unwrap());
        assert_eq!(
            check(&entries).broken,
            Some(Break {
                seq: 4,
                reason: BreakReason::Genesis
            })
        );
    }

    proptest! {
        #[test]
        fn an_untouched_chain_holds_and_any_prefix_of_it_too(runs in 0_usize..6, cut in 1_usize..14) {
            let entries = sample(runs);
            let kept = &entries[..cut.min(entries.len())];
            let found = check(kept);
            prop_assert_eq!(found.broken, None);
            prop_assert_eq!(found.entries, kept.len() as u64);
            prop_assert_eq!(found.head.unwrap().digest.to_string(), kept.last().unwrap().digest.clone());
        }

        #[test]
        fn any_changed_field_is_found_at_its_record(at in 0_usize..9, field in 0_usize..6, flip in 0_usize..500) {
            let mut entries = sample(4);
            let entry = &mut entries[at];
            let change = |text: &mut String| {
                let mut chars: Vec<char> = text.chars().collect();
                let i = flip % chars.len();
                chars[i] = if chars[i] == 'x' { 'y' } else { 'x' };
                *text = chars.into_iter().collect();
            };
            match field {
                0 => entry.seq += 1,
                1 => change(&mut entry.prev),
                2 => change(&mut entry.digest),
                3 => change(&mut entry.kind),
                4 => entry.run_id = if entry.run_id.is_some() { None } else { Some("x".to_owned()) },
                _ => change(&mut entry.record),
            }
            prop_assert_eq!(check(&entries).broken.map(|b| b.seq), Some(at as u64 + 1));
        }

        #[test]
        fn a_removed_record_is_found_unless_it_was_the_last(at in 0_usize..8) {
            let mut entries = sample(4);
            entries.remove(at);
            prop_assert_eq!(check(&entries).broken.map(|b| b.seq), Some(at as u64 + 1));
        }

        #[test]
        fn two_records_cannot_change_places(a in 0_usize..9, b in 0_usize..9) {
            prop_assume!(a != b);
            let mut entries = sample(4);
            entries.swap(a, b);
            prop_assert_eq!(check(&entries).broken.map(|b| b.seq), Some(a.min(b) as u64 + 1));
        }
    }
}
