use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{
    Actor, BackendFinished, BackendStarted, DiffChecked, EligibilityDecided, EventKind,
    EventSchema, GateBlocked, PatchApplied, RunEvent, RunRecovered, RunStarted, Step, StepFinished,
    StepStarted, TaskContractCreated,
};
use cto_contract::task::TaskContract;
use cto_contract::words::{BackendCompletion, Lane, MutationMode, RunStatus, SandboxClass, Stage};
use proptest::prelude::*;

use super::*;
use crate::eligibility;

const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

fn contract() -> TaskContract {
    let text = "schema: cto.contract/v1\ntask_id: t\ntitle: t\ninstruction: t\nallowed_paths: [a]\nmutation_mode: copied-fixture\nforbidden_actions: [push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]\n";
    TaskContract::read("t", text.as_bytes()).unwrap()
}

/// A log in the making: numbers and times come by themselves.
#[derive(Default)]
struct Script(Vec<RunEvent>);

impl Script {
    fn add(mut self, kind: EventKind) -> Self {
        let seq = self.0.len() as u64 + 1;
        self.0.push(RunEvent {
            schema_version: EventSchema,
            seq,
            ts: format!("2026-01-01T00:00:{seq:02}Z").parse().unwrap(),
            run_id: "20260101T000000Z-t-abcdef".parse().unwrap(),
            case_id: "t".parse().unwrap(),
            backend: Lane::Fake,
            kind,
            actor: Actor::Harness,
            prev: DIGEST.parse().unwrap(),
        });
        self
    }

    fn step(self, step: Step, inside: impl FnOnce(Self) -> Self) -> Self {
        let opened = self.add(EventKind::StepStarted(StepStarted { step }));
        inside(opened).add(EventKind::StepFinished(StepFinished {
            step,
            blockers: Vec::new(),
        }))
    }
}

fn started() -> Script {
    Script::default().add(EventKind::RunStarted(RunStarted {
        nonce: DIGEST.parse().unwrap(),
        harness_version: "0".into(),
        stage: Stage::FIXTURE,
        mutation_mode: MutationMode::CopiedFixture,
        parent_run_id: None,
        conformance: false,
        fake_baseline: false,
        title: "t".into(),
        asked_model: None,
    }))
}

fn contracted() -> Script {
    started().step(Step::Contract, |s| {
        s.add(EventKind::TaskContractCreated(TaskContractCreated {
            contract_digest: DIGEST.parse().unwrap(),
            contract: contract(),
        }))
    })
}

fn decided(passes: bool) -> Script {
    let mut facts = eligibility::tests::good(Lane::Fake, 2);
    if !passes {
        facts.asked.contract.allowed_paths.clear();
    }
    let decision = eligibility::tests::decided(&facts).record;
    let reasons = decision.reasons.clone();
    contracted().step(Step::Eligibility, |s| {
        let s = s.add(EventKind::EligibilityDecided(EligibilityDecided {
            decision,
        }));
        if passes {
            return s;
        }
        s.add(EventKind::BackendGateBlocked(GateBlocked {
            backend: Lane::Fake,
            gate: "allowed_paths".into(),
            reason: "none".into(),
            mutation_mode: MutationMode::CopiedFixture,
            case_executed: false,
            blockers: reasons,
            baseline: Vec::new(),
        }))
    })
}

fn backend_end(exit_code: Option<i32>, signal: Option<i32>, timed_out: bool) -> BackendFinished {
    BackendFinished {
        exit_code,
        signal,
        completion: BackendCompletion::Own,
        stopped_by: None,
        timed_out,
        seconds: 1.0,
        cpu_seconds: None,
        peak_memory_bytes: None,
        stdout_bytes: 0,
        stderr_bytes: 0,
        dropped_bytes: 0,
        no_survivors: true,
        sandbox: cto_contract::plan::SandboxPlan {
            provider: "native".into(),
            provider_from: cto_contract::plan::SettingSource::Default,
            class: SandboxClass::Process,
            layers: Vec::new(),
            writable_roots: Vec::new(),
            read_paths: Vec::new(),
            hidden_paths: Vec::new(),
        },
        recorded: None,
        start_failure: None,
        agent: None,
        pipeline: None,
        model_traffic: None,
        program_replaced: false,
        protected_roots: None,
    }
}

