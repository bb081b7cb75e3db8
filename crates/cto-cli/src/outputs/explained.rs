//! Parts of what `cto explain` prints.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::eligibility::Gate;
use cto_contract::schemars::{self, JsonSchema};
use cto_contract::time::Utc;
use cto_contract::verification::CommandResult;
use cto_contract::wire_enum;
use cto_contract::words::{ClaimLevel, FaultClass, RunStatus};
use serde::Serialize;

wire_enum! {
    /// What a decision says about a gate.
    pub(crate) enum GateVerdict { Passed = "passed", Missing = "missing", NotRequired = "not_required" }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplainedGate {
    pub(crate) gate: Gate,
    pub(crate) verdict: GateVerdict,
    pub(crate) value: String,
    pub(crate) source: String,
    pub(crate) checked_at: Utc,
    /// Why it is missing.
    pub(crate) blocker: Option<Blocker>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplainedBlocker {
    pub(crate) code: BlockerCode,
    /// The status that it gives a run by itself.
    pub(crate) status: RunStatus,
    /// Whose fault it is.
    pub(crate) fault: FaultClass,
    pub(crate) message: String,
    pub(crate) hint: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplainedCheck {
    #[serde(flatten)]
    pub(crate) result: CommandResult,
    /// The same command on the untouched baseline; null when it did not get there.
    pub(crate) before: Option<CommandResult>,
    /// First lines of what it printed, when it failed.
    pub(crate) output: Vec<String>,
    /// It printed more.
    pub(crate) output_cut: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplainedClaim {
    pub(crate) claim: String,
    pub(crate) level: ClaimLevel,
    pub(crate) basis: String,
    /// What would give it a higher level.
    pub(crate) raised_by: Option<String>,
}
