//! Runs for the tests: one that passed, one that was blocked, one that was recovered.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cto_contract::artifact::FreshnessSource;
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::eligibility::{
    DeniedBackend, Derived, EligibilityDecision, EligibilitySchema, Fact, Gate, GateOutcome,
    SelectedBackend,
};
use cto_contract::event::{
    Actor, BackendFinished, BackendStarted, ChangeKind, ChangedPath, DiffChecked,
    EligibilityDecided, EventKind, GateBlocked, PatchApplied, PlanUpdated, Residue, RunCompleted,
    RunRecovered, RunStarted, Scope, ScopedPath, Step, StepFinished, StepStarted,
    TaskContractCreated, VerificationCompleted,
};
use cto_contract::identity::Identity;
use cto_contract::ids::{DecisionId, Nonce, RunId};
use cto_contract::plan::{Ladder, LaunchPlan, Layer, LimitSource, SandboxPlan, TreeKind};
use cto_contract::report::Report;
use cto_contract::task::TaskContract;
use cto_contract::time::Utc;
use cto_contract::verification::{Canary, CanaryStatus, CommandResult, TestCounts, Verification};
use cto_contract::words::{
    BackendCompletion, EscalationPath, FaultClass, Lane, MutationMode, NetworkClass, RiskClass,
    RunStatus, SandboxClass, Stage,
};
use cto_evidence::canonical::{decision_id, digest_of, sha256};
use cto_evidence::key::SigningKey;
use cto_evidence::seal::Sealed;
use tempfile::TempDir;

pub(crate) const RUN: &str = "20260601T105222Z-r1-string-slugify-k3v9qd";
pub(crate) const TREE: &str = "8a1f0c1b2d3e4f5061728394a5b6c7d8e9f00112";
pub(crate) const PATCH_TEXT: &str = "\
diff --git a/strings.py b/strings.py
index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644
--- a/strings.py
+++ b/strings.py
@@ -1,2 +1,2 @@
 def slugify(text):
-    return text.replace(' ', '-')
+    return '-'.join(text.split())
";

/// A pack under construction.
pub(crate) struct Plan {
    pub(crate) run_id: RunId,
    pub(crate) nonce: Nonce,
    pub(crate) key: SigningKey,
    pub(crate) events: Vec<(Actor, EventKind)>,
    pub(crate) contract: TaskContract,
    pub(crate) patch: Vec<u8>,
    pub(crate) backend_files: BTreeMap<String, Vec<u8>>,
    /// Changes the report before it is sealed.
    pub(crate) edit: fn(&mut Report),
}

/// A sealed pack in a directory of its own.
pub(crate) struct Pack {
    pub(crate) home: TempDir,
    pub(crate) path: PathBuf,
    pub(crate) key: SigningKey,
    pub(crate) sealed: Sealed,
}

pub(crate) fn key(seed: u8) -> SigningKey {
    SigningKey::from_random(&[seed; 32])
}

pub(crate) fn at(seconds: i64) -> Utc {
    "2026-06-01T10:52:22.500000Z"
        .parse::<Utc>()
        .unwrap()
        .plus_seconds(seconds)
}

pub(crate) fn contract() -> TaskContract {
    let text = "
schema: cto.contract/v1
task_id: r1-string-slugify
title: Collapse whitespace in slugify
instruction: slugify() must collapse whitespace
allowed_paths: [strings.py]
frozen_paths: [test_strings.py]
verification_commands: [python3 -m unittest -q]
limits: { wall_seconds: 120, cost: 0.1 }
";
    TaskContract::read("contract", text.as_bytes()).unwrap()
}

pub(crate) fn identity() -> Identity {
    Identity {
        lane: Lane::Fake,
        adapter_revision: 1,
        binary_digest: Some(sha256(b"binary")),
        model_provider: None,
        model: None,
        sandbox_class: SandboxClass::Full,
        command_line: None,
    }
}

