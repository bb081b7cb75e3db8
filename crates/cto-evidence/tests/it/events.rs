//! Events that are missing or omitted: a report names them, and one that does not is found.

use cto_contract::blocker::BlockerCode;
use cto_contract::event::{Actor, EventKind, EventType};
use cto_contract::report::Report;
use cto_contract::words::RunStatus;
use cto_evidence::canonical::{decision_id, digest_of};
use cto_evidence::chain::read_log;
use cto_rules::lifecycle::{conclude, replay};

use crate::sample::{self, Pack, Plan};
use crate::stranger::agree;
use crate::{check, codes};

/// Gives a run the verdict of the rules.
pub(crate) fn concluded(mut plan: Plan) -> Plan {
    plan.events
        .retain(|(_, k)| !matches!(k, EventKind::RunCompleted(_)));
    let verdict = conclude(&replay(&read_log(&plan.log()).unwrap().events).unwrap());
    let end = EventKind::RunCompleted(verdict);
    plan.events.push((Actor::Harness, end));
    plan
}

/// A run whose contract requires this event.
fn requiring(mut plan: Plan, event: &str) -> Plan {
    plan.contract.evidence_expectations.required_events = vec![event.to_owned()];
    for (_, kind) in &mut plan.events {
        if let EventKind::TaskContractCreated(data) = kind {
            data.contract = plan.contract.clone();
            data.contract_digest = digest_of(&plan.contract).unwrap();
        }
        if let EventKind::EligibilityDecided(data) = kind {
            data.decision.contract_digest = digest_of(&plan.contract).unwrap();
            data.decision.decision_id = decision_id(&data.decision.basis());
        }
    }
    concluded(plan)
}

fn without(mut plan: Plan, event: EventType) -> Plan {
    plan.events.retain(|(_, k)| k.event_type() != event);
    concluded(plan)
}

fn sealed(mut plan: Plan, edit: fn(&mut Report)) -> Pack {
    plan.edit = edit;
    plan.seal()
}

#[test]
fn a_run_that_failed_for_want_of_an_event_names_it_as_data() {
    let packs = [
        (
            "sandbox.denied",
            requiring(sample::pass(), "sandbox.denied"),
        ),
        ("no.such", requiring(sample::pass(), "no.such")),
        (
            "verification.completed",
            without(sample::pass(), EventType::VerificationCompleted),
        ),
    ];
    let packs = packs.map(|(event, plan)| {
        let pack = plan.seal();
        let report = &pack.sealed.report;
        assert_eq!(report.verdict.status, RunStatus::Fail);
        let blocker = &report.verdict.blockers[0];
        assert_eq!(blocker.code, BlockerCode::MissingRequiredEvent);
        assert_eq!(blocker.subject, event);
        assert_eq!(report.checks.missing_events[0].event, event);
        assert_eq!(report.checks.required_events_passed, Some(false));
        assert_eq!(check(&pack).errors, [], "{event}");
        (event.to_owned(), pack)
    });
    agree(&packs, true);
    let early = requiring(sample::blocked(), "sandbox.denied").seal();
    let passed = early.sealed.report.checks.required_events_passed;
    assert_eq!(passed, None, "nobody looked for it");
    agree(&[("early".to_owned(), early)], true);
}

#[test]
fn a_report_that_hides_or_invents_a_gap_is_found_also_by_a_stranger() {
    let gap = || requiring(sample::pass(), "sandbox.denied");
    let cases: [(&str, Pack, &[&str]); 4] = [
        (
            "hidden",
            sealed(gap(), |r| r.checks.missing_events.clear()),
            &["event_order", "report_mismatch"],
        ),
        (
            "denied",
            sealed(gap(), |r| r.checks.required_events_passed = Some(true)),
            &["report_mismatch"],
        ),
        (
            "invented",
            sealed(sample::blocked(), |r| {
                let event = EventType::PlanUpdated;
                let problem = cto_contract::order::EventProblem::Missing;
                let fault = cto_contract::order::EventFault::new(event, problem);
                r.checks.missing_events.push(fault);
                r.checks.required_events_passed = Some(false);
            }),
            &["report_mismatch"],
        ),
        (
            "never looked for",
            sealed(requiring(sample::blocked(), "sandbox.denied"), |r| {
                r.checks.required_events_passed = Some(true);
            }),
            &["report_mismatch"],
        ),
    ];
    let packs = cases.map(|(name, pack, expected)| {
        assert_eq!(codes(&check(&pack)), expected, "{name}");
        (name.to_owned(), pack)
    });
    agree(&packs, false);
}

#[test]
fn a_run_that_ended_early_names_every_event_that_it_omits() {
    let named = |plan: Plan| {
        let report = plan.seal().sealed.report;
        let all = report.verdict.not_applicable.into_iter();
        let events = all.filter(|(name, _)| name.parse::<EventType>().is_ok());
        events
            .map(|(name, why)| format!("{name}: {why}"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(named(sample::pass()), "");
    insta::assert_snapshot!(named(requiring(sample::blocked(), "backend.plan")), @r"
    backend.finished: a gate blocked the run before it
    backend.plan: a gate blocked the run before it
    backend.started: a gate blocked the run before it
    git.diff.checked: a gate blocked the run before it
    patch.applied: a gate blocked the run before it
    plan.updated: a gate blocked the run before it
    verification.completed: a gate blocked the run before it
    ");
    insta::assert_snapshot!(named(sample::recovered()), @r"
    git.diff.checked: the harness died before it
    patch.applied: the harness died before it
    verification.completed: the harness died before it
    ");
}

#[test]
fn an_omission_that_is_hidden_invented_or_explained_away_is_found_also_by_a_stranger() {
    let cases: [(&str, Pack); 4] = [
        (
            "hidden",
            sealed(sample::blocked(), |r| {
                r.verdict.not_applicable.remove("plan.updated");
            }),
        ),
        (
            "invented in a pass",
            sealed(sample::pass(), |r| {
                let why = "the run ended before it".to_owned();
                r.verdict
                    .not_applicable
                    .insert("backend.plan".to_owned(), why);
            }),
        ),
        (
            "in the log and omitted",
            sealed(sample::recovered(), |r| {
                let why = "the harness died before it".to_owned();
                r.verdict
                    .not_applicable
                    .insert("plan.updated".to_owned(), why);
            }),
        ),
        (
            "another reason",
            sealed(sample::blocked(), |r| {
                let why = "everything was fine".to_owned();
                r.verdict
                    .not_applicable
                    .insert("plan.updated".to_owned(), why);
            }),
        ),
    ];
    let packs = cases.map(|(name, pack)| {
        assert_eq!(codes(&check(&pack)), ["report_mismatch"], "{name}");
        (name.to_owned(), pack)
    });
    agree(&packs, false);
}
