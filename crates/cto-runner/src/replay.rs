//! The log of a sealed run told again, and the report made from it again.

use std::path::Path;

use cto_contract::artifact::REPORT_JSON;
use cto_contract::outputs::{ReplayOutput, ReplayTag};
use cto_contract::report::Report;
use cto_evidence::canonical::{CanonicalError, digest_of};
use cto_rules::lifecycle::{ReplayError, RunState, conclude, replay};
use cto_rules::views::progress::progress;
use cto_rules::views::report::{ReportInput, report};

use crate::pack_file::{self, PackFileError};

/// A log that can't be told again.
#[derive(Debug, thiserror::Error)]
pub enum RetellError {
    #[error(transparent)]
    Pack(#[from] PackFileError),
    #[error("the log does not hold")]
    Log(#[from] ReplayError),
    #[error("the report can't be encoded")]
    Encode(#[from] serde_json::Error),
    #[error("a digest of the report can't be taken")]
    Digest(#[from] CanonicalError),
}

/// Replays the log of a pack and compares what follows from it with the sealed report.
pub fn replay_pack(pack: &Path) -> Result<ReplayOutput, RetellError> {
    let events = pack_file::events(pack)?;
    let state = replay(&events)?;
    let differences = match pack_file::read(pack, REPORT_JSON)? {
        Some(_) => Some(differences(&pack_file::report(pack)?.1, &state)?),
        None => None,
    };
    Ok(ReplayOutput {
        schema_version: ReplayTag,
        run_id: state.run_id.clone(),
        events: events.len() as u64,
        progress: events.iter().filter_map(progress).collect(),
        status: state.completed.as_ref().map(|c| c.status),
        same: differences.as_ref().map(Vec::is_empty),
        differences: differences.unwrap_or_default(),
    })
}

/// Fields of the report that do not follow from the log. The index of files and the clocks are the seal's own.
fn differences(sealed: &Report, state: &RunState) -> Result<Vec<String>, RetellError> {
    let completed = state.completed.clone().unwrap_or_else(|| conclude(state));
    let contract_digest = match &state.contract {
        Some(created) => digest_of(&created.contract)?,
        None => sealed.authority.contract_digest.clone(),
    };
    let input = ReportInput {
        contract_digest,
        identity_digest: (state.plan.as_ref())
            .map(|p| digest_of(&p.identity))
            .transpose()?,
        finished_at: sealed.run.run_finished_at,
        wall_seconds: sealed.resources.wall_seconds.unwrap_or_default(),
    };
    let mut again = report(state, &completed, &input);
    again.artifacts = sealed.artifacts.clone();
    let (again, sealed) = (serde_json::to_value(&again)?, serde_json::to_value(sealed)?);
    let empty = serde_json::Map::new();
    let (again, sealed) = (
        again.as_object().unwrap_or(&empty),
        sealed.as_object().unwrap_or(&empty),
    );
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
