//! What was seen so far: each thing once with its count, in a bounded list (pure).
//!
//! Every word has a room of its own, so that a flood of one does not push out the others, and a long build, which executes
//! much, not what is forbidden.

use std::collections::BTreeMap;

use crate::attempt::{Attempt, AttemptKind, Recorded};

/// Most different attempts of one launch, and those with the same word.
pub(super) const ATTEMPTS_MAX: usize = 1_000;
pub(super) const ATTEMPTS_OF_WORD_MAX: usize = 200;
/// Most different executions of one launch.
pub(super) const EXECUTIONS_MAX: usize = 2_000;

pub(super) const EXECUTION: &str = "exec";

/// What makes two attempts the same: the number of the process does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kind: AttemptKind,
    what: String,
    target: String,
    argv: Vec<String>,
    name: String,
}

#[derive(Debug)]
struct Note {
    attempt: Attempt,
    /// The count that was told last.
    told: u64,
}

/// A thing seen, before it is known whether it is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) kind: AttemptKind,
    pub(super) what: &'static str,
    pub(super) target: String,
    pub(super) argv: Vec<String>,
    /// The process's name, and its number inside.
    pub(super) name: String,
    pub(super) pid: u32,
}

#[derive(Debug, Default)]
pub(super) struct Notes {
    places: BTreeMap<Key, usize>,
    list: Vec<Note>,
    /// How many are kept of each word.
    kept: BTreeMap<&'static str, usize>,
    totals: Recorded,
}

impl Notes {
    /// Notes a thing, and returns its place if it is new and has one.
    pub(super) fn take(&mut self, observation: Observation) -> Option<usize> {
        self.totals.attempts = self.totals.attempts.saturating_add(1);
        let process = format!("{} (pid {})", observation.name, observation.pid);
        let key = Key {
            kind: observation.kind,
            what: observation.what.to_owned(),
            target: observation.target,
            argv: observation.argv,
            name: observation.name,
        };
        if let Some(&place) = self.places.get(&key) {
            let note = self.list.get_mut(place)?;
            note.attempt.count = note.attempt.count.saturating_add(1);
            return None;
        }
        if self.is_full(observation.what) {
            self.totals.dropped = self.totals.dropped.saturating_add(1);
            return None;
        }
        *self.kept.entry(observation.what).or_default() += 1;
        let place = self.list.len();
        self.list.push(Note {
            attempt: Attempt {
                kind: key.kind,
                what: key.what.clone(),
                target: key.target.clone(),
                argv: key.argv.clone(),
                process,
                count: 1,
            },
            told: 0,
        });
        self.places.insert(key, place);
        Some(place)
    }

    fn is_full(&self, word: &'static str) -> bool {
        let kept = |word| self.kept.get(word).copied().unwrap_or(0);
        if word == EXECUTION {
            return kept(word) >= EXECUTIONS_MAX;
        }
        let others = self.list.len() - kept(EXECUTION);
        kept(word) >= ATTEMPTS_OF_WORD_MAX || others >= ATTEMPTS_MAX
    }

    pub(super) fn count_blind(&mut self) {
        self.totals.blind = self.totals.blind.saturating_add(1);
    }

    pub(super) fn totals(&self) -> Recorded {
        self.totals
    }

    /// Returns the attempt at a place if its count has not been told yet.
    pub(super) fn untold(&self, place: usize) -> Option<&Attempt> {
        let note = self.list.get(place)?;
        (note.told != note.attempt.count).then_some(&note.attempt)
    }

    pub(super) fn is_told(&mut self, place: usize) {
        if let Some(note) = self.list.get_mut(place) {
            note.told = note.attempt.count;
        }
    }

    pub(super) fn places(&self) -> std::ops::Range<usize> {
        0..self.list.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn observation(what: &'static str, target: usize) -> Observation {
        Observation {
            kind: AttemptKind::Attempt,
            what,
            target: target.to_string(),
            argv: Vec::new(),
            name: "sh".to_owned(),
            pid: 7,
        }
    }

    #[test]
    fn the_same_is_kept_once_whatever_its_process_number_is() {
        let mut notes = Notes::default();
        assert_eq!(notes.take(observation("rename", 1)), Some(0));
        let other = Observation {
            pid: 8,
            ..observation("rename", 1)
        };
        assert_eq!(notes.take(other), None);
        let attempt = notes.untold(0).unwrap();
        assert_eq!((attempt.count, attempt.process.as_str()), (2, "sh (pid 7)"));
        notes.is_told(0);
        assert_eq!(notes.untold(0), None);
        notes.take(observation("rename", 1));
        assert_eq!(notes.untold(0).unwrap().count, 3);
    }

    #[test]
    fn no_word_pushes_another_out() {
        let mut notes = Notes::default();
        for target in 0..EXECUTIONS_MAX + 5 {
            notes.take(observation(EXECUTION, target));
        }
        for target in 0..ATTEMPTS_OF_WORD_MAX + 7 {
            notes.take(observation("rename", target));
        }
        assert!(notes.take(observation("mount", 0)).is_some());
        let kept = EXECUTIONS_MAX + ATTEMPTS_OF_WORD_MAX + 1;
        assert_eq!(notes.places().len(), kept);
        let totals = Recorded {
            attempts: u64::try_from(kept + 12).unwrap(),
            dropped: 12,
            blind: 0,
        };
        assert_eq!(notes.totals(), totals);
    }

    #[test]
    fn all_words_together_are_bounded_too() {
        let mut notes = Notes::default();
        for &(_, word) in crate::calls::REFUSED {
            for target in 0..ATTEMPTS_OF_WORD_MAX {
                notes.take(observation(word, target));
            }
        }
        assert_eq!(notes.places().len(), ATTEMPTS_MAX);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_without_being_counted(targets in proptest::collection::vec(0_usize..400, 0..1_000)) {
            let mut notes = Notes::default();
            for &target in &targets {
                notes.take(observation("rename", target));
            }
            let kept: u64 = notes.places().map(|place| notes.untold(place).unwrap().count).sum();
            prop_assert_eq!(kept + notes.totals().dropped, targets.len() as u64);
            prop_assert_eq!(notes.totals().attempts, targets.len() as u64);
        }
    }
}