fn worked(end: BackendFinished) -> Script {
    decided(true)
        .step(Step::Prepare, |s| s)
        .step(Step::Plan, |s| s)
        .step(Step::Backend, |s| {
            s.add(EventKind::BackendStarted(BackendStarted {
                workspace_clean: None,
                identity_digest: DIGEST.parse().unwrap(),
                version_output: None,
            }))
            .add(EventKind::BackendFinished(end))
        })
}

fn changed_only(script: Script) -> Script {
    script.step(Step::Change, |s| {
        s.add(EventKind::PatchApplied(PatchApplied {
            base_tree_id: TREE.parse().unwrap(),
            tree_id: TREE.parse().unwrap(),
            applied_tree_id: Some(TREE.parse().unwrap()),
            patch_digest: DIGEST.parse().unwrap(),
            patch_bytes: 1,
            changes: Vec::new(),
            oddities: Vec::new(),
            residue: Default::default(),
            clone_check: None,
            scratch_git: false,
            blockers: Vec::new(),
        }))
    })
}

fn changed(script: Script, files: &[&str]) -> Script {
    let files: Vec<String> = files.iter().map(|f| (*f).to_owned()).collect();
    changed_only(script).step(Step::Policy, |s| {
        s.add(EventKind::GitDiffChecked(DiffChecked {
            changed_files: files,
            scopes: Vec::new(),
            allowed_writes_passed: true,
            forbidden_paths_passed: true,
            blockers: Vec::new(),
        }))
    })
}

fn next(script: &Script) -> String {
    match next_step(&replay(&script.0).unwrap()) {
        Next::Perform(step) => format!("perform {step}"),
        Next::Recover(step) => format!("recover {step}"),
        Next::Seal(status) => format!("seal {status}"),
    }
}

fn codes(script: &Script) -> Vec<&'static str> {
    conclude(&replay(&script.0).unwrap())
        .blockers
        .iter()
        .map(|b| b.code.as_str())
        .collect()
}

#[test]
fn steps_follow_each_other_from_the_log_alone() {
    assert_eq!(next(&started()), "perform contract");
    assert_eq!(next(&contracted()), "perform eligibility");
    assert_eq!(next(&decided(true)), "perform prepare");
    assert_eq!(
        next(&worked(backend_end(Some(0), None, false))),
        "perform change"
    );
    assert_eq!(
        next(&changed(worked(backend_end(Some(0), None, false)), &["a"])),
        "perform verification"
    );
}

#[test]
fn a_refused_run_goes_straight_to_its_end() {
    assert_eq!(next(&decided(false)), "perform complete");
    assert!(codes(&decided(false)).contains(&"allowed_paths_missing"));
}

#[test]
fn a_step_without_an_end_is_recovered_and_never_performed_again() {
    for step in STEPS {
        let mut script = started();
        for before in STEPS.into_iter().take_while(|s| *s != step) {
            script = script.step(before, |s| s);
        }
        let open = script.add(EventKind::StepStarted(StepStarted { step }));
        assert_eq!(next(&open), format!("recover {step}"));
        let recovered = open.add(EventKind::RunRecovered(RunRecovered {
            bytes_cut: 0,
            interrupted_step: Some(step),
            backend_had_started: false,
            reason: "x".into(),
        }));
        assert_eq!(next(&recovered), "perform complete");
        assert_eq!(codes(&recovered), ["interrupted"]);
    }
}

#[test]
fn the_backend_is_never_started_twice() {
    let again =
        worked(backend_end(Some(0), None, false)).add(EventKind::BackendStarted(BackendStarted {
            workspace_clean: None,
            identity_digest: DIGEST.parse().unwrap(),
            version_output: None,
        }));
    let error = replay(&again.0).unwrap_err().to_string();
    assert!(error.contains("never started again"), "{error}");
}

#[test]
fn a_bad_end_of_the_backend_is_a_failure_whatever_the_change_is() {
    let with = |end| codes(&changed(worked(end), &["a"]))[0];
    assert_eq!(with(backend_end(Some(3), None, false)), "backend_failed");
    assert_eq!(with(backend_end(None, Some(9), false)), "backend_failed");
    assert_eq!(
        with(backend_end(None, Some(15), true)),
        "lifecycle_timeout_after_valid_patch"
    );
    let silent = codes(&changed(worked(backend_end(None, Some(15), true)), &[]));
    assert_eq!(silent[0], "timeout");
    let mut not_started = backend_end(None, None, false);
    not_started.start_failure = Some("no such file".into());
    assert_eq!(with(not_started), "provider_unavailable");
    let mut leftover = backend_end(Some(0), None, false);
    leftover.no_survivors = false;
    assert_eq!(with(leftover), "sandbox_unavailable");
}

