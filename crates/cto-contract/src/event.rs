//! The one typed event stream of a run. Report, trace, page and progress are folds over it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approval::{DenialStatement, GrantStatement, RequestId, RequesterStatement};
use crate::blocker::Blocker;
use crate::comparison::BaselineComparison;
use crate::eligibility::EligibilityDecision;
use crate::identity::Identity;
use crate::ids::{CaseId, CommitId, Digest, Nonce, RunId, TreeId};
use crate::operator::Signed;
use crate::plan::LaunchPlan;
use crate::task::TaskContract;
use crate::time::Utc;
use crate::verification::{CommandResult, Verification};
use crate::words::{Action, FaultClass, Lane, MutationMode, RunStatus, Stage};

mod activity;
mod backend;
mod model;
mod pipeline;

pub use activity::{ActivityKind, BackendActivity};
pub use backend::{
    AgentWords, BackendFinished, BackendStarted, BackendStop, BackendText, OutputCapped,
    ReviewVerdict, RootsCheck, SaidEnd,
};
pub use model::{Cost, ModelProbe, ModelTraffic, ModelUsage, ProviderFault, TokenUsage};
pub use pipeline::{EventFileFault, PhaseStatus, PhaseWords, PipelinePhase, PipelineWords};

wire_const! {
    /// Schema tag of an event line.
    pub struct EventSchema: &'static str = "cto.event/v1"
}

wire_enum! {
    /// Who caused an event.
    pub enum Actor { Harness = "harness", Backend = "backend", Operator = "operator" }
}

wire_enum! {
    /// The steps of a run. Each is bracketed by `step.started` and `step.finished`; a crash falls between two of them.
    pub enum Step {
        Contract = "contract",
        Eligibility = "eligibility",
        Prepare = "prepare",
        Plan = "plan",
        /// The same case in the `fake` lane, as a run of its own. Only at stage 2, and only for lanes that climb.
        FakeBaseline = "fake_baseline",
        /// Only in runs whose contract has `setup_commands`.
        Setup = "setup",
        /// The checks on the untouched baseline, before the agent starts. Only where the contract has checks and the lane
        /// does not run them beside its backend.
        Baseline = "baseline",
        Backend = "backend",
        Change = "change",
        Policy = "policy",
        Verification = "verification",
        Complete = "complete",
        /// Its result is the attestation file, not an event: `run.completed` is the last line of every log.
        Seal = "seal",
    }
}

