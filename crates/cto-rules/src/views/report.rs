//! The log as `report.json`, apart from the index of files, which the seal fills in.

use std::collections::BTreeMap;

use cto_contract::artifact::FreshnessMap;
use cto_contract::blocker::BlockerCode;
use cto_contract::event::{Residue, RunCompleted};
use cto_contract::ids::Digest;
use cto_contract::plan::{SandboxPlan, SettingSource};
use cto_contract::report::{
    ArtifactSection, AuthoritySection, BackendSection, ChangeSection, ChecksSection, Report,
    ReportSchema, Resources, RunSection, SandboxSection, SourceSection, VerdictSection,
};
use cto_contract::time::Utc;
use cto_contract::verification::{Canary, CanaryStatus, Verification};
use cto_contract::words::{
    BackendCompletion, ClaimLevel, Lane, MutationMode, NeverActive, NotPromoted, OutcomeState,
    RunStatus, SandboxClass, SourceAdmissionStatus,
};

use crate::claims::claims;
use crate::lifecycle::RunState;
use crate::order;

/// What the fold can't know: digests of values, and how long the run took by the boot clock.
#[derive(Debug, Clone)]
pub struct ReportInput {
    pub contract_digest: Digest,
    /// None when the run ended before its plan.
    pub identity_digest: Option<Digest>,
    pub finished_at: Utc,
    pub wall_seconds: f64,
}

/// Builds the report of a completed run.
pub fn report(state: &RunState, completed: &RunCompleted, input: &ReportInput) -> Report {
    let verification = state
        .verification
        .as_ref()
        .map_or_else(|| not_run(state), |v| v.verification.clone());
    let extra = state
        .contract
        .as_ref()
        .map(|c| c.contract.evidence_expectations.required_events.clone())
        .unwrap_or_default();
    let ending = order::Ending {
        status: completed.status,
        recovered: state.recovered.is_some(),
    };
    let missing_events = order::missing_events(&state.types, &extra, ending);
    Report {
        schema_version: ReportSchema,
        run: RunSection {
            case_id: state.case_id.clone(),
            run_id: state.run_id.clone(),
            parent_run_id: state.started.parent_run_id.clone(),
            nonce: state.started.nonce.clone(),
            title: state.started.title.clone(),
            run_started_at: state.started_at,
            run_finished_at: input.finished_at,
            conformance: state.started.conformance,
            harness_version: state.started.harness_version.clone(),
        },
        verdict: VerdictSection {
            status: completed.status,
            blockers: completed.blockers.clone(),
            failure_reason: completed.failure_reason.clone(),
            fault_class: completed.fault_class,
            not_applicable: not_applicable(state, completed),
            claims: claims(state, completed.status),
        },
        backend: backend(state, input),
        change: change(state),
        checks: ChecksSection {
            tests_passed: verification.passed,
            verification,
            // A run that failed only for want of its last event reads, afterwards, like one that ended early.
            required_events_passed: missing_events.is_empty()
                && !completed
                    .blockers
                    .iter()
                    .any(|b| b.code == BlockerCode::MissingRequiredEvent),
            missing_events,
        },
        authority: authority(state, input),
        source: source(state),
        resources: resources(state, input),
        sandbox: sandbox(state),
        artifacts: ArtifactSection {
            artifacts_dir: format!("$CTO_HOME/harness-runs/{}", state.run_id),
            run_artifact_dir: format!("$CTO_HOME/harness-runs/{}", state.run_id),
            runtime_workspace_root: format!("$CTO_HOME/work/{}", state.run_id),
            artifact_paths: Vec::new(),
            artifact_digests: BTreeMap::new(),
            freshness: FreshnessMap::new(),
        },
    }
}

fn backend(state: &RunState, input: &ReportInput) -> BackendSection {
    let identity = state.plan.as_ref().map(|p| p.identity.clone());
    let end = state.backend.as_ref();
    let process_started = state.backend_started && end.is_none_or(|e| e.start_failure.is_none());
    BackendSection {
        backend: state.lane,
        backend_exit_code: end.and_then(|e| e.exit_code),
        backend_signal: end.and_then(|e| e.signal),
        backend_completion: end.map_or(BackendCompletion::None, |e| e.completion),
        case_process_started: process_started && state.lane != Lane::Fake,
        backend_process_started: process_started,
        model_provider: identity.as_ref().and_then(|i| i.model_provider.clone()),
        model: identity.as_ref().and_then(|i| i.model.clone()),
        identity,
        identity_digest: input.identity_digest.clone(),
        launched: state
            .plan
            .as_ref()
            .map(|p| p.plan.launched(state.version_output.as_ref())),
    }
}

fn change(state: &RunState) -> ChangeSection {
    let patch = state.patch.as_ref();
    let diff = state.diff.as_ref();
    ChangeSection {
        changed_files: diff.map(|d| d.changed_files.clone()).unwrap_or_default(),
        changes: patch.map(|p| p.changes.clone()).unwrap_or_default(),
        scopes: diff.map(|d| d.scopes.clone()).unwrap_or_default(),
        // Nothing changed is within every scope; what was not looked at is not claimed.
        allowed_writes_passed: diff.is_none_or(|d| d.allowed_writes_passed),
        forbidden_paths_passed: diff.is_none_or(|d| d.forbidden_paths_passed),
        baseline_tree_id: patch
            .map(|p| p.base_tree_id.clone())
            .or_else(|| state.plan.as_ref().map(|p| p.plan.baseline_tree_id.clone())),
        patch_tree_id: patch.and_then(|p| p.applied_tree_id.clone()),
        verified_tree_id: state
            .verification
            .as_ref()
            .and_then(|v| v.verified_tree_id.clone()),
        residue: patch.map_or_else(Residue::default, |p| p.residue.clone()),
        oddities: patch.map(|p| p.oddities.clone()).unwrap_or_default(),
    }
}

