//! What tests of several crates share. Nothing ships with it.
//!
//! A test that lacks a part of the machine does not pass in silence: it says so, and fails where nobody reads along
//! (`CI=true`).

pub mod authenticator;

use std::io::Write as _;

/// Whether a part of the machine is there. Without it a test leaves out what needs it; in CI it fails.
#[track_caller]
pub fn has(part: &str, is_there: bool) -> bool {
    #[expect(clippy::disallowed_methods, reason = "only CI must have every part")]
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    is_fit(part, is_there, is_ci)
}

#[track_caller]
fn is_fit(part: &str, is_there: bool, is_ci: bool) -> bool {
    if !is_there {
        assert!(!is_ci, "CI needs {part}");
        skipped(&format!("no {part}"));
    }
    is_there
}

/// Says that a test, or a part of one, is meant for another machine or user than this.
pub fn skipped(reason: &str) {
    // Not by a macro, whose output the test runner keeps to itself when a test passes.
    writeln!(std::io::stderr(), "skipped: {reason}").ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_there_in_ci_and_elsewhere() {
        assert!(is_fit("git", true, true) && is_fit("git", true, false));
    }

    #[test]
    fn what_is_missing_is_left_out() {
        assert!(!is_fit("a part that no machine has", false, false));
    }

    #[test]
    #[should_panic(expected = "CI needs a moon")]
    fn what_is_missing_in_ci_fails() {
        is_fit("a moon", false, true);
    }
}
