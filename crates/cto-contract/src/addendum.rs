//! Signed records about a sealed pack: facts that came later and never change it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approval::OutcomeStatement;
use crate::ids::{CommitId, Digest, RunId, TreeId};
use crate::operator::Signed;
use crate::time::Utc;
use crate::words::{Action, Custody, Presence};

/// DSSE payload type of an addendum.
pub const PAYLOAD_TYPE: &str = "application/vnd.cto.addendum+json";

wire_const! {
    /// Schema tag of an addendum.
    pub struct AddendumSchema: &'static str = "cto.addendum/v1"
}

wire_enum! {
    /// What a record is about.
    pub enum AddendumKind {
        Landing = "landing",
        Proof = "proof",
        Outcome = "outcome",
        Rollback = "rollback",
        Closeout = "closeout",
        Publication = "publication",
    }
}

wire_enum! {
    /// A stage proof that is known only after the seal, by the name of its plain file beside the records.
    pub enum ProofFile {
        DisposableSandbox = "stage4-disposable-sandbox-proof.json",
        OwnedRepository = "stage5-owned-repo-proof.json",
    }
}

wire_enum! {
    /// What an operator decided about a verified run.
    pub enum Outcome { Accepted = "accepted", Rejected = "rejected" }
}

/// One record. Files are `<run_id>.addenda/NNNN-<kind>.dsse.json`, numbered from 0001; the payload of a proof lies beside
/// them, plain, under its own name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Addendum {
    pub schema: AddendumSchema,
    pub run_id: RunId,
    pub pack_digest: Digest,
    /// From 1, gapless.
    pub number: u32,
    /// SHA-256 of the previous addendum's file; null for the first.
    pub previous: Option<Digest>,
    pub at: Utc,
    pub harness_public_key: String,
    pub body: Body,
}

/// Something that a closeout binds: a record of the ledger, or a file by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    pub id: String,
    pub digest: Digest,
}

/// What belongs to a run that is over, by id and digest; null is what there was not. It authorises nothing further.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Closeout {
    pub request: Option<Bound>,
    pub grant: Option<Bound>,
    /// Run id and pack digest.
    pub run: Bound,
    /// The last record of its kind, by the name and digest of its file; so the next two.
    pub landing: Option<Bound>,
    pub proof: Option<Bound>,
    pub outcome: Option<Bound>,
    pub validation: Option<Bound>,
}

/// What the record says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Body {
    /// The change was put on a branch of the target.
    Landing {
        target_id: String,
        branch: String,
        base_commit: CommitId,
        landed_commit: CommitId,
        tree_id: TreeId,
        /// A target that is not clean after the landing has no proof.
        target_repository_ending_clean: bool,
    },
    /// A stage proof.
    Proof {
        file_name: ProofFile,
        payload: serde_json::Value,
        /// SHA-256 of the canonical form of the payload, which is also what the plain file holds.
        payload_digest: Digest,
    },
    /// What an operator decided.
    Outcome {
        outcome: Outcome,
        operator: String,
        presence: Presence,
        custody: Custody,
        note: Option<String>,
        signature: String,
        /// What was signed, whole: whoever knows the operators can check it.
        signed: Box<Signed<OutcomeStatement>>,
    },
    /// The landed commit was reverted.
    Rollback {
        landed_commit: CommitId,
        rollback_commit: CommitId,
        tree_id: TreeId,
    },
    Closeout(Box<Closeout>),
    /// What an operator did with the accepted change, with credentials of his own.
    Publication {
        action: Action,
        operator: String,
        destination: String,
        /// What the destination calls it.
        reference: Option<String>,
    },
}

impl Body {
    /// What it is about.
    pub const fn kind(&self) -> AddendumKind {
        match self {
            Self::Landing { .. } => AddendumKind::Landing,
            Self::Proof { .. } => AddendumKind::Proof,
            Self::Outcome { .. } => AddendumKind::Outcome,
            Self::Rollback { .. } => AddendumKind::Rollback,
            Self::Closeout(_) => AddendumKind::Closeout,
            Self::Publication { .. } => AddendumKind::Publication,
        }
    }
}

impl Addendum {
    /// File name in the addenda directory.
    pub fn file_name(&self) -> String {
        format!("{:04}-{}.dsse.json", self.number, self.body.kind())
    }
}
