//! Names of tests by their outcome, bounded and told apart.

use std::collections::BTreeMap;

use cto_contract::verification::TestCounts;

/// How many names are kept.
const NAMES_MAX: usize = 100_000;

/// How a test ended, as its runner tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    Passed,
    /// Not run, or expected to fail.
    Skipped,
    Failed,
}

/// Collects names. One that comes again gets a number, so that losing one of two equal ones is seen.
#[derive(Default)]
pub(super) struct Names {
    /// How often a name had each outcome, in the order of [`Outcome`].
    seen: BTreeMap<String, [u32; 3]>,
    total: usize,
}

impl Names {
    pub(super) fn add(&mut self, name: String, outcome: Outcome) {
        if self.total < NAMES_MAX {
            self.total += 1;
            self.seen.entry(name).or_default()[outcome as usize] += 1;
        }
    }

    /// Puts the names into the counts. Equal ones are numbered through all outcomes, the best first: which of two
    /// equal ones failed is not known.
    pub(super) fn tell(self, counts: &mut TestCounts) {
        let [mut passed, mut skipped, mut failed] = [const { Vec::new() }; 3];
        for (name, times) in self.seen {
            let lists = [&mut passed, &mut skipped, &mut failed];
            let mut number = 0;
            for (list, times) in lists.into_iter().zip(times) {
                for _ in 0..times {
                    number += 1;
                    list.push(match number {
                        1 => name.clone(),
                        _ => format!("{name} #{number}"),
                    });
                }
            }
        }
        for list in [&mut passed, &mut skipped, &mut failed] {
            list.sort();
        }
        counts.passed_names = passed;
        counts.skipped_names = skipped;
        counts.failed_names = failed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_stay_two_whatever_became_of_them() {
        let mut names = Names::default();
        for (name, outcome) in [
            ("b", Outcome::Failed),
            ("a", Outcome::Passed),
            ("b", Outcome::Passed),
            ("b", Outcome::Passed),
            ("c", Outcome::Skipped),
        ] {
            names.add(name.to_owned(), outcome);
        }
        let mut counts = TestCounts::default();
        names.tell(&mut counts);
        assert_eq!(counts.passed_names, ["a", "b", "b #2"]);
        assert_eq!(counts.failed_names, ["b #3"]);
        assert_eq!(counts.skipped_names, ["c"]);
    }
}
