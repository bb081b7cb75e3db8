//! Checkpoints: how far a ledger had come, signed by the harness and kept where the ledger is not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::Digest;
use crate::time::Utc;

/// DSSE payload type of a checkpoint.
pub const PAYLOAD_TYPE: &str = "application/vnd.cto.checkpoint+json";

/// What every checkpoint's file ends with.
pub const SUFFIX: &str = ".dsse.json";

wire_const! {
    /// Schema tag of a checkpoint.
    pub struct CheckpointSchema: &'static str = "cto.checkpoint/v1"
}

/// The head of a ledger at one moment. A ledger that does not hold this entry at this place is not the one it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    pub schema: CheckpointSchema,
    /// The id of the ledger.
    pub ledger: Digest,
    /// How many entries it had: the number of its last one.
    pub length: u64,
    /// The digest of its last entry.
    pub head: Digest,
    pub at: Utc,
    /// Base64 of the raw ed25519 key that signed it.
    pub harness_public_key: String,
}

impl Checkpoint {
    /// The name of its file: sorted by ledger, then by length. The head is in it, so that a ledger that was put back and
    /// went on otherwise can't write over what an earlier one left.
    pub fn file_name(&self) -> String {
        let (ledger, head) = (self.ledger.short(), self.head.short());
        format!("{ledger}-{:012}-{head}{SUFFIX}", self.length)
    }
}
