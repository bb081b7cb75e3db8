//! Looking up on demand: it ends, asks nothing twice, and comes to what somebody who knew everything would decide.

use proptest::prelude::*;

use super::*;

/// A lane, a stage, and one twist or none for each gate.
fn worlds() -> impl Strategy<Value = Facts> {
    let lane = prop::sample::select(vec![Lane::Fake, Lane::Command, Lane::Command, Lane::Pi]);
    let faults: Vec<(Gate, Twist)> = TWISTS
        .iter()
        .copied()
        .filter(|(_, twist)| twist.is_fault())
        .collect();
    let few = prop::sample::subsequence(faults, 0..4);
    (lane, 1_u8..=6, any::<bool>(), few).prop_map(|(lane, number, by_trial, twists)| {
        let mut facts = good(lane, number);
        facts.asked.confinement_by_trial = by_trial;
        for (_, twist) in twists {
            twist.apply(&mut facts);
        }
        facts
    })
}

/// What a probe finds in a world.
fn look_up(world: &LookedUp, probe: Probe) -> Answer {
    fn of<T: Clone>(seen: &Option<Seen<T>>) -> T {
        seen.as_ref().unwrap().value.clone()
    }
    match probe {
        Probe::EvidenceInterface => Answer::EvidenceInterface(of(&world.evidence_interface)),
        Probe::Ledger => Answer::Ledger(of(&world.ledger)),
        Probe::Trust => Answer::Trust(of(&world.trust)),
        Probe::Program => Answer::Program(of(&world.program)),
        Probe::Confinement => Answer::Confinement(of(&world.confinement)),
        Probe::ModelEndpoint => Answer::ModelEndpoint(of(&world.model_endpoint)),
        Probe::ModelAccess => Answer::ModelAccess(of(&world.model_access)),
        Probe::Repository => Answer::Repository(of(&world.repository)),
        Probe::StartTree => Answer::StartTree(of(&world.start_tree)),
        Probe::ModelAnswer => Answer::ModelAnswer(of(&world.model_answer)),
    }
}

/// The caller's loop, and what was asked for.
fn on_demand(world: &Facts, left_out: &[Probe]) -> (Box<Decision>, Vec<Probe>) {
    let mut facts = Facts::new(world.asked.clone());
    for probe in left_out {
        facts.leave_out(*probe);
    }
    let mut probes = Vec::new();
    loop {
        match decide(&facts, id_of) {
            Verdict::Decided(decision) => return (decision, probes),
            Verdict::Needs(probe) => {
                assert!(!probes.contains(&probe), "{probe} is asked for twice");
                probes.push(probe);
                facts.learn(look_up(&world.looked_up, probe), now());
            }
        }
    }
}

proptest! {
    #[test]
    fn looking_up_ends_and_comes_to_what_is_true(world in worlds()) {
        let (decision, probes) = on_demand(&world, &[]);
        prop_assert!(probes.len() <= Probe::ALL.len());
        let all_knowing = decided(&world);
        prop_assert_eq!(&decision.grant, &all_knowing.grant);
        // Every refusal that was found is true, and where a run is let through nothing was left open.
        for fact in &decision.record.facts {
            let true_fact = all_knowing.record.facts.iter().find(|f| f.gate == fact.gate);
            if fact.outcome != GateOutcome::Unknown {
                prop_assert_eq!(Some(fact), true_fact);
            }
        }
        prop_assert_eq!(decision.record.reasons.is_empty(), all_knowing.record.reasons.is_empty());
    }

    #[test]
    fn dear_facts_are_not_looked_up_when_something_stands_in_the_way(world in worlds()) {
        let unasked = decided(&{
            let mut blind = Facts::new(world.asked.clone());
            Probe::ALL.iter().for_each(|probe| blind.leave_out(*probe));
            blind
        });
        let (_, probes) = on_demand(&world, &[]);
        if !unasked.record.reasons.is_empty() {
            let is_dear = |probe: &Probe| world.asked.is_dear(*probe);
            prop_assert!(!probes.iter().any(is_dear), "{probes:?}");
        }
    }

    #[test]
    fn the_order_of_the_answers_does_not_matter(
        world in worlds(),
        order in Just(Probe::ALL.to_vec()).prop_shuffle(),
    ) {
        let mut facts = Facts::new(world.asked.clone());
        for probe in order {
            facts.learn(look_up(&world.looked_up, probe), now());
        }
        prop_assert_eq!(decided(&facts), decided(&world));
    }

    #[test]
    fn what_is_left_out_is_never_asked_for_and_never_passed(
        world in worlds(),
        left_out in prop::sample::subsequence(Probe::ALL.to_vec(), 1..=Probe::ALL.len()),
    ) {
        let (decision, probes) = on_demand(&world, &left_out);
        prop_assert!(probes.iter().all(|probe| !left_out.contains(probe)));
        let (freely, asked) = on_demand(&world, &[]);
        let is_needed = left_out.iter().any(|probe| asked.contains(probe));
        prop_assert!(!(is_needed && decision.grant.is_some()));
        prop_assert!(freely.grant.is_some() || decision.grant.is_none());
    }

    #[test]
    fn another_fault_never_opens_what_was_closed(world in worlds(), more in prop::sample::select(TWISTS.to_vec())) {
        let (before, _) = on_demand(&world, &[]);
        let mut worse = world.clone();
        let (gate, twist) = more;
        if twist.is_fault() && !before.record.missing_gates.contains(&gate) {
            twist.apply(&mut worse);
            let (after, _) = on_demand(&worse, &[]);
            prop_assert!(before.grant.is_some() || after.grant.is_none());
        }
    }
}
