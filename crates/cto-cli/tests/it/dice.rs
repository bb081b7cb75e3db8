//! Chance that can be repeated.

use std::hash::{BuildHasher as _, RandomState};

/// Set by `cargo xtask campaign kills`: everything is tried, not a sample.
const CAMPAIGN: &str = "CTO_TEST_CAMPAIGN";
/// Another sample, or the one of a failure, by the seed that its output names.
const SEED: &str = "CTO_TEST_SEED";
/// Ordinary tests try the same sample every time: what one of them finds, everybody finds.
const ORDINARY_SEED: u64 = 20_777;

pub(crate) fn is_campaign() -> bool {
    std::env::var_os(CAMPAIGN).is_some()
}

/// Numbers that a failure can be repeated with.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// With the seed of this run of the tests, which is told.
    pub(crate) fn thrown() -> Self {
        Self::new(seed())
    }

    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// The seed that is asked for; else a new one in a campaign, and always the same in the ordinary tests. The output of
/// the test tells it.
#[expect(
    clippy::print_stderr,
    reason = "a failure is repeated by its seed, which only the output of the test can tell"
)]
pub(crate) fn seed() -> u64 {
    let given = std::env::var(SEED).ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| match is_campaign() {
        true => RandomState::new().hash_one(0),
        false => ORDINARY_SEED,
    });
    eprintln!("{SEED}={seed}");
    seed
}
