use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{Actor, EventKind, EventSchema, RunEvent, RunStarted};
use cto_contract::words::{ClaimLevel, Lane, MutationMode, Stage};

use super::*;
use crate::lifecycle::{conclude, replay};
use crate::views::report::{ReportInput, report};

const DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const TYPES: [EventType; 4] = [
    EventType::RunStarted,
    EventType::StepStarted,
    EventType::BackendStarted,
    EventType::RunCompleted,
];

fn a_report(lane: Lane) -> Report {
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
            fake_baseline: lane == Lane::Fake,
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
    let mut report = report(&state, &conclude(&state), &input);
    report.verdict.blockers.clear();
    report.change.allowed_writes_passed = Some(true);
    let mut check = CommandResult::unknown("make test");
    check.passed = true;
    report.checks.verification.commands = vec![check];
    report
}

/// What is different once the lane's side was twisted, and the sentence that says so.
fn told(
    twist: impl FnOnce(&mut Report),
    types: &[EventType],
    files: &[&str],
    is_fresh: bool,
) -> String {
    let fake = a_report(Lane::Fake);
    let mut lane = a_report(Lane::Command);
    twist(&mut lane);
    let all = || REQUIRED.iter().map(ToString::to_string).collect();
    let fake = Side {
        report: &fake,
        types: &TYPES,
        artifacts: all(),
        is_fresh: true,
    };
    let mut artifacts: BTreeSet<String> = all();
    artifacts.retain(|name| !files.contains(&name.as_str()));
    let lane = Side {
        report: &lane,
        types,
        artifacts,
        is_fresh,
    };
    let compared = compare(&fake, &lane);
    let differing = compared.named().into_iter();
    let lines: Vec<String> = differing
        .filter(|(_, c)| c.result == Agreement::Differs)
        .map(|(name, c)| format!("{name}: {}", c.sentence))
        .collect();
    lines.join("\n")
}

#[test]
fn two_runs_that_showed_the_same_match_whatever_they_wrote() {
    let other_patch = |r: &mut Report| {
        r.change.changed_files = vec!["elsewhere".to_owned()];
        r.resources.wall_seconds = Some(99.0);
    };
    assert_eq!(told(other_patch, &TYPES, &[], true), "");
    // Side events and an approval are no part of what is shared.
    let more = [
        EventType::RunStarted,
        EventType::ApprovalRequested,
        EventType::SandboxDenied,
        EventType::BackendStarted,
        EventType::BaselineCompared,
        EventType::RunCompleted,
    ];
    assert_eq!(told(|_| (), &more, &[], true), "");
}

#[test]
fn each_respect_in_which_two_runs_differ_is_told_and_only_that() {
    insta::assert_snapshot!(
        told(|_| (), &[EventType::RunStarted, EventType::RunCompleted], &[], true),
        @"event_order: event 2 is `backend.started` in fake and `run.completed` in the lane"
    );
    insta::assert_snapshot!(
        told(|r| r.change.allowed_writes_passed = Some(false), &TYPES, &[], true),
        @"allowed_writes: allowed writes: passed in fake, did not pass in the lane"
    );
    insta::assert_snapshot!(
        told(|r| r.change.allowed_writes_passed = None, &TYPES, &[], true),
        @"allowed_writes: allowed writes: passed in fake, nobody looked in the lane"
    );
    insta::assert_snapshot!(
        told(|r| r.checks.verification.commands[0].level = ClaimLevel::Inferred, &TYPES, &[], true),
        @"verification: `make test` passed (self_reported) in fake, `make test` passed (inferred) in the lane"
    );
    insta::assert_snapshot!(
        told(|r| r.checks.verification.commands.clear(), &TYPES, &[], true),
        @"verification: 1 checks ran in fake and 0 in the lane"
    );
    let blocked = |r: &mut Report| {
        let blocker = Blocker::new(BlockerCode::NoDiff, "", "nothing");
        r.verdict.blockers.push(blocker);
    };
    insta::assert_snapshot!(
        told(blocked, &TYPES, &[], true),
        @"blockers: blockers only in fake: none; only in the lane: no_diff"
    );
    insta::assert_snapshot!(
        told(|_| (), &TYPES, &["test.log"], true),
        @"artifact_digests: required files only in fake: test.log; only in the lane: none"
    );
    insta::assert_snapshot!(
        told(|_| (), &TYPES, &[], false),
        @"freshness: freshness: every file is of its own run in fake, not every file is of its own run in the lane"
    );
}

#[test]
fn every_report_has_the_fields_that_make_its_shape() {
    for lane in [Lane::Fake, Lane::Case] {
        assert_eq!(fields(&a_report(lane)).len(), ALWAYS.len(), "{lane}");
    }
}