fn authority(state: &RunState, input: &ReportInput) -> AuthoritySection {
    AuthoritySection {
        stage: state.started.stage,
        mutation_mode: state.started.mutation_mode,
        allowed_mutation_scope: state.started.stage.scope().to_owned(),
        approval_status: state.approval_status(),
        approval_id: (state.approval_consumed.as_ref()).map(|a| a.approval_id.clone()),
        source_admission_status: if state.lane == Lane::Fake {
            SourceAdmissionStatus::Admitted
        } else {
            SourceAdmissionStatus::NotAdmitted
        },
        operator_outcome: if state.started.mutation_mode >= MutationMode::OwnedNoncriticalRepo {
            OutcomeState::Pending
        } else {
            OutcomeState::NotRequired
        },
        contract_digest: input.contract_digest.clone(),
        runtime_default_activation: NeverActive,
        core_promotion_status: NotPromoted,
        forbidden_actions_attempted: state.attempted_actions().into_iter().collect(),
        ladder: state.plan.as_ref().map(|p| p.plan.ladder),
    }
}

fn source(state: &RunState) -> SourceSection {
    let plan = state.plan.as_ref().map(|p| &p.plan);
    let source = plan.and_then(|p| p.source.clone());
    SourceSection {
        target_id: state
            .contract
            .as_ref()
            .and_then(|c| c.contract.target_id.clone()),
        baseline_head: source.as_ref().map(|s| s.commit.clone()),
        source_repository_mutated: state.source.as_ref().map(|s| s.source_repository_mutated),
        source,
        source_check: state.source.clone(),
        inputs: plan.map(|p| p.inputs.clone()).unwrap_or_default(),
        setup: state
            .setup
            .as_ref()
            .map(|s| s.commands.clone())
            .unwrap_or_default(),
    }
}

fn resources(state: &RunState, input: &ReportInput) -> Resources {
    let end = state.backend.as_ref();
    Resources {
        wall_seconds: Some(input.wall_seconds),
        backend_seconds: end.map(|e| e.seconds),
        verification_seconds: state
            .verification
            .as_ref()
            .map(|v| v.verification.commands.iter().map(|c| c.seconds).sum()),
        cpu_seconds: end.and_then(|e| e.cpu_seconds),
        peak_memory_bytes: end.and_then(|e| e.peak_memory_bytes),
        tokens: end.and_then(|e| e.model_traffic.as_ref()?.tokens),
        cost: None,
        model_traffic: end.and_then(|e| e.model_traffic.clone()),
    }
}

fn sandbox(state: &RunState) -> SandboxSection {
    let none = SandboxPlan {
        provider: "none".to_owned(),
        provider_from: SettingSource::Default,
        class: SandboxClass::None,
        layers: Vec::new(),
        writable_roots: Vec::new(),
        read_paths: Vec::new(),
    };
    let seen = state
        .backend
        .as_ref()
        .map(|b| &b.sandbox)
        .or_else(|| state.plan.as_ref().map(|p| &p.plan.sandbox))
        .unwrap_or(&none);
    SandboxSection {
        provider: seen.provider.clone(),
        provider_from: seen.provider_from,
        class: seen.class,
        layers: seen.layers.clone(),
        writable_roots: seen.writable_roots.clone(),
        denials: state.denials.clone(),
        drops: state
            .backend
            .as_ref()
            .and_then(|b| b.recorded)
            .map_or(0, |r| r.dropped),
        no_survivors: state.backend.as_ref().map(|b| b.no_survivors),
    }
}

fn not_run(state: &RunState) -> Verification {
    let why = if state.gate_blocked.is_some() {
        "the run was blocked before a backend started"
    } else {
        "the run ended before verification"
    };
    Verification {
        passed: false,
        commands: Vec::new(),
        baseline: Vec::new(),
        baseline_failed: None,
        lost_tests: Vec::new(),
        canary: Canary {
            status: CanaryStatus::NotApplicable,
            runner: None,
            detail: why.to_owned(),
        },
        level: ClaimLevel::Absent,
        not_run: Some(why.to_owned()),
    }
}

fn not_applicable(state: &RunState, completed: &RunCompleted) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut put = |what: &str, why: &str| {
        out.insert(what.to_owned(), why.to_owned());
    };
    let stopped = match completed.status {
        RunStatus::Pass => "nothing was left to do",
        RunStatus::Fail | RunStatus::Blocked => "the run ended before it",
    };
    if state.plan.is_none() {
        put("identity", stopped);
    }
    match &state.patch {
        None => put("patch.diff", "no patch was taken"),
        Some(p)
            if p.blockers
                .iter()
                .any(|b| b.code == BlockerCode::SecretExposed) =>
        {
            put(
                "patch.diff",
                "it held a secret and is in quarantine; a stub stands in its place",
            );
        }
        Some(_) => {}
    }
    match &state.verification {
        None => put("test.log", "no verification ran"),
        Some(v) => {
            if let Some(why) = &v.verification.not_run {
                put("test.log", why);
            }
        }
    }
    if !state.backend_started {
        put("backend", "no process was started");
    }
    let traffic = state.backend.as_ref().map(|b| b.model_traffic.as_ref());
    match traffic.flatten() {
        None => {
            put("tokens", "this lane has no model");
            put("cost", "this lane has no model");
        }
        Some(traffic) => {
            if traffic.tokens.is_none() {
                let why = format!(
                    "an answer did not name its tokens; all of them are at most {}",
                    traffic.tokens_at_most
                );
                put("tokens", &why);
            }
            put("cost", "no price of this model is known");
        }
    }
    out
}
