//! Why a run came out as it did, from its pack alone.

use cto_contract::outputs::ExplainOutput;
use cto_rules::views::explain::explain;

use crate::pack_file::{self, PackFileError};
use crate::provenance::OpenedPack;
use crate::test_log;

/// Explains the run of a pack.
pub fn explain_pack(pack: &OpenedPack) -> Result<ExplainOutput, PackFileError> {
    let (_, report) = pack_file::report(pack)?;
    let decision = pack_file::decision(pack)?;
    Ok(explain(&report, &decision, pack.provenance, |check| {
        test_log::printed(pack, &check.command)
    }))
}
