//! Tests by name: what each was before, and what it is now.

use std::collections::{BTreeMap, BTreeSet};

use cto_contract::task::VerificationCommand;
use cto_contract::verification::{ChangedTest, CommandResult, TestChange, TestCounts};

use super::names::Outcome;

/// How many tests are listed.
const LISTED_MAX: usize = 1_000;

/// What became of one test. `must_pass` if all that failed before must pass now, `may_go` if the contract lets it go.
fn change(
    before: Option<Outcome>,
    now: Option<Outcome>,
    must_pass: bool,
    may_go: bool,
) -> Option<TestChange> {
    use Outcome::{Failed, Passed, Skipped};
    match (before, now) {
        (_, Some(Passed)) | (None, None | Some(Skipped)) | (Some(Skipped), Some(Skipped)) => None,
        (Some(Failed), Some(Failed)) => Some(match must_pass {
            true => TestChange::NotMended,
            false => TestChange::OldFailure,
        }),
        (None | Some(Passed | Skipped), Some(Failed)) => Some(TestChange::NewFailure),
        (Some(Passed), None | Some(Skipped))
        | (Some(Failed), None | Some(Skipped))
        | (Some(Skipped), None)
            if may_go =>
        {
            Some(TestChange::Removed)
        }
        (Some(Passed), None | Some(Skipped)) => Some(TestChange::Lost),
        (Some(Failed), None | Some(Skipped)) if must_pass => Some(TestChange::NotMended),
        (Some(Failed), Some(Skipped)) => Some(TestChange::NewlySkipped),
        (Some(Failed | Skipped), None) => Some(TestChange::Gone),
    }
}

/// Compares one execution with the same command on the baseline, by the names that both tell.
pub(super) fn compare(
    command: &VerificationCommand,
    before: &CommandResult,
    now: &CommandResult,
) -> Vec<ChangedTest> {
    // What tells no test at all has failed for that reason, or counts none.
    let (Some(then), Some(tests)) = (&before.tests, &now.tests) else {
        return Vec::new();
    };
    let (then, tests) = (outcomes(then), outcomes(tests));
    let mut names: Vec<&str> = then.keys().chain(tests.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let removed = &command.expect.removed_tests;
    let changed = names.into_iter().filter_map(|name| {
        let outcome = |of: &BTreeMap<&str, Outcome>| of.get(name).copied();
        let may_go = removed.iter().any(|r| r == name);
        let change = change(
            outcome(&then),
            outcome(&tests),
            command.must_fail_before,
            may_go,
        )?;
        Some(ChangedTest {
            command: now.line().to_owned(),
            test: name.to_owned(),
            change,
        })
    });
    changed.collect()
}

/// Puts the tests of all commands together: each once, those first that speak against the change, and bounded.
pub(super) fn listed(mut all: Vec<ChangedTest>) -> Vec<ChangedTest> {
    all.sort_by(|a, b| {
        let key = |t: &ChangedTest| (!t.change.is_held_against(), t.change);
        (key(a), &a.command, &a.test).cmp(&(key(b), &b.command, &b.test))
    });
    all.dedup();
    all.truncate(LISTED_MAX);
    all
}

/// Whether all failures are of tests with a name that failed before as well: none is new.
pub(super) fn has_only_old_failures(before: &TestCounts, now: &TestCounts) -> bool {
    let is_told =
        |tests: &TestCounts| !tests.failed_names.is_empty() && tests.unnamed_failures == 0;
    let known: BTreeSet<&String> = before.failed_names.iter().collect();
    is_told(before) && is_told(now) && now.failed_names.iter().all(|name| known.contains(name))
}

fn outcomes(tests: &TestCounts) -> BTreeMap<&str, Outcome> {
    let lists = [
        (&tests.passed_names, Outcome::Passed),
        (&tests.skipped_names, Outcome::Skipped),
        (&tests.failed_names, Outcome::Failed),
    ];
    let all = lists.into_iter().flat_map(|(names, outcome)| {
        let named = names.iter();
        named.map(move |name| (name.as_str(), outcome))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use std::fmt::Write as _;

    const ALL: [Option<Outcome>; 4] = [
        None,
        Some(Outcome::Passed),
        Some(Outcome::Skipped),
        Some(Outcome::Failed),
    ];

    #[test]
    fn the_whole_table_of_one_test() {
        let word = |outcome: Option<Outcome>| match outcome {
            None => "absent",
            Some(Outcome::Passed) => "passed",
            Some(Outcome::Skipped) => "skipped",
            Some(Outcome::Failed) => "failed",
        };
        let mut table = String::new();
        for before in ALL {
            for now in ALL {
                let cell = |must_pass, may_go| {
                    let change = change(before, now, must_pass, may_go);
                    change.map_or("-", TestChange::as_str)
                };
                let _written = writeln!(
                    table,
                    "{} -> {}: {} | must pass {} | may go {} | both {}",
                    word(before),
                    word(now),
                    cell(false, false),
                    cell(true, false),
                    cell(false, true),
                    cell(true, true),
                );
            }
        }
        assert_snapshot!(table, @r"
        absent -> absent: - | must pass - | may go - | both -
        absent -> passed: - | must pass - | may go - | both -
        absent -> skipped: - | must pass - | may go - | both -
        absent -> failed: new_failure | must pass new_failure | may go new_failure | both new_failure
        passed -> absent: lost | must pass lost | may go removed | both removed
        passed -> passed: - | must pass - | may go - | both -
        passed -> skipped: lost | must pass lost | may go removed | both removed
        passed -> failed: new_failure | must pass new_failure | may go new_failure | both new_failure
        skipped -> absent: gone | must pass gone | may go removed | both removed
        skipped -> passed: - | must pass - | may go - | both -
        skipped -> skipped: - | must pass - | may go - | both -
        skipped -> failed: new_failure | must pass new_failure | may go new_failure | both new_failure
        failed -> absent: gone | must pass not_mended | may go removed | both removed
        failed -> passed: - | must pass - | may go - | both -
        failed -> skipped: newly_skipped | must pass not_mended | may go removed | both removed
        failed -> failed: old_failure | must pass not_mended | may go old_failure | both not_mended
        ");
    }

    #[test]
    fn only_a_test_that_passes_or_is_known_is_not_held_against_the_change() {
        for before in ALL {
            for now in ALL {
                for must_pass in [false, true] {
                    let held = change(before, now, must_pass, false)
                        .is_some_and(TestChange::is_held_against);
                    let was_there = before.is_some();
                    let passes = now == Some(Outcome::Passed);
                    let same = before == now && !(must_pass && now == Some(Outcome::Failed));
                    let is_new = !was_there && now != Some(Outcome::Failed);
                    assert_eq!(held, !(passes || same || is_new), "{before:?} {now:?}");
                    // What the contract lets go may be gone or skipped, and never fail anew.
                    let freed = change(before, now, must_pass, true)
                        .is_some_and(TestChange::is_held_against);
                    assert_eq!(
                        freed,
                        held && now == Some(Outcome::Failed),
                        "{before:?} {now:?}"
                    );
                }
            }
        }
    }
}
