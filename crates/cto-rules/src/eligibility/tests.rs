use cto_contract::blocker::BlockerCode;
use cto_contract::ids::DecisionId;
use cto_contract::words::{Action, NetworkClass, RiskClass, SandboxClass, SourceAdmissionStatus};

use super::*;

fn observed<T>(value: T) -> Observed<T> {
    Observed {
        value,
        source: "test".to_owned(),
        checked_at: "2026-06-01T10:52:22Z".parse().unwrap(),
    }
}

fn stage(number: u8) -> Stage {
    Stage::try_from(number).unwrap()
}

/// Facts that nothing speaks against.
pub(crate) fn good(lane: Lane, number: u8) -> EligibilityFacts {
    let mode = stage(number).mode();
    EligibilityFacts {
        decision_id: "ed-0123456789abcdef".parse::<DecisionId>().unwrap(),
        task_id: "t".parse().unwrap(),
        lane,
        stage: stage(number),
        risk_class: RiskClass::Artificial,
        requested_mode: Some(mode),
        lane_gate: observed(GateState::lane(lane, Some("1"))),
        stage_gate: observed(GateState::stage(
            lane,
            Some(stage(number)),
            Some(&number.to_string()),
        )),
        lane_available: observed(Ok(())),
        source_admission: observed(SourceAdmissionStatus::Admitted),
        allowed_paths: observed(1),
        unlisted_actions: observed(Vec::new()),
        approval: observed(if mode >= MutationMode::SandboxRepo {
            ApprovalState::Granted
        } else {
            ApprovalState::NotRequired
        }),
        repository: observed(Some(RepositoryState::Usable)),
        start_tree_clean: observed(Some(true)),
        evidence_interface: observed(Ok(())),
        confinement: observed(Ok(SandboxClass::Full)),
        network: NetworkClass::Model,
        model: observed(ModelState::Ready),
        unmeterable: observed(Vec::new()),
    }
}

/// Everything that can be wrong, one fact each. The gate that then misses, and its code.
type Fault = (Gate, BlockerCode, fn(&mut EligibilityFacts));

