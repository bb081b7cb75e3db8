//! A gate of its own, through the same functions: what a new one has to say, and what follows by itself.
//!
//! It takes the place of the budget's, because the words of gates are closed; nothing else of the decision knows it.

use super::super::facts::Probe;
use super::super::judgement::{Finding, Judgement, LaneFacts, judge_one, refused};
use super::super::{Decision, decide_by};
use super::*;

/// Passes where the home is in order, which must be looked up.
fn weather(facts: &LaneFacts<'_>) -> Finding {
    let seen = facts.looked_up.evidence_interface.as_ref();
    Finding::looked(
        Probe::EvidenceInterface,
        "the window",
        seen,
        |found| match found {
            Ok(()) => ("fair".to_owned(), Judgement::Passed),
            Err(why) => {
                let message = match why {
                    NoEvidence::Unwritable(why) => why.clone(),
                    NoEvidence::ClockBeforeKey { .. } => "night".to_owned(),
                };
                let refusal = refused(Gate::Budget, BlockerCode::GateMissing, message);
                ("foul".to_owned(), refusal)
            }
        },
    )
}

fn with_weather(gate: Gate, facts: &LaneFacts<'_>) -> Finding {
    if gate == Gate::Budget {
        weather(facts)
    } else {
        judge_one(gate, facts)
    }
}

fn decided(facts: &Facts) -> Decision {
    match decide_by(with_weather, facts, id_of) {
        Verdict::Decided(decision) => *decision,
        Verdict::Needs(probe) => panic!("{probe:?} is needed"),
    }
}

#[test]
fn a_gate_that_passes_stands_in_the_record_and_lets_through() {
    let decision = decided(&good(Lane::Command, 3));
    assert!(decision.grant.is_some());
    assert!(decision.record.passed_gates.contains(&Gate::Budget));
    let fact = decision
        .record
        .facts
        .iter()
        .find(|f| f.gate == Gate::Budget);
    let shown = fact.map(|f| (f.value.as_deref(), f.source.as_str()));
    assert_eq!(shown, Some((Some("fair"), "the window")));
}

#[test]
fn a_gate_that_refuses_gives_no_grant_and_its_reason() {
    let mut facts = good(Lane::Command, 3);
    let rain = NoEvidence::Unwritable("rain".to_owned());
    facts.learn(Answer::EvidenceInterface(Err(rain)), now());
    let decision = decided(&facts);
    assert_eq!(decision.grant, None);
    assert!(decision.record.missing_gates.contains(&Gate::Budget));
    let reasons = decision.record.reasons.iter();
    assert!(
        reasons
            .clone()
            .any(|b| b.message == "rain" && b.subject == "budget")
    );
}

#[test]
fn a_gate_that_is_not_looked_up_asks_for_its_probe() {
    let mut facts = good(Lane::Command, 3);
    facts.looked_up.evidence_interface = None;
    let verdict = decide_by(with_weather, &facts, id_of);
    assert_eq!(verdict, Verdict::Needs(Probe::EvidenceInterface));
}
