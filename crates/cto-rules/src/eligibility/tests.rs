//! The whole truth table: every gate, every fault of its fact, looked up or not.

mod closed;
mod decisions;
mod dirty_sources;
mod dummy_gate;
mod properties;
mod twists;

use cto_contract::blocker::BlockerCode;
use cto_contract::config::GateConfig;
use cto_contract::time::Utc;
use cto_contract::words::{DirtySource, NetworkClass, RiskClass, SandboxClass};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::admission::tests as records;
use crate::standing::{FileState, LedgerFacts, Witness};
use twists::{TWISTS, Twist, twists_of};

pub(crate) fn at(text: &str) -> Utc {
    text.parse().unwrap()
}

fn now() -> Utc {
    at("2026-06-01T10:52:22Z")
}

fn stage(number: u8) -> Stage {
    Stage::try_from(number).unwrap()
}

/// No digest, but as good as one here: other facts, another id.
pub(crate) fn id_of(basis: &DecisionBasis<'_>) -> DecisionId {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(basis).unwrap().hash(&mut hasher);
    format!("ed-{:016x}", hasher.finish()).parse().unwrap()
}

pub(crate) fn contract(mode: MutationMode) -> TaskContract {
    let actions: Vec<&str> = Action::ALL.iter().map(|a| a.as_str()).collect();
    serde_json::from_value(json!({
        "schema": "cto.contract/v1",
        "task_id": "t",
        "title": "t",
        "instruction": "Do it.",
        "allowed_paths": ["src/"],
        "forbidden_actions": actions,
        "mutation_mode": mode,
        "network": NetworkClass::Model,
    }))
    .unwrap()
}

/// Facts that nothing speaks against, all of them looked up.
pub(crate) fn good(lane: Lane, number: u8) -> Facts {
    let settings = LaneSettings {
        gate: Some("1".to_owned()),
        stage: Some(number.to_string()),
        config: GateConfig::default(),
        is_built_in: true,
        is_disabled: false,
        model: records::request(),
        target: None,
    };
    let mut facts = Facts::new(Asked {
        contract: contract(stage(number).mode()),
        contract_digest: "ab".repeat(32).parse().unwrap(),
        lane,
        stage: Some(stage(number)),
        work: if lane == Lane::Fake {
            Work::Case
        } else {
            Work::Repository
        },
        lanes: [(lane, settings)].into(),
        records: records::good(lane),
        target_path: Some(records::TARGET.to_owned()),
        approval: ApprovalState::Granted,
        unmeterable: Vec::new(),
        auth_bridge: None,
        asks_model: true,
        confinement_by_trial: false,
        at: now(),
    });
    for answer in good_answers() {
        facts.learn(answer, now());
    }
    facts
}

/// A ledger with an operator, as its last checkpoint saw it.
fn sound_ledger() -> LedgerFacts {
    let digest = |n: u8| Digest::from_bytes(&[n; 32]);
    LedgerFacts {
        ledger: digest(1),
        length: 9,
        decisions: 2,
        witnesses: vec![Witness {
            place: "checkpoints/9".to_owned(),
            ledger: digest(1),
            length: 9,
            head: digest(9),
            entry: Some(digest(9)),
        }],
        unreadable: Vec::new(),
    }
}

fn good_answers() -> [Answer; 10] {
    [
        Answer::EvidenceInterface(Ok(())),
        Answer::Ledger(Ok(sound_ledger())),
        Answer::Trust(Ok(vec![(
            "operators.allowed_signers".to_owned(),
            FileState::Same,
        )])),
        Answer::Program(Some(records::program())),
        Answer::Confinement(Ok(Confinement {
            class: SandboxClass::Full,
            has_endpoint: true,
        })),
        Answer::ModelEndpoint(EndpointState::Named),
        Answer::ModelAccess(AccessState::Open),
        Answer::Repository(RepositoryState::Usable),
        Answer::StartTree(StartTree::default()),
        Answer::ModelAnswer(AnswerState::Answered {
            model: "m".to_owned(),
            by: Some("m".to_owned()),
        }),
    ]
}

fn settings(facts: &mut Facts) -> &mut LaneSettings {
    let lane = facts.asked.lane;
    facts.asked.lanes.get_mut(&lane).unwrap()
}

pub(crate) fn decided(facts: &Facts) -> Box<Decision> {
    match decide(facts, id_of) {
        Verdict::Decided(decision) => decision,
        Verdict::Needs(probe) => panic!("{probe} is still needed"),
    }
}

