//! Every gate alone, and any two of them: none lets a gated lane start.

use super::*;

/// Of every gated lane, at every stage that could start something.
#[test]
fn no_gated_lane_starts_where_one_gate_or_any_two_are_missing() {
    let may_start = |facts: &Facts| {
        let judged = judge(&LaneFacts::of_asked(facts), judge_one);
        judged
            .iter()
            .all(|j| j.refusal().is_none() && j.unknown().is_none())
    };
    let gated = || {
        Lane::ALL
            .iter()
            .copied()
            .filter(|lane| lane.gate().is_some())
    };
    for (lane, number) in gated().flat_map(|lane| (2..=6).map(move |n| (lane, n))) {
        let untouched = good(lane, number);
        assert!(decided(&untouched).grant.is_some(), "{lane} at {number}");
        let closes = |(gate, twist): &&(Gate, Twist)| {
            let at_this_stage = match twist {
                Twist::Fault(..) | Twist::Unseen(..) => true,
                Twist::FaultAt(_, (first, last), _) => (*first..=*last).contains(&number),
            };
            at_this_stage && is_required(*gate, lane, number)
        };
        let closing: Vec<_> = TWISTS.iter().filter(closes).collect();
        for (gate, first) in &closing {
            let mut facts = untouched.clone();
            first.apply(&mut facts);
            assert!(!may_start(&facts), "{lane} at {number} without {gate}");
            // Pairs where all is asked for; a lane differs from another only in what it asks for.
            if (lane, number) != (Lane::Case, 5) {
                continue;
            }
            for (other, second) in closing.iter().filter(|(other, _)| other != gate) {
                let mut facts = facts.clone();
                second.apply(&mut facts);
                assert!(!may_start(&facts), "without {gate} and {other}");
            }
        }
    }
}
