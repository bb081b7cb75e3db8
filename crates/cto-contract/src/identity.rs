//! Which lane, in which build and with which model, did the work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::Digest;
use crate::words::{Lane, SandboxClass};

/// Identity of a lane, recorded in every pack. What changes it makes earlier proofs stale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    pub lane: Lane,
    /// Raised in the code whenever the adapter's argv, config or decoding changes.
    pub adapter_revision: u32,
    /// SHA-256 of the program that ran; absent when nothing was started.
    pub binary_digest: Option<Digest>,
    /// What the program says of its version.
    pub version_output: Option<String>,
    pub model_provider: Option<String>,
    pub model: Option<String>,
    pub sandbox_class: SandboxClass,
    /// Arguments with run-specific places replaced (`$WORKSPACE`, `$SCRATCH`).
    pub argv: Vec<String>,
    /// Names, never values.
    pub environment_names: Vec<String>,
    pub harness_version: String,
}
