//! The one table of blockers: code, status, event, marker, fault, fixture, reason and hint.
//!
//! Enum, JSON Schema, docs and the failure matrix all come from it, so a blocker cannot exist without saying how it
//! is triggered and what a person should do about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::EventType;
use crate::text::shorten;
use crate::words::{FaultClass, Lane, RunStatus};

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub code: BlockerCode,
    /// Status that the run gets.
    pub status: RunStatus,
    /// Event at which it is decided; none for a blocker of a proof.
    pub event: Option<EventType>,
    /// File of the pack that must be there; `<lane>` stands for the lane's name.
    pub marker: Option<&'static str>,
    pub fault: FaultClass,
    /// Name of the fixture that triggers it.
    pub fixture: &'static str,
    /// `failure_reason` of the report, `<subject>` and `<lane>` filled in; empty: the blocker's own sentence.
    pub reason: &'static str,
    /// What to do next.
    pub hint: &'static str,
}

impl Row {
    /// The marker's path in the pack for a lane.
    pub fn marker_path(&self, lane: Lane) -> Option<String> {
        self.marker.map(|m| m.replace("<lane>", lane.as_str()))
    }
}

macro_rules! blockers {
    ($($variant:ident $code:literal $status:ident $event:expr, $marker:expr, $fault:ident, $fixture:literal, $reason:literal, $hint:literal;)+) => {
        wire_enum! {
            /// Why a run was refused or failed. Closed on purpose: each reason needs a hint, a screen and a test.
            pub enum BlockerCode { $($variant = $code),+ }
        }

        impl BlockerCode {
            /// The row of the table.
            pub const fn row(self) -> Row {
                match self {
                    $(Self::$variant => Row {
                        code: Self::$variant,
                        status: RunStatus::$status,
                        event: $event,
                        marker: $marker,
                        fault: FaultClass::$fault,
                        fixture: $fixture,
                        reason: $reason,
                        hint: $hint,
                    },)+
                }
            }
        }
    };
}

const GATE: Option<EventType> = Some(EventType::BackendGateBlocked);
const END: Option<EventType> = Some(EventType::RunCompleted);
const DIFF: Option<EventType> = Some(EventType::GitDiffChecked);
const CHECKS: Option<EventType> = Some(EventType::VerificationCompleted);
const GATE_LOG: Option<&str> = Some("backend/<lane>-gate.log");
const NOT_ADMITTED: Option<&str> = Some("backend/provider-model-not-admitted.txt");
const TIMEOUT: Option<&str> = Some("backend/provider-timeout.txt");

