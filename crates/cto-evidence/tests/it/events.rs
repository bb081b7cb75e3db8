//! Events that are missing or omitted: a report names them, and one that does not is found.

use cto_contract::blocker::BlockerCode;
use cto_contract::event::{Actor, EventKind, EventType};
use cto_contract::report::Report;
use cto_contract::words::RunStatus;
use cto_evidence::canonical::digest_of;
use cto_evidence::chain::read_log;
use cto_rules::lifecycle::{conclude, replay};

use crate::sample::{self, Pack, Plan};
use crate::stranger::agree;
use crate::{check, codes};

/// Gives a run the verdict of the rules.
fn concluded(mut plan: Plan) -> Plan {
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