pub(crate) fn sandbox() -> SandboxPlan {
    let layer = Layer {
        name: "pid namespace".to_owned(),
        in_force: true,
        detail: "init is the supervisor".to_owned(),
    };
    SandboxPlan {
        provider: "namespaces".to_owned(),
        provider_from: cto_contract::plan::SettingSource::Default,
        class: SandboxClass::Full,
        layers: vec![layer],
        writable_roots: vec!["$WORKSPACE".to_owned()],
        hidden_paths: Vec::new(),
        read_paths: Vec::new(),
    }
}

/// A check that failed before and passes now, as the rules judge it.
pub(crate) fn verification() -> Verification {
    let tests = |passed: u64| TestCounts {
        ran: 2,
        passed,
        failed: 2 - passed,
        unnamed_failures: 2 - passed,
        ..TestCounts::default()
    };
    let run = contract().verification_commands[0].run.clone();
    let before = CommandResult {
        exit_code: Some(1),
        seconds: 1e-7,
        tests: Some(tests(1)),
        ..CommandResult::unknown(&run)
    };
    let after = CommandResult {
        exit_code: Some(0),
        seconds: 0.30000000000000004,
        tests: Some(tests(2)),
        canary: Some(Canary {
            status: CanaryStatus::Caught,
            runner: "unittest".to_owned(),
            detail: "failed as it must".to_owned(),
        }),
        ..CommandResult::unknown(&run)
    };
    let judgement = cto_rules::checks::judge(&contract(), vec![before], vec![after]);
    judgement.verification
}

/// A fact of a gate that is passed, or of one that is not.
pub(crate) fn fact(gate: Gate, refusal: Option<Blocker>) -> Fact {
    Fact {
        gate,
        value: Some("seen".to_owned()),
        source: "test".to_owned(),
        checked_at: Some(at(0)),
        outcome: if refusal.is_some() {
            GateOutcome::Missing
        } else {
            GateOutcome::Passed
        },
        refusal,
    }
}

/// The decision that these facts lead to.
pub(crate) fn decision(facts: Vec<Fact>) -> EligibilityDecision {
    let derived = Derived::from_facts(&facts);
    let selected = derived.is_eligible.then_some(Lane::Fake);
    let approval_required = derived.required_gates.contains(&Gate::Approval);
    let denied = Lane::ALL.iter().filter(|lane| Some(**lane) != selected);
    let denied = denied.map(|lane| DeniedBackend {
        backend: *lane,
        asked_for: *lane == Lane::Fake,
        reasons: if *lane == Lane::Fake {
            derived.reasons.clone()
        } else {
            Vec::new()
        },
    });
    let mut decision = EligibilityDecision {
        schema_version: EligibilitySchema,
        decision_id: DecisionId::of(&sha256(b"")),
        task_id: "r1-string-slugify".parse().unwrap(),
        contract_digest: digest_of(&contract()).unwrap(),
        requested_backend: Lane::Fake,
        selected_backend: SelectedBackend(selected),
        denied_backends: denied.collect(),
        risk_class: RiskClass::Artificial,
        stage: Stage::FIXTURE,
        required_gates: derived.required_gates,
        passed_gates: derived.passed_gates,
        missing_gates: derived.missing_gates,
        allowed_mutation_mode: selected.map_or(MutationMode::None, |_| MutationMode::CopiedFixture),
        approval_required,
        reasons: derived.reasons,
        escalation_path: EscalationPath::Operator,
        facts,
        admissions: None,
    };
    decision.decision_id = decision_id(&decision.basis());
    decision
}

fn beginning(nonce: &Nonce, contract: &TaskContract) -> Vec<(Actor, EventKind)> {
    vec![
        (
            Actor::Harness,
            EventKind::RunStarted(RunStarted {
                nonce: nonce.clone(),
                harness_version: "0.1.0".to_owned(),
                stage: Stage::FIXTURE,
                mutation_mode: MutationMode::CopiedFixture,
                parent_run_id: None,
                conformance: false,
                fake_baseline: false,
                title: "Collapse whitespace in slugify".to_owned(),
                asked_model: None,
            }),
        ),
        (
            Actor::Harness,
            EventKind::StepStarted(StepStarted {
                step: Step::Contract,
            }),
        ),
        (
            Actor::Harness,
            EventKind::TaskContractCreated(TaskContractCreated {
                contract_digest: digest_of(contract).unwrap(),
                contract: contract.clone(),
            }),
        ),
        (
            Actor::Harness,
            EventKind::StepFinished(StepFinished {
                step: Step::Contract,
                blockers: Vec::new(),
            }),
        ),
    ]
}

