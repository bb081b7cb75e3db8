//! What the checks showed, before and after the change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::ClaimLevel;

/// Counts as the runner reported them; its word, so the claim stays `inferred`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestCounts {
    pub ran: u64,
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
    /// Names of passed tests where the runner tells them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_names: Vec<String>,
    /// Names of failed tests where the runner tells them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_names: Vec<String>,
    /// Names of tests that ran neither well nor badly: skipped, or expected to fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped_names: Vec<String>,
    /// Failures that no test's name stands for: errors of loading, collecting or compiling, a crash, or a runner that
    /// tells no names.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unnamed_failures: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

wire_enum! {
    /// Where a command ran.
    pub enum CheckRoom {
        /// In the tree, home and temporary directory of all commands of its round: what one leaves, the next one finds.
        Shared = "shared",
        /// In a fresh tree with a home and a temporary directory of its own: nothing of an earlier command is there.
        Own = "own",
    }
}

wire_enum! {
    /// What a command's verdict rests on.
    pub enum CheckBasis {
        /// Every test that passed is told by name: each is compared with what it was before.
        Names = "names",
        /// Tests are counted, and not all of them named: only numbers can be compared.
        Counts = "counts",
        /// Neither: only the exit code is known.
        ExitCode = "exit_code",
    }
}

/// One execution of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandResult {
    pub command: String,
    /// The part of the command that ran by itself, where it is a chain of `&&`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub passed: bool,
    pub seconds: f64,
    pub tests: Option<TestCounts>,
    pub timed_out: bool,
    pub output_capped: bool,
    /// Why it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_failure: Option<String>,
    /// The program that it calls is not there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tool_missing: bool,
    /// The first error in the output of a command that failed on the untouched baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// The test that was planted for this command; absent on the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    pub room: CheckRoom,
    pub basis: CheckBasis,
    /// `self_reported` for an exit code alone, `inferred` for results made inside the process of the code under test,
    /// `verified` for an oracle outside it that had a room of its own.
    pub level: ClaimLevel,
    /// Why it did not pass, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CommandResult {
    /// A command of which nothing is known but its text.
    pub fn unknown(command: &str) -> Self {
        Self {
            command: command.to_owned(),
            part: None,
            exit_code: None,
            signal: None,
            passed: false,
            seconds: 0.0,
            tests: None,
            timed_out: false,
            output_capped: false,
            start_failure: None,
            tool_missing: false,
            first_error: None,
            canary: None,
            room: CheckRoom::Shared,
            basis: CheckBasis::ExitCode,
            level: ClaimLevel::SelfReported,
            reason: None,
        }
    }

    /// What was started: the part, where the command is a chain.
    pub fn line(&self) -> &str {
        self.part.as_deref().unwrap_or(&self.command)
    }

    /// Whether another result is of the same command, or of the same part of it.
    pub fn is_same_check(&self, other: &Self) -> bool {
        (&self.command, &self.part) == (&other.command, &other.part)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

wire_enum! {
    /// What became of the test that had to fail.
    pub enum CanaryStatus {
        /// It ran and failed, as it must.
        Caught = "caught",
        /// It was swallowed: the code under test controls its own checks.
        Swallowed = "swallowed",
        /// None could be planted for this runner.
        NotApplicable = "not_applicable",
    }
}

/// The random test that the harness plants and that must fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Canary {
    pub status: CanaryStatus,
    pub runner: String,
    pub detail: String,
}

wire_enum! {
    /// What became of a test, by name.
    pub enum TestChange {
        /// It failed before and fails now: known, and not held against the change.
        OldFailure = "old_failure",
        /// It fails now and did not before.
        NewFailure = "new_failure",
        /// It passed before, and is gone or skipped now.
        Lost = "lost",
        /// It failed before, had to pass now, and does not.
        NotMended = "not_mended",
        /// It failed or was skipped before, and is gone now.
        Gone = "gone",
        /// It failed before and is skipped now.
        NewlySkipped = "newly_skipped",
        /// It is gone or skipped now, and the contract says that it may be.
        Removed = "removed",
    }
}

impl TestChange {
    /// Whether it speaks against the change.
    pub const fn is_held_against(self) -> bool {
        match self {
            Self::OldFailure | Self::Removed => false,
            Self::NewFailure | Self::Lost | Self::NotMended | Self::Gone | Self::NewlySkipped => {
                true
            }
        }
    }
}

/// A test that is not what it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedTest {
    /// The command, or the part of it, that runs the test.
    pub command: String,
    pub test: String,
    pub change: TestChange,
}

/// The whole verification: the `verification` section of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// Null when nothing was checked.
    pub passed: Option<bool>,
    pub commands: Vec<CommandResult>,
    /// The same commands on the untouched baseline.
    pub baseline: Vec<CommandResult>,
    /// Whether the baseline failed; null when it did not run.
    pub baseline_failed: Option<bool>,
    /// Tests that do not pass now, against what they were on the baseline; bounded.
    pub changed_tests: Vec<ChangedTest>,
    pub level: ClaimLevel,
    /// Why nothing was checked; absent when something was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
}

impl Verification {
    /// A verification that looked at nothing after the change, and says why.
    pub fn not_run(why: &str, baseline: Vec<CommandResult>) -> Self {
        Self {
            passed: None,
            commands: Vec::new(),
            baseline_failed: (!baseline.is_empty()).then(|| baseline.iter().any(|r| !r.passed)),
            baseline,
            changed_tests: Vec::new(),
            level: ClaimLevel::Absent,
            not_run: Some(why.to_owned()),
        }
    }

    /// Whether a command failed before that passes whole now: without the failures that it had.
    pub fn fails_only_before(&self) -> bool {
        let has_old = |r: &CommandResult| {
            let old = |t: &ChangedTest| t.command == r.line();
            let mut known = self.changed_tests.iter();
            known.any(|t| t.change == TestChange::OldFailure && old(t))
        };
        self.baseline.iter().any(|r| !r.passed && !has_old(r))
    }

    /// The canaries of the commands, each once.
    pub fn canaries(&self) -> Vec<(&CommandResult, &Canary)> {
        let mut out: Vec<(&CommandResult, &Canary)> = Vec::new();
        for result in &self.commands {
            let is_new = !out.iter().any(|(seen, _)| seen.is_same_check(result));
            out.extend(
                result
                    .canary
                    .as_ref()
                    .filter(|_| is_new)
                    .map(|c| (result, c)),
            );
        }
        out
    }
}
