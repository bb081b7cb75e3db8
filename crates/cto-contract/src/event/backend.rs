//! What the log says of a backend: its start, what it said and used, and how it ended.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PipelineWords, RecorderTotals};
use crate::ids::Digest;
use crate::plan::SandboxPlan;
use crate::words::BackendCompletion;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendStarted {
    pub identity_digest: Digest,
    /// What the program says of its version; absent for a lane that does not ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_output: Option<String>,
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

/// Tokens by kind. Input is all that was sent, output all that came back; the others are parts of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenUsage {
    pub input: u64,
    /// The part of the input that was read from a cache.
    pub cached_input: u64,
    /// The part of the input that was written to a cache.
    pub cache_write: u64,
    pub output: u64,
    /// The part of the output that was reasoning.
    pub reasoning: u64,
}

impl TokenUsage {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Both together.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached_input: self.cached_input.saturating_add(other.cached_input),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
        }
    }
}

wire_enum! {
    /// What a model provider did wrong in one exchange, as the harness saw it.
    pub enum ProviderFault {
        /// 401 or 403.
        Auth = "auth",
        /// 429, or a quota that is used up.
        RateLimited = "rate_limited",
        /// 5xx, or an error in the middle of a stream.
        ServerError = "server_error",
        /// Nobody listens there.
        Refused = "refused",
        Unreachable = "unreachable",
        /// Its certificate does not vouch for its name.
        Certificate = "certificate",
        Redirect = "redirect",
        /// The answer ended early, by the rules of HTTP or not.
        Cut = "cut",
        Silent = "silent",
        /// Reasoning, and neither text nor a call of a tool.
        ReasoningOnly = "reasoning_only",
        Malformed = "malformed",
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

/// What passed between a backend and its model, counted by the harness. Single exchanges: `backend/egress.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelTraffic {
    /// Requests that were forwarded.
    pub requests: u64,
    pub refused: u64,
    /// Bytes of bodies.
    pub bytes_up: u64,
    pub bytes_down: u64,
    /// As the answers name them; null when one of them did not.
    pub tokens: Option<u64>,
    /// What was counted against a budget: where an answer names no tokens, its bytes.
    pub tokens_at_most: u64,
    /// The same by kind, of the answers that name them.
    #[serde(default)]
    pub usage: TokenUsage,
    /// The models that were asked for, bounded.
    pub models: Vec<String>,
    /// The models that answered, bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered_by: Vec<String>,
    /// The one model that could be asked for; absent where the run named none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_model: Option<String>,
    /// Requests for another one, all refused.
    #[serde(default)]
    pub model_mismatches: u64,
    /// How often the provider did what wrong.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<ProviderFault, u64>,
    /// The last of them, where no model answered well after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing_fault: Option<ProviderFault>,
    /// Exchanges that are counted and not listed.
    pub exchanges_dropped: u64,
}
