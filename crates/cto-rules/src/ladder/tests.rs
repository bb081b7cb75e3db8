use cto_contract::identity::CommandLine;
use proptest::prelude::*;

use super::*;

const DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const OTHER: &str = "1111111111111111111111111111111111111111111111111111111111111111";

fn identity(lane: Lane) -> Identity {
    Identity {
        lane,
        adapter_revision: 3,
        binary_digest: Some(DIGEST.parse().unwrap()),
        model_provider: Some("local".to_owned()),
        model: Some("m".to_owned()),
        sandbox_class: SandboxClass::Full,
        command_line: None,
    }
}

fn stage(number: u8) -> Stage {
    Stage::try_from(number).unwrap()
}

fn validated(number: u8) -> Conformance {
    Conformance {
        stage: stage(number),
        adapter_revision: 3,
        harness_version: "0.1.0".to_owned(),
        is_ok: true,
        evidence: Evidence::Good,
    }
}

fn passed(lane: Lane, number: u8) -> Pass {
    Pass {
        run_id: format!("20260601T105222Z-t-aaaaa{number}").parse().unwrap(),
        stage: stage(number),
        identity: identity(lane),
        is_conformance: false,
        dirty_source: DirtySource::Refused,
        admission_is_unchanged: true,
        decided: Decided::Accepted,
        evidence: Evidence::Good,
    }
}

/// A ladder on which every stage holds.
fn whole(lane: Lane) -> LadderFacts {
    LadderFacts {
        identity: identity(lane),
        harness_version: "0.1.0".to_owned(),
        home: HomeKind::Operators,
        more_real_stages: BTreeSet::new(),
        conformance: (1..=6).map(validated).collect(),
        passes: (2..=6).map(|n| passed(lane, n)).collect(),
    }
}

fn proven(facts: &LadderFacts) -> Vec<u8> {
    let held = ladder(facts).into_iter();
    held.filter(|p| p.state == ProofState::Proven)
        .map(|p| p.stage.number())
        .collect()
}

/// State and reasons of one stage, as text.
fn at(facts: &LadderFacts, number: u8) -> String {
    let proofs = ladder(facts).remove(usize::from(number) - 1);
    let reasons: Vec<&str> = proofs.reasons.iter().map(|r| r.as_str()).collect();
    format!("{} {}", proofs.state, reasons.join(","))
}

fn pass_mut(facts: &mut LadderFacts, number: u8) -> &mut Pass {
    let mut passes = facts.passes.iter_mut();
    passes.find(|p| p.stage == stage(number)).unwrap()
}

#[test]
fn every_stage_holds_when_everything_is_there() {
    for lane in Lane::ALL {
        assert_eq!(proven(&whole(*lane)), [1, 2, 3, 4, 5, 6], "{lane}");
    }
}

#[test]
fn each_way_to_lack_a_validation_is_named_and_takes_the_stages_above_along() {
    type Spoil = fn(&mut Conformance);
    let rows: [(Spoil, &str); 7] = [
        (|c| c.is_ok = false, "unproven validation_failed"),
        (
            |c| c.harness_version = "0.2.0".into(),
            "stale harness_changed",
        ),
        (|c| c.adapter_revision = 2, "stale adapter_changed"),
        (|c| c.evidence = Evidence::Removed, "stale evidence_removed"),
        (
            |c| c.evidence = Evidence::DoesNotVerify,
            "unproven evidence_does_not_verify",
        ),
        (
            |c| c.evidence = Evidence::UnknownOrigin,
            "unproven origin_unknown",
        ),
        (
            |c| c.evidence = Evidence::NotInLedger,
            "unproven not_in_ledger",
        ),
    ];
    for (spoil, expected) in rows {
        for number in 1..=6_u8 {
            let mut facts = whole(Lane::Codex);
            spoil(&mut facts.conformance[usize::from(number) - 1]);
            assert_eq!(at(&facts, number), expected);
            assert_eq!(
                proven(&facts),
                (1..number).collect::<Vec<_>>(),
                "{expected}"
            );
        }
    }
    let mut facts = whole(Lane::Codex);
    facts.conformance.remove(2);
    assert_eq!(at(&facts, 3), "unproven not_validated");
    assert_eq!(at(&facts, 4), "unproven stage_below");
}

