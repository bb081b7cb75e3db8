//! What the log says of a model: one question before the start, what passed while the agent worked, and what it cost.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::Wire;

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
        /// Another 4xx: the path, the model or the request is not known there.
        Rejected = "rejected",
    }
}

/// What passed between a backend and its model, counted by the harness. Single exchanges: `backend/egress.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// By the price list of the configuration; absent where the model has no price there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Exchanges that are counted and not listed.
    pub exchanges_dropped: u64,
}

/// What answers cost, in the currency of the price list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Null when an answer did not name its tokens.
    pub amount: Option<f64>,
    /// What was counted against a budget: where an answer names no tokens, its bytes at the highest price.
    pub amount_at_most: f64,
    pub currency: String,
    /// The day of the price list.
    pub prices_as_of: String,
}

/// One small question to the model before anything is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelProbe {
    pub wire: Wire,
    /// The model that was asked for.
    pub model: String,
    /// Requests that it took: one for each wire that was tried, one more for a key that had to be renewed.
    pub requests: u64,
    /// The status of the last answer; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The model that answered, by its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<ProviderFault>,
    /// Null where the answer names none.
    pub usage: Option<TokenUsage>,
    pub millis: u64,
}

/// What was asked of the model so far, told from time to time while the backend works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelUsage {
    pub requests: u64,
    /// Counted as a budget counts them.
    pub tokens_at_most: u64,
}
