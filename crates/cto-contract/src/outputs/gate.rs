//! Commits against accepted evidence: `cto verify --commit` and `cto gate`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addendum::Outcome;
use crate::ids::{CommitId, Digest, RunId, TreeId};
use crate::trust::Origin;

wire_enum! {
    /// What the evidence says of a commit.
    pub enum CommitAnswer {
        /// A pack of known origin says that it landed this very commit.
        Exact = "exact",
        /// A pack of known origin checked this very tree, but landed it as another commit, or not at all.
        Equivalent = "equivalent",
        /// It names no evidence.
        None = "none",
        /// It names evidence that is not here, does not verify, is of unknown origin, or is about another tree.
        Unverifiable = "unverifiable",
    }
}

/// A commit and the evidence for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CommitEvidence {
    pub commit: CommitId,
    pub tree_id: TreeId,
    pub answer: CommitAnswer,
    /// A lane made it, by its trailers or its author.
    pub by_lane: bool,
    /// The run that it names.
    pub run_id: Option<RunId>,
    /// The pack that it names.
    pub pack_digest: Option<Digest>,
    pub origin: Option<Origin>,
    /// What an operator decided about the run, by the record beside the pack; null when there is none.
    pub outcome: Option<Outcome>,
    /// Why the answer is no better.
    pub reason: Option<String>,
}

outputs! {
    /// `cto verify --commit`.
    VerifyCommitOutput, VerifyCommitTag = "cto.verify-commit/v1" {
        pub evidence: CommitEvidence,
    }
    /// `cto gate`.
    GateOutput, GateTag = "cto.gate/v1" {
        /// Every commit by a lane rests on an accepted pack of known origin for its very tree.
        pub ok: bool,
        pub base: CommitId,
        pub head: CommitId,
        /// How many commits were looked at.
        pub commits: u64,
        /// Those by a lane.
        pub checked: Vec<CommitEvidence>,
        pub errors: Vec<GateError>,
    }
}

/// A commit that does not pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GateError {
    pub commit: CommitId,
    pub message: String,
}
