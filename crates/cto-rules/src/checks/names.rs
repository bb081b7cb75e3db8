//! Names of passed tests, bounded and told apart.

use std::collections::BTreeMap;

/// How many names are kept.
const NAMES_MAX: usize = 100_000;

/// Collects names. One that comes again gets a number, so that losing one of two equal ones is seen.
#[derive(Default)]
pub(super) struct Names {
    seen: BTreeMap<String, u32>,
    total: usize,
}

impl Names {
    pub(super) fn add(&mut self, name: String) {
        if self.total < NAMES_MAX {
            self.total += 1;
            *self.seen.entry(name).or_default() += 1;
        }
    }

    pub(super) fn into_sorted(self) -> Vec<String> {
        let mut out = Vec::with_capacity(self.total);
        for (name, times) in self.seen {
            out.extend((2..=times).map(|n| format!("{name} #{n}")));
            out.push(name);
        }
        out.sort();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_stay_two() {
        let mut names = Names::default();
        for n in ["b", "a", "b"] {
            names.add(n.to_owned());
        }
        assert_eq!(names.into_sorted(), ["a", "b", "b #2"]);
    }
}
