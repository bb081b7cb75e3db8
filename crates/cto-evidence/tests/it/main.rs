//! Packs end to end: sealed, verified, falsified in every way we can think of, and read by a stranger.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that fails here fails the test"
)]

mod addenda;
mod approvals;
mod backend_ends;
mod binary;
mod chain;
mod claims;
mod decisions;
mod derived;
mod events;
mod facts;
mod flips;
mod forge;
mod good;
mod grants;
mod released;
mod sample;
mod sealed;
mod seals;
mod signed;
mod sshsig;
mod stranger;
mod tamper;
mod withheld;

use cto_contract::verify::{VerifyCode, VerifyReport};
use cto_evidence::verify::{VerifyOptions, verify};

use sample::Pack;

/// Verifies with the pack's own key as known.
pub(crate) fn check(pack: &Pack) -> VerifyReport {
    verify(&pack.path, &known(pack))
}

pub(crate) fn known(pack: &Pack) -> VerifyOptions {
    VerifyOptions {
        extra_key: Some(pack.key.public()),
        ..VerifyOptions::default()
    }
}

/// The codes that were found, each once, in the order of the enum.
pub(crate) fn codes(report: &VerifyReport) -> Vec<&'static str> {
    VerifyCode::ALL
        .iter()
        .filter(|c| report.errors.iter().any(|e| e.code == **c))
        .map(|c| c.as_str())
        .collect()
}
