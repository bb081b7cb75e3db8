//! What tokens cost, in whole numbers: a budget must not depend on how sums are rounded.

use cto_contract::event::TokenUsage;

/// So many parts make one unit of the currency. A price for a million tokens with six digits behind the point is whole.
const PARTS_PER_UNIT: f64 = 1e12;
const TOKENS_PER_PRICE: f64 = 1e6;

/// Parts of the currency for one token of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    pub input: u64,
    pub cached_input: u64,
    pub cache_write: u64,
    pub output: u64,
}

/// An amount in the currency, as parts.
#[must_use]
pub fn parts(amount: f64) -> u64 {
    // A float that is too large or no number becomes the nearest whole one.
    (amount * PARTS_PER_UNIT).round() as u64
}

/// Parts as an amount.
#[must_use]
pub fn amount(parts: u64) -> f64 {
    parts as f64 / PARTS_PER_UNIT
}

impl Prices {
    /// Takes prices for a million tokens. What has no price of its own costs what input costs.
    #[must_use]
    pub fn per_million(
        input: f64,
        output: f64,
        cached_input: Option<f64>,
        cache_write: Option<f64>,
    ) -> Self {
        let of = |price: f64| parts(price / TOKENS_PER_PRICE);
        Self {
            input: of(input),
            cached_input: of(cached_input.unwrap_or(input)),
            cache_write: of(cache_write.unwrap_or(input)),
            output: of(output),
        }
    }

    /// What an answer costs that names its tokens. Those that it names beyond its kinds cost the most.
    pub(crate) fn of(&self, usage: &TokenUsage, total: u64) -> u64 {
        let plain = usage
            .input
            .saturating_sub(usage.cached_input)
            .saturating_sub(usage.cache_write);
        let more = total.saturating_sub(usage.total());
        [
            (plain, self.input),
            (usage.cached_input, self.cached_input),
            (usage.cache_write, self.cache_write),
            (usage.output, self.output),
            (more, self.most()),
        ]
        .into_iter()
        .fold(0, |sum, (tokens, price)| {
            sum.saturating_add(tokens.saturating_mul(price))
        })
    }

    /// The highest price of all.
    pub(crate) fn most(&self) -> u64 {
        let all = [self.input, self.cached_input, self.cache_write, self.output];
        all.into_iter().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_price_and_nothing_is_free_by_having_no_kind() {
        let prices = Prices::per_million(3.0, 15.0, Some(0.3), Some(3.75));
        let usage = TokenUsage {
            input: 1_000_000,
            cached_input: 600_000,
            cache_write: 100_000,
            output: 10_000,
            reasoning: 5_000,
        };
        // 300,000 at 3.00, 600,000 at 0.30, 100,000 at 3.75 and 10,000 at 15.00.
        let cost = 0.9 + 0.18 + 0.375 + 0.15;
        assert_eq!(prices.of(&usage, usage.total()), parts(cost));
        let more = prices.of(&usage, usage.total() + 1_000_000);
        assert_eq!(more, parts(cost + 15.0));
        assert_eq!(amount(parts(cost)), cost);
    }

    #[test]
    fn what_has_no_price_of_its_own_costs_what_input_costs() {
        let prices = Prices::per_million(0.0375, 0.1, None, None);
        assert_eq!((prices.input, prices.cached_input), (37_500, 37_500));
        assert_eq!(prices.cache_write, prices.input);
        assert_eq!(prices.most(), prices.output);
    }
}
