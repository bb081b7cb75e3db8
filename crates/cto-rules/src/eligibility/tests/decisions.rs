//! What a decision says: which lane, why not the others, which stage, and who is asked next.

use super::*;

/// What must hold of every decision.
fn check_shape(facts: &Facts, decision: &Decision) {
    let r = &decision.record;
    assert_eq!(decision.grant.is_some(), r.selected_backend.0.is_some());
    let derived = Derived::from_facts(&r.facts);
    assert_eq!(derived.is_eligible, decision.grant.is_some());
    assert_eq!(
        (&r.required_gates, &r.passed_gates, &r.missing_gates),
        (
            &derived.required_gates,
            &derived.passed_gates,
            &derived.missing_gates
        )
    );
    assert_eq!(r.reasons, derived.reasons);
    let shown: Vec<Gate> = r.facts.iter().map(|fact| fact.gate).collect();
    assert_eq!(shown, Gate::ALL);
    for fact in &r.facts {
        let is_unknown = fact.outcome == GateOutcome::Unknown;
        assert_eq!(fact.value.is_none(), is_unknown, "{}", fact.gate);
        assert_eq!(fact.checked_at.is_none(), is_unknown, "{}", fact.gate);
        let is_missing = fact.outcome == GateOutcome::Missing;
        assert_eq!(fact.refusal.is_some(), is_missing, "{}", fact.gate);
    }
    let of = |lane: &Lane| r.denied_backends.iter().find(|d| d.backend == *lane);
    for lane in Lane::ALL {
        let denied = of(lane);
        assert_eq!(
            denied.is_none(),
            r.selected_backend == SelectedBackend(Some(*lane)),
            "{lane}"
        );
        assert!(denied.is_none_or(|d| d.asked_for == (*lane == facts.asked.lane)));
    }
    if let Some(grant) = &decision.grant {
        assert_eq!(grant.lane(), facts.asked.lane);
        assert_eq!(Some(grant.stage()), facts.asked.stage);
        assert_eq!(Some(grant.mode()), facts.asked.contract.mutation_mode);
    } else {
        assert_eq!(r.allowed_mutation_mode, MutationMode::None);
        assert_eq!(of(&facts.asked.lane).unwrap().reasons, r.reasons);
    }
}

pub(super) fn codes(decision: &Decision) -> String {
    let codes = decision.record.reasons.iter().map(|b| b.code.as_str());
    codes.collect::<Vec<_>>().join(" ")
}

#[test]
fn good_facts_select_every_lane_at_every_stage_that_runs() {
    for lane in Lane::ALL {
        for number in 1..=6 {
            let facts = good(*lane, number);
            let decision = decided(&facts);
            check_shape(&facts, &decision);
            let expected = match (*lane, number) {
                (Lane::Fake, _) | (_, 2..) => "",
                _ => "stage_gate_missing",
            };
            assert_eq!(codes(&decision), expected, "{lane} {number}");
        }
    }
}

#[test]
fn a_worse_fact_never_turns_a_refusal_into_a_selection() {
    for (lane, number) in [(Lane::Fake, 2), (Lane::Command, 3)] {
        for (gate, first) in TWISTS {
            let mut facts = good(lane, number);
            first.apply(&mut facts);
            // Nobody will look, so that there is a decision.
            for probe in Probe::ALL {
                facts.leave_out(*probe);
            }
            let before = decided(&facts);
            check_shape(&facts, &before);
            for (_, second) in TWISTS.iter().filter(|(of, _)| of != gate) {
                let mut worse = facts.clone();
                second.apply(&mut worse);
                let after = decided(&worse);
                check_shape(&worse, &after);
                assert!(before.grant.is_some() || after.grant.is_none(), "{gate}");
            }
        }
    }
}

