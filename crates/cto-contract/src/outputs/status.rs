//! `cto status`: the day on one screen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PendingOutcome, RequestRow};
use crate::ids::{Digest, RunId};
use crate::time::Utc;
use crate::words::Lane;

outputs! {
    /// `cto status`.
    StatusOutput, StatusTag = "cto.status/v1" {
        pub live: Vec<LiveRun>,
        /// Requests that nobody has decided, and grants that no run has used.
        pub requests: Vec<RequestRow>,
        /// Runs that passed and wait for an outcome.
        pub outcomes: Vec<PendingOutcome>,
        /// How many more of both wait than are listed.
        pub more: u64,
        /// The last matrix of this home; null before the first.
        pub last_matrix: Option<MatrixNote>,
        pub ledger: LedgerStatus,
    }
}

/// A run that a process works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LiveRun {
    pub run_id: RunId,
    pub pid: u32,
    /// Null where the index does not know it yet.
    pub backend: Option<Lane>,
    pub title: Option<String>,
    pub started_at: Option<Utc>,
}

/// What is left of a matrix for whoever looks later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MatrixNote {
    pub matrix_id: RunId,
    pub engine: Lane,
    pub ok: bool,
    pub finished_at: Utc,
    pub pass: u64,
    pub fail: u64,
    pub blocked: u64,
    pub error: u64,
    pub report_path: String,
}

/// How far the ledger has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LedgerStatus {
    pub id: Digest,
    pub seq: u64,
    pub head: Digest,
    /// Whether operators decide here.
    pub governed: bool,
}
