//! The path policy, recomputed from the patch itself, and the trees that the log names.

use std::collections::{BTreeMap, BTreeSet};

use cto_contract::artifact::{EVENTS, PATCH, REPORT_JSON};
use cto_contract::blocker::BlockerCode;
use cto_contract::event::{ChangedPath, DiffChecked, PatchApplied, ScopedPath};
use cto_contract::ids::Digest;
use cto_contract::report::Report;
use cto_contract::task::TaskContract;
use cto_contract::verify::VerifyCode;
use cto_contract::words::RunStatus;
use cto_rules::patch::{PatchEntry, changed_paths, parse};
use cto_rules::paths::check_diff;

use super::documents::Facts;
use super::findings::Findings;
use crate::canonical::sha256;

const CODE: VerifyCode = VerifyCode::PolicyMismatch;

/// What is known of the patch.
#[derive(Clone, Copy)]
pub(super) enum Patch<'a> {
    There(&'a [u8]),
    /// Only its digest, as `SHA256SUMS` lists it: who verifies takes the log's word for what it changes.
    Withheld(&'a Digest),
}

impl Patch<'_> {
    fn digest(self) -> Digest {
        match self {
            Patch::There(bytes) => sha256(bytes),
            Patch::Withheld(digest) => digest.clone(),
        }
    }
}

/// Compares patch, log and report.
pub(super) fn check(
    report: &Report,
    facts: &Facts<'_>,
    contract: Option<&TaskContract>,
    patch: Patch<'_>,
    findings: &mut Findings,
) {
    check_trees(report, facts, findings);
    let looked = |verdict: fn(&DiffChecked) -> bool| facts.diff.map(verdict);
    findings.need(
        report.change.allowed_writes_passed == looked(|d| d.allowed_writes_passed)
            && report.change.forbidden_paths_passed == looked(|d| d.forbidden_paths_passed),
        CODE,
        REPORT_JSON,
        "says about the paths what git.diff.checked does not",
    );
    match facts.patch {
        None => check_nothing_taken(report, facts, patch, findings),
        Some(_) if is_quarantined(report) => {}
        Some(taken) => check_taken(report, (facts, taken), contract, patch, findings),
    }
}

/// Without a patch there is no change, and nothing that could have been judged.
fn check_nothing_taken(
    report: &Report,
    facts: &Facts<'_>,
    patch: Patch<'_>,
    findings: &mut Findings,
) {
    findings.need(
        patch.digest() == sha256(b""),
        CODE,
        PATCH,
        "holds a change although no patch.applied is in the log",
    );
    findings.need(
        report.change.changed_files.is_empty(),
        CODE,
        REPORT_JSON,
        "names changed files although no patch was taken",
    );
    findings.need(
        facts.diff.is_none(),
        CODE,
        EVENTS,
        "git.diff.checked without patch.applied",
    );
}