blockers! {
    NoDiff "no_diff" Fail DIFF, None, Agent, "no-diff", "no diff", "the backend changed nothing; read backend/ to see what it did, then rerun";
    DisallowedFileChange "disallowed_file_change" Fail DIFF, None, Agent, "disallowed-file", "disallowed file change", "widen `allowed_paths` in the contract if the path was meant, else rerun";
    VerificationFailed "verification_failed" Fail CHECKS, None, Agent, "failed-tests", "verification failed", "read test.log: it holds the output of every command";
    MissingTestCommand "missing_test_command" Blocked CHECKS, None, Operator, "missing-test-command", "missing test command", "name a command under `verification_commands`, or say why there is none in `no_test_rationale`";
    MissingRequiredEvent "missing_required_event" Fail END, None, Harness, "missing-event", "missing required event", "compare events.normalized.jsonl with `evidence_expectations.required_events`";
    ReviewerRejected "reviewer_rejected" Blocked CHECKS, None, Agent, "reviewer-reject", "reviewer rejected", "read the raw rejection in backend/";
    ApprovalDenied "approval_denied" Blocked Some(EventType::ApprovalDenied), None, Operator, "approval-denied", "approval denied", "a denial is final for this request; open a new one";
    Timeout "timeout" Blocked END, TIMEOUT, Environment, "timeout", "timeout", "raise `limits.wall_seconds` or --timeout, or make the task smaller";
    DirtyStartingTree "dirty_starting_tree" Blocked Some(EventType::TaskContractCreated), None, Operator, "dirty-starting-tree", "dirty starting tree", "commit or stash the changes, or say `dirty_source: allowed` in the contract";
    DirtyEndingTree "dirty_ending_tree" Fail END, None, Agent, "dirty-ending-tree", "dirty ending tree", "the checks changed files of the tree; make them write to ignored places only";
    ArtifactWriteFailure "artifact_write_failure" Fail END, None, Environment, "artifact-write-failure", "artifact write failure", "free space or fix the permissions of the home directory, then `cto recover`";
    ProviderUnavailable "provider_unavailable" Blocked END, Some("backend/provider-unavailable.txt"), Environment, "provider-unavailable", "provider unavailable", "`cto doctor` says what is missing";
    ForbiddenActionAttempted "forbidden_action_attempted" Fail END, None, Agent, "forbidden-action", "forbidden action attempted", "the report lists what was tried and by which process";
    UnownedRepository "unowned_repository" Blocked GATE, GATE_LOG, Operator, "unowned-repository", "gate missing: ownership_evidence", "add ownership evidence to the target admission";
    CriticalRepository "critical_repository" Blocked GATE, GATE_LOG, Operator, "critical-repository", "gate missing: risk_class", "only low-risk noncritical targets can be changed";
    MissingOperatorOutcome "missing_operator_outcome" Blocked None, None, Operator, "missing-operator-outcome", "missing operator outcome", "record it: `cto outcome <run> accepted|rejected`";

    GateMissing "gate_missing" Blocked GATE, GATE_LOG, Operator, "gate-missing", "gate missing: <subject>", "set the lane's environment name to exactly 1";
    StageGateMissing "stage_gate_missing" Blocked GATE, GATE_LOG, Operator, "stage-gate-missing", "gate missing: <subject>", "set the lane's stage name to exactly the digit that was asked for";
    StageNotProven "stage_not_proven" Blocked GATE, GATE_LOG, Operator, "stage-not-proven", "gate missing: <subject>", "a stage needs the proof of the one before, and its mutation mode";
    SourceNotAdmitted "source_not_admitted" Blocked GATE, GATE_LOG, Operator, "source-not-admitted", "gate missing: <subject>", "`cto admit source`";
    SourceNotOwned "source_not_owned" Blocked GATE, GATE_LOG, Operator, "source-not-owned", "gate missing: <subject>", "only a local repository that you own can be copied";
    BinaryNotAdmitted "binary_not_admitted" Blocked GATE, GATE_LOG, Operator, "binary-not-admitted", "gate missing: <subject>", "`cto admit binary`";
    TargetAdmissionMissing "target_admission_missing" Blocked GATE, GATE_LOG, Operator, "target-admission-missing", "gate missing: <subject>", "name the admission file of the target";
    TargetAdmissionInvalid "target_admission_invalid" Blocked GATE, GATE_LOG, Operator, "target-admission-invalid", "gate missing: <subject>", "the message names field and line";
    TargetNotAdmitted "target_not_admitted" Blocked GATE, GATE_LOG, Operator, "target-not-admitted", "gate missing: <subject>", "`cto admit target`";
    TargetScopeExceeded "target_scope_exceeded" Blocked GATE, GATE_LOG, Operator, "target-scope-exceeded", "gate missing: <subject>", "narrow `allowed_paths` to what the admission allows";
    ApprovalSourceMissing "approval_source_missing" Blocked GATE, GATE_LOG, Operator, "approval-source-missing", "gate missing: <subject>", "add `approval_source` and `approval_timestamp` to the admission";
    OperatorOutcomeRequirementMissing "operator_outcome_requirement_missing" Blocked GATE, GATE_LOG, Operator, "operator-outcome-requirement-missing", "gate missing: <subject>", "set `operator_outcome_required: true` in the admission";
    ApprovalMissing "approval_missing" Blocked GATE, GATE_LOG, Operator, "approval-missing", "gate missing: <subject>", "`cto request`, then `cto approve`";
    ApprovalConsumed "approval_consumed" Blocked GATE, GATE_LOG, Operator, "approval-consumed", "gate missing: <subject>", "an approval is good for one run; open a new request";
    ApprovalExpired "approval_expired" Blocked GATE, GATE_LOG, Operator, "approval-expired", "gate missing: <subject>", "open a new request";
    ApprovalScopeMismatch "approval_scope_mismatch" Blocked GATE, GATE_LOG, Operator, "approval-scope-mismatch", "gate missing: <subject>", "the grant was for another contract, target, lane or stage";
    ApprovalSignatureInvalid "approval_signature_invalid" Blocked GATE, GATE_LOG, Operator, "approval-signature-invalid", "gate missing: <subject>", "only a registered operator's signature counts";
    ApprovalPresenceTooLow "approval_presence_too_low" Blocked GATE, GATE_LOG, Operator, "approval-presence-too-low", "gate missing: <subject>", "sign with a key that asks for a person: this stage needs more than a plain file key";
    LedgerRolledBack "ledger_rolled_back" Blocked GATE, GATE_LOG, Environment, "ledger-rolled-back", "gate missing: <subject>", "the ledger is behind its last checkpoint: restore it before anything else";
    TrustRolledBack "trust_rolled_back" Blocked GATE, GATE_LOG, Environment, "trust-rolled-back", "gate missing: <subject>", "a file of trust is not the one that the ledger holds: the message names the command that repairs it";
    ProviderDecisionMissing "provider_decision_missing" Blocked GATE, GATE_LOG, Operator, "provider-decision-missing", "gate missing: <subject>", "a person decides the provider class first";
    AllowedPathsMissing "allowed_paths_missing" Blocked GATE, GATE_LOG, Operator, "allowed-paths-missing", "gate missing: <subject>", "name the paths that may change under `allowed_paths`";
    ForbiddenActionsMissing "forbidden_actions_missing" Blocked GATE, GATE_LOG, Operator, "forbidden-actions-missing", "gate missing: <subject>", "list all ten under `forbidden_actions`, or permit one by name under `permitted_actions`";
    RepositoryUnsupported "repository_unsupported" Blocked GATE, GATE_LOG, Environment, "repository-unsupported", "gate missing: <subject>", "the message names what is not supported";
    SteeringNotAdmitted "steering_not_admitted" Blocked GATE, GATE_LOG, Operator, "steering-not-admitted", "gate missing: <subject>", "pin the steering files in the target admission";
    SandboxUnavailable "sandbox_unavailable" Blocked GATE, GATE_LOG, Environment, "sandbox-unavailable", "gate missing: <subject>", "`cto doctor` says what this kernel refuses and how to allow it";
    BudgetUnmeterable "budget_unmeterable" Blocked GATE, GATE_LOG, Operator, "budget-unmeterable", "gate missing: <subject>", "remove the cap that this lane cannot measure";
    BaselineBroken "baseline_broken" Blocked GATE, Some("test.log"), Operator, "baseline-broken", "check does not pass on the untouched tree", "mend the check or its tool first, or say `must_fail_before: true` if it is what the change has to mend";
    ModelNotAdmitted "model_not_admitted" Blocked GATE, NOT_ADMITTED, Operator, "model-not-admitted", "model not admitted", "`cto admit model`";
    ModelAdmissionMismatch "model_admission_mismatch" Blocked GATE, NOT_ADMITTED, Operator, "model-admission-mismatch", "model not admitted", "ask for the pair that is admitted";
    ModelAdmissionInvalid "model_admission_invalid" Blocked GATE, NOT_ADMITTED, Operator, "model-admission-invalid", "model not admitted", "the message names field and line";
    LocalProviderConfigMissing "local_provider_config_missing" Blocked GATE, Some("backend/provider-local-config-unavailable.txt"), Environment, "local-provider-config-missing", "provider unavailable", "set the lane's `CTO_HARNESS_<LANE>_LOCAL_BASE_URL` to the model's base URL";
    ProviderAuthUnavailable "provider_auth_unavailable" Blocked GATE, Some("backend/provider-auth-unavailable.txt"), Environment, "provider-auth-unavailable", "provider unavailable", "open the auth bridge by its environment name, or mend what gives the provider's key in harness.yaml";
    ProviderReasoningOnly "provider_reasoning_only" Blocked GATE, Some("backend/provider-reasoning-only.txt"), Environment, "provider-reasoning-only", "provider response shape unavailable", "the model answered with reasoning only; check its chat template";
    AgentProtocolFailed "agent_protocol_failed" Fail END, Some("backend/provider-agent-protocol.txt"), Agent, "agent-protocol-failed", "case agent result protocol failed", "read backend/: the result envelope is missing or broken";
    LifecycleTimeoutAfterValidPatch "lifecycle_timeout_after_valid_patch" Fail END, TIMEOUT, Agent, "lifecycle-timeout-after-valid-patch", "lifecycle timeout after valid patch", "the patch is in the pack, but a time-out is never a pass";
    BackendFailed "backend_failed" Fail END, None, Agent, "backend-failed", "<lane> engine failed with <subject>", "read backend/stderr.log";
    SecretExposed "secret_exposed" Fail END, None, Agent, "secret-exposed", "", "the file is in quarantine under home; revoke the secret";
    SourceRepositoryMutated "source_repository_mutated" Fail END, None, Agent, "source-repository-mutated", "", "the source changed under the run: look at it before anything else";
    ProtectedRootMutated "protected_root_mutated" Fail END, None, Agent, "protected-root-mutated", "", "a protected root changed under the run: look at it before anything else";
    VerifiedTreeMismatch "verified_tree_mismatch" Fail END, None, Harness, "verified-tree-mismatch", "", "the tree that was checked is not the tree of the patch; rerun";
    VerificationTampered "verification_tampered" Fail END, None, Agent, "verification-tampered", "", "a test that had to fail did not: the code under test controls its own checks";
    PatchNotReproducible "patch_not_reproducible" Fail END, None, Agent, "patch-not-reproducible", "", "the report names what cannot be written as a patch";
    SourceChangedDuringRun "source_changed_during_run" Blocked END, None, Environment, "source-changed-during-run", "", "somebody changed the source meanwhile; rerun";
    Interrupted "interrupted" Blocked END, None, Environment, "interrupted", "", "rerun it: an agent that had started is never started again by itself";
    LimitExceeded "limit_exceeded" Blocked END, None, Agent, "limit-exceeded", "", "the report names the limit; raise it in the contract if the work needs it";
    ClockUndecidable "clock_undecidable" Blocked END, None, Environment, "clock-undecidable", "", "set the clock right, then rerun; a key that was made while it was ahead is replaced by `cto key rotate`";
    RollbackNotExact "rollback_not_exact" Blocked None, None, Operator, "rollback-not-exact", "", "nothing was written: the branch has moved since the landing; revert by hand";
}