#[test]
fn no_caller_can_waive_a_gate() {
    let mut facts = good(Lane::Command, 2);
    facts.asked.lanes.clear();
    assert_eq!(
        codes(&decided(&facts)),
        "gate_missing stage_gate_missing provider_unavailable"
    );
    let mut facts = good(Lane::Fake, 4);
    facts.asked.approval = ApprovalState::None;
    let decision = decided(&facts);
    assert_eq!(codes(&decision), "approval_missing");
    assert!(decision.record.approval_required);
    // What is left out is not passed.
    for probe in Probe::ALL {
        let mut facts = good(Lane::Command, 4);
        facts.looked_up = LookedUp::default();
        for answer in good_answers() {
            facts.learn(answer, now());
        }
        forget(&mut facts.looked_up, *probe);
        facts.leave_out(*probe);
        let decision = decided(&facts);
        check_shape(&facts, &decision);
        assert_eq!(
            (decision.grant, codes_of(&decision.record)),
            (None, ""),
            "{probe}"
        );
    }
}

fn codes_of(record: &EligibilityDecision) -> &'static str {
    record.reasons.first().map_or("", |b| b.code.as_str())
}

fn forget(seen: &mut LookedUp, probe: Probe) {
    let mut gaps = TWISTS.iter().filter_map(|(_, twist)| match twist {
        Twist::Unseen(of, forget) if *of == probe => Some(forget),
        Twist::Unseen(..) | Twist::Fault(..) | Twist::FaultAt(..) => None,
    });
    gaps.next().unwrap()(seen);
}

#[test]
fn less_confinement_never_reaches_a_later_stage() {
    let reach = |class: SandboxClass| {
        let reaches = |number: &u8| {
            let mut facts = good(Lane::Fake, *number);
            let found = Confinement {
                class,
                has_endpoint: true,
            };
            facts.learn(Answer::Confinement(Ok(found)), now());
            decided(&facts).grant.is_some()
        };
        (1..=6).filter(reaches).count()
    };
    let reached: Vec<usize> = SandboxClass::ALL.iter().map(|c| reach(*c)).collect();
    assert_eq!(reached, [2, 2, 2, 3, 6]);
}

#[test]
fn only_the_exact_value_opens_a_gate() {
    let codes_with = |change: &dyn Fn(&mut LaneSettings)| {
        let mut facts = good(Lane::Command, 2);
        change(settings(&mut facts));
        codes(&decided(&facts))
    };
    assert_eq!(codes_with(&|_| {}), "");
    for value in ["", "0", "01", "1 ", " 1", "true", "yes", "１", "1\n", "2"] {
        let gate = codes_with(&|s| s.gate = Some(value.to_owned()));
        assert_eq!(gate, "gate_missing", "{value:?}");
    }
    for value in ["", "0", "02", "2 ", " 2", "two", "２", "2\n", "1", "3", "7"] {
        let gate = codes_with(&|s| s.stage = Some(value.to_owned()));
        assert_eq!(gate, "stage_gate_missing", "{value:?}");
    }
    let long = "x\u{1b}".repeat(100);
    let mut facts = good(Lane::Command, 2);
    settings(&mut facts).gate = Some(long);
    let decision = decided(&facts);
    let shown = decision.record.facts[0].value.as_ref().unwrap();
    assert!(
        shown.chars().count() <= 110 && !shown.contains('\u{1b}'),
        "{shown}"
    );
}

#[test]
fn the_flag_asks_for_a_stage_and_the_environment_permits_it() {
    let asked = |lane, flag: Option<u8>, value| {
        let asked = StageAsked::of(lane, flag.map(stage), value);
        format!("{} {}", asked.stage, asked.is_permitted)
    };
    assert_eq!(asked(Lane::Case, Some(3), Some("3")), "3 true");
    assert_eq!(asked(Lane::Case, None, Some("3")), "3 true");
    assert_eq!(asked(Lane::Case, Some(2), Some("3")), "2 false");
    assert_eq!(asked(Lane::Case, Some(2), None), "2 false");
    assert_eq!(asked(Lane::Case, None, Some("7")), "1 false");
    assert_eq!(asked(Lane::Case, None, Some("03")), "1 false");
    // Stage 1 never opens.
    assert_eq!(asked(Lane::Case, None, None), "1 false");
    assert_eq!(asked(Lane::Case, None, Some("1")), "1 false");
    assert_eq!(asked(Lane::Case, Some(1), Some("1")), "1 false");
    // `fake` needs no gate and does a case at stage 2.
    assert_eq!(asked(Lane::Fake, None, None), "2 true");
    assert_eq!(asked(Lane::Fake, Some(1), Some("5")), "1 true");
    let mode = Some(MutationMode::CopiedFixture);
    let permitted = |flag| StageAsked::of(Lane::Case, Some(stage(flag)), Some("2")).mode(mode);
    assert_eq!(permitted(2), MutationMode::CopiedFixture);
    assert_eq!(permitted(3), MutationMode::None);
}

