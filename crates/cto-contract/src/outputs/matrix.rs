//! `cto matrix`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::ids::RunId;
use crate::time::Utc;
use crate::words::{Lane, NeverActive, RunStatus};

outputs! {
    /// `cto matrix`, and its `report.json`.
    MatrixOutput, MatrixTag = "cto.matrix/v1" {
        pub matrix_id: RunId,
        pub engine: Lane,
        pub jobs: u64,
        pub started_at: Utc,
        pub finished_at: Utc,
        pub seconds: f64,
        pub ok: bool,
        pub counts: MatrixCounts,
        pub runs: Vec<MatrixRun>,
        pub report_path: String,
        pub runtime_default_activation: NeverActive,
    }
}

/// How many runs ended in which way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MatrixCounts {
    pub pass: u64,
    pub fail: u64,
    pub blocked: u64,
    /// Cases that could not be run at all.
    pub error: u64,
}

/// One case of a matrix.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MatrixRun {
    pub case_id: String,
    pub run_id: Option<RunId>,
    pub status: Option<RunStatus>,
    pub seconds: f64,
    pub failure_reason: Option<String>,
    /// Code of the error that kept the case from running.
    pub error: Option<String>,
}
