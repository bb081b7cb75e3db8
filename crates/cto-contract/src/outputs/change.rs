//! `cto diff`.

use crate::event::ChangedPath;
use crate::ids::{Digest, RunId};
use crate::trust::Origin;

outputs! {
    /// `cto diff`.
    DiffOutput, DiffTag = "cto.diff/v1" {
        pub run_id: RunId,
        /// By the key that sealed it; null while it is not sealed.
        pub origin: Option<Origin>,
        /// The ledger of this home created the run and knows this very pack of it.
        pub of_this_home: bool,
        pub files: Vec<ChangedPath>,
        pub bytes: u64,
        pub sha256: Digest,
        /// Null when the patch is not UTF-8.
        pub patch: Option<String>,
    }
}