/// Most characters of a subject.
const SUBJECT_CHARS: usize = 200;

/// A blocker as it stands in a report: its code, what it is about, what happened, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blocker {
    pub code: BlockerCode,
    /// What it is about, as data: a gate's name, a path, a command, a limit, a way to end. Empty for the run as a whole.
    pub subject: String,
    pub message: String,
    pub hint: String,
}

impl Blocker {
    /// Makes a blocker with the table's hint.
    pub fn new(code: BlockerCode, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            subject: shorten(&subject.into(), SUBJECT_CHARS),
            message: message.into(),
            hint: code.row().hint.to_owned(),
        }
    }

    /// The same with a hint that says more than the table's.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// `failure_reason` for a report in which this blocker comes first.
    pub fn failure_reason(&self, lane: Lane) -> String {
        let reason = self.code.row().reason;
        if reason.is_empty() {
            return self.message.clone();
        }
        let subject = match self.subject.as_str() {
            "" => self.code.as_str(),
            subject => subject,
        };
        reason
            .replace("<lane>", lane.as_str())
            .replace("<subject>", subject)
    }
}

/// Whether a backend had been started when a blocker was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    BeforeStart,
    AfterStart,
}

impl BlockerCode {
    /// The status that it gives a run. Another model than the admitted one blocks a start, and fails what was started.
    pub const fn status_at(self, moment: Moment) -> RunStatus {
        match (self, moment) {
            (Self::ModelAdmissionMismatch, Moment::AfterStart) => RunStatus::Fail,
            (_, Moment::BeforeStart | Moment::AfterStart) => self.row().status,
        }
    }
}