macro_rules! events {
    ($($variant:ident($data:ty) = $wire:literal,)+) => {
        wire_enum! {
            /// The type of an event.
            pub enum EventType { $($variant = $wire),+ }
        }

        /// An event's type and data.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", content = "data")]
        pub enum EventKind { $(#[serde(rename = $wire)] $variant($data)),+ }

        impl EventKind {
            /// The type alone.
            pub const fn event_type(&self) -> EventType {
                match self { $(Self::$variant(_) => EventType::$variant),+ }
            }
        }
    };
}

events! {
    RunStarted(RunStarted) = "run.started",
    TaskContractCreated(TaskContractCreated) = "task.contract.created",
    EligibilityDecided(EligibilityDecided) = "eligibility.decided",
    PlanUpdated(PlanUpdated) = "plan.updated",
    ApprovalRequested(Approval) = "approval.requested",
    ApprovalGranted(Approval) = "approval.granted",
    ApprovalDenied(Approval) = "approval.denied",
    ApprovalConsumed(ApprovalConsumed) = "approval.consumed",
    BackendGateBlocked(GateBlocked) = "backend.gate.blocked",
    SetupCompleted(SetupCompleted) = "setup.completed",
    BackendStarted(BackendStarted) = "backend.started",
    BackendPlan(BackendText) = "backend.plan",
    BackendActivity(BackendActivity) = "backend.activity",
    ModelProbed(ModelProbe) = "model.probed",
    ModelUsage(ModelUsage) = "model.usage",
    BackendOutputCapped(OutputCapped) = "backend.output.capped",
    BackendFinished(BackendFinished) = "backend.finished",
    PatchApplied(PatchApplied) = "patch.applied",
    GitDiffChecked(DiffChecked) = "git.diff.checked",
    VerificationCompleted(VerificationCompleted) = "verification.completed",
    SourceChecked(SourceChecked) = "source.checked",
    BaselineCompared(BaselineComparison) = "baseline.compared",
    SandboxDenied(SandboxDenied) = "sandbox.denied",
    LimitExceeded(LimitHit) = "limit.exceeded",
    LogRewritten(LogRewritten) = "log.rewritten",
    RunRecovered(RunRecovered) = "run.recovered",
    StepStarted(StepStarted) = "step.started",
    StepFinished(StepFinished) = "step.finished",
    RunCompleted(RunCompleted) = "run.completed",
}

/// One line of `events.normalized.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunEvent {
    pub schema_version: EventSchema,
    /// From 1, gapless.
    pub seq: u64,
    pub ts: Utc,
    pub run_id: RunId,
    pub case_id: CaseId,
    pub backend: Lane,
    #[serde(flatten)]
    pub kind: EventKind,
    pub actor: Actor,
    /// SHA-256 of the previous line without its newline; of the nonce for line 1.
    pub prev: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunStarted {
    pub nonce: Nonce,
    pub harness_version: String,
    pub stage: Stage,
    pub mutation_mode: MutationMode,
    pub parent_run_id: Option<RunId>,
    /// Set for packs of validators, which never count as a real pass.
    pub conformance: bool,
    /// The ruler of its parent: the same case in the `fake` lane.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fake_baseline: bool,
    pub title: String,
    /// Which model the lane was asked to use; absent where it has none or nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_model: Option<AskedModel>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A model as it was asked for: no admission, no fallback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskedModel {
    pub provider: Option<String>,
    pub model: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskContractCreated {
    pub contract_digest: Digest,
    pub contract: TaskContract,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EligibilityDecided {
    pub decision: EligibilityDecision,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanUpdated {
    pub plan: LaunchPlan,
    pub identity: Identity,
}

/// A request, grant or denial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    pub actor: String,
    pub scope: String,
    pub mutation_mode: MutationMode,
    pub timestamp: Utc,
    pub expiry: Option<Utc>,
    pub note: Option<String>,
    /// The request that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// The operator who asked, if one signed for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Box<Signed<RequesterStatement>>>,
    /// The grant itself, with its signature: whoever knows the operators can check it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Box<Signed<GrantStatement>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<Box<Signed<DenialStatement>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalConsumed {
    pub approval_id: String,
    pub actor: String,
    pub scope: String,
    pub mutation_mode: MutationMode,
    pub timestamp: Utc,
    pub expiry: Option<Utc>,
    pub ledger_seq: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateBlocked {
    pub backend: Lane,
    pub gate: String,
    pub reason: String,
    pub mutation_mode: MutationMode,
    /// Always false: a gate blocks before anything runs.
    pub case_executed: bool,
    pub blockers: Vec<Blocker>,
    /// What the checks showed on the untouched baseline, where that is why it blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baseline: Vec<CommandResult>,
}

/// What the contract's `setup_commands` did before anything was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SetupCompleted {
    pub commands: Vec<CommandResult>,
    /// New files that the setup left; they are no part of the change.
    pub files: u64,
    pub blockers: Vec<Blocker>,
}

/// The source repository before and after, by fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceChecked {
    pub head_before: Option<CommitId>,
    pub head_after: Option<CommitId>,
    pub clean_before: bool,
    pub clean_after: bool,
    pub fingerprint_before: Digest,
    /// Taken when the backend had ended.
    pub fingerprint_after_backend: Digest,
    pub fingerprint_after: Digest,
    /// What differs, bounded.
    pub differences: Vec<String>,
    /// Set when it changed while the backend could have written there.
    pub source_repository_mutated: bool,
    pub blockers: Vec<Blocker>,
}

wire_enum! {
    /// What happened to a path.
    pub enum ChangeKind { Added = "added", Modified = "modified", Deleted = "deleted", TypeChanged = "type_changed", ModeChanged = "mode_changed" }
}

/// One changed path, as the patch has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedPath {
    /// The path; git's quoted form when it is not UTF-8.
    pub path: String,
    pub change: ChangeKind,
    pub before_mode: Option<String>,
    pub after_mode: Option<String>,
}

/// Something in the agent's tree that a patch can't hold or that must never be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Oddity {
    pub path: String,
    pub kind: String,
    /// True when it makes the change unacceptable.
    pub refused: bool,
}

/// Ignored files that were created and thrown away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Residue {
    pub count: u64,
    /// The first of them, bounded.
    pub paths: Vec<String>,
    pub truncated: bool,
}

