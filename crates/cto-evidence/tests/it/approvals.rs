//! Approvals in a log: told whole they are good; one that nobody gave is found, even when it is signed.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::eligibility::Gate;
use cto_contract::event::{Actor, Approval, ApprovalConsumed, EventKind};
use cto_contract::report::Report;
use cto_contract::words::{ApprovalStatus, Lane, MutationMode};

use crate::sample::{self, Pack, Plan, at, decision, fact};
use crate::stranger::agree;
use crate::{check, codes};

const ID: &str = "apr-1";

fn approval() -> Approval {
    Approval {
        actor: "owner".to_owned(),
        scope: "this run".to_owned(),
        mutation_mode: MutationMode::CopiedFixture,
        timestamp: at(0),
        expiry: None,
        note: None,
        request_id: None,
        grant: None,
        denial: None,
    }
}

fn requested() -> EventKind {
    EventKind::ApprovalRequested(approval())
}

fn granted() -> EventKind {
    EventKind::ApprovalGranted(approval())
}

fn consumed() -> EventKind {
    EventKind::ApprovalConsumed(ApprovalConsumed {
        approval_id: ID.to_owned(),
        actor: "owner".to_owned(),
        scope: "this run".to_owned(),
        mutation_mode: MutationMode::CopiedFixture,
        timestamp: at(0),
        expiry: None,
        ledger_seq: 1,
    })
}

/// Whoever lies about an approval says too that no event is missing.
fn says_all_is_there(report: &mut Report) {
    report.checks.required_events_passed = Some(true);
    report.checks.missing_events.clear();
}

fn says_granted(report: &mut Report) {
    says_all_is_there(report);
    report.authority.approval_status = ApprovalStatus::Granted;
    report.authority.approval_id = Some(ID.to_owned());
}

fn says_requested(report: &mut Report) {
    says_all_is_there(report);
    report.authority.approval_status = ApprovalStatus::Requested;
    report.authority.approval_id = None;
}

/// The decision says that an approval is needed.
fn needing(mut plan: Plan) -> Plan {
    for (_, kind) in &mut plan.events {
        if let EventKind::EligibilityDecided(data) = kind {
            let facts = [Gate::AllowedPaths, Gate::Approval].map(|gate| fact(gate, None));
            data.decision = decision(facts.into());
        }
    }
    plan
}

/// A run that was blocked because it has no approval.
fn lacking() -> Plan {
    let blockers = vec![Blocker::new(
        BlockerCode::ApprovalMissing,
        "approval",
        "it is required",
    )];
    let mut plan = sample::blocked();
    for (_, kind) in &mut plan.events {
        if let EventKind::EligibilityDecided(data) = kind {
            let refusal = blockers.first().cloned();
            data.decision = decision(vec![fact(Gate::Approval, refusal)]);
        } else if let EventKind::BackendGateBlocked(data) = kind {
            data.blockers = blockers.clone();
        } else if let EventKind::RunCompleted(data) = kind {
            data.failure_reason = Some(blockers[0].failure_reason(Lane::Fake));
            data.blockers = blockers.clone();
        }
    }
    plan
}

/// Puts events where approvals stand: before the backend, or before its gate.
fn sealed(mut plan: Plan, approvals: &[EventKind], edit: fn(&mut Report)) -> Pack {
    let is_next = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::BackendStarted(_) | EventKind::BackendGateBlocked(_)
        )
    };
    let place = plan.events.iter().position(|(_, k)| is_next(k)).unwrap();
    let lines = approvals.iter().map(|kind| (Actor::Harness, kind.clone()));
    plan.events.splice(place..place, lines);
    plan.edit = edit;
    plan.seal()
}

#[test]
fn an_approval_that_is_told_whole_and_a_run_that_waits_for_one_are_good() {
    let whole = [requested(), granted(), consumed()];
    let packs = [
        sealed(needing(sample::pass()), &whole, |_| {}),
        sealed(lacking(), &[], |_| {}),
        sealed(lacking(), &[requested()], |_| {}),
    ];
    let packs = packs.map(|pack| (String::from("good"), pack));
    agree(&packs, true);
}

#[test]
fn an_approval_that_nobody_gave_is_found_also_by_a_stranger() {
    let whole = [requested(), granted(), consumed()];
    let turned = [consumed(), granted(), requested()];
    let pass = || needing(sample::pass());
    let cases: [(&str, Pack, &[&str]); 9] = [
        (
            "nobody asked for it",
            sealed(sample::pass(), &whole, says_granted),
            &["event_order", "report_mismatch"],
        ),
        (
            "it is only claimed",
            sealed(sample::pass(), &[], says_granted),
            &["report_mismatch"],
        ),
        (
            "it was needed and is not there",
            sealed(pass(), &[], says_requested),
            &["event_order", "report_mismatch"],
        ),
        (
            "it was needed and is only claimed",
            sealed(pass(), &[], says_granted),
            &["event_order", "report_mismatch"],
        ),
        (
            "it was not consumed",
            sealed(pass(), &whole[..2], says_granted),
            &["event_order", "report_mismatch"],
        ),
        (
            "it was not asked for first",
            sealed(pass(), &whole[1..], says_granted),
            &["event_order", "report_mismatch"],
        ),
        (
            "out of order",
            sealed(pass(), &turned, says_granted),
            &["event_order", "report_mismatch"],
        ),
        (
            "granted to a run that had none",
            sealed(lacking(), &whole, says_granted),
            &["event_order", "report_mismatch"],
        ),
        (
            "the report hides it",
            sealed(pass(), &whole, says_requested),
            &["report_mismatch"],
        ),
    ];
    let packs = cases.map(|(name, pack, expected)| {
        assert_eq!(codes(&check(&pack)), expected, "{name}");
        (name.to_owned(), pack)
    });
    agree(&packs, false);
}