const FAULTS: [Fault; 27] = [
    (Gate::LaneGate, BlockerCode::GateMissing, |f| {
        f.lane_gate.value = GateState::lane(f.lane, None)
    }),
    (Gate::LaneGate, BlockerCode::GateMissing, |f| {
        f.lane_gate.value = GateState::lane(f.lane, Some("true"))
    }),
    (Gate::StageGate, BlockerCode::StageGateMissing, |f| {
        f.stage_gate.value = GateState::stage(f.lane, Some(f.stage), Some("02"));
    }),
    (Gate::LaneAvailable, BlockerCode::ProviderUnavailable, |f| {
        f.lane_available.value = Err("no such program".to_owned())
    }),
    (Gate::SourceAdmission, BlockerCode::SourceNotAdmitted, |f| {
        f.source_admission.value = SourceAdmissionStatus::NotAdmitted
    }),
    (Gate::SourceAdmission, BlockerCode::SourceNotAdmitted, |f| {
        f.source_admission.value = SourceAdmissionStatus::Stale
    }),
    (Gate::AllowedPaths, BlockerCode::AllowedPathsMissing, |f| {
        f.allowed_paths.value = 0
    }),
    (
        Gate::ForbiddenActions,
        BlockerCode::ForbiddenActionsMissing,
        |f| {
            f.unlisted_actions.value = vec![Action::Push, Action::Merge];
        },
    ),
    (Gate::RiskClass, BlockerCode::CriticalRepository, |f| {
        f.risk_class = RiskClass::Production
    }),
    (Gate::RiskClass, BlockerCode::UnownedRepository, |f| {
        f.risk_class = RiskClass::Unowned
    }),
    (Gate::MutationMode, BlockerCode::StageGateMissing, |f| {
        f.requested_mode = None
    }),
    (Gate::Approval, BlockerCode::ApprovalMissing, |f| {
        f.approval.value = ApprovalState::Missing
    }),
    (Gate::Approval, BlockerCode::ApprovalDenied, |f| {
        f.approval.value = ApprovalState::Denied
    }),
    (Gate::Repository, BlockerCode::SourceNotOwned, |f| {
        f.repository.value = Some(RepositoryState::NotOwned("it belongs to user 7".to_owned()))
    }),
    (Gate::Repository, BlockerCode::RepositoryUnsupported, |f| {
        f.repository.value = Some(RepositoryState::Unsupported("submodules".to_owned()))
    }),
    (Gate::StartTreeClean, BlockerCode::DirtyStartingTree, |f| {
        f.start_tree_clean.value = Some(false)
    }),
    (
        Gate::EvidenceInterface,
        BlockerCode::ArtifactWriteFailure,
        |f| {
            f.evidence_interface.value = Err("home is not writable".to_owned());
        },
    ),
    (Gate::Confinement, BlockerCode::SandboxUnavailable, |f| {
        f.confinement.value = Err("no namespaces".to_owned())
    }),
    (
        Gate::ModelEndpoint,
        BlockerCode::LocalProviderConfigMissing,
        |f| {
            f.model.value = ModelState::NotNeeded;
        },
    ),
    (
        Gate::ModelEndpoint,
        BlockerCode::LocalProviderConfigMissing,
        |f| {
            f.model.value = ModelState::EndpointMissing {
                name: "X".to_owned(),
            };
        },
    ),
    (
        Gate::ModelEndpoint,
        BlockerCode::LocalProviderConfigMissing,
        |f| {
            f.model.value = ModelState::EndpointInvalid {
                name: "X".to_owned(),
                why: "no host".to_owned(),
            };
        },
    ),
    (
        Gate::ModelEndpoint,
        BlockerCode::ProviderAuthUnavailable,
        |f| {
            f.model.value = ModelState::KeyUnavailable("no key".to_owned());
        },
    ),
    (Gate::ModelEndpoint, BlockerCode::ProviderUnavailable, |f| {
        f.model.value = ModelState::Unusable("no address".to_owned());
    }),
    (Gate::ModelEndpoint, BlockerCode::SandboxUnavailable, |f| {
        f.model.value = ModelState::Unconfined(SandboxClass::Weak);
    }),
    (Gate::Budget, BlockerCode::BudgetUnmeterable, |f| {
        f.unmeterable.value = vec!["cost".to_owned()];
    }),
    (Gate::MutationMode, BlockerCode::StageNotProven, |f| {
        f.requested_mode = Some(MutationMode::CandidateDefault)
    }),
    (Gate::Confinement, BlockerCode::SandboxUnavailable, |f| {
        f.confinement.value = Ok(SandboxClass::Weak)
    }),
];

/// Whether a fault can matter at all for a lane and a stage, said without the rules.
fn matters(fault: &Fault, lane: Lane, number: u8) -> bool {
    match fault.0 {
        Gate::LaneGate | Gate::StageGate | Gate::ModelEndpoint => lane != Lane::Fake,
        Gate::SourceAdmission => match lane {
            Lane::Fake => false,
            Lane::Command => number >= 4,
            Lane::Case | Lane::Codex | Lane::Pi | Lane::Claude | Lane::Acp => number >= 3,
        },
        Gate::MutationMode => fault.1 == BlockerCode::StageGateMissing || number < 6,
        Gate::Confinement => number >= 3 || !std::ptr::eq(fault, &FAULTS[26]),
        Gate::LaneAvailable
        | Gate::AllowedPaths
        | Gate::ForbiddenActions
        | Gate::RiskClass
        | Gate::Approval
        | Gate::Repository
        | Gate::StartTreeClean
        | Gate::EvidenceInterface
        | Gate::Budget => true,
    }
}

fn check_shape(facts: &EligibilityFacts, decision: &Decision) {
    let r = &decision.record;
    assert_eq!(decision.grant.is_some(), r.reasons.is_empty());
    assert_eq!(
        decision.grant.is_some(),
        r.selected_backend != Selected::None
    );
    assert_eq!(r.missing_gates.len(), r.reasons.len());
    let mut union = [r.passed_gates.clone(), r.missing_gates.clone()].concat();
    union.sort();
    assert_eq!(
        union, r.required_gates,
        "passed and missing must make up required, each once"
    );
    assert_eq!(r.facts.len(), Gate::ALL.len());
    assert_eq!(
        r.denied_backends.len(),
        Lane::ALL.len() - usize::from(decision.grant.is_some())
    );
    if let Some(grant) = &decision.grant {
        assert_eq!(
            (grant.lane(), grant.stage(), Some(grant.mode())),
            (facts.lane, facts.stage, facts.requested_mode)
        );
    } else {
        assert_eq!(r.allowed_mutation_mode, MutationMode::None);
    }
}

