//! What becomes of the files that a dead run left in its pack.
//!
//! A file is written before the log tells of it, and a writer can die in the middle. So whoever closes the run keeps what
//! the log vouches for and what is raw, and makes the rest anew.

use cto_contract::artifact::{
    ATTESTATION_DRAFT, ELIGIBILITY, PATCH, REPORT_JSON, REPORT_MD, SHA256SUMS, TEST_LOG, TRACE,
};
use cto_contract::ids::Digest;

use crate::lifecycle::{RunState, conclude};

/// What to do with one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leftover {
    /// It is raw output as far as it went, or was whole before the log began.
    Keep,
    /// The log has told of it: it must have this digest.
    Known(Digest),
    /// The log holds what belongs into it, or has not told of it: it may be torn.
    MakeAnew,
}

/// Says what becomes of a file of the pack, by what the log tells.
pub fn leftover(state: &RunState, path: &str) -> Leftover {
    match path {
        ELIGIBILITY | TRACE | REPORT_MD | REPORT_JSON | SHA256SUMS | ATTESTATION_DRAFT => {
            Leftover::MakeAnew
        }
        PATCH => state.patch.as_ref().map_or(Leftover::MakeAnew, |patch| {
            Leftover::Known(patch.patch_digest.clone())
        }),
        TEST_LOG => Leftover::Keep,
        _ if is_marker(state, path) => Leftover::MakeAnew,
        _ => Leftover::Keep,
    }
}

fn is_marker(state: &RunState, path: &str) -> bool {
    let mut codes = conclude(state).blockers.into_iter().map(|b| b.code);
    codes.any(|code| code.row().marker_path(state.lane).as_deref() == Some(path))
}
