//! A walk over the chain: whether it holds, and where it first does not.

use std::collections::HashSet;

use cto_contract::ids::Digest;
use cto_contract::ledger::{LedgerRecord, Record, RecordKind};
use cto_contract::wire_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ledger::{Entry, LedgerHead, NOTHING_BEFORE};

wire_enum! {
    /// What is wrong with an entry.
    pub enum BreakReason {
        /// Its number is not the one that has to follow.
        Sequence = "sequence",
        /// It does not name the digest of the entry before.
        Previous = "previous",
        /// Its digest is not that of its columns.
        Digest = "digest",
        /// Its record is not one of its kind, or not in canonical JSON, or a column has no text at all.
        Record = "record",
        /// Its record says another kind, subject, key or time than its columns.
        Columns = "columns",
        /// The first record is no genesis, or a later one is.
        Genesis = "genesis",
        /// Its once-key is that of an earlier entry.
        Once = "once",
        /// No earlier entry has the once-key that it has to follow.
        After = "after",
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
    /// Of these, entries of a kind that this `cto` does not know: they stand in the chain, and what they say was not read.
    pub unknown: u64,
    /// The last entry that holds.
    pub head: Option<LedgerHead>,
    /// Null when all of it holds.
    pub broken: Option<Break>,
}

/// Walks the chain entry by entry. Holds its end and the once-keys that were seen.
pub(crate) struct Walk {
    next: u64,
    prev: String,
    ledger_id: Option<Digest>,
    unknown: u64,
    keys: HashSet<String>,
}

impl Walk {
    pub(crate) fn new() -> Self {
        Self {
            next: 1,
            prev: NOTHING_BEFORE.to_owned(),
            ledger_id: None,
            unknown: 0,
            keys: HashSet::new(),
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
        let kind: Option<RecordKind> = entry.kind.parse().ok();
        let after = match kind {
            Some(_) => entry.read::<Record>()?.header().after,
            None => {
                entry.check_unknown()?;
                None
            }
        };
        let first = self.next == 1;
        if first != (kind == Some(RecordKind::Genesis)) {
            return Err(BreakReason::Genesis);
        }
        if after.is_some_and(|key| !self.keys.contains(key.as_str())) {
            return Err(BreakReason::After);
        }
        if let Some(key) = &entry.once
            && !self.keys.insert(key.clone())
        {
            return Err(BreakReason::Once);
        }
        if first {
            self.ledger_id = entry.digest.parse().ok();
        }
        self.unknown += u64::from(kind.is_none());
        self.prev.clone_from(&entry.digest);
        self.next += 1;
        Ok(())
    }

    pub(crate) fn finish(self, broken: Option<BreakReason>) -> LedgerCheck {
        let entries = self.next - 1;
        LedgerCheck {
            ledger_id: self.ledger_id,
            entries,
            unknown: self.unknown,
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
    use crate::ledger::LedgerInit;
    use crate::ledger::tests::sample;
    use proptest::prelude::*;

    fn check(entries: &[Entry]) -> LedgerCheck {
        let mut walk = Walk::new();
        let broken = entries.iter().find_map(|entry| walk.step(entry).err());
        walk.finish(broken)
    }

    /// Makes numbers and digests fit again from here on, as an attacker would.
    fn chain_again(entries: &mut [Entry]) {
        let mut prev = NOTHING_BEFORE.to_owned();
        for (entry, seq) in entries.iter_mut().zip(1..) {
            entry.seq = seq;
            entry.prev = prev;
            entry.digest = entry.sum().to_string();
            prev = entry.digest.clone();
        }
    }

    /// What a walk finds in two runs (a genesis, then created and sealed twice) after a forgery.
    fn forged(forge: impl FnOnce(&mut Vec<Entry>)) -> Option<(u64, BreakReason)> {
        let mut entries = sample(2);
        forge(&mut entries);
        chain_again(&mut entries);
        check(&entries)
            .broken
            .map(|Break { seq, reason }| (seq, reason))
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
    fn a_forged_chain_is_found_by_what_its_entries_say() {
        use BreakReason::{After, Columns, Genesis, Once, Record};
        assert_eq!(forged(|_| {}), None);
        // Columns that differ from the record.
        assert_eq!(
            forged(|e| e[2].kind = "run.created".to_owned()),
            Some((3, Columns))
        );
        assert_eq!(
            forged(|e| e[2].subject = e[4].subject.clone()),
            Some((3, Columns))
        );
        assert_eq!(forged(|e| e[2].once = None), Some((3, Columns)));
        assert_eq!(
            forged(|e| e[2].once = e[4].once.clone()),
            Some((3, Columns))
        );
        assert_eq!(
            forged(|e| e[2].at = "2026-06-01T10:52:22.500001Z".to_owned()),
            Some((3, Columns))
        );
        // Records that are none of their kind, or spelled otherwise.
        assert_eq!(
            forged(|e| e[2].record = e[2].record.replace("pass", "good")),
            Some((3, Record))
        );
        assert_eq!(forged(|e| e[2].record.insert(1, ' ')), Some((3, Record)));
        // A second of what there is once, and a seal of what was never created.
        assert_eq!(forged(|e| e.push(e[2].clone())), Some((6, Once)));
        assert_eq!(forged(|e| e.swap(1, 2)), Some((2, After)));
        assert_eq!(forged(|e| drop(e.remove(3))), Some((4, After)));
        // A genesis that is not the first, or none.
        let init = LedgerInit {
            random: [8; 32],
            at: "2026-06-02T00:00:00Z".parse().unwrap(),
        };
        assert_eq!(
            forged(|e| e.push(Entry::next(None, &init.genesis()).unwrap())),
            Some((6, Genesis))
        );
        assert_eq!(forged(|e| drop(e.remove(0))), Some((1, Genesis)));
    }

    #[test]
    fn a_kind_of_a_newer_program_holds_in_the_chain_and_is_counted() {
        let newer = |forge: fn(&mut Entry)| {
            forged(|entries| {
                let entry = &mut entries[4];
                entry.kind = "newer".to_owned();
                entry.once = None;
                entry.record = r#"{"kind":"newer","what":[1]}"#.to_owned();
                forge(entry);
            })
        };
        use BreakReason::{Columns, Record};
        assert_eq!(newer(|_| {}), None);
        assert_eq!(newer(|e| e.once = Some("k".to_owned())), None);
        assert_eq!(newer(|e| e.once = Some(String::new())), Some((5, Columns)));
        assert_eq!(
            newer(|e| e.once = Some("a\nb".to_owned())),
            Some((5, Columns))
        );
        assert_eq!(newer(|e| e.subject.clear()), Some((5, Columns)));
        assert_eq!(
            newer(|e| e.at = "2026-06-01T10:52:22Z".to_owned()),
            Some((5, Columns))
        );
        assert_eq!(newer(|e| e.kind = "newest".to_owned()), Some((5, Columns)));
        assert_eq!(
            newer(|e| e.record = r#"{"kind":"newer","kind":"newer"}"#.to_owned()),
            Some((5, Record))
        );
        assert_eq!(newer(|e| e.record = "{}".to_owned()), Some((5, Columns)));

        let mut entries = sample(1);
        entries[2].kind = "newer".to_owned();
        entries[2].record = r#"{"kind":"newer"}"#.to_owned();
        chain_again(&mut entries);
        let found = check(&entries);
        assert_eq!((found.entries, found.unknown, found.broken), (3, 1, None));
    }

    proptest! {
        #[test]
        fn an_untouched_chain_holds_and_any_prefix_of_it_too(runs in 0_usize..6, cut in 1_usize..14) {
            let entries = sample(runs);
            let kept = &entries[..cut.min(entries.len())];
            let found = check(kept);
            prop_assert_eq!(found.broken, None);
            prop_assert_eq!((found.entries, found.unknown), (kept.len() as u64, 0));
            prop_assert_eq!(found.head.unwrap().digest.to_string(), kept.last().unwrap().digest.clone());
        }

        #[test]
        fn any_changed_field_is_found_at_its_entry(at in 0_usize..9, field in 0_usize..9, flip in 0_usize..500) {
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
                4 => change(&mut entry.subject),
                5 => change(entry.once.as_mut().unwrap()),
                6 => entry.once = None,
                7 => change(&mut entry.at),
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