#[test]
fn a_pass_needs_every_required_event() {
    let half = changed(worked(backend_end(Some(0), None, false)), &["a"]);
    let verdict = conclude(&replay(&half.0).unwrap());
    assert_eq!(verdict.status, RunStatus::Fail);
    let subjects: Vec<&str> = verdict
        .blockers
        .iter()
        .map(|b| b.subject.as_str())
        .collect();
    assert_eq!(subjects, ["plan.updated", "verification.completed"]);
    assert!(
        verdict
            .blockers
            .iter()
            .all(|b| b.code == BlockerCode::MissingRequiredEvent)
    );
}

#[test]
fn a_stop_closes_the_run_at_the_next_boundary() {
    let stopped = decided(true)
        .add(EventKind::StepStarted(StepStarted {
            step: Step::Prepare,
        }))
        .add(EventKind::StepFinished(StepFinished {
            step: Step::Prepare,
            blockers: vec![Blocker::new(BlockerCode::Interrupted, "", "asked")],
        }));
    assert_eq!(next(&stopped), "perform complete");
    assert_eq!(codes(&stopped), ["interrupted"]);
}

#[test]
fn a_step_that_could_not_record_what_it_found_leaves_nothing_to_judge() {
    let worked = || worked(backend_end(Some(0), None, false));
    assert_eq!(next(&worked()), "perform change");
    let blind = worked().step(Step::Change, |s| s);
    assert_eq!(next(&blind), "perform complete");
    let never_seen_to_end = decided(true)
        .step(Step::Prepare, |s| s)
        .step(Step::Plan, |s| s)
        .step(Step::Backend, |s| s);
    assert_eq!(next(&never_seen_to_end), "perform complete");
}

#[test]
fn nothing_follows_the_verdict_but_a_recovery() {
    let done = conclude(&replay(&decided(false).0).unwrap());
    let log = decided(false).add(EventKind::RunCompleted(done));
    assert_eq!(next(&log), "seal blocked");
    let more = log.add(EventKind::StepStarted(StepStarted {
        step: Step::Prepare,
    }));
    assert!(replay(&more.0).is_err());
}

proptest! {
    /// Any log that can be written has a next step, and any prefix of it too.
    #[test]
    fn every_prefix_has_exactly_one_answer(cut in 1usize..24) {
        let whole = changed(worked(backend_end(Some(0), None, false)), &["a"]).add(
            EventKind::StepStarted(StepStarted { step: Step::Verification }),
        );
        let cut = cut.min(whole.0.len());
        let state = replay(&whole.0[..cut]).unwrap();
        let again = replay(&whole.0[..cut]).unwrap();
        prop_assert_eq!(next_step(&state), next_step(&again));
    }
}

#[test]
fn of_a_dead_run_is_kept_what_its_log_vouches_for() {
    use crate::leftovers::{Leftover, leftover};
    let of = |script: &Script, path: &str| leftover(&replay(&script.0).unwrap(), path);
    let before = decided(true);
    assert_eq!(of(&before, "patch.diff"), Leftover::MakeAnew);
    let after = changed(decided(true), &["a"]);
    assert_eq!(
        of(&after, "patch.diff"),
        Leftover::Known(DIGEST.parse().unwrap())
    );
    for script in [&before, &after] {
        for path in [
            "eligibility.json",
            "trace.jsonl",
            "report.md",
            "report.json",
            "SHA256SUMS",
            ".attestation.tmp",
        ] {
            assert_eq!(of(script, path), Leftover::MakeAnew, "{path}");
        }
        for path in [
            "task-contract.json",
            "events.normalized.jsonl",
            "test.log",
            "backend/stdout.log",
        ] {
            assert_eq!(of(script, path), Leftover::Keep, "{path}");
        }
    }
}

