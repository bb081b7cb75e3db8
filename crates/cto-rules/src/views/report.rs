//! The log as `report.json`, apart from the index of files, which the seal fills in.

use std::collections::BTreeMap;

use cto_contract::artifact::FreshnessMap;
use cto_contract::blocker::BlockerCode;
use cto_contract::eligibility::AdmissionsSeen;
use cto_contract::event::{GateBlocked, Residue, RunCompleted};
use cto_contract::ids::Digest;
use cto_contract::landing::LandingPlan;
use cto_contract::lanes::Meters;
use cto_contract::report::{
    ArtifactSection, AuthoritySection, BackendSection, ChangeSection, ChecksSection, ModelSection,
    Report, ReportSchema, Resources, RunSection, SandboxSection, SourceSection, VerdictSection,
};
use cto_contract::time::Utc;
use cto_contract::verification::Verification;
use cto_contract::words::{
    BackendCompletion, Lane, MutationMode, NeverActive, NotPromoted, OutcomeState, RunStatus,
    SourceAdmissionStatus, Stage,
};

use crate::claims::claims;
use crate::lifecycle::RunState;
use crate::order::{self, Order, Shape};

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
    let order = order::judge(&Shape::of(state, &state.types, &completed.blockers));
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
            fake_baseline: state.started.fake_baseline.then_some(true),
            harness_version: state.started.harness_version.clone(),
        },
        verdict: VerdictSection {
            status: completed.status,
            blockers: completed.blockers.clone(),
            failure_reason: completed.failure_reason.clone(),
            fault_class: completed.fault_class,
            not_applicable: not_applicable(state, completed, &order),
            claims: claims(state, completed.status),
        },
        backend: backend(state, input),
        change: change(state),
        checks: ChecksSection {
            tests_passed: verification.passed,
            verification,
            required_events_passed: order.passed(),
            missing_events: order.faults,
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
        asked: asked_model(state),
        identity,
        identity_digest: input.identity_digest.clone(),
        launched: state
            .plan
            .as_ref()
            .map(|p| p.plan.launched(state.version_output.as_ref())),
    }
}

fn admissions(state: &RunState) -> Option<&AdmissionsSeen> {
    state.eligibility.as_ref()?.decision.admissions.as_ref()
}

/// The pair that the decision was about, else the one that was asked for.
fn asked_model(state: &RunState) -> ModelSection {
    let asked = state.started.asked_model.as_ref();
    let seen = admissions(state).and_then(|seen| seen.model.as_ref());
    let provider = match seen {
        Some(seen) => seen.provider.clone(),
        None => asked.and_then(|asked| asked.provider.clone()),
    };
    let model = match seen {
        Some(seen) => seen.model.clone(),
        None => asked.and_then(|asked| asked.model.clone()),
    };
    let status = seen.map(|seen| seen.model_admission_status);
    let is_case = state.lane == Lane::Case;
    let plan = state.plan.as_ref();
    let runtime = plan.and_then(|p| p.plan.runtime_model_provider.clone());
    ModelSection {
        case_model_provider: provider.clone().filter(|_| is_case),
        case_model: model.clone().filter(|_| is_case),
        case_model_admission_status: status.filter(|_| is_case),
        model_provider: provider,
        model,
        model_admission_status: status,
        case_runtime_model_provider: runtime.clone().filter(|_| is_case),
        runtime_model_provider: runtime,
    }
}

fn change(state: &RunState) -> ChangeSection {
    let patch = state.patch.as_ref();
    let diff = state.diff.as_ref();
    ChangeSection {
        changed_files: diff.map(|d| d.changed_files.clone()).unwrap_or_default(),
        changes: patch.map(|p| p.changes.clone()).unwrap_or_default(),
        scopes: diff.map(|d| d.scopes.clone()).unwrap_or_default(),
        allowed_writes_passed: diff.map(|d| d.allowed_writes_passed),
        allowed_paths_passed: None,
        forbidden_paths_passed: diff.map(|d| d.forbidden_paths_passed),
        baseline_tree_id: patch
            .map(|p| p.base_tree_id.clone())
            .or_else(|| state.plan.as_ref().map(|p| p.plan.baseline_tree_id.clone())),
        patch_tree_id: patch.and_then(|p| p.applied_tree_id.clone()),
        verified_tree_id: state
            .verification
            .as_ref()
            .and_then(|v| v.verified_tree_id.clone()),
        residue: patch.map_or_else(Residue::default, |p| p.residue.clone()),
        clone_check: patch.and_then(|p| p.clone_check.clone()),
        oddities: patch.map(|p| p.oddities.clone()).unwrap_or_default(),
    }
}

