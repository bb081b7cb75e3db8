//! Limits that were hit, each by name.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{LimitHit, Step};
use cto_contract::text::shorten;

/// A path that is too deep or too long is named whole, with what is wrong with it behind.
const TREE_CHARS: usize = 6_000;

/// Whose limit was hit, and by how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitFact {
    /// Of all processes of the backend together.
    Backend {
        limit: String,
        seen: u64,
        allowed: u64,
    },
    /// Of what the backend may use of its model.
    Model {
        budget: String,
        seen: u64,
        allowed: u64,
    },
    /// Of the money that the backend may use of its model, in words.
    Cost {
        seen: String,
        allowed: String,
        currency: Option<String>,
    },
    /// Of all processes of one command of the checks.
    Command {
        line: String,
        limit: String,
        allowed: u64,
    },
    /// Of the tree that the backend left.
    Tree { why: String },
    /// Of the list of changed paths, which a line of the log must hold.
    ChangedPaths {
        paths: usize,
        bytes: usize,
        allowed: usize,
    },
}

/// The event of a limit that was hit during a step.
pub fn limit_hit(step: Step, fact: &LimitFact) -> LimitHit {
    let (limit, allowed, message) = match fact {
        LimitFact::Backend {
            limit,
            seen,
            allowed,
        } => (
            limit.as_str(),
            *allowed,
            format!("the backend went over {limit}: {seen} of {allowed}"),
        ),
        LimitFact::Model {
            budget,
            seen,
            allowed,
        } => (
            budget.as_str(),
            *allowed,
            format!("the backend used up its {budget}: {seen} of {allowed}"),
        ),
        LimitFact::Cost {
            seen,
            allowed,
            currency,
        } => {
            let currency = currency.as_deref().unwrap_or("units");
            let message = format!("the backend used up its cost: {seen} of {allowed} {currency}");
            ("cost", 0, message)
        }
        LimitFact::Command {
            line,
            limit,
            allowed,
        } => (
            limit.as_str(),
            *allowed,
            format!(
                "`{}` went over {limit}, which is {allowed}",
                shorten(line, 120)
            ),
        ),
        LimitFact::Tree { why } => (
            "tree",
            0,
            format!(
                "the tree that the backend left: {}",
                shorten(why, TREE_CHARS)
            ),
        ),
        LimitFact::ChangedPaths {
            paths,
            bytes,
            allowed,
        } => (
            "changed_paths",
            *allowed as u64,
            format!(
                "the backend changed {paths} paths: their list takes {bytes} bytes of {allowed}"
            ),
        ),
    };
    LimitHit {
        limit: limit.to_owned(),
        allowed,
        step,
        blocker: Blocker::new(BlockerCode::LimitExceeded, limit, message),
    }
}
