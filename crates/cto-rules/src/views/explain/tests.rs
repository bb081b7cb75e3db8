use cto_contract::blocker::BlockerCode;
use cto_contract::eligibility::GateOutcome;
use cto_contract::event::{Actor, EventKind, EventSchema, RunEvent, RunStarted};
use cto_contract::words::{FaultClass, Lane, MutationMode, Stage};

use cto_contract::trust::Origin;

use super::*;
use crate::eligibility::tests as eligibility;
use crate::lifecycle::{conclude, replay};
use crate::views::report::{ReportInput, report};

const DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The report of a run that ended right after its beginning.
const OWN: Provenance = Provenance {
    origin: Some(Origin::Known),
    of_this_home: true,
};

fn begun() -> Report {
    let event = RunEvent {
        schema_version: EventSchema,
        seq: 1,
        ts: "2026-01-01T00:00:00Z".parse().unwrap(),
        run_id: "20260101T000000Z-t-abcdef".parse().unwrap(),
        case_id: "t".parse().unwrap(),
        backend: Lane::Fake,
        kind: EventKind::RunStarted(RunStarted {
            nonce: DIGEST.parse().unwrap(),
            harness_version: "0".into(),
            stage: Stage::FIXTURE,
            mutation_mode: MutationMode::CopiedFixture,
            parent_run_id: None,
            conformance: false,
            fake_baseline: false,
            title: "t".into(),
            asked_model: None,
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
    report(&state, &conclude(&state), &input)
}

fn decision(passes: bool) -> EligibilityDecision {
    let mut facts = eligibility::good(Lane::Fake, 2);
    if !passes {
        facts.asked.contract.allowed_paths.clear();
    }
    eligibility::decided(&facts).record
}

fn command(name: &str, passed: bool) -> CommandResult {
    CommandResult {
        exit_code: Some(i32::from(!passed)),
        passed,
        seconds: 1.0,
        ..CommandResult::unknown(name)
    }
}

fn nothing(_: &CommandResult) -> Printed {
    Printed::default()
}

#[test]
fn every_gate_is_shown_as_it_was_decided() {
    for passes in [true, false] {
        let decision = decision(passes);
        let told = explain(&begun(), &decision, OWN, nothing);
        assert_eq!(told.gates, decision.facts);
        let mut gates = told.gates.iter();
        assert_eq!(gates.all(|g| g.outcome != GateOutcome::Missing), passes);
    }
}

#[test]
fn a_blocker_keeps_its_subject_and_gets_its_fault_and_status() {
    let mut report = begun();
    report.verdict.blockers = BlockerCode::ALL
        .iter()
        .map(|code| Blocker::new(*code, "subject", "message"))
        .collect();
    let told = explain(&report, &decision(true), OWN, nothing);
    for (code, blocker) in BlockerCode::ALL.iter().zip(&told.blockers) {
        assert_eq!(blocker.code, *code);
        assert_eq!(blocker.subject, "subject");
        assert_eq!(blocker.status, code.row().status);
        assert_eq!(blocker.fault, code.row().fault);
        assert_ne!(blocker.fault, FaultClass::None, "{code}");
    }
}

#[test]
fn a_check_is_shown_beside_its_run_before_the_change_and_printed_when_it_failed() {
    let mut report = begun();
    let verification = &mut report.checks.verification;
    verification.commands = vec![command("a", true), command("b", false), command("c", false)];
    verification.baseline = vec![command("a", false), command("b", true)];
    let told = explain(&report, &decision(true), OWN, |check| Printed {
        lines: vec![format!("output of {}", check.command)],
        is_cut: check.command == "c",
    });
    let shown: Vec<String> = told
        .checks
        .iter()
        .map(|check| {
            let before = check.before.as_ref().map(|b| b.passed);
            format!(
                "{} {before:?} {:?} {}",
                check.result.command, check.output, check.output_cut
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    a Some(false) [] false
    b Some(true) ["output of b"] false
    c None ["output of c"] true
    "#);
}

#[test]
fn the_answer_says_whether_anything_was_started() {
    let said = |status: RunStatus, is_started: bool| {
        let mut report = begun();
        report.verdict.status = status;
        report.verdict.failure_reason = Some("timeout".to_owned());
        report.backend.backend_process_started = is_started;
        explain(&report, &decision(true), OWN, nothing).sentence
    };
    insta::assert_snapshot!(said(RunStatus::Pass, true), @"the fake lane was allowed at stage 2, changed only what it may, and the checks pass");
    insta::assert_snapshot!(said(RunStatus::Fail, true), @"the fake lane was allowed at stage 2, and the run failed: timeout");
    insta::assert_snapshot!(said(RunStatus::Blocked, true), @"the fake lane was allowed at stage 2, and the run was blocked: timeout");
    insta::assert_snapshot!(said(RunStatus::Blocked, false), @"no backend was started: timeout");
}

#[test]
fn whatever_is_not_verified_says_what_would_raise_it() {
    for kind in ClaimKind::ALL {
        for level in ClaimLevel::ALL {
            for is_started in [true, false] {
                let claim = Claim::new(*kind, *level, Vec::new());
                let raised = raised_by(&claim, is_started);
                assert_eq!(
                    raised.is_none(),
                    *level == ClaimLevel::Verified,
                    "{kind} {level}"
                );
            }
        }
    }
}

#[test]
fn what_would_raise_a_claim_does_not_hang_on_its_words() {
    let mut report = begun();
    let raised = |report: &Report| -> Vec<Option<String>> {
        let told = explain(report, &decision(true), OWN, nothing);
        told.claims.into_iter().map(|c| c.raised_by).collect()
    };
    assert!(!report.verdict.claims.is_empty());
    let before = raised(&report);
    for claim in &mut report.verdict.claims {
        claim.sentence = "Something else".to_owned();
    }
    for blocker in &mut report.verdict.blockers {
        blocker.message = "Something else".to_owned();
    }
    assert_eq!(raised(&report), before);
}
