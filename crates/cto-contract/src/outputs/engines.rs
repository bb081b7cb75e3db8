//! `cto engines`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::admission::AdmissionKind;
use crate::ids::Digest;
use crate::words::{Lane, Wire};

outputs! {
    /// `cto engines`.
    EnginesOutput, EnginesTag = "cto.engines/v1" {
        /// Always `fake`; nothing can change it.
        pub default: Lane,
        pub engines: Vec<EngineRow>,
    }
    /// `cto engines allow|deny`.
    EngineChangeOutput, EngineChangeTag = "cto.engine-change/v1" {
        pub lane: Lane,
        /// The file that holds the gates.
        pub config_file: String,
        /// The lines that open the lane; empty where it is closed.
        pub gates: String,
        /// Whether the file says something else now, or would.
        pub gates_change: bool,
        pub records: Vec<EngineRecord>,
        pub notes: Vec<String>,
        /// False: it was only shown.
        pub written: bool,
    }
}

/// One lane: its gates, its program, and what records say of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EngineRow {
    pub lane: Lane,
    pub default: bool,
    /// This build can run it.
    pub available: bool,
    /// Switched off in harness.yaml.
    pub disabled: bool,
    /// The environment name that opens the lane; null for `fake`.
    pub gate: Option<String>,
    /// Only the exact value 1 opens it.
    pub gate_open: bool,
    pub stage_gate: Option<String>,
    /// The stage that the environment permits.
    pub stage: Option<u8>,
    /// The wires that its program may speak to a model.
    pub wires: Vec<Wire>,
    /// Null for a lane that has no installed program of its own.
    pub program: Option<EngineProgram>,
    /// Whether records let its source and its program in at stage 3; null where none are needed.
    pub source_admitted: Option<bool>,
    pub binary_admitted: Option<bool>,
    /// Whether a record lets in the pair that the environment asks for; null where none is needed.
    pub model_admitted: Option<bool>,
    /// Why not, for each that is not.
    pub reasons: Vec<String>,
    /// The next command or setting on the way to a run; null where nothing is missing.
    pub next: Option<String>,
}

/// The program of a lane, as it is installed here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EngineProgram {
    pub path: Option<String>,
    /// As its package says; nobody asked the program.
    pub version: Option<String>,
    pub digest: Option<Digest>,
    /// Of all that a script loads from.
    pub package_digest: Option<Digest>,
    /// Why it can't be used.
    pub problem: Option<String>,
}

/// A record that opening a lane writes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EngineRecord {
    pub kind: AdmissionKind,
    pub subject: String,
    /// Null while it is only shown.
    pub path: Option<String>,
    pub record: Value,
}
