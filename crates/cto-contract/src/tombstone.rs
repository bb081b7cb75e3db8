//! What is left of a pack that retention removed: a signed record, so that no run disappears.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocker::BlockerCode;
use crate::ids::{CaseId, Digest, RunId};
use crate::time::Utc;
use crate::words::{Lane, RunStatus, Stage};

/// DSSE payload type of a tombstone.
pub const PAYLOAD_TYPE: &str = "application/vnd.cto.tombstone+json";

/// What follows the run id in the file's name, beside where the pack was.
pub const SUFFIX: &str = ".tombstone.dsse.json";

wire_const! {
    /// Schema tag of a tombstone.
    pub struct TombstoneSchema: &'static str = "cto.tombstone/v1"
}

/// The record. It holds all that the index shows of the run, so that the index can be rebuilt without the pack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tombstone {
    pub schema: TombstoneSchema,
    pub run_id: RunId,
    pub case_id: CaseId,
    pub backend: Lane,
    pub stage: Stage,
    pub title: String,
    pub conformance: bool,
    /// It only measured another run.
    #[serde(default)]
    pub fake_baseline: bool,
    pub status: RunStatus,
    pub blocker: Option<BlockerCode>,
    pub failure_reason: Option<String>,
    pub changed_files: u64,
    pub wall_seconds: Option<f64>,
    pub run_started_at: Utc,
    pub run_finished_at: Utc,
    /// Digest of the pack that was here; the ledger names the same.
    pub pack_digest: Digest,
    /// The key that had sealed it.
    pub pack_keyid: Digest,
    pub pack_bytes: u64,
    pub removed_at: Utc,
    /// The setting by which it was removed, and its value.
    pub rule: String,
    pub harness_public_key: String,
}

impl Tombstone {
    /// The name of its file.
    pub fn file_name(run_id: &RunId) -> String {
        format!("{run_id}{SUFFIX}")
    }
}
