//! `report.json`, built from sections; the wire form is one flat object.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::artifact::FreshnessMap;
use crate::blocker::Blocker;
use crate::claim::Claim;
use crate::event::{
    ChangedPath, ModelTraffic, Oddity, Residue, SandboxDenied, ScopedPath, SourceChecked,
};
use crate::identity::{Identity, LaunchRecord};
use crate::ids::{CaseId, CommitId, Digest, Nonce, RunId, TreeId};
use crate::plan::{InputPlan, Ladder, Layer, SettingSource, SourcePlan};
use crate::time::Utc;
use crate::verification::{CommandResult, Verification};
use crate::words::{
    Action, ApprovalStatus, BackendCompletion, FaultClass, Lane, MutationMode, NeverActive,
    NotPromoted, OutcomeState, RunStatus, SandboxClass, SourceAdmissionStatus, Stage,
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
    pub harness_version: String,
}

/// What it came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictSection {
    pub status: RunStatus,
    pub blockers: Vec<Blocker>,
    pub failure_reason: Option<String>,
    pub fault_class: FaultClass,
    /// Artifact or part -> why there is nothing in it.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// What changed and whether it was allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeSection {
    pub changed_files: Vec<String>,
    pub changes: Vec<ChangedPath>,
    pub scopes: Vec<ScopedPath>,
    pub allowed_writes_passed: bool,
    pub forbidden_paths_passed: bool,
    pub baseline_tree_id: Option<TreeId>,
    pub patch_tree_id: Option<TreeId>,
    pub verified_tree_id: Option<TreeId>,
    pub residue: Residue,
    pub oddities: Vec<Oddity>,
}

/// What the checks showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChecksSection {
    pub verification: Verification,
    pub tests_passed: bool,
    pub required_events_passed: bool,
    pub missing_events: Vec<String>,
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
}

/// The repository that the work was copied from; all absent for a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourceSection {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_head: Option<CommitId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_repository_mutated: Option<bool>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_traffic: Option<ModelTraffic>,
}

/// How the processes were confined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxSection {
    pub provider: String,
    /// Which setting decided the provider.
    #[serde(default = "crate::plan::by_default")]
    pub provider_from: SettingSource,
    pub class: SandboxClass,
    pub layers: Vec<Layer>,
    pub writable_roots: Vec<String>,
    pub denials: Vec<SandboxDenied>,
    pub drops: u64,
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