/// A run of the fake lane that passed.
pub(crate) fn pass() -> Plan {
    let nonce = Nonce::from_bytes(&[0xab; 32]);
    let contract = contract();
    let mut events = beginning(&nonce, &contract);
    let mut add = |kind: EventKind| events.push((Actor::Harness, kind));
    add(EventKind::EligibilityDecided(EligibilityDecided {
        decision: decision(vec![fact(Gate::AllowedPaths, None)]),
    }));
    add(EventKind::PlanUpdated(PlanUpdated {
        plan: LaunchPlan {
            argv: vec!["$SCRATCH/fake".to_owned(), "größe \"x\"".to_owned()],
            environment_names: vec!["PATH".to_owned()],
            working_directory: "$WORKSPACE".to_owned(),
            limits: contract.limits,
            wall_seconds_from: LimitSource::Contract,
            network: NetworkClass::None,
            sandbox: sandbox(),
            workspace_kind: TreeKind::Copy,
            checks_kind: TreeKind::Copy,
            baseline_tree_id: "1".repeat(40).parse().unwrap(),
            baseline_files: 2,
            verification: vec!["python3 -m unittest -q".to_owned()],
            setup: Vec::new(),
            inputs: Vec::new(),
            runtime_model_provider: None,
            ladder: Ladder::NotNeeded,
            inspection: None,
            source: None,
            landing: None,
            programs: Vec::new(),
            steering: Vec::new(),
        },
        identity: identity(),
    }));
    add(EventKind::BackendStarted(BackendStarted {
        workspace_clean: None,
        identity_digest: digest_of(&identity()).unwrap(),
        version_output: None,
    }));
    add(EventKind::BackendFinished(BackendFinished {
        exit_code: Some(0),
        signal: None,
        completion: BackendCompletion::Own,
        stopped_by: None,
        timed_out: false,
        seconds: 0.012345678901234567,
        // Numbers whose spelling is easily got wrong.
        cpu_seconds: Some(1e21),
        peak_memory_bytes: Some(9_007_199_254_740_991),
        stdout_bytes: 6,
        stderr_bytes: 0,
        dropped_bytes: 0,
        no_survivors: true,
        sandbox: sandbox(),
        recorded: None,
        start_failure: None,
        agent: None,
        pipeline: None,
        model_traffic: None,
        program_replaced: false,
        protected_roots: None,
    }));
    add(EventKind::PatchApplied(PatchApplied {
        base_tree_id: "1".repeat(40).parse().unwrap(),
        tree_id: TREE.parse().unwrap(),
        applied_tree_id: Some(TREE.parse().unwrap()),
        patch_digest: sha256(PATCH_TEXT.as_bytes()),
        patch_bytes: PATCH_TEXT.len() as u64,
        changes: vec![ChangedPath {
            path: "strings.py".to_owned(),
            change: ChangeKind::Modified,
            before_mode: Some("100644".to_owned()),
            after_mode: Some("100644".to_owned()),
        }],
        oddities: Vec::new(),
        residue: Residue::default(),
        clone_check: None,
        scratch_git: false,
        blockers: Vec::new(),
    }));
    add(EventKind::GitDiffChecked(DiffChecked {
        changed_files: vec!["strings.py".to_owned()],
        scopes: vec![ScopedPath {
            path: "strings.py".to_owned(),
            scope: Scope::Allowed,
            decided_by: "strings.py".to_owned(),
        }],
        allowed_writes_passed: true,
        forbidden_paths_passed: true,
        blockers: Vec::new(),
    }));
    add(EventKind::VerificationCompleted(VerificationCompleted {
        verification: verification(),
        verified_tree_id: Some(TREE.parse().unwrap()),
        dirty_paths: Vec::new(),
        blockers: Vec::new(),
    }));
    add(EventKind::RunCompleted(RunCompleted {
        status: RunStatus::Pass,
        blockers: Vec::new(),
        failure_reason: None,
        fault_class: FaultClass::None,
    }));
    Plan {
        run_id: RUN.parse().unwrap(),
        nonce,
        key: key(1),
        events,
        contract,
        patch: PATCH_TEXT.as_bytes().to_vec(),
        backend_files: BTreeMap::from([
            ("backend/stdout.log".to_owned(), b"hello\n".to_vec()),
            ("backend/sandbox.json".to_owned(), b"{}".to_vec()),
            ("backend/empty.log".to_owned(), Vec::new()),
            ("backend/deep/größe file.txt".to_owned(), "ü\n".into()),
        ]),
        edit: |_| {},
    }
}

