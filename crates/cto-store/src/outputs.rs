//! What `cto runs` and `cto index rebuild` print under `--json`: documents with rows of the index in them.

use cto_contract::ids::RunId;
use cto_contract::wire_const;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cursor::Cursor;
use crate::query::Rebuilt;
use crate::run::RunRow;

wire_const! {
    /// Schema tag `cto.runs/v1`.
    pub struct RunsTag: &'static str = "cto.runs/v1"
}

/// `cto runs`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunsOutput {
    pub schema_version: RunsTag,
    pub rows: Vec<RunRow>,
    /// Runs that a living process works on now.
    pub live: Vec<LiveRun>,
    /// Of the rows, those whose packs `cto gc` removed.
    pub removed: Vec<RunId>,
    /// Of the rows, runs of this home whose packs are gone without a tombstone.
    pub missing: Vec<RunId>,
    /// Of the rows, runs of this home whose packs are not those that the ledger knows.
    pub mismatched: Vec<RunId>,
    /// Give it to `--after` for the next page; null at the end.
    pub next: Option<Cursor>,
}

/// A run that goes on, and the process that works on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LiveRun {
    pub run_id: RunId,
    pub pid: u32,
}

wire_const! {
    /// Schema tag `cto.index/v1`.
    pub struct IndexTag: &'static str = "cto.index/v1"
}

/// `cto index rebuild`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexOutput {
    pub schema_version: IndexTag,
    pub rebuilt: Rebuilt,
    /// Packs that do not verify and are not in the index.
    pub refused: Vec<RefusedPack>,
}

/// A pack that is not in the index, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusedPack {
    pub name: String,
    pub reason: String,
}