/// The verdict that a set of blockers gives: any failure makes it `fail`, else any block `blocked`, else `pass`.
pub fn status_of(blockers: &[Blocker], moment: Moment) -> RunStatus {
    let statuses = || blockers.iter().map(|b| b.code.status_at(moment));
    if statuses().any(|s| s == RunStatus::Fail) {
        RunStatus::Fail
    } else if blockers.is_empty() {
        RunStatus::Pass
    } else {
        RunStatus::Blocked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_blocker_has_a_fixture_of_its_own_and_a_hint() {
        let mut fixtures = BTreeSet::new();
        for code in BlockerCode::ALL {
            let row = code.row();
            assert!(!row.hint.is_empty(), "{code}");
            assert!(fixtures.insert(row.fixture), "{code} shares its fixture");
            assert_ne!(row.status, RunStatus::Pass, "{code}");
        }
    }

    #[test]
    fn a_failure_outranks_a_block_and_nothing_is_a_pass() {
        let fail = Blocker::new(BlockerCode::NoDiff, "", "x");
        let block = Blocker::new(BlockerCode::Timeout, "backend", "x");
        let status = |blockers: &[Blocker]| status_of(blockers, Moment::AfterStart);
        assert_eq!(status(&[]), RunStatus::Pass);
        assert_eq!(status(std::slice::from_ref(&block)), RunStatus::Blocked);
        assert_eq!(status(&[block, fail]), RunStatus::Fail);
        let other = [Blocker::new(BlockerCode::ModelAdmissionMismatch, "m", "x")];
        assert_eq!(status_of(&other, Moment::BeforeStart), RunStatus::Blocked);
        assert_eq!(status_of(&other, Moment::AfterStart), RunStatus::Fail);
    }

    #[test]
    fn the_reason_of_a_gate_names_it() {
        let b = Blocker::new(
            BlockerCode::GateMissing,
            "CTO_HARNESS_ALLOW_CASE",
            "it is not `1`",
        );
        assert_eq!(
            b.failure_reason(Lane::Case),
            "gate missing: CTO_HARNESS_ALLOW_CASE"
        );
        let ended = Blocker::new(BlockerCode::BackendFailed, "exit code 7", "it ended badly");
        assert_eq!(
            ended.failure_reason(Lane::Codex),
            "codex engine failed with exit code 7"
        );
    }
}
