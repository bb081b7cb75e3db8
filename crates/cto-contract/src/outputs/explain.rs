//! `cto explain`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::blocker::{Blocker, BlockerCode};
use crate::claim::ClaimKind;
use crate::eligibility::{Gate, GateOutcome};
use crate::event::ScopedPath;
use crate::ids::{CaseId, RunId};
use crate::time::Utc;
use crate::verification::CommandResult;
use crate::words::{ClaimLevel, FaultClass, Lane, RunStatus, Stage};

outputs! {
    /// `cto explain`.
    ExplainOutput, ExplainTag = "cto.explain/v1" {
        pub run_id: RunId,
        pub case_id: CaseId,
        pub backend: Lane,
        pub stage: Stage,
        pub status: RunStatus,
        /// The answer in one sentence.
        pub sentence: String,
        pub gates: Vec<ExplainedGate>,
        pub blockers: Vec<ExplainedBlocker>,
        pub checks: Vec<ExplainedCheck>,
        /// Set when no check ran.
        pub checks_not_run: Option<String>,
        pub paths: Vec<ScopedPath>,
        pub claims: Vec<ExplainedClaim>,
    }
}

/// A gate, its value, and where that came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExplainedGate {
    pub gate: Gate,
    pub verdict: GateOutcome,
    /// Null when it was not looked at.
    pub value: Option<String>,
    pub source: String,
    pub checked_at: Option<Utc>,
    /// Why it is missing.
    pub blocker: Option<Blocker>,
}

/// A blocker, whose fault it is, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExplainedBlocker {
    pub code: BlockerCode,
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
    pub kind: ClaimKind,
    pub claim: String,
    pub level: ClaimLevel,
    pub basis: String,
    /// What would give it a higher level.
    pub raised_by: Option<String>,
}
