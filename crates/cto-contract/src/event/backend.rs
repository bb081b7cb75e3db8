//! What the log says of a backend: its start, what it said and used, and how it ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ModelTraffic, PipelineWords, RecorderTotals, TokenUsage};
use crate::ids::Digest;
use crate::plan::SandboxPlan;
use crate::words::BackendCompletion;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendStarted {
    pub identity_digest: Digest,
    /// What the program says of its version; absent for a lane that does not ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_output: Option<String>,
    /// Whether the tree that it got was the baseline, to the byte; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_clean: Option<bool>,
}

wire_enum! {
    /// What a backend's own reviewer says.
    pub enum ReviewVerdict { Accept = "accept", Reject = "reject" }
}

/// What a backend said of itself, in `cto.agent/v1` or in its own events: never evidence, save that a rejection and a failure
/// count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentWords {
    pub understood: u64,
    /// Lines that claim the protocol and do not fit it.
    pub malformed: u64,
    pub dropped: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewVerdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The tokens that it counted itself: shown beside the harness's own count, which decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// How it says that it ended; absent for a lane whose program does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<SaidEnd>,
    /// What went wrong, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Types of its events that this version does not know, bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_events: Vec<String>,
}

wire_enum! {
    /// How a program says that it ended. It may speak against itself, never for itself.
    pub enum SaidEnd {
        Done = "done",
        Failed = "failed",
        /// It was over without a word about its end.
        Unsaid = "unsaid",
    }
}

/// Text that a backend said of itself: never evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendText {
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputCapped {
    pub limit_bytes: u64,
    pub dropped_bytes: u64,
}

wire_enum! {
    /// Why the harness ended a backend.
    pub enum BackendStop {
        /// It was over its wall clock.
        Wall = "wall",
        /// A person or a signal asked for it.
        Asked = "asked",
        /// Its lane said that it had finished.
        Finished = "finished",
        /// It did nothing any more after its work was committed.
        Lingering = "lingering",
        /// A budget of its model was used up.
        Budget = "budget",
        /// It did not read what it was told.
        InputUnread = "input_unread",
        /// The process that holds its sandbox died.
        SandboxDied = "sandbox_died",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackendFinished {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub completion: BackendCompletion,
    /// Why the harness ended it; absent when it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<BackendStop>,
    pub timed_out: bool,
    pub seconds: f64,
    pub cpu_seconds: Option<f64>,
    pub peak_memory_bytes: Option<u64>,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub dropped_bytes: u64,
    /// True when the death of the namespace's init proved that nothing is left.
    pub no_survivors: bool,
    pub sandbox: SandboxPlan,
    /// What the recorder saw; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecorderTotals>,
    /// Why it could not be started, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_failure: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentWords>,
    /// What it wrote about phases of its own; absent for a lane without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineWords>,
    /// What passed between the backend and its model; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_traffic: Option<ModelTraffic>,
    /// The program is not the file any more whose digest stands in the identity.
    pub program_replaced: bool,
    /// What the second look at the protected roots showed; absent where none are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected_roots: Option<RootsCheck>,
}

/// The protected roots of the configuration, before a backend and after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RootsCheck {
    /// How many paths changed.
    pub changed: u64,
    /// Last names of the first of them: where the roots lie is the operator's affair.
    pub names: Vec<String>,
    /// Why they could not be looked at again, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}