fn authority(state: &RunState, input: &ReportInput) -> AuthoritySection {
    let grant = state.granted.as_ref().and_then(|g| g.grant.as_deref());
    AuthoritySection {
        stage: state.started.stage,
        mutation_mode: state.started.mutation_mode,
        // Where nothing may change there is no scope, whatever stage was asked for.
        allowed_mutation_scope: if state.started.mutation_mode == MutationMode::None {
            Stage::FIRST.scope().to_owned()
        } else {
            state.started.stage.scope().to_owned()
        },
        approval_status: state.approval_status(),
        approval_id: (state.approval_consumed.as_ref()).map(|a| a.approval_id.clone()),
        source_admission_status: match admissions(state) {
            Some(seen) => seen.source_admission_status,
            None if state.lane == Lane::Fake => SourceAdmissionStatus::Admitted,
            None => SourceAdmissionStatus::NotAdmitted,
        },
        operator_outcome: if state.approval_consumed.is_some()
            || state.started.mutation_mode >= MutationMode::OwnedNoncriticalRepo
        {
            OutcomeState::Pending
        } else {
            OutcomeState::NotRequired
        },
        contract_digest: input.contract_digest.clone(),
        runtime_default_activation: NeverActive,
        core_promotion_status: NotPromoted,
        forbidden_actions_attempted: state.attempted_actions().into_iter().collect(),
        ladder: state.plan.as_ref().map(|p| p.plan.ladder),
        admission: admissions(state).and_then(AdmissionsSeen::seal),
        self_approved: grant.map(|g| g.statement.self_approved),
        presence: grant.map(|g| g.signature.presence),
        custody: grant.map(|g| g.signature.custody),
        baseline_comparison: state.comparison.clone(),
    }
}

fn source(state: &RunState) -> SourceSection {
    let contract = state.contract.as_ref().map(|c| &c.contract);
    let plan = state.plan.as_ref().map(|p| &p.plan);
    let source = plan.and_then(|p| p.source.clone());
    SourceSection {
        target_id: contract.and_then(|c| c.target_id.clone()),
        baseline_head: source.as_ref().map(|s| s.commit.clone()),
        source_repository_mutated: state.source.as_ref().map(|s| s.source_repository_mutated),
        branch_policy: (plan
            .and_then(|p| p.landing.as_ref())
            .map(LandingPlan::policy))
        .or_else(|| contract.and_then(|c| c.branch_policy.clone())),
        disposable_repository_dir: (plan.and_then(|p| p.landing.as_ref()?.disposable.as_ref()))
            .map(|disposable| disposable.directory.clone()),
        target_repository_admission_status: admissions(state)
            .and_then(|seen| seen.target_repository_admission_status),
        target_repository_start_clean: (source.as_ref())
            .filter(|_| state.started.mutation_mode >= MutationMode::OwnedNoncriticalRepo)
            .map(|source| source.dirty_count == 0),
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
        verification_seconds: (state.verification.as_ref())
            .filter(|v| v.verification.not_run.is_none())
            .map(|v| v.verification.commands.iter().map(|c| c.seconds).sum()),
        cpu_seconds: end.and_then(|e| e.cpu_seconds),
        peak_memory_bytes: end.and_then(|e| e.peak_memory_bytes),
        tokens: end.and_then(|e| e.model_traffic.as_ref()?.tokens),
        cost: end.and_then(|e| e.model_traffic.as_ref()?.cost.as_ref()?.amount),
        model_probe: state.model_probe.clone(),
        agent_usage: end.and_then(|e| e.agent.as_ref()?.usage),
        model_traffic: end.and_then(|e| e.model_traffic.clone()),
    }
}

fn sandbox(state: &RunState) -> SandboxSection {
    let planned = state.plan.as_ref().map(|p| &p.plan.sandbox);
    let seen = state.backend.as_ref().map(|b| &b.sandbox).or(planned);
    SandboxSection {
        provider: seen.map(|s| s.provider.clone()),
        provider_from: seen.map(|s| s.provider_from),
        class: seen.map(|s| s.class),
        layers: seen.map(|s| s.layers.clone()).unwrap_or_default(),
        writable_roots: seen.map(|s| s.writable_roots.clone()).unwrap_or_default(),
        read_paths: seen.map(|s| s.read_paths.clone()).unwrap_or_default(),
        hidden_paths: seen.map(|s| s.hidden_paths.clone()).unwrap_or_default(),
        denials: state.denials.clone(),
        drops: (state.backend.as_ref())
            .and_then(|b| b.recorded)
            .map(|r| r.dropped),
        no_survivors: state.backend.as_ref().map(|b| b.no_survivors),
    }
}

