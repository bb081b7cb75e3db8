//! What the report claims: held against the log, and lowered where what it rests on is gone.

use cto_contract::artifact::REPORT_JSON;
use cto_contract::claim::{Basis, Claim};
use cto_contract::report::Report;
use cto_contract::verify::VerifyCode;
use cto_contract::words::ClaimLevel;
use cto_rules::claims::claims;
use cto_rules::lifecycle::RunState;

use super::files::Files;
use super::findings::Findings;

/// Compares the claims with those that the log gives: each kind once, no level higher or lower, on the same files and
/// events, in the same words; and all that they rest on must be there.
pub(super) fn check(report: &Report, files: &Files, state: &RunState, findings: &mut Findings) {
    let mut need = |holds: bool, message: &str| {
        findings.need(holds, VerifyCode::ReportMismatch, REPORT_JSON, message);
    };
    let status = state.completed.as_ref().map(|c| c.status);
    let again = claims(state, status.unwrap_or(report.verdict.status));
    let made = &report.verdict.claims;
    for (claim, shown) in made.iter().zip(&again) {
        let message = format!("the claim `{}` is not what the log shows", claim.kind);
        need(claim == shown, &message);
    }
    need(
        made.len() == again.len(),
        "has more or fewer claims than the log gives",
    );
    for basis in made.iter().flat_map(|claim| &claim.rests_on) {
        let message = format!("a claim rests on `{}`, which is not there", basis.name());
        need(is_there(basis, files, state), &message);
    }
}

/// Claims of a pack: all absent when its integrity is broken, and at most `self_reported` when they rest on a file that
/// is withheld.
pub(super) fn lowered(report: &Report, files: &Files, is_broken: bool) -> Vec<Claim> {
    let withheld = |basis: &Basis| match basis {
        Basis::File(path) => files.withheld.contains(path),
        Basis::Event(_) => false,
    };
    let made = report.verdict.claims.iter();
    made.map(|claim| {
        let ceiling = if is_broken {
            ClaimLevel::Absent
        } else if claim.rests_on.iter().any(withheld) {
            ClaimLevel::SelfReported
        } else {
            ClaimLevel::Verified
        };
        Claim::new(claim.kind, claim.level.min(ceiling), claim.rests_on.clone())
    })
    .collect()
}

/// A file is one that was sealed, in this copy or withheld from it; an event is one of the log.
fn is_there(basis: &Basis, files: &Files, state: &RunState) -> bool {
    match basis {
        Basis::File(path) => {
            let sums = files.sums.as_ref();
            files.has(path) && sums.is_some_and(|sums| sums.contains_key(path))
        }
        Basis::Event(event) => state.types.contains(event),
    }
}