#[test]
fn good_facts_select_every_lane_at_every_stage() {
    for lane in Lane::ALL {
        for number in 1..=6 {
            let facts = good(*lane, number);
            let decision = decide(&facts);
            check_shape(&facts, &decision);
            assert!(
                decision.grant.is_some(),
                "{lane} {number}: {:?}",
                decision.record.reasons
            );
        }
    }
}

#[test]
fn any_set_of_faults_is_refused_with_each_of_them_named() {
    // On all cores: with this many gates it is the longest table of all.
    std::thread::scope(|scope| {
        for lane in [Lane::Fake, Lane::Case] {
            for number in [2, 4] {
                scope.spawn(move || walk_all_sets(lane, number));
            }
        }
    });
}

/// One bit a gate, so that two faults of one fact do not hide each other.
fn walk_all_sets(lane: Lane, number: u8) {
    // The last two share their fact with an earlier one and are walked below.
    let faults = &FAULTS[..25];
    for set in 0_u32..1 << Gate::ALL.len() {
        let mut facts = good(lane, number);
        let mut expected = Vec::new();
        for (bit, gate) in Gate::ALL
            .iter()
            .enumerate()
            .filter(|(bit, _)| set >> bit & 1 == 1)
        {
            let of_gate: Vec<&Fault> = faults.iter().filter(|f| f.0 == *gate).collect();
            let fault = of_gate[(set as usize + bit) % of_gate.len()];
            fault.2(&mut facts);
            if matters(fault, lane, number) {
                expected.push(fault.1);
            }
        }
        let decision = decide(&facts);
        check_shape(&facts, &decision);
        let codes: Vec<BlockerCode> = decision.record.reasons.iter().map(|b| b.code).collect();
        assert_eq!(codes, expected, "{lane} at stage {number}, set {set:b}");
    }
}

#[test]
fn a_worse_fact_never_turns_a_refusal_into_a_selection() {
    for lane in Lane::ALL {
        for number in 1..=6 {
            for first in &FAULTS {
                let mut facts = good(*lane, number);
                first.2(&mut facts);
                let before = decide(&facts);
                check_shape(&facts, &before);
                assert_eq!(
                    before.grant.is_none(),
                    matters(first, *lane, number),
                    "{} {lane} {number}",
                    first.1
                );
                for second in FAULTS.iter().filter(|s| s.0 != first.0) {
                    let mut worse = facts.clone();
                    second.2(&mut worse);
                    let after = decide(&worse);
                    assert!(
                        before.grant.is_some() || after.grant.is_none(),
                        "{} then {}",
                        first.1,
                        second.1
                    );
                }
            }
        }
    }
}

#[test]
fn no_caller_can_waive_a_gate() {
    let mut facts = good(Lane::Codex, 2);
    facts.lane_gate.value = GateState::NotNeeded;
    facts.stage_gate.value = GateState::NotNeeded;
    assert_eq!(
        decide(&facts).record.missing_gates,
        [Gate::LaneGate, Gate::StageGate]
    );
    let mut facts = good(Lane::Fake, 4);
    facts.approval.value = ApprovalState::NotRequired;
    assert_eq!(decide(&facts).record.missing_gates, [Gate::Approval]);
    assert!(decide(&facts).record.approval_required);
}

#[test]
fn less_confinement_never_reaches_a_later_stage() {
    let reach = |class: SandboxClass| {
        (1..=6)
            .filter(|number| {
                let mut facts = good(Lane::Fake, *number);
                facts.confinement.value = Ok(class);
                decide(&facts).grant.is_some()
            })
            .count()
    };
    let reached: Vec<usize> = SandboxClass::ALL.iter().map(|c| reach(*c)).collect();
    assert_eq!(reached, [2, 2, 2, 3, 6]);
}

