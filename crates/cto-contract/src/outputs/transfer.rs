//! `cto export` and `cto import`.

use crate::ids::{CommitId, Digest, RunId};
use crate::trust::Origin;
use crate::words::RunStatus;

outputs! {
    /// `cto export`.
    ExportOutput, ExportTag = "cto.export/v1" {
        pub run_id: RunId,
        pub origin: Origin,
        /// The ledger of this home created the run and knows this very pack of it.
        pub of_this_home: bool,
        pub kind: ExportKind,
        /// Null when the patch stands in this document.
        pub path: Option<String>,
        pub bytes: u64,
        pub pack_digest: Digest,
        /// The patch, when no file was named and it is UTF-8.
        pub patch: Option<String>,
        /// Files of the pack that this copy leaves out.
        pub withheld: Vec<String>,
    }
    /// `cto apply`.
    ApplyOutput, ApplyTag = "cto.apply/v1" {
        pub run_id: RunId,
        pub pack_digest: Digest,
        /// The commit that the patch was made for, and that the working tree stands at.
        pub base: CommitId,
        pub changed_files: Vec<String>,
        /// All of it was there already, and nothing was written.
        pub was_there: bool,
        /// Other paths that are not as the base has them; no check has seen them together with this change.
        pub other_changes: Vec<String>,
        pub other_changes_count: u64,
    }
    /// `cto import`.
    ImportOutput, ImportTag = "cto.import/v1" {
        pub run_id: RunId,
        pub path: String,
        pub status: Option<RunStatus>,
        pub origin: Origin,
        /// The ledger of this home created the run: it came back.
        pub of_this_home: bool,
        pub pack_digest: Option<Digest>,
        pub already_here: bool,
        /// Files of the pack that are not here because its sender withheld them.
        pub withheld: Vec<String>,
    }
}

wire_enum! {
    /// What was handed over.
    pub enum ExportKind { Tar = "tar", Patch = "patch" }
}