fn not_run(state: &RunState) -> Verification {
    let why = if state.gate_blocked.is_some() {
        "the run was blocked before a backend started"
    } else {
        "the run ended before verification"
    };
    let baseline = state.gate_blocked.as_ref().map(|g| g.baseline.clone());
    Verification::not_run(why, baseline.unwrap_or_default())
}

fn not_applicable(
    state: &RunState,
    completed: &RunCompleted,
    order: &Order,
) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut put = |what: &str, why: &str| {
        out.insert(what.to_owned(), why.to_owned());
    };
    let stopped = match completed.status {
        RunStatus::Pass => "nothing was left to do",
        RunStatus::Fail | RunStatus::Blocked => "the run ended before it",
    };
    for omitted in &order.omitted {
        put(omitted.event.as_str(), omitted.why.sentence());
    }
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
    let has_baseline = |g: &GateBlocked| !g.baseline.is_empty();
    match &state.verification {
        // It holds what the checks showed on the untouched tree.
        None if state.gate_blocked.as_ref().is_some_and(has_baseline) => {}
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
            let why = match state.lane.traits().meters {
                Meters::Nothing => "this lane has no model",
                Meters::RequestsAndTokens if !state.backend_started => "no process was started",
                Meters::RequestsAndTokens => "no model was asked",
            };
            put("tokens", why);
            put("cost", why);
        }
        Some(traffic) => {
            if traffic.tokens.is_none() {
                let why = format!(
                    "an answer did not name its tokens; all of them are at most {}",
                    traffic.tokens_at_most
                );
                put("tokens", &why);
            }
            match &traffic.cost {
                None => put("cost", "no price of this model is known"),
                Some(cost) if cost.amount.is_none() => put(
                    "cost",
                    &format!(
                        "an answer did not name its tokens; all of it is at most {:.6} {}",
                        cost.amount_at_most, cost.currency
                    ),
                ),
                Some(_) => {}
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use cto_contract::event::{Actor, AskedModel, EventKind, EventSchema, RunEvent, RunStarted};
    use serde_json::Value;

    use super::*;
    use crate::lifecycle::{conclude, replay};

    const DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";

    /// The report of a run that ended right after its beginning.
    fn begun(lane: Lane, asked_model: Option<AskedModel>) -> Value {
        let event = RunEvent {
            schema_version: EventSchema,
            seq: 1,
            ts: "2026-01-01T00:00:00Z".parse().unwrap(),
            run_id: "20260101T000000Z-t-abcdef".parse().unwrap(),
            case_id: "t".parse().unwrap(),
            backend: lane,
            kind: EventKind::RunStarted(RunStarted {
                nonce: DIGEST.parse().unwrap(),
                harness_version: "0".into(),
                stage: Stage::FIXTURE,
                mutation_mode: MutationMode::CopiedFixture,
                parent_run_id: None,
                conformance: false,
                fake_baseline: false,
                title: "t".into(),
                asked_model,
            }),
            actor: Actor::Harness,
            prev: DIGEST.parse().unwrap(),
        };
        let state = replay([&event]).unwrap();
        let input = ReportInput {
            contract_digest: DIGEST.parse().unwrap(),
            identity_digest: None,
            finished_at: state.last_at,
            wall_seconds: 1.0,
        };
        serde_json::to_value(report(&state, &conclude(&state), &input)).unwrap()
    }

    #[test]
    fn what_nobody_looked_at_is_null() {
        let report = begun(Lane::Fake, None);
        for name in [
            "/allowed_writes_passed",
            "/forbidden_paths_passed",
            "/tests_passed",
            "/verification/passed",
            "/verification/baseline_failed",
            "/resources/verification_seconds",
            "/resources/tokens",
            "/sandbox/provider",
            "/sandbox/class",
            "/sandbox/drops",
            "/sandbox/no_survivors",
            "/identity",
            "/identity_digest",
            "/launched",
            "/backend_exit_code",
        ] {
            assert_eq!(report.pointer(name), Some(&Value::Null), "{name}");
        }
        assert!(report["verification"]["not_run"].is_string());
    }

    #[test]
    fn a_report_says_which_model_was_asked_for_and_twice_for_case() {
        let asked = AskedModel {
            provider: Some("p".into()),
            model: Some("m".into()),
        };
        let codex = begun(Lane::Codex, Some(asked.clone()));
        assert_eq!(
            (&codex["model_provider"], &codex["model"]),
            (&"p".into(), &"m".into())
        );
        assert!(codex.get("case_model").is_none());
        let case = begun(Lane::Case, Some(asked));
        assert_eq!(case["case_model_provider"], "p");
        assert_eq!(case["case_model"], "m");
        assert!(begun(Lane::Fake, None).get("model").is_none());
    }
}
