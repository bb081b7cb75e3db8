//! Counts, and says when it is enough. One lock, held for a few additions.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cto_contract::event::TokenUsage;

use crate::budget::{Budget, BudgetHit, BudgetName};
use crate::forwarder::Standing;
use crate::prices::Prices;
use crate::record::{EXCHANGES_MAX, Exchange, Traffic};

/// How often a request that waits for its turn looks whether all is over.
const TURN_LOOK: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Meter {
    budget: Budget,
    prices: Option<Prices>,
    state: Mutex<State>,
    turn: Condvar,
}

#[derive(Debug, Default)]
struct State {
    traffic: Traffic,
    tokens_known: u64,
    cost_known: u64,
    unmeasured: u64,
    in_flight: u64,
}

/// Why a request may not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    Budget(BudgetName),
    Stopped,
}

impl Meter {
    pub(crate) fn new(budget: Budget, prices: Option<Prices>) -> Self {
        Self {
            budget,
            prices,
            state: Mutex::default(),
            turn: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Numbers are whole after every statement, so a panic elsewhere leaves nothing half-done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a request through if nothing is used up, and counts it. [`Meter::leave`] must follow.
    pub(crate) fn enter(&self, is_over: &dyn Fn() -> bool) -> Result<(), NotAdmitted> {
        let mut state = self.state();
        // What the request before used must be known before the next one.
        while self.budget.takes_turns() && state.in_flight > 0 {
            if is_over() {
                return Err(NotAdmitted::Stopped);
            }
            let waited = self.turn.wait_timeout(state, TURN_LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let traffic = &state.traffic;
        let used = [
            (
                BudgetName::Tokens,
                self.budget.tokens,
                traffic.tokens_at_most,
            ),
            (BudgetName::Cost, self.budget.cost, traffic.cost_at_most),
            (
                BudgetName::Bytes,
                self.budget.bytes,
                traffic.bytes_up + traffic.bytes_down,
            ),
            (BudgetName::Requests, self.budget.requests, traffic.requests),
        ];
        for (budget, allowed, used) in used {
            let Some(allowed) = allowed.filter(|&allowed| used >= allowed) else {
                continue;
            };
            let seen = match budget {
                BudgetName::Requests => used + 1,
                BudgetName::Bytes | BudgetName::Tokens | BudgetName::Cost => used,
            };
            state.hit(budget, allowed, seen);
            return Err(NotAdmitted::Budget(budget));
        }
        state.traffic.requests += 1;
        state.in_flight += 1;
        Ok(())
    }

    /// Ends what [`Meter::enter`] began. `known` are the tokens that the answer named, with their kinds where it named those
    /// too; `at_most` is what is counted.
    pub(crate) fn leave(&self, known: Option<u64>, usage: Option<&TokenUsage>, at_most: u64) {
        let mut state = self.state();
        if let Some(prices) = &self.prices {
            let cost = match known {
                Some(total) => prices.of(usage.unwrap_or(&TokenUsage::default()), total),
                None => at_most.saturating_mul(prices.most()),
            };
            if known.is_some() {
                state.cost_known = state.cost_known.saturating_add(cost);
            }
            state.traffic.cost_at_most = state.traffic.cost_at_most.saturating_add(cost);
            let used = state.traffic.cost_at_most;
            if let Some(allowed) = self.budget.cost.filter(|&allowed| used > allowed) {
                state.hit(BudgetName::Cost, allowed, used);
            }
        }
        state.in_flight -= 1;
        match known {
            Some(tokens) => state.tokens_known = state.tokens_known.saturating_add(tokens),
            None if at_most > 0 => state.unmeasured += 1,
            None => {}
        }
        state.traffic.tokens_at_most = state.traffic.tokens_at_most.saturating_add(at_most);
        let used = state.traffic.tokens_at_most;
        if let Some(allowed) = self.budget.tokens.filter(|&allowed| used > allowed) {
            state.hit(BudgetName::Tokens, allowed, used);
        }
        drop(state);
        self.turn.notify_all();
    }

    /// Counts bytes that pass; false when they are beyond the budget.
    pub(crate) fn pass(&self, up: u64, down: u64) -> bool {
        let mut state = self.state();
        state.traffic.bytes_up += up;
        state.traffic.bytes_down += down;
        let used = state.traffic.bytes_up + state.traffic.bytes_down;
        match self.budget.bytes.filter(|&allowed| used > allowed) {
            None => true,
            Some(allowed) => {
                state.hit(BudgetName::Bytes, allowed, used);
                false
            }
        }
    }

    pub(crate) fn record(&self, mut exchange: Exchange) {
        let mut state = self.state();
        state.traffic.note(&mut exchange);
        let number = state.traffic.exchanges.len() as u64 + state.traffic.exchanges_dropped + 1;
        if state.traffic.exchanges.len() < EXCHANGES_MAX {
            state
                .traffic
                .exchanges
                .push(Exchange { number, ..exchange });
        } else {
            state.traffic.exchanges_dropped += 1;
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        let state = self.state();
        Standing {
            requests: state.traffic.requests,
            tokens_at_most: state.traffic.tokens_at_most,
            in_flight: state.in_flight,
            is_spent: !state.traffic.hits.is_empty(),
        }
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let state = self.state();
        Traffic {
            tokens: (state.unmeasured == 0).then_some(state.tokens_known),
            cost: (state.unmeasured == 0 && self.prices.is_some()).then_some(state.cost_known),
            ..state.traffic.clone()
        }
    }
}

impl State {
    /// One entry for each budget: the worst that was seen.
    fn hit(&mut self, budget: BudgetName, allowed: u64, seen: u64) {
        let hits = &mut self.traffic.hits;
        match hits.iter_mut().find(|hit| hit.budget == budget) {
            Some(hit) => hit.seen = hit.seen.max(seen),
            None => hits.push(BudgetHit {
                budget,
                allowed,
                seen,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(requests: u64, bytes: u64, tokens: u64) -> Meter {
        let cap = |n: u64| (n > 0).then_some(n);
        Meter::new(
            Budget {
                requests: cap(requests),
                bytes: cap(bytes),
                tokens: cap(tokens),
                cost: None,
            },
            None,
        )
    }

    fn over(budget: BudgetName) -> Result<(), NotAdmitted> {
        Err(NotAdmitted::Budget(budget))
    }

    fn hits(meter: &Meter) -> String {
        let hits = meter.traffic().hits;
        let shown = hits
            .iter()
            .map(|h| format!("{} {}/{}", h.budget.as_str(), h.seen, h.allowed));
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn each_budget_stops_the_next_request_and_is_named() {
        let never = || false;
        let by_requests = meter(1, 0, 0);
        assert_eq!(by_requests.enter(&never), Ok(()));
        by_requests.leave(Some(5), None, 5);
        assert_eq!(hits(&by_requests), "", "used up is not yet exceeded");
        assert_eq!(by_requests.enter(&never), over(BudgetName::Requests));
        assert_eq!(hits(&by_requests), "requests 2/1");

        let by_tokens = meter(0, 0, 10);
        assert_eq!(by_tokens.enter(&never), Ok(()));
        by_tokens.leave(Some(10), None, 10);
        assert_eq!(hits(&by_tokens), "");
        assert_eq!(by_tokens.enter(&never), over(BudgetName::Tokens));
        assert_eq!(hits(&by_tokens), "tokens 10/10");

        let by_bytes = meter(0, 10, 0);
        assert_eq!(by_bytes.enter(&never), Ok(()));
        assert!(by_bytes.pass(4, 6));
        assert!(!by_bytes.pass(0, 1));
        assert_eq!(hits(&by_bytes), "bytes 11/10");
        assert_eq!(by_bytes.enter(&never), over(BudgetName::Bytes));
    }

    #[test]
    fn an_answer_without_a_count_makes_the_sum_unknown_and_still_counts() {
        let meter = meter(0, 0, 100);
        meter.enter(&|| false).unwrap();
        meter.leave(None, None, 120);
        let traffic = meter.traffic();
        assert_eq!((traffic.tokens, traffic.tokens_at_most), (None, 120));
        assert_eq!(hits(&meter), "tokens 120/100");
    }

    #[test]
    fn a_budget_of_money_stops_the_next_request_and_what_is_not_measured_costs_the_most() {
        let budget = Budget {
            cost: Some(100),
            ..Budget::default()
        };
        let prices = Prices {
            input: 1,
            cached_input: 1,
            cache_write: 1,
            output: 5,
        };
        let meter = Meter::new(budget, Some(prices));
        let usage = TokenUsage {
            input: 50,
            output: 10,
            ..TokenUsage::default()
        };
        meter.enter(&|| false).unwrap();
        meter.leave(Some(60), Some(&usage), 60);
        assert_eq!(hits(&meter), "");
        assert_eq!(meter.enter(&|| false), over(BudgetName::Cost));
        assert_eq!(hits(&meter), "cost 100/100");
        assert_eq!(meter.traffic().cost, Some(100));
        let blind = Meter::new(Budget::default(), Some(prices));
        blind.enter(&|| false).unwrap();
        blind.leave(None, None, 30);
        let traffic = blind.traffic();
        assert_eq!((traffic.cost, traffic.cost_at_most), (None, 150));
    }

    #[test]
    fn with_a_token_budget_requests_take_turns_and_a_stop_ends_the_wait() {
        let meter = meter(0, 0, 100);
        meter.enter(&|| false).unwrap();
        assert_eq!(meter.enter(&|| true), Err(NotAdmitted::Stopped));
    }
}
