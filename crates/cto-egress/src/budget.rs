//! What a run may use of its endpoint, and which caps can be held at all.

use serde::Serialize;

use crate::api::Api;
use crate::refusal::Refusal;

/// Caps of one run; `None` is no cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub requests: Option<u64>,
    /// Bodies, both ways together.
    pub bytes: Option<u64>,
    /// Held before each request; while it is set, requests go one after the other.
    pub tokens: Option<u64>,
    /// In parts of the currency, held as tokens are. It needs prices.
    pub cost: Option<u64>,
}

impl Budget {
    /// Whether what one request used must be known before the next.
    pub(crate) const fn takes_turns(&self) -> bool {
        self.tokens.is_some() || self.cost.is_some()
    }
}

/// One cap by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetName {
    Requests,
    Bytes,
    Tokens,
    Cost,
}

/// A cap that was reached and refused or cut something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BudgetHit {
    pub budget: BudgetName,
    pub allowed: u64,
    /// What was used, or would have been.
    pub seen: u64,
}

impl BudgetName {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Bytes => "bytes",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
        }
    }

    pub(crate) const fn refusal(self) -> Refusal {
        match self {
            Self::Requests => Refusal::BudgetRequests,
            Self::Bytes => Refusal::BudgetBytes,
            Self::Tokens => Refusal::BudgetTokens,
            Self::Cost => Refusal::BudgetCost,
        }
    }
}

/// Returns the caps among these that could not be held with these calls on offer, and with prices or without.
#[must_use]
pub fn unmeterable(budget: &Budget, apis: &[Api], has_prices: bool) -> Vec<BudgetName> {
    let is_blind = !apis.iter().all(|api| api.meters_tokens());
    let tokens = (budget.tokens.is_some() && is_blind).then_some(BudgetName::Tokens);
    let cost = (budget.cost.is_some() && (is_blind || !has_prices)).then_some(BudgetName::Cost);
    tokens.into_iter().chain(cost).collect()
}
