//! `cto explain`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::blocker::BlockerCode;
use crate::claim::Claim;
use crate::eligibility::Fact;
use crate::event::ScopedPath;
use crate::ids::{CaseId, RunId};
use crate::trust::Origin;
use crate::verification::CommandResult;
use crate::words::{FaultClass, Lane, RunStatus, Stage};

outputs! {
    /// `cto explain`.
    ExplainOutput, ExplainTag = "cto.explain/v1" {
        pub run_id: RunId,
        /// By the key that sealed it; null while it is not sealed.
        pub origin: Option<Origin>,
        /// The ledger of this home created the run and knows this very pack of it.
        pub of_this_home: bool,
        pub case_id: CaseId,
        pub backend: Lane,
        pub stage: Stage,
        pub status: RunStatus,
        /// The answer in one sentence.
        pub sentence: String,
        pub gates: Vec<Fact>,
        pub blockers: Vec<ExplainedBlocker>,
        pub checks: Vec<ExplainedCheck>,
        /// Set when no check ran.
        pub checks_not_run: Option<String>,
        pub paths: Vec<ScopedPath>,
        pub claims: Vec<ExplainedClaim>,
    }
}

/// A blocker, whose fault it is, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExplainedBlocker {
    pub code: BlockerCode,
    /// What it is about.
    pub subject: String,
    /// The status that it gives a run by itself.
    pub status: RunStatus,
    /// Whose fault it is.
    pub fault: FaultClass,
    pub message: String,
    pub hint: String,
}

/// A check and what it printed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExplainedCheck {
    #[serde(flatten)]
    pub result: CommandResult,
    /// The same command on the untouched baseline; null when it did not get there.
    pub before: Option<CommandResult>,
    /// First lines of what it printed, when it failed.
    pub output: Vec<String>,
    /// It printed more.
    pub output_cut: bool,
}

/// A claim and what would raise it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExplainedClaim {
    #[serde(flatten)]
    pub claim: Claim,
    /// What would give it a higher level.
    pub raised_by: Option<String>,
}
