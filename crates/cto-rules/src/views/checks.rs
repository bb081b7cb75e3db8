//! What the checks came to, in the words that every view shares.

use cto_contract::verification::{CheckBasis, TestChange, Verification};
use cto_contract::words::ClaimLevel;

/// What is said of a command with neither a canary nor a count of tests.
pub const EXIT_CODE_ONLY: &str =
    "only its exit code is known: no test was counted and none planted, so it proves little";

/// How the planted tests went, in a few words.
pub(super) fn canary_words(verification: &Verification) -> String {
    let mut words: Vec<&str> = (verification.canaries().iter())
        .map(|(_, canary)| canary.status.as_str())
        .collect();
    words.sort_unstable();
    words.dedup();
    match words.is_empty() {
        true => "not planted".to_owned(),
        false => words.join(" and "),
    }
}

/// How many tests failed before and still do: what passed did so but for them.
pub(super) fn old_failures(verification: &Verification) -> String {
    let tests = verification.changed_tests.iter();
    match tests.filter(|t| t.change == TestChange::OldFailure).count() {
        0 => String::new(),
        1 => " but for 1 test that failed before too".to_owned(),
        many => format!(" but for {many} tests that failed before too"),
    }
}

/// Commands that passed by their exit code alone, each once.
pub fn exit_code_only(verification: &Verification) -> Vec<&str> {
    let alone = verification.commands.iter().filter(|r| {
        r.passed && r.basis == CheckBasis::ExitCode && r.level == ClaimLevel::SelfReported
    });
    let mut out = Vec::new();
    for line in alone.map(|r| r.line()) {
        if !out.contains(&line) {
            out.push(line);
        }
    }
    out
}

/// Tests that are not what they were before, by kind, those first that speak against the change.
pub fn changed_tests(verification: &Verification) -> Vec<(&'static str, String)> {
    let of = |change: &TestChange| {
        let own = verification.changed_tests.iter();
        let names: Vec<&str> = own
            .filter(|t| t.change == *change)
            .map(|t| t.test.as_str())
            .collect();
        (!names.is_empty()).then(|| (sentence(*change), names.join(", ")))
    };
    let mut kinds = TestChange::ALL.to_vec();
    kinds.sort_by_key(|change| !change.is_held_against());
    kinds.iter().filter_map(of).collect()
}

/// What became of such a test.
pub(crate) fn sentence(change: TestChange) -> &'static str {
    match change {
        TestChange::OldFailure => "failed before and fails now, not held against the change",
        TestChange::NewFailure => "fails and did not before",
        TestChange::Lost => "passed before and no longer",
        TestChange::NotMended => "failed before and does not pass now",
        TestChange::Gone => "was there before and is gone",
        TestChange::NewlySkipped => "failed before and is skipped now",
        TestChange::Removed => "gone or skipped, as the contract allows",
    }
}
