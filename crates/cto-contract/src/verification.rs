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
}

/// One execution of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandResult {
    pub command: String,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub passed: bool,
    pub seconds: f64,
    pub tests: Option<TestCounts>,
    pub timed_out: bool,
    pub output_capped: bool,
    /// `inferred` for results made inside the process of the code under test, `verified` for an oracle outside it.
    pub level: ClaimLevel,
    /// Why it did not pass, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

wire_enum! {
    /// What became of the test that had to fail.
    pub enum CanaryStatus {
        /// It ran and failed, as it must.
        Caught = "caught",
        /// It was swallowed: the code under test controls its own checks.
        Swallowed = "swallowed",
        /// No runner was recognised, so none could be planted.
        NotApplicable = "not_applicable",
    }
}

/// The random test that the harness plants and that must fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Canary {
    pub status: CanaryStatus,
    pub runner: Option<String>,
    pub detail: String,
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
    /// Tests that passed on the baseline and do not pass any more.
    pub lost_tests: Vec<String>,
    /// Null when nothing was checked.
    pub canary: Option<Canary>,
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
            lost_tests: Vec::new(),
            canary: None,
            level: ClaimLevel::Absent,
            not_run: Some(why.to_owned()),
        }
    }
}
