//! What was asked and what came of it: plain data for a pack. Nothing of it names the endpoint.

use std::collections::BTreeMap;

use cto_contract::event::{ProviderFault, TokenUsage};
use serde::Serialize;

use crate::api::{Api, Work};
use crate::budget::BudgetHit;
use crate::overhear::{PASSAGES_MAX, Passage};
use crate::refusal::Refusal;

/// Most exchanges that are kept; more are counted.
pub(crate) const EXCHANGES_MAX: usize = 2_000;
/// Most names of models that are kept of each kind.
const MODELS_MAX: usize = 8;

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
    /// What the provider did wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<ProviderFault>,
    /// None for what is no call that is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<Api>,
    /// Bytes of bodies that were forwarded.
    pub request_bytes: u64,
    pub response_bytes: u64,
    /// As the answer names them.
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// What was counted against the budget: the same, or a bound where the answer names none.
    pub tokens_at_most: u64,
    /// As the request names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// As the answer names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    pub streamed: bool,
    /// Its key was refused and renewed before it was answered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub key_renewed: bool,
    pub millis: u64,
    /// What was overheard of the answer.
    #[serde(skip)]
    pub(crate) passage: Option<Passage>,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeEnd {
    /// The whole answer was passed on.
    Answered,
    /// Nothing was forwarded.
    Refused,
    ConnectionRefused,
    Unreachable,
    BadCertificate,
    /// Whoever gives out the keys gave none.
    KeyUnavailable,
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

impl ExchangeEnd {
    /// What the provider did wrong, by how its answer ended.
    pub(crate) const fn fault(self) -> Option<ProviderFault> {
        match self {
            Self::ConnectionRefused => Some(ProviderFault::Refused),
            Self::Unreachable => Some(ProviderFault::Unreachable),
            Self::BadCertificate => Some(ProviderFault::Certificate),
            Self::KeyUnavailable => Some(ProviderFault::Auth),
            Self::UpstreamSilent => Some(ProviderFault::Silent),
            Self::UpstreamMalformed => Some(ProviderFault::Malformed),
            Self::UpstreamRedirect => Some(ProviderFault::Redirect),
            Self::UpstreamCut => Some(ProviderFault::Cut),
            Self::Answered | Self::Refused | Self::BudgetCut | Self::AgentLeft | Self::Stopped => {
                None
            }
        }
    }
}

impl Exchange {
    /// Whether a model answered, and answered well.
    pub(crate) fn is_success(&self) -> bool {
        let generates = self.call.is_some_and(|api| api.work() == Work::Generates);
        let answered = self.end == ExchangeEnd::Answered && self.status < 400;
        generates && answered && self.fault.is_none()
    }
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
    /// In parts of the currency; `None` without prices, and when an answer did not name its tokens.
    pub cost: Option<u64>,
    pub cost_at_most: u64,
    /// The same by kind, of the answers that name them.
    pub usage: TokenUsage,
    /// How often the provider did what wrong.
    pub faults: BTreeMap<ProviderFault, u64>,
    /// The last of them, where no model answered well after it.
    pub standing_fault: Option<ProviderFault>,
    /// The models that were asked for, and that answered, bounded.
    pub models: Vec<String>,
    pub answered_by: Vec<String>,
    /// Requests for another model than the run's.
    pub model_mismatches: u64,
    pub hits: Vec<BudgetHit>,
    pub exchanges: Vec<Exchange>,
    pub exchanges_dropped: u64,
    /// What was overheard, in the order in which the answers ended.
    #[serde(skip)]
    pub passages: Vec<Passage>,
    #[serde(skip)]
    pub passages_dropped: u64,
}

impl Traffic {
    /// Takes what an exchange came to into the sums.
    pub(crate) fn note(&mut self, exchange: &mut Exchange) {
        if let Some(passage) = exchange.passage.take() {
            match self.passages.len() < PASSAGES_MAX {
                true => self.passages.push(passage),
                false => self.passages_dropped += 1,
            }
        }
        if exchange.refusal == Some(Refusal::ModelMismatch) {
            self.model_mismatches += 1;
        }
        self.refused += u64::from(exchange.refusal.is_some_and(Refusal::counts));
        self.usage = self.usage.plus(&exchange.usage.unwrap_or_default());
        if let Some(fault) = exchange.fault {
            *self.faults.entry(fault).or_default() += 1;
            self.standing_fault = Some(fault);
        } else if exchange.is_success() {
            self.standing_fault = None;
        }
        let pairs = [
            (&mut self.models, &exchange.model),
            (&mut self.answered_by, &exchange.answered_by),
        ];
        for (names, name) in pairs {
            if let Some(name) = name.as_ref().filter(|name| !names.contains(name))
                && names.len() < MODELS_MAX
            {
                names.push(name.clone());
            }
        }
    }
}
