//! `report.json`, built from sections; the wire form is one flat object.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::artifact::FreshnessMap;
use crate::blocker::Blocker;
use crate::claim::Claim;
use crate::comparison::BaselineComparison;
use crate::event::{
    ChangedPath, CloneCheck, ModelProbe, ModelTraffic, Oddity, Residue, SandboxDenied, ScopedPath,
    SourceChecked, TokenUsage,
};
use crate::identity::{Identity, LaunchRecord};
use crate::ids::{CaseId, CommitId, Digest, Nonce, RunId, TreeId};
use crate::order::EventFault;
use crate::plan::{HiddenPath, InputPlan, Ladder, Layer, SettingSource, SourcePlan};
use crate::task::BranchPolicy;
use crate::time::Utc;
use crate::verification::{CommandResult, Verification};
use crate::words::{
    Action, AdmissionSeal, ApprovalStatus, BackendCompletion, Custody, FaultClass, Lane,
    ModelAdmissionStatus, MutationMode, NeverActive, NotPromoted, OutcomeState, Presence,
    RunStatus, SandboxClass, SourceAdmissionStatus, Stage, TargetAdmissionStatus,
};

wire_const! {
    /// Schema tag of a report.
    pub struct ReportSchema: &'static str = "cto.report/v1"
}

/// The whole report. Unknown extra fields are legal; a reader must not need them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    pub schema_version: ReportSchema,
    #[serde(flatten)]
    pub run: RunSection,
    #[serde(flatten)]
    pub verdict: VerdictSection,
    #[serde(flatten)]
    pub backend: BackendSection,
    #[serde(flatten)]
    pub change: ChangeSection,
    #[serde(flatten)]
    pub checks: ChecksSection,
    #[serde(flatten)]
    pub authority: AuthoritySection,
    #[serde(flatten)]
    pub source: SourceSection,
    pub resources: Resources,
    pub sandbox: SandboxSection,
    #[serde(flatten)]
    pub artifacts: ArtifactSection,
}

/// Which run this is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSection {
    pub case_id: CaseId,
    pub run_id: RunId,
    pub parent_run_id: Option<RunId>,
    pub nonce: Nonce,
    pub title: String,
    pub run_started_at: Utc,
    pub run_finished_at: Utc,
    pub conformance: bool,
    /// It is the ruler of its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fake_baseline: Option<bool>,
    pub harness_version: String,
}

/// What it came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictSection {
    pub status: RunStatus,
    pub blockers: Vec<Blocker>,
    pub failure_reason: Option<String>,
    pub fault_class: FaultClass,
    /// Artifact, part or event type -> why there is nothing in it or it is not in the log.
    pub not_applicable: BTreeMap<String, String>,
    /// What is proven and how well, and what is not.
    pub claims: Vec<Claim>,
}

/// What the backend did, in its own process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendSection {
    pub backend: Lane,
    pub backend_exit_code: Option<i32>,
    pub backend_signal: Option<i32>,
    pub backend_completion: BackendCompletion,
    /// Whether a gated lane's process started (false for `fake`, which has no gate; see `backend_process_started`).
    pub case_process_started: bool,
    pub backend_process_started: bool,
    /// Null when the run ended before its plan.
    pub identity: Option<Identity>,
    pub identity_digest: Option<Digest>,
    pub launched: Option<LaunchRecord>,
    #[serde(flatten)]
    pub asked: ModelSection,
}

/// Which model was asked for; all absent where the lane has none or nobody asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelSection {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider that the requests went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_admission_status: Option<ModelAdmissionStatus>,
    /// The same four once more, for the lane `case` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_runtime_model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_model_admission_status: Option<ModelAdmissionStatus>,
}