/// Whether a gate is required of a lane at a stage, said without the rules.
fn is_required(gate: Gate, lane: Lane, number: u8) -> bool {
    let is_fake = lane == Lane::Fake;
    match gate {
        Gate::LaneGate
        | Gate::StageGate
        | Gate::Repository
        | Gate::StartTreeClean
        | Gate::ModelAdmission
        | Gate::ModelEndpoint
        | Gate::ModelAccess
        | Gate::ModelAnswer => !is_fake,
        Gate::ProviderDecision => match lane {
            Lane::Fake => false,
            Lane::Case => true,
            Lane::Command | Lane::Codex | Lane::Pi | Lane::Claude | Lane::Acp => number >= 4,
        },
        Gate::SourceAdmission | Gate::BinaryAdmission => match lane {
            Lane::Fake => false,
            Lane::Command => number >= 4,
            Lane::Case | Lane::Codex | Lane::Pi | Lane::Claude | Lane::Acp => number >= 3,
        },
        Gate::MutationMode => is_fake || number > 1,
        Gate::TargetAdmission
        | Gate::TargetOwnership
        | Gate::TargetRisk
        | Gate::TargetPaths
        | Gate::TargetActions
        | Gate::TargetApproval
        | Gate::TargetOutcome
        | Gate::TargetScope => number >= 5,
        Gate::LaneAvailable
        | Gate::AllowedPaths
        | Gate::ForbiddenActions
        | Gate::RiskClass
        | Gate::Approval
        | Gate::EvidenceInterface
        | Gate::Ledger
        | Gate::Trust
        | Gate::Confinement
        | Gate::Budget => true,
    }
}

/// How a gate must come out.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    /// Passed, or not required.
    Fine,
    Missing(BlockerCode),
    Unknown(Probe),
}

/// What follows for each gate from the twists that were applied, said without the rules.
fn expected(lane: Lane, number: u8, twist_of: impl Fn(Gate) -> Option<Twist>) -> Vec<Expected> {
    use Expected::{Fine, Missing, Unknown};
    let one = |gate: Gate| {
        match (gate, twist_of(gate)) {
            // Stage 1 never opens.
            (Gate::StageGate, _) if lane != Lane::Fake && number == 1 => {
                Missing(BlockerCode::StageGateMissing)
            }
            _ if !is_required(gate, lane, number) => Fine,
            (Gate::Budget, _) if lane == Lane::Fake => Fine,
            // Nothing exceeds where nothing is allowed, or nothing wanted.
            (Gate::TargetScope, Some(_))
                if twist_of(Gate::TargetPaths).is_some()
                    || twist_of(Gate::AllowedPaths).is_some() =>
            {
                Fine
            }
            // Where there is no record of a target, only that is said.
            (of, _) if is_target(of) && has_no_target(&twist_of) => Fine,
            (_, Some(Twist::Fault(code, _))) => Missing(code),
            (_, Some(Twist::FaultAt(code, (first, last), _))) => {
                if (first..=last).contains(&number) {
                    Missing(code)
                } else {
                    Fine
                }
            }
            (_, Some(Twist::Unseen(probe, _))) => Unknown(probe),
            // A decision is about an admitted pair.
            (Gate::ProviderDecision, None) => match twist_of(Gate::ModelAdmission) {
                Some(Twist::Fault(..) | Twist::FaultAt(..)) => {
                    Missing(BlockerCode::ProviderDecisionMissing)
                }
                Some(Twist::Unseen(..)) | None => Fine,
            },
            // A named endpoint is of use only in a network of one's own.
            (Gate::ModelEndpoint, None) => match twist_of(Gate::Confinement) {
                Some(Twist::Fault(code, _) | Twist::FaultAt(code, ..)) => Missing(code),
                Some(Twist::Unseen(probe, _)) => Unknown(probe),
                None => Fine,
            },
            (_, None) => Fine,
        }
    };
    Gate::ALL.iter().copied().map(one).collect()
}

/// What a record of a target says, besides that it admits.
fn is_target(gate: Gate) -> bool {
    matches!(
        gate,
        Gate::TargetOwnership
            | Gate::TargetRisk
            | Gate::TargetPaths
            | Gate::TargetActions
            | Gate::TargetApproval
            | Gate::TargetOutcome
            | Gate::TargetScope
    )
}

