//! The log of a sealed run told again, and the report made from it again.

use cto_contract::artifact::REPORT_JSON;
use cto_contract::outputs::{ReplayOutput, ReplayTag};
use cto_evidence::again::{differences, report_again};
use cto_evidence::canonical::CanonicalError;
use cto_rules::lifecycle::{ReplayError, replay};
use cto_rules::views::progress::progress;

use crate::pack_file::{self, PackFileError};
use crate::provenance::OpenedPack;

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
pub fn replay_pack(pack: &OpenedPack) -> Result<ReplayOutput, RetellError> {
    let events = pack_file::events(pack)?;
    let state = replay(&events)?;
    let differences = match pack_file::read(pack, REPORT_JSON)? {
        Some(_) => {
            let sealed = pack_file::report(pack)?.1;
            Some(differences(&sealed, &report_again(&sealed, &state)?)?)
        }
        None => None,
    };
    Ok(ReplayOutput {
        schema_version: ReplayTag,
        run_id: state.run_id.clone(),
        origin: pack.provenance.origin,
        of_this_home: pack.provenance.of_this_home,
        events: events.len() as u64,
        progress: events.iter().filter_map(progress).collect(),
        status: state.completed.as_ref().map(|c| c.status),
        same: differences.as_ref().map(Vec::is_empty),
        differences: differences.unwrap_or_default(),
    })
}