#[test]
fn each_way_to_lack_a_real_pass_is_named() {
    type Spoil = fn(&mut Pass);
    let rows: [(Spoil, &str); 11] = [
        (|p| p.is_conformance = true, "unproven no_real_pass"),
        (
            |p| p.identity.sandbox_class = SandboxClass::Weak,
            "unproven confinement_too_weak",
        ),
        (
            |p| p.dirty_source = DirtySource::Allowed,
            "unproven dirty_source",
        ),
        (
            |p| p.identity.binary_digest = Some(OTHER.parse().unwrap()),
            "stale identity_changed",
        ),
        (
            |p| p.identity.model = Some("n".into()),
            "stale identity_changed",
        ),
        (
            |p| p.identity.adapter_revision = 2,
            "stale identity_changed",
        ),
        (
            |p| p.admission_is_unchanged = false,
            "stale admission_changed",
        ),
        (|p| p.evidence = Evidence::Removed, "stale evidence_removed"),
        (
            |p| p.evidence = Evidence::DoesNotVerify,
            "unproven evidence_does_not_verify",
        ),
        (
            |p| p.evidence = Evidence::UnknownOrigin,
            "unproven origin_unknown",
        ),
        (
            |p| p.evidence = Evidence::NotInLedger,
            "unproven not_in_ledger",
        ),
    ];
    for (spoil, expected) in rows {
        for number in [2, 5] {
            let mut facts = whole(Lane::Case);
            spoil(pass_mut(&mut facts, number));
            assert_eq!(at(&facts, number), expected);
        }
        // Recorded where there is one, and not asked for.
        for number in [3, 4] {
            let mut facts = whole(Lane::Case);
            spoil(pass_mut(&mut facts, number));
            assert_eq!(proven(&facts).len(), 6, "{expected}");
            facts.more_real_stages.insert(stage(number));
            assert_eq!(at(&facts, number), expected);
        }
    }
    let mut facts = whole(Lane::Case);
    facts.passes.clear();
    assert_eq!(at(&facts, 2), "unproven no_real_pass");
}

#[test]
fn a_person_must_have_decided_where_a_change_lands() {
    for (number, decided, holds) in [
        (2, Decided::Nothing, true),
        (3, Decided::Nothing, true),
        (4, Decided::Nothing, false),
        (4, Decided::Granted, true),
        (5, Decided::Nothing, false),
        (5, Decided::Granted, false),
        (5, Decided::Accepted, true),
    ] {
        let mut facts = whole(Lane::Pi);
        facts.more_real_stages = Stage::all().collect();
        // The first stage starts nothing: no pass can be asked for there.
        facts.more_real_stages.remove(&Stage::FIRST);
        pass_mut(&mut facts, number).decided = decided;
        let expected = if holds {
            "proven "
        } else {
            "unproven decision_missing"
        };
        assert_eq!(at(&facts, number), expected, "{number} {decided:?}");
    }
}

