//! The proof files of a pack, and what they rest on: which of a backend's inputs were searched for a target, and by which
//! names. No file ever holds the path itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::ids::{CaseId, CommitId, Digest, RunId};
use crate::words::{Lane, RunStatus, Stage};

/// Proof that nothing given to the backend names a target. Stages 2 to 4.
pub const NO_TARGET_PROOF: &str = "stage2-no-target-inspection.json";
/// Proof that a copied repository was left as it was. Stage 3.
pub const COPIED_REPO_PROOF: &str = "stage3-copied-repo-proof.json";

/// The proofs that lie in a pack.
pub const PACK_PROOFS: [&str; 2] = [NO_TARGET_PROOF, COPIED_REPO_PROOF];

wire_const! {
    /// Schema tag of [`NoTargetProof`].
    pub struct NoTargetTag: &'static str = "cto.stage2-no-target-inspection/v1"
}
wire_const! {
    /// Schema tag of [`CopiedRepoProof`].
    pub struct CopiedRepoTag: &'static str = "cto.stage3-copied-repo-proof/v1"
}

/// One place of a backend's inputs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InspectedPlace {
    /// What was searched, by name.
    pub searched: Vec<String>,
    /// Where something was found, and what, by name.
    pub found: Vec<String>,
}

/// Everything that a backend is given, searched for the places that it must not know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetInspection {
    /// What was looked for, by name.
    pub sought: Vec<String>,
    pub task_contract: InspectedPlace,
    pub command_arguments: InspectedPlace,
    pub runtime_inputs: InspectedPlace,
    pub environment: InspectedPlace,
    pub config: InspectedPlace,
}

impl TargetInspection {
    /// The five places, by name.
    pub fn named(&self) -> [(&'static str, &InspectedPlace); 5] {
        [
            ("task_contract", &self.task_contract),
            ("command_arguments", &self.command_arguments),
            ("runtime_inputs", &self.runtime_inputs),
            ("environment", &self.environment),
            ("config", &self.config),
        ]
    }

    /// Whether anything that was looked for was found.
    pub fn is_found(&self) -> bool {
        self.named()
            .iter()
            .any(|(_, place)| !place.found.is_empty())
    }
}

/// The places, as a proof shows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inspected {
    pub task_contract: InspectedPlace,
    pub command_arguments: InspectedPlace,
    pub runtime_inputs: InspectedPlace,
    pub environment: InspectedPlace,
    pub config: InspectedPlace,
}

/// What every proof says of its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProofHead {
    pub run_id: RunId,
    pub case_id: CaseId,
    pub backend: Lane,
    pub stage: Stage,
    pub status: RunStatus,
    pub identity: Identity,
    pub allowed_mutation_scope: String,
    pub report_path: String,
    /// SHA-256 of the report's RFC 8785 form without the index of the files, which this file is part of.
    pub report_digest: Digest,
    pub passed: bool,
    /// Why it did not pass, a sentence each.
    pub errors: Vec<String>,
}

/// `stage2-no-target-inspection.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoTargetProof {
    pub schema_version: NoTargetTag,
    #[serde(flatten)]
    pub head: ProofHead,
    /// What was looked for, by name.
    pub sought: Vec<String>,
    pub inspected: Inspected,
    pub writable_roots: Vec<String>,
    pub target_repository_path_found: bool,
}

wire_enum! {
    /// Whose repository a copy was taken from.
    pub enum SourceClassification { OwnedLocal = "owned_local" }
}

wire_enum! {
    /// Whether a tree has uncommitted changes.
    pub enum TreeStatus { Clean = "clean", Dirty = "dirty" }
}

/// `stage3-copied-repo-proof.json`. What was not looked at is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopiedRepoProof {
    pub schema_version: CopiedRepoTag,
    #[serde(flatten)]
    pub head: ProofHead,
    pub source_classification: Option<SourceClassification>,
    pub source_head_before: Option<CommitId>,
    pub source_head_after: Option<CommitId>,
    pub source_status_before: Option<TreeStatus>,
    pub source_status_after: Option<TreeStatus>,
    /// Of content, modes and times of every file, and of what git keeps beside them.
    pub source_fingerprint_before: Option<Digest>,
    pub source_fingerprint_after: Option<Digest>,
    pub source_repository_mutated: Option<bool>,
    /// The copy was the baseline, to the byte, when the backend was started.
    pub copied_fixture_start_clean: Option<bool>,
    /// The tree of the patch was unchanged when the checks had run.
    pub copied_fixture_ending_clean: Option<bool>,
    /// Nothing that the backend was given names the source or another target.
    pub no_target_inspection: bool,
}