fn check_taken(
    report: &Report,
    (facts, taken): (&Facts<'_>, &PatchApplied),
    contract: Option<&TaskContract>,
    patch: Patch<'_>,
    findings: &mut Findings,
) {
    findings.need(
        patch.digest() == taken.patch_digest,
        CODE,
        PATCH,
        "is not the patch that patch.applied names",
    );
    findings.need(
        facts
            .plan
            .is_none_or(|planned| planned.plan.baseline_tree_id == taken.base_tree_id),
        CODE,
        EVENTS,
        "patch.applied is against another tree than plan.updated names",
    );
    let Some(again) = policy_again(facts, taken, contract, patch, findings) else {
        return;
    };
    if let Some(again) = &again {
        let changed: BTreeSet<&str> = again.changed_files.iter().map(String::as_str).collect();
        let recorded: BTreeSet<&str> = taken.changes.iter().map(|c| c.path.as_str()).collect();
        findings.need(
            changed == recorded,
            CODE,
            EVENTS,
            "patch.applied names other paths than the patch has",
        );
    }
    findings.need(
        report.change.changes == taken.changes,
        VerifyCode::ReportMismatch,
        REPORT_JSON,
        "changes are not those of patch.applied",
    );
    let (Some(checked), Some(again)) = (facts.diff, again) else {
        findings.need(
            report.change.changed_files.is_empty(),
            CODE,
            REPORT_JSON,
            "names changed files that no git.diff.checked looked at",
        );
        return;
    };
    findings.need(
        is_same(&again, checked),
        CODE,
        EVENTS,
        "git.diff.checked does not follow from patch.diff and task-contract.json",
    );
    let reported = DiffChecked {
        changed_files: report.change.changed_files.clone(),
        scopes: report.change.scopes.clone(),
        ..checked.clone()
    };
    findings.need(
        is_same(&again, &reported),
        CODE,
        REPORT_JSON,
        "the path policy does not follow from patch.diff and task-contract.json",
    );
}

/// The path policy by the patch itself, or by the log's word where the patch is withheld; none when it can't be made.
fn policy_again(
    facts: &Facts<'_>,
    taken: &PatchApplied,
    contract: Option<&TaskContract>,
    patch: Patch<'_>,
    findings: &mut Findings,
) -> Option<Option<DiffChecked>> {
    let bytes = match patch {
        Patch::There(bytes) => bytes,
        Patch::Withheld(_) => return Some(facts.diff.cloned()),
    };
    findings.need(
        bytes.len() as u64 == taken.patch_bytes,
        CODE,
        PATCH,
        "has another length than patch.applied says",
    );
    let contract = contract?;
    match parse(bytes) {
        Ok(entries) => {
            findings.need(
                is_told(&entries, &taken.changes),
                CODE,
                EVENTS,
                "patch.applied names other changes or modes than the patch has",
            );
            Some(Some(check_diff(contract, &entries)))
        }
        Err(error) => {
            findings.file(VerifyCode::PatchMalformed, PATCH, error.to_string());
            None
        }
    }
}

/// Whether the log tells of each path what the patch does to it.
fn is_told(entries: &[PatchEntry], told: &[ChangedPath]) -> bool {
    let by_path = |changes: Vec<ChangedPath>| -> BTreeMap<String, ChangedPath> {
        let pairs = changes.into_iter().map(|c| (c.path.clone(), c));
        pairs.collect()
    };
    by_path(changed_paths(entries)) == by_path(told.to_vec())
}

fn check_trees(report: &Report, facts: &Facts<'_>, findings: &mut Findings) {
    let patch_tree = facts.patch.and_then(|p| p.applied_tree_id.as_ref());
    let verified_tree = facts.verification.and_then(|v| v.verified_tree_id.as_ref());
    let change = &report.change;
    findings.need(
        change.patch_tree_id.as_ref() == patch_tree,
        VerifyCode::ReportMismatch,
        REPORT_JSON,
        "patch_tree_id is not that of patch.applied",
    );
    findings.need(
        change.verified_tree_id.as_ref() == verified_tree,
        VerifyCode::ReportMismatch,
        REPORT_JSON,
        "verified_tree_id is not that of verification.completed",
    );
    if report.verdict.status == RunStatus::Pass {
        let taken = facts.patch.map(|p| &p.tree_id);
        let one_tree = taken.is_some() && taken == patch_tree && patch_tree == verified_tree;
        findings.need(
            one_tree,
            VerifyCode::VerdictMismatch,
            EVENTS,
            "a pass whose patch tree, applied tree and verified tree are not one",
        );
    }
}

/// A patch that held a secret lies in quarantine; a stub stands in its place and the run has failed for it.
fn is_quarantined(report: &Report) -> bool {
    report.verdict.status != RunStatus::Pass
        && report.verdict.not_applicable.contains_key(PATCH)
        && report
            .verdict
            .blockers
            .iter()
            .any(|b| b.code == BlockerCode::SecretExposed)
}

/// The sentence that names the deciding rule is for people and may be worded anew; the verdict on a path may not.
fn is_same(a: &DiffChecked, b: &DiffChecked) -> bool {
    let verdicts = |scopes: &[ScopedPath]| {
        scopes
            .iter()
            .map(|s| (s.path.clone(), s.scope))
            .collect::<Vec<_>>()
    };
    a.changed_files == b.changed_files
        && a.allowed_writes_passed == b.allowed_writes_passed
        && a.forbidden_paths_passed == b.forbidden_paths_passed
        && verdicts(&a.scopes) == verdicts(&b.scopes)
}
