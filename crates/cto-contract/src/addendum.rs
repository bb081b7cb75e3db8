//! Signed records about a sealed pack: facts that came later and never change it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{Digest, RunId, TreeId};
use crate::time::Utc;

/// DSSE payload type of an addendum.
pub const PAYLOAD_TYPE: &str = "application/vnd.cto.addendum+json";

wire_const! {
    /// Schema tag of an addendum.
    pub struct AddendumSchema: &'static str = "cto.addendum/v1"
}

wire_enum! {
    /// What an operator decided about a verified run.
    pub enum Outcome { Accepted = "accepted", Rejected = "rejected" }
}

/// One record. Files are `<run_id>.addenda/NNNN-<kind>.dsse.json`, numbered from 0001.
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

/// What the record says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Body {
    Landing {
        target_id: String,
        branch: String,
        base_commit: String,
        landed_commit: String,
        tree_id: TreeId,
    },
    Outcome {
        outcome: Outcome,
        operator: String,
        presence: String,
        note: Option<String>,
        signature: String,
    },
    Rollback {
        landed_commit: String,
        rollback_commit: String,
        tree_id: TreeId,
    },
    Closeout {
        note: String,
    },
}

impl Body {
    /// The word in the file name.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Landing { .. } => "landing",
            Self::Outcome { .. } => "outcome",
            Self::Rollback { .. } => "rollback",
            Self::Closeout { .. } => "closeout",
        }
    }
}

impl Addendum {
    /// File name in the addenda directory.
    pub fn file_name(&self) -> String {
        format!("{:04}-{}.dsse.json", self.number, self.body.kind())
    }
}
