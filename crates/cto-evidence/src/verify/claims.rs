//! What the report claims, lowered where its basis is gone.

use cto_contract::artifact::{PATCH, REQUIRED, TEST_LOG};
use cto_contract::event::EventType;
use cto_contract::report::Report;
use cto_contract::verify::Claim;
use cto_contract::words::ClaimLevel;

use super::files::Files;
use crate::chain::Log;

/// Claims of a pack: all absent when its integrity is broken, each absent when a file or event it names is not there,
/// and at most `self_reported` when it rests on a file that is withheld.
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
            let ceiling = if !holds(claim) {
                ClaimLevel::Absent
            } else if rests_on_withheld(&claim.basis, files) {
                ClaimLevel::SelfReported
            } else {
                ClaimLevel::Verified
            };
            Claim {
                level: claim.level.min(ceiling),
                ..claim.clone()
            }
        })
        .collect()
}

fn has_basis(basis: &str, files: &Files, log: Option<&Log>) -> bool {
    words(basis).all(|word| {
        if REQUIRED.contains(&word) {
            files.has(word)
        } else if let Ok(event) = word.parse::<EventType>() {
            log.is_some_and(|l| l.events.iter().any(|e| e.kind.event_type() == event))
        } else {
            true
        }
    })
}

/// An event about a withheld file is the harness's word alone, so what rests on that event rests on the file.
fn rests_on_withheld(basis: &str, files: &Files) -> bool {
    words(basis).any(|word| {
        let file = match word.parse::<EventType>() {
            Ok(EventType::PatchApplied | EventType::GitDiffChecked) => PATCH,
            Ok(EventType::VerificationCompleted) => TEST_LOG,
            _ => word,
        };
        files.withheld.contains(file)
    })
}

fn words(basis: &str) -> impl Iterator<Item = &str> {
    basis.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '`' | '(' | ')'))
}
