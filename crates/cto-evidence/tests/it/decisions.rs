//! Eligibility Decisions that contradict themselves: found, also by a stranger, even when they are signed.

use cto_contract::eligibility::{EligibilityDecision, Gate, GateOutcome, SelectedBackend};
use cto_contract::event::EventKind;
use cto_contract::words::{Lane, MutationMode, Stage};
use cto_evidence::canonical::decision_id;

use crate::sample::{self, Pack, Plan, at};
use crate::stranger::agree;
use crate::{check, codes};

/// Seals a pack with another decision in its log and its file.
fn sealed(mut plan: Plan, edit: impl Fn(&mut EligibilityDecision)) -> Pack {
    for (_, kind) in &mut plan.events {
        if let EventKind::EligibilityDecided(data) = kind {
            edit(&mut data.decision);
        }
    }
    plan.seal()
}

#[test]
fn the_same_facts_at_another_time_have_the_same_id() {
    let pack = sealed(sample::pass(), |decision| {
        for fact in &mut decision.facts {
            fact.checked_at = Some(at(7));
        }
    });
    agree(&[("later".to_owned(), pack)], true);
}

/// What is wrong with a decision.
type Lie = fn(&mut EligibilityDecision);

#[test]
fn a_decision_that_does_not_follow_from_its_facts_is_found() {
    let blocked: [(&str, Lie); 6] = [
        ("selected against a reason", |d| {
            d.selected_backend = SelectedBackend(Some(Lane::Fake));
        }),
        ("a mode without a selection", |d| {
            d.allowed_mutation_mode = MutationMode::CopiedFixture;
        }),
        ("a reason is hidden", |d| d.reasons.clear()),
        ("a missing gate is hidden", |d| d.missing_gates.clear()),
        ("a refusal is hidden", |d| d.facts[0].refusal = None),
        ("a denied backend has no reason", |d| {
            d.denied_backends[0].reasons.clear();
        }),
    ];
    let passed: [(&str, Lie); 9] = [
        ("another value", |d| d.facts[0].value = Some("9".to_owned())),
        ("not looked at and passed", |d| d.facts[0].value = None),
        ("unknown and selected", |d| {
            d.facts[0].outcome = GateOutcome::Unknown;
            d.facts[0].value = None;
            d.facts[0].checked_at = None;
        }),
        ("a gate that no fact is about", |d| {
            d.passed_gates.push(Gate::Budget);
        }),
        ("twice the same gate", |d| {
            let again = d.facts[0].clone();
            d.facts.push(again);
        }),
        ("another stage", |d| d.stage = Stage::DISPOSABLE),
        ("another task", |d| d.task_id = "other".parse().unwrap()),
        ("another lane", |d| d.requested_backend = Lane::Pi),
        ("another contract", |d| {
            d.contract_digest = "ab".repeat(32).parse().unwrap();
        }),
    ];
    let blocked = blocked.map(|lie| (lie, sample::blocked as fn() -> Plan));
    let passed = passed.map(|lie| (lie, sample::pass as fn() -> Plan));
    let mut packs = Vec::new();
    for ((what, lie), plan) in blocked.into_iter().chain(passed) {
        let pack = sealed(plan(), lie);
        assert_eq!(codes(&check(&pack)), ["report_mismatch"], "{what}");
        packs.push((what.to_owned(), pack));
        // A forger who makes the id anew is found by the rest, if more than a value is wrong.
        if what != "another value" {
            let pack = sealed(plan(), |decision| {
                lie(decision);
                decision.decision_id = decision_id(&decision.basis());
            });
            packs.push((format!("{what}, with its id"), pack));
        }
    }
    agree(&packs, false);
}
