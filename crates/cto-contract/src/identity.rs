//! Which lane, in which build and with which model, did the work; and how it was started.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::Digest;
use crate::words::{Lane, SandboxClass};

/// The model of a `command` whose contract gives it no network.
pub const NO_MODEL: &str = "none";

/// Identity of a lane, recorded in every pack. What changes it makes earlier proofs stale, so it holds nothing else:
/// the harness's version and the words of the launch stand beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    pub lane: Lane,
    /// Raised in the code whenever the adapter's argv, config or decoding changes.
    pub adapter_revision: u32,
    /// SHA-256 of the program that ran; absent when nothing was started.
    pub binary_digest: Option<Digest>,
    /// The admitted provider; null for a lane without a model.
    pub model_provider: Option<String>,
    /// The admitted model; null for a lane without one, [`NO_MODEL`] for a `command` without a network.
    pub model: Option<String>,
    pub sandbox_class: SandboxClass,
    /// Only for a `command`, from the first stage on at which a change lands: proofs of earlier stages do without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_line: Option<CommandLine>,
}

/// What a `command` is besides its program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandLine {
    pub argv: Vec<String>,
    /// Digests of the files that the arguments name.
    pub files: BTreeMap<String, Digest>,
    pub environment_names: Vec<String>,
}

wire_enum! {
    /// What a file is to the program that ran.
    pub enum ProgramRole {
        /// The file whose digest stands in the identity.
        Program = "program",
        /// What runs it, where it is a script.
        Interpreter = "interpreter",
        /// The package that it loads from, as one digest over all its files.
        Tree = "tree",
    }
}

/// A file or tree of the lane's installation, as it was before the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramDigest {
    pub role: ProgramRole,
    /// Below the operator's home by `~`.
    pub path: String,
    pub digest: Digest,
}

/// A file of the baseline that instructs agents or sets them up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SteeringDigest {
    pub path: String,
    /// SHA-256 of its bytes; of a link, of where it leads.
    pub digest: Digest,
}

/// How the backend was started: no part of its identity. The harness's version stands in the same report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchRecord {
    /// Arguments with run-specific places replaced (`$WORKSPACE`, `$SCRATCH`).
    pub argv: Vec<String>,
    /// Names, never values.
    pub environment_names: Vec<String>,
    /// What the program says of its version; null when it was not asked.
    pub version_output: Option<String>,
    /// Files of an installed program, and the tree that it loads from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramDigest>,
    /// What of the baseline steers agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steering: Vec<SteeringDigest>,
}
