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
}

/// One cap by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetName {
    Requests,
    Bytes,
    Tokens,
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
        }
    }

    pub(crate) const fn refusal(self) -> Refusal {
        match self {
            Self::Requests => Refusal::BudgetRequests,
            Self::Bytes => Refusal::BudgetBytes,
            Self::Tokens => Refusal::BudgetTokens,
        }
    }
}

/// Returns the caps among these that could not be held with these calls on offer.
#[must_use]
pub fn unmeterable(budget: &Budget, apis: &[Api]) -> Vec<BudgetName> {
    let blind = budget.tokens.is_some() && !apis.iter().all(|api| api.meters_tokens());
    blind.then_some(BudgetName::Tokens).into_iter().collect()
}
