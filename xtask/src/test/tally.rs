//! How many tests passed, read from what the runners say at the end.

use std::fmt;
use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Tally {
    /// Reads the closing line of nextest; any other line is nothing.
    pub(crate) fn of_nextest(line: &str) -> Option<Self> {
        let (_, counts) = line
            .trim()
            .strip_prefix("Summary [")?
            .split_once(" run: ")?;
        Some(Self::of_counts(without_brackets(counts).split(',')))
    }

    /// Reads the closing line of one test binary under `cargo test`; any other line is nothing.
    pub(crate) fn of_cargo_test(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        Some(Self::of_counts(counts.split(';')))
    }

    /// What is neither passed nor skipped (failed, timed out, could not start) failed.
    fn of_counts<'a>(counts: impl Iterator<Item = &'a str>) -> Self {
        let mut tally = Self::default();
        for count in counts {
            let Some((number, what)) = count.trim().split_once(' ') else {
                continue;
            };
            // `finished in 0.01s` has no number in front.
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what.trim() {
                "passed" => tally.passed += number,
                "skipped" | "ignored" | "filtered out" => tally.skipped += number,
                "measured" => {}
                _ => tally.failed += number,
            }
        }
        tally
    }
}

/// Drops the asides of nextest, as in `3 passed (1 slow, 1 flaky), 1 failed`.
fn without_brackets(text: &str) -> String {
    let mut depth = 0_usize;
    text.chars()
        .filter(|next| {
            match next {
                '(' => depth += 1,
                ')' => {
                    depth = depth.saturating_sub(1);
                    return false;
                }
                _ => {}
            }
            depth == 0
        })
        .collect()
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tally: Option<Tally>) -> String {
        tally.map_or("nothing".to_owned(), |tally| tally.to_string())
    }

    #[test]
    fn nextest_says_it_in_its_summary() {
        let check = |line, tally| assert_eq!(shown(Tally::of_nextest(line)), tally, "{line}");
        check(
            "     Summary [   0.014s] 4 tests run: 4 passed, 0 skipped\n",
            "4 passed, 0 failed",
        );
        check(
            "     Summary [   0.014s] 1 test run: 1 passed, 2 skipped",
            "1 passed, 0 failed, 2 skipped",
        );
        check(
            "Summary [ 9s] 6/9 tests run: 2 passed (1 slow, 1 flaky), 1 failed, 1 exec failed, 2 timed out, 0 skipped",
            "2 passed, 4 failed",
        );
        check("    Starting 4 tests across 2 binaries", "nothing");
        check("", "nothing");
    }

    #[test]
    fn cargo_test_says_it_once_per_binary() {
        let check = |line, tally| assert_eq!(shown(Tally::of_cargo_test(line)), tally, "{line}");
        let mixed = "test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s";
        check(mixed, "3 passed, 1 failed, 3 skipped");
        check(
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            "0 passed, 0 failed",
        );
        check("test gates::a_dirty_tree_matters ... ok", "nothing");
    }

    #[test]
    fn a_failed_test_shown_by_nextest_is_not_counted_twice() {
        let inner = "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 8 filtered out; finished in 0.00s";
        assert_eq!(Tally::of_nextest(&format!("    {inner}")), None);
    }
}
