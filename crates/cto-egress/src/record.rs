//! What was asked and what came of it: plain data for a pack. Nothing of it names the endpoint.

use serde::Serialize;

use crate::budget::BudgetHit;
use crate::refusal::Refusal;

/// Most exchanges that are kept; more are counted.
pub(crate) const EXCHANGES_MAX: usize = 2_000;

/// One connection of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exchange {
    /// In the order in which they ended, from 1.
    pub number: u64,
    /// As the agent wrote it, escaped and cut.
    pub method: String,
    pub path: String,
    /// What the agent was answered; 0 when it left before.
    pub status: u16,
    pub end: ExchangeEnd,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The tool or key that it was refused for, escaped and cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_for: Option<String>,
    /// Bytes of bodies that were forwarded.
    pub request_bytes: u64,
    pub response_bytes: u64,
    /// As the answer names them.
    pub tokens: Option<u64>,
    /// What was counted against the budget: the same, or a bound where the answer names none.
    pub tokens_at_most: u64,
    /// As the request names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub streamed: bool,
    pub millis: u64,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeEnd {
    /// The whole answer was passed on.
    Answered,
    /// Nothing was forwarded.
    Refused,
    Unreachable,
    /// The upstream was silent for too long.
    UpstreamSilent,
    UpstreamMalformed,
    UpstreamRedirect,
    /// The answer ended early.
    UpstreamCut,
    /// A budget ended it in the middle.
    BudgetCut,
    AgentLeft,
    Stopped,
}

/// All that passed, or did not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Those that were forwarded.
    pub requests: u64,
    pub refused: u64,
    /// Bytes of bodies.
    pub bytes_up: u64,
    pub bytes_down: u64,
    /// `None` when an answer did not name its tokens.
    pub tokens: Option<u64>,
    pub tokens_at_most: u64,
    pub hits: Vec<BudgetHit>,
    pub exchanges: Vec<Exchange>,
    pub exchanges_dropped: u64,
}
