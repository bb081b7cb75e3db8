//! `cto engines`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::words::Lane;

outputs! {
    /// `cto engines`.
    EnginesOutput, EnginesTag = "cto.engines/v1" {
        /// Always `fake`; nothing can change it.
        pub default: Lane,
        pub engines: Vec<EngineRow>,
    }
}

/// One lane and its gates.
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
}