#[test]
fn only_the_exact_value_opens_a_gate() {
    let name = || "CTO_HARNESS_ALLOW_CASE".to_owned();
    assert_eq!(GateState::lane(Lane::Fake, None), GateState::NotNeeded);
    assert_eq!(GateState::lane(Lane::Case, Some("1")), GateState::Open);
    assert_eq!(
        GateState::lane(Lane::Case, None),
        GateState::Absent { name: name() }
    );
    for value in ["", "0", "01", "1 ", " 1", "true", "yes", "１", "1\n"] {
        let GateState::Wrong { .. } = GateState::lane(Lane::Case, Some(value)) else {
            panic!("{value:?} opens the lane")
        };
        let GateState::Wrong { .. } = GateState::stage(Lane::Case, Some(stage(2)), Some(value))
        else {
            panic!("{value:?} opens")
        };
    }
    let state = |asked: Option<u8>, value| GateState::stage(Lane::Case, asked.map(stage), value);
    assert_eq!(state(Some(3), Some("3")), GateState::Open);
    assert_eq!(state(None, Some("3")), GateState::Open);
    assert!(matches!(state(Some(2), Some("3")), GateState::Wrong { .. }));
    assert!(matches!(state(None, Some("7")), GateState::Wrong { .. }));
    assert!(matches!(state(None, None), GateState::Absent { .. }));
    assert_eq!(state(Some(1), None), GateState::NotNeeded);
    assert!(matches!(state(Some(1), Some("2")), GateState::Wrong { .. }));
    let long = "x\u{1b}".repeat(100);
    let GateState::Wrong { shown, .. } = GateState::lane(Lane::Case, Some(&long)) else {
        panic!("opens")
    };
    assert!(shown.chars().count() <= 41 && !shown.contains('\u{1b}'));
}

#[test]
fn a_message_begins_with_the_gates_name() {
    let mut facts = good(Lane::Case, 3);
    for fault in FAULTS
        .iter()
        .filter(|f| f.1 != BlockerCode::CriticalRepository)
        .take(25)
    {
        fault.2(&mut facts);
    }
    let decision = decide(&facts);
    let lines: Vec<String> = decision
        .record
        .reasons
        .iter()
        .map(|b| {
            format!(
                "{}: {} [{}]",
                b.code,
                b.message,
                b.failure_reason(Lane::Case)
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    gate_missing: `CTO_HARNESS_ALLOW_CASE` is set to "true", which counts as absent: only `1` opens it [gate missing: CTO_HARNESS_ALLOW_CASE]
    stage_gate_missing: `CTO_HARNESS_CASE_STAGE` is set to "02", which counts as absent: only `3` opens it [gate missing: CTO_HARNESS_CASE_STAGE]
    provider_unavailable: `lane_available`: no such program [provider unavailable]
    source_not_admitted: `source_admission` of lane case is stale; stage 3 needs it admitted [gate missing: source_admission]
    allowed_paths_missing: `allowed_paths` is empty: the contract allows no path to change [gate missing: allowed_paths]
    forbidden_actions_missing: `forbidden_actions` does not list push, merge, and nothing permits it [gate missing: forbidden_actions]
    unowned_repository: `risk_class` unowned is refused wherever it is named [gate missing: ownership_evidence]
    stage_not_proven: `mutation_mode` candidate-default is beyond stage 3, which goes no further than copied-fixture [gate missing: mutation_mode]
    approval_denied: `approval` was denied [approval denied]
    repository_unsupported: `repository`: submodules [gate missing: repository]
    dirty_starting_tree: `start_tree_clean`: the source has uncommitted changes in paths that may change [dirty starting tree]
    artifact_write_failure: `evidence_interface`: home is not writable [artifact write failure]
    sandbox_unavailable: `confinement`: no namespaces [gate missing: confinement]
    sandbox_unavailable: `model_endpoint` needs an endpoint in a network of the agent's own, which native, bwrap and podman make; confinement is weak [gate missing: model_endpoint]
    budget_unmeterable: `budget`: lane case can't measure cost [gate missing: budget]
    "#);
    assert_eq!(decision.record.escalation_path, EscalationPath::Blocked);
    let facts = &decision.record.facts;
    assert_eq!(
        (facts[0].gate, facts[0].source.as_str()),
        (Gate::LaneGate, "test")
    );
    insta::assert_snapshot!(facts[0].value, @r#"CTO_HARNESS_ALLOW_CASE is set to "true", which counts as absent"#);
}
