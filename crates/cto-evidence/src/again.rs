//! What a log gives when it is folded again: the report, its page and its trace, as the harness made them.

use std::collections::BTreeMap;

use cto_contract::artifact::FreshnessMap;
use cto_contract::event::RunEvent;
use cto_contract::ids::Digest;
use cto_contract::report::Report;
use cto_contract::stage_proof::{COPIED_REPO_PROOF, NO_TARGET_PROOF};
use cto_contract::task::TaskContract;
use cto_rules::lifecycle::{RunState, conclude};
use cto_rules::views::markdown::markdown;
use cto_rules::views::proofs::proofs;
use cto_rules::views::report::{ReportInput, report};
use cto_rules::views::trace::trace;
use serde_json::{Map, Value, from_value};

use crate::canonical::{CanonicalError, digest_of, to_canonical};

/// Makes the report of a log again. Of the sealed one it takes what is the seal's own: the index of the files, and how
/// long it took by the boot clock.
pub fn report_again(sealed: &Report, state: &RunState) -> Result<Report, CanonicalError> {
    let completed = state.completed.clone().unwrap_or_else(|| conclude(state));
    let contract_digest = match &state.contract {
        Some(created) => digest_of(&created.contract)?,
        None => sealed.authority.contract_digest.clone(),
    };
    let identity = state.plan.as_ref().map(|p| &p.identity);
    let input = ReportInput {
        contract_digest,
        identity_digest: identity.map(digest_of).transpose()?,
        finished_at: state.last_at,
        wall_seconds: sealed.resources.wall_seconds.unwrap_or_default(),
    };
    let mut again = report(state, &completed, &input);
    let index = sealed.artifacts.clone();
    again.artifacts.artifact_paths = index.artifact_paths;
    again.artifacts.artifact_digests = index.artifact_digests;
    again.artifacts.freshness = index.freshness;
    Ok(again)
}

/// Names of the fields in which two reports differ.
pub fn differences(sealed: &Report, again: &Report) -> Result<Vec<String>, serde_json::Error> {
    let fields =
        |report: &Report| serde_json::to_value(report).and_then(from_value::<Map<String, Value>>);
    let (sealed, again) = (fields(sealed)?, fields(again)?);
    let mut names: Vec<String> = again
        .keys()
        .chain(sealed.keys())
        .filter(|k| again.get(*k) != sealed.get(*k))
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The bytes of `report.md`.
pub fn page(report: &Report, contract: Option<&TaskContract>) -> Vec<u8> {
    markdown(report, contract).into_bytes()
}

/// The bytes of `trace.jsonl`.
pub fn trace_lines(events: &[RunEvent]) -> Result<Vec<u8>, serde_json::Error> {
    let mut lines = Vec::new();
    for entry in trace(events) {
        serde_json::to_writer(&mut lines, &entry)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// The digest of a report without the index of its files: what a file of the pack can name.
pub fn report_digest(report: &Report) -> Result<Digest, CanonicalError> {
    let mut report = report.clone();
    report.artifacts.artifact_paths = Vec::new();
    report.artifacts.artifact_digests = BTreeMap::new();
    report.artifacts.freshness = FreshnessMap::new();
    digest_of(&report)
}

/// The proof files of a log, by name.
pub fn proof_files(
    state: &RunState,
    report: &Report,
) -> Result<BTreeMap<&'static str, Vec<u8>>, CanonicalError> {
    let made = proofs(state, report, &report_digest(report)?);
    let mut files = BTreeMap::new();
    if let Some(proof) = &made.no_target {
        files.insert(NO_TARGET_PROOF, to_canonical(proof)?);
    }
    if let Some(proof) = &made.copied_repo {
        files.insert(COPIED_REPO_PROOF, to_canonical(proof)?);
    }
    Ok(files)
}
