//! What `python3 -m unittest -v` prints: a line for each test, a block for each failure, a sum.

use cto_contract::verification::TestCounts;

use super::super::names::{Names, Outcome};

/// What stands before each block of a failure.
const RULE: &str = "======================================================================";

/// Counts what a run of unittest printed, by its summary, and by name where it was told to be verbose.
pub fn count_unittest(output: &str) -> Option<TestCounts> {
    let lines: Vec<&str> = output.lines().collect();
    let ran = lines.iter().rev().find_map(|line| {
        let rest = line.strip_prefix("Ran ")?;
        let (number, rest) = rest.split_once(' ')?;
        rest.starts_with("test")
            .then(|| number.parse::<u64>().ok())?
    })?;
    let is_summary =
        |l: &&&str| l.starts_with("OK") || l.starts_with("FAILED") || l.starts_with("NO TESTS RAN");
    let summary = lines.iter().rev().find(is_summary).copied().unwrap_or("");
    let part = |name: &str| -> u64 {
        summary
            .split_once('(')
            .map_or("", |(_, inside)| inside.trim_end_matches(')'))
            .split(", ")
            .find_map(|item| item.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            .unwrap_or(0)
    };
    let failed = part("failures")
        .saturating_add(part("errors"))
        .saturating_add(part("unexpected successes"));
    let skipped = part("skipped");
    let other = skipped.saturating_add(part("expected failures"));
    let mut counts = TestCounts {
        ran,
        failed,
        skipped,
        passed: ran.saturating_sub(failed.saturating_add(other)),
        ..TestCounts::default()
    };
    let told = Told::read(&lines);
    counts.unnamed_failures = failed.saturating_sub(told.failures);
    told.names().tell(&mut counts);
    Some(counts)
}

/// What the lines tell of tests.
#[derive(Default)]
struct Told {
    /// In the order of their lines.
    verdicts: Vec<(String, Outcome)>,
    /// From the blocks at the end: a test that failed has at least one.
    failed: Vec<String>,
    /// Blocks and lines that told of a failed test: a test with failed parts has several.
    failures: u64,
}

impl Told {
    /// Reads `name (module.Class) ... ok` lines. The name may stand on the line before when a docstring is shown, and
    /// the verdict on a later line when something was printed meanwhile.
    fn read(lines: &[&str]) -> Self {
        let mut told = Self::default();
        let mut open: Option<String> = None;
        let mut before = "";
        for line in lines {
            if before == RULE {
                told.block(line);
                open = None;
            } else {
                if let Some(name) = header(line) {
                    open = Some(name);
                }
                let last = line.rsplit_once(" ... ").map_or(*line, |(_, last)| last);
                if let Some(outcome) = verdict(last.trim())
                    && let Some(name) = open.take()
                {
                    // It has no block of its own.
                    told.failures += u64::from(last.trim() == "unexpected success");
                    told.verdicts.push((name, outcome));
                }
            }
            before = line;
        }
        told
    }

    /// Reads `FAIL: test_c (test_s.T.test_c)`, or of a part of it with ` (i=1)` behind. What is no test stands there as
    /// well: a module that can't be loaded, the setup of a class.
    fn block(&mut self, line: &str) {
        let head = line.strip_prefix("FAIL: ").or(line.strip_prefix("ERROR: "));
        let Some(name) = head.and_then(header) else {
            return;
        };
        self.failures += 1;
        self.failed.push(name);
    }

    fn names(self) -> Names {
        let mut names = Names::default();
        let mut failed = self.failed;
        failed.sort();
        failed.dedup();
        for (name, outcome) in self.verdicts {
            // A part of it may have failed, or its teardown.
            if failed.binary_search(&name).is_err() {
                names.add(name, outcome);
            }
        }
        for name in failed {
            names.add(name, Outcome::Failed);
        }
        names
    }
}

/// How a test ended. A test that was expected to fail is not passed.
fn verdict(word: &str) -> Option<Outcome> {
    match word {
        "ok" => Some(Outcome::Passed),
        "FAIL" | "ERROR" | "unexpected success" => Some(Outcome::Failed),
        "expected failure" => Some(Outcome::Skipped),
        word if word.starts_with("skipped ") => Some(Outcome::Skipped),
        _ => None,
    }
}

/// The name of the test that a line begins with: newer versions print `name (module.Class.name)`, older ones
/// `name (module.Class)`; both become the first. None for a loader's stand-in and for setup and teardown of a class or
/// module.
fn header(line: &str) -> Option<String> {
    let (name, rest) = line.split_once(" (")?;
    let (class, behind) = rest.split_once(')')?;
    let is_word = |w: &str| !w.is_empty() && w.chars().all(|c| c == '_' || c.is_alphanumeric());
    let is_end = behind.is_empty() || behind.starts_with(' ');
    if !is_word(name) || !class.split('.').all(is_word) || !is_end {
        return None;
    }
    if class.starts_with("unittest.loader.") {
        return None;
    }
    if [
        "setUpClass",
        "tearDownClass",
        "setUpModule",
        "tearDownModule",
    ]
    .contains(&name)
    {
        return None;
    }
    Some(if class.rsplit('.').next() == Some(name) {
        class.to_owned()
    } else {
        format!("{class}.{name}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VERBOSE: &str = "test_a (test_s.T.test_a) ... ok\ntest_b (test_s.T.test_b)\nSays what it does. ... ok\ntest_c (test_s.T) ... FAIL\ntest_d (test_s.T.test_d) ... skipped 'no'\ntest_e (test_s.T.test_e) ... WARNING:root:x\nok\ntest_f (test_s.T.test_f) ... expected failure\ntest_g (test_s.T.test_g) ... \n  test_g (test_s.T.test_g) (i=1) ... FAIL\n  test_g (test_s.T.test_g) (i=2) ... FAIL\ntest_x (unittest.loader._FailedTest.test_x) ... ERROR\n\n======================================================================\nFAIL: test_c (test_s.T)\n------\n======================================================================\nFAIL: test_g (test_s.T.test_g) (i=1)\n------\n======================================================================\nFAIL: test_g (test_s.T.test_g) (i=2)\n------\n======================================================================\nERROR: test_x (unittest.loader._FailedTest.test_x)\n------\n======================================================================\nERROR: setUpClass (test_s.U)\n------\nRan 8 tests in 0.001s\n\nFAILED (failures=3, errors=2, skipped=1, expected failures=1)\n";

    #[test]
    fn a_verbose_run_is_counted_by_name() {
        let counts = count_unittest(VERBOSE).unwrap();
        assert_eq!((counts.ran, counts.failed, counts.skipped), (8, 5, 1));
        assert_eq!(
            counts.passed_names,
            ["test_s.T.test_a", "test_s.T.test_b", "test_s.T.test_e"]
        );
        assert_eq!(counts.failed_names, ["test_s.T.test_c", "test_s.T.test_g"]);
        assert_eq!(counts.skipped_names, ["test_s.T.test_d", "test_s.T.test_f"]);
        assert_eq!(
            counts.unnamed_failures, 2,
            "a module that can't be loaded and the setup of a class are no tests"
        );
    }

    #[test]
    fn zero_tests_are_counted_as_zero_and_silence_as_nothing() {
        assert_eq!(
            count_unittest("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n")
                .unwrap()
                .passed,
            0
        );
        assert_eq!(count_unittest(""), None);
    }

    proptest! {
        #[test]
        fn counting_never_panics(text in any::<String>()) {
            let _counts = count_unittest(&text);
        }
    }
}