/// How the changed paths come out of a fresh clone, in a tree with attribute files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloneCheck {
    /// Changed paths that nothing converts, written by git and compared.
    pub compared: u64,
    /// Changed paths with conversion attributes, bounded: their bytes in a clone may differ from those that were checked.
    pub not_compared: Vec<String>,
    pub not_compared_count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatchApplied {
    pub base_tree_id: TreeId,
    /// Tree of the agent's working copy.
    pub tree_id: TreeId,
    /// Tree that the patch gave on the fresh copy.
    pub applied_tree_id: Option<TreeId>,
    pub patch_digest: Digest,
    pub patch_bytes: u64,
    pub changes: Vec<ChangedPath>,
    pub oddities: Vec<Oddity>,
    pub residue: Residue,
    /// None where the tree has no attribute file: git writes every byte as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_check: Option<CloneCheck>,
    /// The agent kept a repository of its own at the top; it was thrown away unread.
    pub scratch_git: bool,
    pub blockers: Vec<Blocker>,
}

wire_enum! {
    /// What the path policy says about one path.
    pub enum Scope {
        Allowed = "allowed",
        NotAllowed = "not_allowed",
        Forbidden = "forbidden",
        Frozen = "frozen",
        /// A file where a test runner looks for itself.
        RunnerFile = "runner_file",
        /// A file that steers an agent.
        SteeringFile = "steering_file",
        NeverAllowable = "never_allowable",
        NotUtf8 = "not_utf8",
    }
}

/// A changed path with its verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScopedPath {
    pub path: String,
    pub scope: Scope,
    /// The pattern or rule that decided.
    pub decided_by: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffChecked {
    pub changed_files: Vec<String>,
    pub scopes: Vec<ScopedPath>,
    pub allowed_writes_passed: bool,
    pub forbidden_paths_passed: bool,
    pub blockers: Vec<Blocker>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerificationCompleted {
    pub verification: Verification,
    pub verified_tree_id: Option<TreeId>,
    pub dirty_paths: Vec<String>,
    pub blockers: Vec<Blocker>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxDenied {
    /// During which step; packs from before it was told have only the backend's.
    #[serde(default = "by_the_backend")]
    pub step: Step,
    #[serde(default = "denied")]
    pub kind: DenialKind,
    pub what: String,
    pub target: String,
    pub process: String,
    /// How often so far. An event that tells of the same again replaces the one before.
    #[serde(default = "once")]
    pub count: u64,
    /// Which forbidden action it was an attempt at, if any.
    pub action: Option<Action>,
}

impl SandboxDenied {
    /// Tells whether both tell of the same thing, whatever the count.
    pub fn is_same(&self, other: &Self) -> bool {
        let Self {
            step,
            kind,
            what,
            target,
            process,
            count: _,
            action,
        } = self;
        (step, kind, action) == (&other.step, &other.kind, &other.action)
            && (what, target, process) == (&other.what, &other.target, &other.process)
    }
}

fn by_the_backend() -> Step {
    Step::Backend
}

fn once() -> u64 {
    1
}

fn denied() -> DenialKind {
    DenialKind::Denied
}

wire_enum! {
    /// How sure it is that something was refused.
    pub enum DenialKind {
        /// The call was answered with a refusal.
        Denied = "denied",
        /// The call was left to the kernel, which most likely refused it.
        Attempt = "attempt",
        /// The process died of it.
        Killed = "killed",
    }
}

/// How much the recorder saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecorderTotals {
    /// Attempts in all, repeated ones included.
    pub attempts: u64,
    /// Attempts that are counted and not listed.
    pub dropped: u64,
    /// Attempts of which something could not be read.
    pub blind: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitHit {
    pub limit: String,
    pub allowed: u64,
    pub step: Step,
    pub blocker: Blocker,
}

/// The log was rebuilt because a line of it held a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogRewritten {
    pub rule: String,
    pub lines: u64,
    pub old_head: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecovered {
    pub bytes_cut: u64,
    /// The step that had started and not finished.
    pub interrupted_step: Option<Step>,
    pub backend_had_started: bool,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepStarted {
    pub step: Step,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepFinished {
    pub step: Step,
    pub blockers: Vec<Blocker>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunCompleted {
    pub status: RunStatus,
    pub blockers: Vec<Blocker>,
    pub failure_reason: Option<String>,
    pub fault_class: FaultClass,
}
