//! `cto logs` and `cto replay`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::event::RunEvent;
use crate::ids::RunId;
use crate::trust::Origin;
use crate::words::RunStatus;

outputs! {
    /// `cto logs`.
    LogsOutput, LogsTag = "cto.logs/v1" {
        pub run_id: Option<RunId>,
        /// By the key that sealed it; null while it is not sealed.
        pub origin: Option<Origin>,
        /// The ledger of this home created the run and knows this very pack of it.
        pub of_this_home: bool,
        pub files: Vec<LogFile>,
        /// With `--events` only.
        pub events: Vec<RunEvent>,
    }
    /// `cto replay`.
    ReplayOutput, ReplayTag = "cto.replay/v1" {
        pub run_id: RunId,
        /// By the key that sealed it; null while it is not sealed.
        pub origin: Option<Origin>,
        /// The ledger of this home created the run and knows this very pack of it.
        pub of_this_home: bool,
        pub events: u64,
        /// The lines that a person saw while the run went on.
        pub progress: Vec<String>,
        pub status: Option<RunStatus>,
        /// The report made from the log again equals the sealed one; null when there is no sealed one.
        pub same: Option<bool>,
        /// Fields of the report that differ.
        pub differences: Vec<String>,
    }
}

/// One file that backend or checks wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogFile {
    pub path: String,
    pub bytes: u64,
    /// Bytes that are not UTF-8 are replaced.
    pub text: String,
}
