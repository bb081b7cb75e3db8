//! `cto health`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::words::NeverActive;

outputs! {
    /// `cto health`.
    HealthOutput, HealthTag = "cto.health/v1" {
        /// `pass` when every part passed.
        pub status: HealthStatus,
        pub parts: BTreeMap<String, HealthPart>,
        pub seconds: f64,
        pub runtime_default_activation: NeverActive,
    }
}

wire_enum! {
    /// What came of a part, or of all.
    pub enum HealthStatus { Pass = "pass", Fail = "fail" }
}

/// One part.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HealthPart {
    pub status: HealthStatus,
    pub passed: bool,
    /// How many things were checked in it.
    pub checked: u64,
    /// What does not hold, a sentence each.
    pub errors: Vec<String>,
    /// Where its report or its packs are; null when it came to nothing.
    pub path: Option<String>,
    pub seconds: f64,
}