/// A run that a gate stopped before anything was prepared.
pub(crate) fn blocked() -> Plan {
    let nonce = Nonce::from_bytes(&[0xcd; 32]);
    let contract = contract();
    let blockers = vec![Blocker::new(
        BlockerCode::GateMissing,
        "CTO_HARNESS_ALLOW_CASE",
        "it is not set to 1",
    )];
    let mut events = beginning(&nonce, &contract);
    let mut add = |kind: EventKind| events.push((Actor::Harness, kind));
    add(EventKind::EligibilityDecided(EligibilityDecided {
        decision: decision(vec![fact(Gate::LaneGate, blockers.first().cloned())]),
    }));
    add(EventKind::BackendGateBlocked(GateBlocked {
        backend: Lane::Fake,
        gate: "CTO_HARNESS_ALLOW_CASE".to_owned(),
        reason: "gate missing".to_owned(),
        mutation_mode: MutationMode::CopiedFixture,
        case_executed: false,
        blockers: blockers.clone(),
        baseline: Vec::new(),
    }));
    add(EventKind::RunCompleted(RunCompleted {
        status: RunStatus::Blocked,
        failure_reason: Some(blockers[0].failure_reason(Lane::Fake)),
        blockers,
        fault_class: FaultClass::Operator,
    }));
    Plan {
        run_id: "20260601T105223Z-r1-string-slugify-zzzzzz".parse().unwrap(),
        nonce,
        key: key(1),
        events,
        contract,
        patch: Vec::new(),
        backend_files: BTreeMap::from([(
            "backend/fake-gate.log".to_owned(),
            b"blocked\n".to_vec(),
        )]),
        edit: |_| {},
    }
}

/// A run whose harness died after the backend had ended; another process closed it.
pub(crate) fn recovered() -> Plan {
    let mut plan = pass();
    let died = plan
        .events
        .iter()
        .position(|(_, k)| matches!(k, EventKind::PatchApplied(_)))
        .unwrap();
    plan.events.truncate(died);
    plan.patch.clear();
    let blockers = vec![Blocker::new(
        BlockerCode::Interrupted,
        Step::Change.as_str(),
        "the harness died",
    )];
    plan.events.push((
        Actor::Harness,
        EventKind::RunRecovered(RunRecovered {
            bytes_cut: 7,
            interrupted_step: Some(Step::Change),
            backend_had_started: true,
            reason: "the harness died".to_owned(),
        }),
    ));
    let failure_reason = Some(blockers[0].failure_reason(Lane::Fake));
    let completed = RunCompleted {
        status: RunStatus::Blocked,
        blockers,
        failure_reason,
        fault_class: FaultClass::Environment,
    };
    plan.events
        .push((Actor::Harness, EventKind::RunCompleted(completed)));
    plan.edit = |report| {
        let left = report
            .artifacts
            .freshness
            .get_mut("backend/stdout.log")
            .unwrap();
        left.source = FreshnessSource::Checked;
    };
    plan
}