#[test]
fn of_any_two_blockers_an_effect_goes_and_its_cause_stays() {
    for first in BlockerCode::ALL {
        for second in BlockerCode::ALL.iter().filter(|c| *c != first) {
            let pair = [*first, *second].map(|code| Blocker::new(code, "", "x"));
            let kept: Vec<BlockerCode> = without_effects(pair.to_vec())
                .iter()
                .map(|b| b.code)
                .collect();
            let causes = [
                BlockerCode::Timeout,
                BlockerCode::LimitExceeded,
                BlockerCode::ProviderUnavailable,
                BlockerCode::ProviderAuthUnavailable,
                BlockerCode::ProviderReasoningOnly,
            ];
            let effects = [
                BlockerCode::NoDiff,
                BlockerCode::BackendFailed,
                BlockerCode::AgentProtocolFailed,
                BlockerCode::ReviewerRejected,
            ];
            let explains = |cause, effect| {
                (causes.contains(cause) && effects.contains(effect))
                    || (*cause == BlockerCode::AgentProtocolFailed
                        && *effect == BlockerCode::NoDiff)
            };
            let expected: Vec<BlockerCode> = match (first, second) {
                (cause, effect) if explains(cause, effect) => vec![*cause],
                (effect, cause) if explains(cause, effect) => vec![*cause],
                (first, second) => vec![*first, *second],
            };
            assert_eq!(kept, expected, "{first} {second}");
        }
    }
}

/// Every fault that stands, over every end of a backend: the row that the specification gives it, and no other.
#[test]
fn a_provider_that_failed_the_agent_blocks_the_run_and_the_change_is_not_judged() {
    use cto_contract::event::{ModelTraffic, ProviderFault};
    use cto_contract::words::FaultClass;

    let traffic = |fault, standing_fault| ModelTraffic {
        requests: 2,
        refused: 0,
        bytes_up: 0,
        bytes_down: 0,
        tokens: None,
        tokens_at_most: 0,
        usage: Default::default(),
        models: Vec::new(),
        answered_by: Vec::new(),
        pinned_model: None,
        model_mismatches: 0,
        faults: [(fault, 1)].into(),
        standing_fault,
        cost: None,
        exchanges_dropped: 0,
    };
    let ends = || {
        [
            backend_end(Some(0), None, false),
            backend_end(Some(1), None, false),
            backend_end(None, Some(9), false),
            backend_end(None, Some(15), true),
        ]
    };
    let mut table = Vec::new();
    for fault in ProviderFault::ALL {
        let mut codes_seen: Vec<String> = Vec::new();
        for mut end in ends() {
            end.model_traffic = Some(traffic(*fault, Some(*fault)));
            let recorded = changed_only(worked(end));
            assert_eq!(next(&recorded), "perform complete", "{fault}");
            // These logs are shorter than a real one, which is beside the point.
            let mut blockers = conclude(&replay(&recorded.0).unwrap()).blockers;
            blockers.retain(|b| b.code != BlockerCode::MissingRequiredEvent);
            let [blocker] = blockers.as_slice() else {
                panic!("{fault}: {blockers:?}");
            };
            let row = blocker.code.row();
            assert_eq!(row.status, RunStatus::Blocked, "{fault}");
            assert_eq!(row.fault, FaultClass::Environment, "{fault}");
            let reason = blocker.failure_reason(Lane::Codex);
            let line = format!("{} ({reason}, {})", blocker.code, row.marker.unwrap());
            if !codes_seen.contains(&line) {
                codes_seen.push(line);
            }
        }
        table.push(format!("{fault}: {}", codes_seen.join(", ")));
        // Recovered from: judged as ever.
        for (mut recovered, before) in ends().into_iter().zip(ends()) {
            recovered.model_traffic = Some(traffic(*fault, None));
            let recovered = changed_only(worked(recovered));
            let before = changed_only(worked(before));
            assert_eq!(next(&recovered), "perform policy", "{fault}");
            assert_eq!(codes(&recovered), codes(&before), "{fault}");
        }
    }
    insta::assert_snapshot!(table.join("\n"));
    let pinned = |answered_by: &[&str], model_mismatches| {
        let mut end = backend_end(Some(0), None, false);
        end.model_traffic = Some(ModelTraffic {
            pinned_model: Some("m".into()),
            answered_by: answered_by.iter().map(|n| (*n).to_owned()).collect(),
            model_mismatches,
            ..traffic(ProviderFault::Cut, None)
        });
        let script = changed(worked(end), &["a"]);
        let done = conclude(&replay(&script.0).unwrap());
        let codes: Vec<_> = done.blockers.iter().map(|b| b.code.as_str()).collect();
        let is_named = codes.contains(&"model_admission_mismatch");
        (is_named, done.status == RunStatus::Fail)
    };
    assert!(!pinned(&["m", "m-20260101"], 0).0);
    assert_eq!(pinned(&["m"], 1), (true, true));
    assert_eq!(pinned(&["m", "n"], 0), (true, true));
}
