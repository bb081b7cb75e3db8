//! What the report claims, lowered where its basis is gone.

use cto_contract::artifact::REQUIRED;
use cto_contract::event::EventType;
use cto_contract::report::Report;
use cto_contract::verify::Claim;
use cto_contract::words::ClaimLevel;

use super::files::Files;
use crate::chain::Log;

/// Claims of a pack: all absent when its integrity is broken, each absent when a file or event it names is not there.
pub(super) fn lowered(
    report: &Report,
    files: &Files,
    log: Option<&Log>,
    is_broken: bool,
) -> Vec<Claim> {
    let holds = |claim: &Claim| !is_broken && has_basis(&claim.basis, files, log);
    report
        .verdict
        .claims
        .iter()
        .map(|claim| {
            if holds(claim) {
                claim.clone()
            } else {
                Claim {
                    level: ClaimLevel::Absent,
                    ..claim.clone()
                }
            }
        })
        .collect()
}

fn has_basis(basis: &str, files: &Files, log: Option<&Log>) -> bool {
    basis
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '`' | '(' | ')'))
        .all(|word| {
            if REQUIRED.contains(&word) {
                files.has(word)
            } else if let Ok(event) = word.parse::<EventType>() {
                log.is_some_and(|l| l.events.iter().any(|e| e.kind.event_type() == event))
            } else {
                true
            }
        })
}
