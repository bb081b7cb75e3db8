//! `cto recover` and `cto stop`: what became of runs that did not end by themselves.

use schemars::JsonSchema;
use serde::Serialize;

use crate::ids::RunId;
use crate::words::RunStatus;

outputs! {
    /// `cto recover`.
    RecoverOutput, RecoverTag = "cto.recover/v1" {
        pub runs: Vec<RecoveredRun>,
    }
    /// `cto stop`.
    StopOutput, StopTag = "cto.stop/v1" {
        pub run_id: RunId,
        pub pid: u32,
        /// Whether its pack was sealed within the wait.
        pub sealed: bool,
        pub status: Option<RunStatus>,
    }
}

wire_enum! {
    /// What became of a work directory.
    pub enum RecoveredAs { Live = "live", Sealed = "sealed", Cleared = "cleared", Discarded = "discarded", Landed = "landed", NotLanded = "not_landed", Failed = "failed" }
}

/// One work directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecoveredRun {
    /// The run id, or the name of the directory.
    pub name: String,
    pub outcome: RecoveredAs,
    pub detail: Option<String>,
}
