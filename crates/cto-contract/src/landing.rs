//! A landing in words: what is planned before the start, what is intended and what came of it, and the proofs of the stages
//! at which a change lands.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::addendum::{Bound, Outcome};
use crate::approval::RequestId;
use crate::blocker::BlockerCode;
use crate::identity::Identity;
use crate::ids::{CaseId, CommitId, Digest, RunId, TreeId};
use crate::ledger::{Header, OnceKey, RecordKind, Seal};
use crate::operator::MaybeSigned;
use crate::path::PathPattern;
use crate::task::{BranchPolicy, BranchUpdate};
use crate::time::Utc;
use crate::verification::Verification;
use crate::words::{Action, Lane, MutationMode, NeverActive, NotPromoted, TargetAdmissionStatus};

wire_enum! {
    /// What becomes of a disposable repository afterwards.
    pub enum Disposal { Delete = "delete", Retain = "retain" }
}

/// Who owns a disposable repository, and what becomes of it: the request says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DisposableTerms {
    pub owner: String,
    pub disposal_policy: Disposal,
}

/// A repository that is made for one landing and thrown away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DisposablePlan {
    pub owner: String,
    /// `<target_id>@<commit>`.
    pub creation_source: String,
    pub disposal_policy: Disposal,
    /// Where it will lie, by `$CTO_HOME`.
    pub directory: String,
}

/// Where a change may land, recorded before anything starts. There is never a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LandingPlan {
    /// By its full name.
    pub branch: String,
    /// The commit that the change is made against.
    pub base: CommitId,
    /// Where the branch was; null where it was not there.
    pub expected: Option<CommitId>,
    pub update: BranchUpdate,
    /// Only where the change lands in a repository of the harness's own making.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disposable: Option<DisposablePlan>,
}

impl LandingPlan {
    /// The policy as a contract would say it.
    pub fn policy(&self) -> BranchPolicy {
        BranchPolicy {
            branch: self.branch.clone(),
            base: self.base.to_string(),
            update: self.update,
        }
    }
}

wire_enum! {
    /// Which way a change goes.
    pub enum LandingAct { Land = "land", Rollback = "rollback" }
}

wire_enum! {
    /// What came of it.
    pub enum LandingEnd { Done = "done", NotDone = "not_done" }
}

/// A commit is about to be put on a branch. Whoever finds this without its end finishes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LandingIntended {
    pub act: LandingAct,
    pub run_id: RunId,
    pub pack_digest: Digest,
    pub target_id: String,
    pub branch: String,
    pub update: BranchUpdate,
    /// The parent of the commit.
    pub base: CommitId,
    /// Where the branch is to be found; null where there is none.
    pub expected: Option<CommitId>,
    pub commit: CommitId,
    pub tree_id: TreeId,
    pub at: Utc,
}
impl MaybeSigned for LandingIntended {}

fn key(kind: RecordKind, act: LandingAct, run_id: &RunId) -> OnceKey {
    OnceKey::made(format!("{kind}:{act}:{run_id}"))
}

impl LandingIntended {
    /// The key of what is intended about a run.
    pub fn key(act: LandingAct, run_id: &RunId) -> OnceKey {
        key(RecordKind::LandingIntended, act, run_id)
    }

    pub(crate) fn header(&self) -> Header {
        Header {
            subject: (&self.run_id).into(),
            once: Some(Self::key(self.act, &self.run_id)),
            after: Some(Seal::key(&self.run_id)),
            at: self.at,
        }
    }
}

/// A landing or a rollback is over, whatever came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LandingEnded {
    pub act: LandingAct,
    pub run_id: RunId,
    pub end: LandingEnd,
    /// Null where nothing was put anywhere.
    pub commit: Option<CommitId>,
    /// Why not.
    pub blocker: Option<BlockerCode>,
    pub at: Utc,
}
impl MaybeSigned for LandingEnded {}

impl LandingEnded {
    /// The key of what came of it.
    pub fn key(act: LandingAct, run_id: &RunId) -> OnceKey {
        key(RecordKind::LandingEnded, act, run_id)
    }

    pub(crate) fn header(&self) -> Header {
        Header {
            subject: (&self.run_id).into(),
            once: Some(Self::key(self.act, &self.run_id)),
            after: Some(Seal::key(&self.run_id)),
            at: self.at,
        }
    }
}

wire_const! {
    /// Schema tag of the proof of stage 4.
    pub struct DisposableProofTag: &'static str = "cto.stage4-proof/v1"
}
wire_const! {
    /// Schema tag of the proof of stage 5.
    pub struct OwnedProofTag: &'static str = "cto.stage5-proof/v1"
}
wire_const! {
    /// What a landing never has.
    pub struct NoRemote: &'static str = "none"
}

/// What became of the approval, as a proof tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProvenApproval {
    pub request_id: RequestId,
    pub requested_at: Utc,
    pub decided_at: Utc,
    pub decision: String,
    pub actor: String,
    pub scope: String,
    pub mutation_mode: MutationMode,
    pub expiry: Utc,
}

/// The branch policy with the time at which it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedPolicy {
    pub branch: String,
    pub base: CommitId,
    pub update: BranchUpdate,
    pub remote: NoRemote,
    pub recorded_at: Utc,
}

/// The disposable repository as a proof tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProvenDisposable {
    pub owner: String,
    pub creation_source: String,
    pub disposal_policy: Disposal,
    pub disposal_note: String,
}

/// What the proofs of both stages begin with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProofHead {
    pub run_id: RunId,
    pub case_id: CaseId,
    pub backend: Lane,
    pub identity: Option<Identity>,
    pub allowed_mutation_scope: String,
    pub report_path: String,
    pub report_digest: Digest,
    pub passed: bool,
    pub errors: Vec<String>,
    pub runtime_default_activation: NeverActive,
    pub core_promotion_status: NotPromoted,
}

/// `stage4-disposable-sandbox-proof.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DisposableProof {
    pub schema_version: DisposableProofTag,
    #[serde(flatten)]
    pub head: ProofHead,
    pub disposable_repository: ProvenDisposable,
    pub approval: ProvenApproval,
    pub branch_policy: RecordedPolicy,
    pub landed_commit: CommitId,
    pub approval_before_mutation: bool,
    pub forbidden_actions_attempted: BTreeSet<Action>,
    /// The file of the pack that shows that no input of the lane named a target.
    pub no_target_inspection: Option<Bound>,
}

/// The admission of the target as a proof tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProvenAdmission {
    pub status: TargetAdmissionStatus,
    pub repository_owner: String,
    pub risk_classification: String,
    pub ownership_evidence: String,
    pub approval_source: String,
    pub digest: Digest,
}

/// `stage5-owned-repo-proof.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnedProof {
    pub schema_version: OwnedProofTag,
    #[serde(flatten)]
    pub head: ProofHead,
    pub target_id: String,
    pub target_repository_admission: Option<ProvenAdmission>,
    pub baseline_head: CommitId,
    pub landed_commit: CommitId,
    pub branch_policy: RecordedPolicy,
    pub changed_files: Vec<String>,
    pub allowed_paths: Vec<PathPattern>,
    pub allowed_paths_passed: Option<bool>,
    pub forbidden_paths_passed: Option<bool>,
    pub forbidden_actions_attempted: BTreeSet<Action>,
    pub target_repository_start_clean: Option<bool>,
    pub target_repository_ending_clean: bool,
    /// As the admission has it, to the letter.
    pub approval_source: Option<String>,
    pub grant_id: String,
    pub approval: ProvenApproval,
    pub verification: Verification,
    pub operator_outcome: Outcome,
}
