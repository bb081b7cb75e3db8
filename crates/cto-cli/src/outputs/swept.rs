//! Parts of what `cto gc` prints.

use cto_contract::ids::RunId;
use cto_contract::schemars::{self, JsonSchema};
use cto_runner::ItemKind;
use serde::Serialize;

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GcItem {
    pub(crate) kind: ItemKind,
    /// Below home.
    pub(crate) path: String,
    pub(crate) run_id: Option<RunId>,
    pub(crate) bytes: u64,
    pub(crate) reason: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GcKept {
    pub(crate) run_id: RunId,
    pub(crate) reason: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GcProblem {
    pub(crate) path: String,
    pub(crate) reason: String,
}