#[test]
fn the_config_opens_gates_where_nothing_lands_and_a_set_variable_wins() {
    let config = |number: u8| GateConfig {
        allow: true,
        stage: Some(stage(number)),
    };
    let asked = |lane, flag: Option<u8>, value, upto, work| {
        let asked = StageAsked::with_config(lane, flag.map(stage), value, (config(upto), work));
        format!("{} {}", asked.stage, asked.is_permitted)
    };
    let (case, repository) = (Work::Case, Work::Repository);
    assert_eq!(asked(Lane::Codex, None, None, 3, repository), "3 true");
    assert_eq!(asked(Lane::Codex, None, None, 3, case), "2 true");
    assert_eq!(asked(Lane::Codex, Some(2), None, 3, repository), "2 true");
    assert_eq!(asked(Lane::Codex, Some(3), None, 2, repository), "3 false");
    assert_eq!(asked(Lane::Codex, Some(1), None, 3, case), "1 false");
    for later in 4..=6 {
        // Whatever the config says.
        assert!(asked(Lane::Codex, Some(later), None, later, repository).ends_with("false"));
    }
    assert_eq!(asked(Lane::Codex, None, Some("2"), 3, repository), "2 true");
    assert_eq!(
        asked(Lane::Codex, Some(3), Some("x"), 3, repository),
        "3 false"
    );
    assert_eq!(asked(Lane::Case, Some(2), None, 3, case), "2 false");
    let codes_of = |lane, number, gate: Option<&str>| {
        let mut facts = good(lane, number);
        let settings = settings(&mut facts);
        settings.config = config(3);
        settings.gate = gate.map(str::to_owned);
        codes(&decided(&facts))
    };
    assert_eq!(codes_of(Lane::Codex, 3, None), "");
    assert_eq!(codes_of(Lane::Codex, 3, Some("0")), "gate_missing");
    assert_eq!(codes_of(Lane::Codex, 4, None), "gate_missing");
    assert_eq!(codes_of(Lane::Case, 2, None), "gate_missing");
}

#[test]
fn at_stage_1_the_only_stage_blocker_is_the_gate() {
    for value in [None, Some("1"), Some("01")] {
        let mut facts = good(Lane::Command, 2);
        facts.asked.stage = None;
        settings(&mut facts).stage = value.map(str::to_owned);
        let decision = decided(&facts);
        assert_eq!(codes(&decision), "stage_gate_missing", "{value:?}");
        assert_eq!(decision.record.stage, Stage::FIRST);
    }
    let mut facts = good(Lane::Fake, 1);
    facts.asked.contract.mutation_mode = Some(MutationMode::CopiedFixture);
    assert_eq!(codes(&decided(&facts)), "stage_not_proven");
}

