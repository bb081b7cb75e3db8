//! `cto diff`.

use crate::event::ChangedPath;
use crate::ids::{Digest, RunId};

outputs! {
    /// `cto diff`.
    DiffOutput, DiffTag = "cto.diff/v1" {
        pub run_id: RunId,
        pub files: Vec<ChangedPath>,
        pub bytes: u64,
        pub sha256: Digest,
        /// Null when the patch is not UTF-8.
        pub patch: Option<String>,
    }
}
