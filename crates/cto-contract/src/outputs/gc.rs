//! `cto gc`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::ids::RunId;

outputs! {
    /// `cto gc`.
    GcOutput, GcTag = "cto.gc/v1" {
        /// Nothing was removed: this is what would be.
        pub dry_run: bool,
        pub items: Vec<GcItem>,
        /// Bytes of all items.
        pub bytes: u64,
        /// Packs that are old enough and stay.
        pub kept: Vec<GcKept>,
        /// Items that could not be removed.
        pub problems: Vec<GcProblem>,
    }
}

wire_enum! {
    /// What kind of thing goes.
    pub enum ItemKind {
        /// Scratch of a process that is gone, whose run is sealed.
        Work = "work",
        /// The home of a validator.
        Validation = "validation",
        Baseline = "baseline",
        /// How a run was asked for whose pack is gone.
        Request = "request",
        Pack = "pack",
        /// What an earlier removal left.
        Leftover = "leftover",
    }
}

/// One thing that goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GcItem {
    pub kind: ItemKind,
    /// Below home.
    pub path: String,
    pub run_id: Option<RunId>,
    pub bytes: u64,
    pub reason: String,
}

/// A pack that is old enough to go, and stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GcKept {
    pub run_id: RunId,
    pub reason: String,
}

/// Something that could not be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GcProblem {
    pub path: String,
    pub reason: String,
}