#[test]
fn the_scripted_model_proves_nothing_where_a_change_lands_but_in_a_validators_home() {
    let mut facts = whole(Lane::Codex);
    facts.identity.model_provider = Some(SCRIPTED.to_owned());
    for pass in &mut facts.passes {
        pass.identity.model_provider = Some(SCRIPTED.to_owned());
        pass.is_conformance = true;
    }
    assert_eq!(proven(&facts), [1]);
    for pass in &mut facts.passes {
        pass.is_conformance = false;
    }
    assert_eq!(proven(&facts), [1, 2, 3, 4]);
    assert_eq!(at(&facts, 5), "unproven scripted_model");
    facts.home = HomeKind::Validators;
    for pass in &mut facts.passes {
        pass.is_conformance = true;
    }
    assert_eq!(proven(&facts), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_command_is_its_program_until_a_change_lands_and_its_words_from_then_on() {
    let words = |argv: &str| {
        Some(CommandLine {
            argv: vec![argv.to_owned()],
            files: std::collections::BTreeMap::new(),
            environment_names: Vec::new(),
        })
    };
    let mut facts = whole(Lane::Command);
    facts.passes.clear();
    // A validated double suffices where nothing can land.
    assert_eq!(proven(&facts), [1, 2, 3, 4]);
    facts.identity.command_line = words("a");
    let mut pass = passed(Lane::Command, 5);
    pass.identity.command_line = words("b");
    facts.passes.push(pass);
    assert_eq!(at(&facts, 5), "stale identity_changed");
    facts.passes[0].identity.command_line = words("a");
    assert_eq!(at(&facts, 5), "proven ");
}

#[test]
fn the_newest_word_counts_for_validations_and_the_best_for_passes() {
    let mut facts = whole(Lane::Claude);
    let mut red = validated(2);
    red.is_ok = false;
    facts.conformance.push(red);
    assert_eq!(at(&facts, 2), "unproven validation_failed");
    facts.conformance.push(validated(2));
    assert_eq!(at(&facts, 2), "proven ");
    // A later pass of another program takes nothing away from this one's.
    let mut other = passed(Lane::Claude, 2);
    other.identity.binary_digest = Some(OTHER.parse().unwrap());
    facts.passes.push(other);
    assert_eq!(at(&facts, 2), "proven ");
}

#[test]
fn a_run_needs_every_stage_below_it_and_the_ruler_needs_none() {
    let facts = whole(Lane::Codex);
    for asked in Stage::all() {
        assert_eq!(missing_for(&facts, asked), None);
    }
    let mut facts = whole(Lane::Codex);
    facts.conformance[2].is_ok = false;
    for (asked, missing) in [(1, None), (2, None), (3, None), (4, Some(3)), (6, Some(3))] {
        let found = missing_for(&facts, stage(asked));
        assert_eq!(found.map(|p| p.stage.number()), missing, "{asked}");
    }
    let nothing = LadderFacts {
        conformance: Vec::new(),
        passes: Vec::new(),
        ..whole(Lane::Fake)
    };
    assert_eq!(missing_for(&nothing, stage(6)), None);
}

proptest! {
    #[test]
    fn fewer_proofs_never_prove_more(
        conformance in 0_u8..64,
        passes in 0_u8..32,
        less_conformance in 0_u8..64,
        less_passes in 0_u8..32,
        lane in prop::sample::select(Lane::ALL),
    ) {
        let facts = |conformance: u8, passes: u8| LadderFacts {
            conformance: (1..=6).filter(|n| conformance & (1 << (n - 1)) != 0).map(validated).collect(),
            passes: (2..=6).filter(|n| passes & (1 << (n - 2)) != 0).map(|n| passed(lane, n)).collect(),
            ..whole(lane)
        };
        let more = proven(&facts(conformance, passes));
        let less = proven(&facts(conformance & less_conformance, passes & less_passes));
        prop_assert!(less.len() <= more.len());
        // None is skipped.
        prop_assert_eq!(&more, &(1..=u8::try_from(more.len()).unwrap()).collect::<Vec<_>>());
    }

    #[test]
    fn a_stage_has_reasons_exactly_when_it_does_not_hold(
        conformance in 0_u8..64,
        passes in 0_u8..32,
        version in prop::sample::select(vec!["0.1.0", "0.2.0"]),
    ) {
        let facts = LadderFacts {
            conformance: (1..=6).filter(|n| conformance & (1 << (n - 1)) != 0).map(validated).collect(),
            passes: (2..=6).filter(|n| passes & (1 << (n - 2)) != 0).map(|n| passed(Lane::Pi, n)).collect(),
            harness_version: version.to_owned(),
            ..whole(Lane::Pi)
        };
        for proofs in ladder(&facts) {
            prop_assert_eq!(proofs.reasons.is_empty(), proofs.state == ProofState::Proven);
        }
    }
}