fn has_no_target(twist_of: &impl Fn(Gate) -> Option<Twist>) -> bool {
    match twist_of(Gate::TargetAdmission) {
        Some(Twist::Fault(code, _) | Twist::FaultAt(code, ..)) => matches!(
            code,
            BlockerCode::TargetAdmissionMissing | BlockerCode::TargetAdmissionInvalid
        ),
        Some(Twist::Unseen(..)) | None => false,
    }
}

fn seen(judged: &[Judged]) -> Vec<Expected> {
    let one = |j: &Judged| match (j.refusal(), j.unknown()) {
        (Some(blocker), _) => Expected::Missing(blocker.code),
        (None, Some(probe)) => Expected::Unknown(probe),
        (None, None) => Expected::Fine,
    };
    judged.iter().map(one).collect()
}

#[test]
fn every_gate_has_a_fault_and_every_probe_a_gap() {
    for gate in Gate::ALL {
        let faults = twists_of(*gate).filter(|t| t.is_fault());
        assert!(faults.count() > 0, "{gate} has no fault in the truth table");
    }
    for probe in Probe::ALL {
        let gaps = TWISTS.iter();
        let mut gaps = gaps.filter(|(_, t)| matches!(t, Twist::Unseen(p, _) if p == probe));
        assert!(gaps.next().is_some(), "{probe} is never left out");
    }
    let answered = good_answers().len();
    assert_eq!(answered, Probe::ALL.len(), "every probe has an answer");
}

#[test]
fn any_twist_is_judged_gate_by_gate_for_every_lane_at_every_stage() {
    for lane in Lane::ALL {
        for number in 1..=6 {
            let untouched = good(*lane, number);
            check_set(*lane, number, &untouched, &[]);
            for twist in TWISTS {
                check_set(*lane, number, &untouched, &[*twist]);
            }
        }
    }
}

/// Where no gate is required, where most are, and where all are.
#[test]
fn any_two_twists_are_judged_gate_by_gate() {
    for (lane, number) in [(Lane::Fake, 2), (Lane::Codex, 3), (Lane::Case, 4)] {
        let untouched = good(lane, number);
        for (i, first) in TWISTS.iter().enumerate() {
            for second in TWISTS[i..].iter().filter(|s| s.0 != first.0) {
                check_set(lane, number, &untouched, &[*first, *second]);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_set_of_twists_is_judged_gate_by_gate(
        lane in prop::sample::select(Lane::ALL.to_vec()),
        number in 1_u8..=6,
        chosen in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), Gate::ALL.len()),
    ) {
        let set = Gate::ALL.iter().zip(chosen).filter_map(|(gate, index)| {
            let of_gate: Vec<Twist> = twists_of(*gate).copied().collect();
            Some((*gate, *index?.get(&of_gate)))
        });
        check_set(lane, number, &good(lane, number), &set.collect::<Vec<_>>());
    }
}

/// At most one twist for each gate.
fn check_set(lane: Lane, number: u8, untouched: &Facts, set: &[(Gate, Twist)]) {
    let mut facts = untouched.clone();
    for (_, twist) in set {
        twist.apply(&mut facts);
    }
    let judged = judge(&LaneFacts::of_asked(&facts), judge_one);
    let expected = expected(lane, number, |gate| {
        let mut of_gate = set.iter().filter(|(of, _)| *of == gate);
        of_gate.next().map(|(_, twist)| *twist)
    });
    assert_eq!(seen(&judged), expected, "{lane} at stage {number}: {set:?}");
    check_next(&facts, &judged, &expected);
}

/// Cheap facts are asked for always, dear ones when nothing stands in the way.
fn check_next(facts: &Facts, judged: &[Judged], expected: &[Expected]) {
    let is_refused = expected.iter().any(|e| matches!(e, Expected::Missing(_)));
    let is_dear = |p: &Probe| {
        matches!(
            p,
            Probe::ModelAccess | Probe::Repository | Probe::StartTree | Probe::ModelAnswer
        )
    };
    let unknown = expected.iter().filter_map(|e| match e {
        Expected::Unknown(probe) => Some(*probe),
        Expected::Fine | Expected::Missing(_) => None,
    });
    let wanted = unknown.filter(|p| !is_refused || !is_dear(p)).min();
    assert_eq!(next_probe(facts, judged), wanted);
}