#[test]
fn every_lane_is_judged_and_only_the_one_that_was_asked_for_is_selected() {
    let mut facts = good(Lane::Command, 3);
    let open = facts.asked.lanes[&Lane::Command].clone();
    facts.asked.lanes.insert(Lane::Case, open);
    let of_case = records::good(Lane::Case);
    let all = &mut facts.asked.records;
    all.sources.extend(of_case.sources);
    all.binaries.extend(of_case.binaries);
    all.decisions.extend(of_case.decisions);
    let told = |facts: &Facts| {
        let decision = decided(facts);
        check_shape(facts, &decision);
        let record = decision.record;
        let denied = record.denied_backends.iter().map(|d| {
            let reasons: Vec<&str> = d.reasons.iter().map(|b| b.code.as_str()).collect();
            format!("{} {}: {}", d.backend, d.asked_for, reasons.join(" "))
        });
        let denied: Vec<String> = denied.collect();
        format!("{}\n{}", record.selected_backend, denied.join("\n"))
    };
    insta::assert_snapshot!(told(&facts), @"
    command
    fake false: provider_unavailable
    case false: 
    codex false: gate_missing stage_gate_missing provider_unavailable source_not_admitted binary_not_admitted
    pi false: gate_missing stage_gate_missing provider_unavailable source_not_admitted binary_not_admitted
    claude false: gate_missing stage_gate_missing provider_unavailable source_not_admitted binary_not_admitted
    acp false: gate_missing stage_gate_missing provider_unavailable source_not_admitted binary_not_admitted
    ");
    // A lane that could run is not chosen unless it is asked for.
    facts.asked.lane = Lane::Case;
    insta::assert_snapshot!(told(&facts), @"
    case
    fake false: provider_unavailable
    command false: 
    codex false: gate_missing stage_gate_missing provider_unavailable source_not_admitted binary_not_admitted
    pi false: gate_missing stage_gate_missing provider_unavailable source_not_admitted binary_not_admitted
    claude false: gate_missing stage_gate_missing provider_unavailable source_not_admitted binary_not_admitted
    acp false: gate_missing stage_gate_missing provider_unavailable source_not_admitted binary_not_admitted
    ");
}

#[test]
fn a_refusal_goes_to_the_operator_the_core_route_or_nowhere() {
    let path = |change: &dyn Fn(&mut TaskContract)| {
        let mut facts = good(Lane::Fake, 6);
        facts.asked.contract.mutation_mode = Some(MutationMode::CopiedFixture);
        change(&mut facts.asked.contract);
        decided(&facts).record.escalation_path.as_str()
    };
    let core = |c: &mut TaskContract| c.mutation_mode = Some(MutationMode::CandidateDefault);
    assert_eq!(path(&|_| {}), "operator");
    assert_eq!(path(&core), "core_route");
    assert_eq!(
        path(&|c| c.permitted_actions = [Action::CortexCoreMutation].into()),
        "core_route"
    );
    assert_eq!(
        path(&|c| c.permitted_actions = [Action::Push].into()),
        "operator"
    );
    for class in RiskClass::ALL.iter().filter(|class| class.is_protected()) {
        let both = |c: &mut TaskContract| {
            core(c);
            c.risk_class = *class;
        };
        assert_eq!(path(&both), "blocked");
    }
}

#[test]
fn the_id_is_that_of_the_facts_and_not_of_their_times() {
    let facts = good(Lane::Command, 5);
    let id = |facts: &Facts| decided(facts).record.decision_id;
    let mut later = good(Lane::Command, 5);
    let other_time = at("2027-01-01T00:00:00Z");
    later.asked.at = other_time;
    for answer in good_answers() {
        later.learn(answer, other_time);
    }
    assert_ne!(decided(&facts).record.facts, decided(&later).record.facts);
    assert_eq!(id(&facts), id(&later));
    for (gate, twist) in TWISTS {
        let mut other = facts.clone();
        twist.apply(&mut other);
        for probe in Probe::ALL {
            other.leave_out(*probe);
        }
        assert_ne!(id(&facts), id(&other), "{gate}");
    }
    let mut other = facts.clone();
    other.asked.contract_digest = "cd".repeat(32).parse().unwrap();
    assert_ne!(id(&facts), id(&other));
    // What is known of the other lanes is part of the decision too.
    let mut other = facts.clone();
    let open = facts.asked.lanes[&Lane::Command].clone();
    other.asked.lanes.insert(Lane::Pi, open);
    assert_ne!(id(&facts), id(&other));
}

#[test]
fn a_run_without_a_decision_claims_nothing() {
    let facts = good(Lane::Command, 3);
    let asked = &facts.asked;
    let about = (Lane::Command, stage(3));
    let record = undecided(&asked.contract, &asked.contract_digest, about, id_of);
    assert_eq!(record.selected_backend, SelectedBackend(None));
    assert_eq!(record.required_gates, Gate::ALL);
    assert!(record.passed_gates.is_empty() && record.missing_gates.is_empty());
    assert!(
        record
            .facts
            .iter()
            .all(|f| f.value.is_none() && f.checked_at.is_none())
    );
    assert_eq!(record.denied_backends.len(), Lane::ALL.len());
}

#[test]
fn a_refusal_names_its_gate_and_what_opens_it() {
    let mut facts = good(Lane::Case, 3);
    for gate in Gate::ALL {
        let faults = twists_of(*gate).filter(|t| t.is_fault());
        faults.last().unwrap().apply(&mut facts);
    }
    let decision = decided(&facts);
    let line = |b: &Blocker| {
        let reason = b.failure_reason(Lane::Case);
        format!("{}: {} [{reason}]", b.code, b.message)
    };
    let lines: Vec<String> = decision.record.reasons.iter().map(line).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    gate_missing: `CTO_HARNESS_ALLOW_CASE` is set to "true", which counts as absent: only `1` opens it [gate missing: CTO_HARNESS_ALLOW_CASE]
    stage_gate_missing: `CTO_HARNESS_CASE_STAGE` is set to "02", which counts as absent: only `3` opens it [gate missing: CTO_HARNESS_CASE_STAGE]
    provider_unavailable: `lane_available`: the case lane is not part of this version [provider unavailable]
    source_not_admitted: `source_admission` of lane case is stale, and stage 3 needs it admitted: its review was due on 2026-05-31, which has passed [gate missing: source_admission]
    binary_not_admitted: `binary_admission` of lane case is missing, and stage 3 needs it: the program lies under a temporary directory [gate missing: binary_admission]
    model_admission_invalid: `model_admission` of lane case: x.json:3:1: unknown field [model not admitted]
    provider_decision_missing: `provider_decision` of lane case: the decided provider has no admission that fits [gate missing: provider_decision]
    allowed_paths_missing: `allowed_paths` is empty: the contract allows no path to change [gate missing: allowed_paths]
    forbidden_actions_missing: `forbidden_actions` does not list merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation, and nothing permits it [gate missing: forbidden_actions]
    unowned_repository: `risk_class` unowned is refused wherever it is named [gate missing: ownership_evidence]
    stage_not_proven: `mutation_mode` candidate-default is beyond stage 3, which goes no further than copied-fixture [gate missing: mutation_mode]
    approval_denied: `approval` was denied by olga [approval denied]
    repository_unsupported: `repository`: submodules [gate missing: repository]
    dirty_starting_tree: `start_tree_clean`: the source has uncommitted changes: `notes.txt` [dirty starting tree]
    clock_undecidable: `evidence_interface`: the clock says 2026-06-01T10:52:22.000000Z, and the key that seals counts from 2026-06-01T10:52:23.000000Z on [`evidence_interface`: the clock says 2026-06-01T10:52:22.000000Z, and the key that seals counts from 2026-06-01T10:52:23.000000Z on]
    ledger_rolled_back: `ledger`: entry 3 does not hold [gate missing: ledger]
    trust_rolled_back: `trust`: entry 3 does not hold [gate missing: trust]
    sandbox_unavailable: `confinement` is weak, which is capped at stage 2 [gate missing: confinement]
    local_provider_config_missing: `CTO_HARNESS_CASE_LOCAL_BASE_URL` can't be used: no host [provider unavailable]
    provider_auth_unavailable: `BRIDGE` is open, but the provider has no `credential_command` in harness.yaml that gives a short-lived key [provider unavailable]
    model_admission_mismatch: `model_answer`: `another` answers, not `m` [model not admitted]
    budget_unmeterable: `budget`: lane case can't measure cost [gate missing: budget]
    "#);
    let gate = &decision.record.facts[0];
    assert_eq!(
        (gate.gate, gate.source.as_str()),
        (Gate::LaneGate, "environment")
    );
    assert_eq!(gate.refusal.as_ref(), decision.record.reasons.first());
}