/// What changed and whether it was allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeSection {
    pub changed_files: Vec<String>,
    pub changes: Vec<ChangedPath>,
    pub scopes: Vec<ScopedPath>,
    /// Whether all changed paths are within the contract; null when nobody looked.
    pub allowed_writes_passed: Option<bool>,
    /// The same against contract and target admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_paths_passed: Option<bool>,
    /// Null when nobody looked.
    pub forbidden_paths_passed: Option<bool>,
    pub baseline_tree_id: Option<TreeId>,
    pub patch_tree_id: Option<TreeId>,
    pub verified_tree_id: Option<TreeId>,
    pub residue: Residue,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_check: Option<CloneCheck>,
    pub oddities: Vec<Oddity>,
}

/// What the checks showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChecksSection {
    pub verification: Verification,
    /// Null when nothing was checked.
    pub tests_passed: Option<bool>,
    /// Null when the contract requires events of its own and the run ended before they could be looked for.
    pub required_events_passed: Option<bool>,
    /// What is absent or out of place in the log.
    pub missing_events: Vec<EventFault>,
}

/// By what right it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuthoritySection {
    pub stage: Stage,
    pub mutation_mode: MutationMode,
    pub allowed_mutation_scope: String,
    pub approval_status: ApprovalStatus,
    pub approval_id: Option<String>,
    pub source_admission_status: SourceAdmissionStatus,
    pub operator_outcome: OutcomeState,
    pub contract_digest: Digest,
    pub runtime_default_activation: NeverActive,
    pub core_promotion_status: NotPromoted,
    pub forbidden_actions_attempted: Vec<Action>,
    /// Whether the proof ladder stood between the lane and this stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder: Option<Ladder>,
    /// Whether the records that admitted the run are signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionSeal>,
    /// Set when the one who asked for the run is the one who approved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_approved: Option<bool>,
    /// What the signature of the grant shows of a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence: Option<Presence>,
    /// Where the key of the grant lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custody: Option<Custody>,
    /// What the same case showed in the `fake` lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_comparison: Option<BaselineComparison>,
}

/// The repository that the work was copied from and may land in; all absent for a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourceSection {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_head: Option<CommitId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_repository_mutated: Option<bool>,
    /// The branch that a change may land on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_policy: Option<BranchPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disposable_repository_dir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_repository_admission_status: Option<TargetAdmissionStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_repository_start_clean: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourcePlan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_check: Option<SourceChecked>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputPlan>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<CommandResult>,
}

/// What it used. Unknown is null, never 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    pub wall_seconds: Option<f64>,
    pub backend_seconds: Option<f64>,
    pub verification_seconds: Option<f64>,
    pub cpu_seconds: Option<f64>,
    pub peak_memory_bytes: Option<u64>,
    pub tokens: Option<u64>,
    pub cost: Option<f64>,
    /// What the one question before the start took; it counts against no cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_probe: Option<ModelProbe>,
    /// The tokens that the agent counted itself; the harness's own count decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_usage: Option<TokenUsage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_traffic: Option<ModelTraffic>,
}

/// How the processes were confined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxSection {
    /// Null, as the next two, when the run ended before it was chosen.
    pub provider: Option<String>,
    /// Which setting decided the provider.
    pub provider_from: Option<SettingSource>,
    pub class: Option<SandboxClass>,
    pub layers: Vec<Layer>,
    pub writable_roots: Vec<String>,
    /// What of the operator's own could be read besides the system's programs.
    pub read_paths: Vec<String>,
    /// What lies in or beside them and could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_paths: Vec<HiddenPath>,
    pub denials: Vec<SandboxDenied>,
    /// Attempts that are counted and not listed; null when nothing counted.
    pub drops: Option<u64>,
    /// Whether it was shown that nothing of the backend outlived the run; null when nothing ran.
    pub no_survivors: Option<bool>,
}

/// The index of the pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactSection {
    pub artifacts_dir: String,
    pub run_artifact_dir: String,
    pub runtime_workspace_root: String,
    /// Every file of the pack, relative to it.
    pub artifact_paths: Vec<String>,
    /// SHA-256 by path. The entry of `report.json` is over its RFC 8785 form without that entry.
    pub artifact_digests: BTreeMap<String, Digest>,
    pub freshness: FreshnessMap,
}
