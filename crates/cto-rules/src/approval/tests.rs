use cto_contract::ids::Digest;
use cto_contract::words::{Lane, SandboxClass};

use super::*;
use crate::operators::floor;

fn at(text: &str) -> Utc {
    text.parse().unwrap()
}

fn name(text: &str) -> OperatorName {
    text.parse().unwrap()
}

fn run(n: u8) -> RunId {
    format!("20260601T105222Z-a-aaaaa{n}").parse().unwrap()
}

fn bindings() -> Bindings {
    Bindings {
        task_id: "a".parse().unwrap(),
        contract_digest: Digest::from_bytes(&[1; 32]),
        target_id: "app".to_owned(),
        target_head: "0123456789abcdef".to_owned(),
        baseline_tree_id: "0123456789abcdef0123456789abcdef01234567".parse().unwrap(),
        lane: Lane::Command,
        model: "none".to_owned(),
        identity_digest: Digest::from_bytes(&[2; 32]),
        sandbox_class: SandboxClass::Full,
        stage: Stage::FIXTURE,
        mutation_mode: MutationMode::CopiedFixture,
    }
}

fn grant() -> GrantFacts {
    GrantFacts {
        bindings: bindings(),
        expires_at: at("2026-06-01T12:00:00Z"),
        signer: name("olga"),
        key: KeyState::Active,
        presence: Presence::Claimed,
        floor: Presence::Claimed,
        is_of_this_ledger: true,
        sentence_fits: true,
        changed_records: Vec::new(),
        policy: None,
        self_approved: true,
        requested_by: None,
    }
}

fn facts(standing: Standing) -> ConsumptionFacts {
    ConsumptionFacts {
        request_id: RequestId::from_bytes([7; 10]),
        run_id: run(1),
        now: at("2026-06-01T11:00:00Z"),
        asked: bindings(),
        standing,
        consumed_by: None,
        has_its_turn: true,
    }
}

fn policy(approvers: &[&str], four_eyes: bool, quorum: u32) -> ApprovalPolicy {
    ApprovalPolicy {
        approvers: approvers.iter().map(|a| (*a).to_owned()).collect(),
        four_eyes,
        quorum,
    }
}

fn other() -> Digest {
    Digest::from_bytes(&[9; 32])
}

type Spoil = (BlockerCode, fn(&mut ConsumptionFacts, &mut GrantFacts));
use BlockerCode::{
    ApprovalConsumed as Consumed, ApprovalExpired as Expired, ApprovalPresenceTooLow as Presence0,
    ApprovalScopeMismatch as Scope, ApprovalSignatureInvalid as Signature,
};

/// Everything that can be wrong with a grant that is there.
const SPOILS: &[Spoil] = &[
    (Consumed, |f, _| f.consumed_by = Some(run(2))),
    (Expired, |f, g| f.now = g.expires_at),
    (Scope, |f, _| f.asked.task_id = "b".parse().unwrap()),
    (Scope, |f, _| f.asked.contract_digest = other()),
    (Scope, |f, _| f.asked.target_id.push('x')),
    (Scope, |f, _| f.asked.target_head.push('x')),
    (Scope, |f, _| {
        f.asked.baseline_tree_id = "1123456789abcdef0123456789abcdef01234567".parse().unwrap();
    }),
    (Scope, |f, _| f.asked.lane = Lane::Codex),
    (Scope, |f, _| f.asked.model = "other".to_owned()),
    (Scope, |f, _| f.asked.identity_digest = other()),
    (Scope, |f, _| f.asked.sandbox_class = SandboxClass::Weak),
    (Scope, |f, _| f.asked.stage = Stage::FIRST),
    (Scope, |f, _| f.asked.mutation_mode = MutationMode::None),
    (Scope, |_, g| g.is_of_this_ledger = false),
    (Scope, |f, _| f.has_its_turn = false),
    (Scope, |_, g| g.changed_records.push("target".to_owned())),
    (Signature, |_, g| g.key = KeyState::Revoked),
    (Signature, |_, g| g.key = KeyState::Unknown),
    (Signature, |_, g| g.sentence_fits = false),
    (Signature, |_, g| {
        g.policy = Some(policy(&["anna"], false, 1))
    }),
    (Signature, |_, g| g.policy = Some(policy(&[], true, 1))),
    (Signature, |_, g| g.policy = Some(policy(&[], false, 2))),
    (Presence0, |_, g| g.presence = Presence::None),
];

fn codes(facts: &ConsumptionFacts) -> Vec<BlockerCode> {
    match judge_consumption(facts) {
        Ok(_) => Vec::new(),
        Err(against) => against.iter().map(ApprovalRefusal::code).collect(),
    }
}

fn spoilt(spoils: &[&Spoil]) -> Vec<BlockerCode> {
    let (mut f, mut g) = (facts(Standing::Undecided), grant());
    for (_, spoil) in spoils {
        spoil(&mut f, &mut g);
    }
    f.standing = Standing::Granted(Box::new(g));
    codes(&f)
}

#[test]
fn a_grant_is_used_up_exactly_when_nothing_stands_against_it() {
    assert_eq!(spoilt(&[]), []);
    for (n, spoil) in SPOILS.iter().enumerate() {
        assert_eq!(spoilt(&[spoil]), [spoil.0], "row {n}");
    }
}

#[test]
fn two_things_wrong_are_both_named() {
    for (n, first) in SPOILS.iter().enumerate() {
        for (m, second) in SPOILS.iter().enumerate() {
            let found = spoilt(&[first, second]);
            assert!(
                found.contains(&first.0) && found.contains(&second.0),
                "{n} {m}"
            );
        }
    }
}

#[test]
fn without_a_grant_nothing_is_used_up() {
    assert_eq!(
        codes(&facts(Standing::Undecided)),
        [BlockerCode::ApprovalMissing]
    );
    let denied = Standing::Denied { by: name("olga") };
    assert_eq!(codes(&facts(denied)), [BlockerCode::ApprovalDenied]);
}

#[test]
fn the_last_minute_is_over_when_it_begins() {
    let mut f = facts(Standing::Granted(Box::new(grant())));
    f.now = at("2026-06-01T11:59:59.999999Z");
    assert_eq!(codes(&f), []);
    f.now = at("2026-06-01T12:00:00Z");
    assert_eq!(codes(&f), [Expired]);
}

#[test]
fn approval_follows_stage_mode_and_contract() {
    for stage in Stage::all() {
        for mode in MutationMode::ALL.iter().copied() {
            for required in [false, true] {
                let contract = TaskContract {
                    approval_required: required,
                    ..crate::eligibility::tests::contract(mode)
                };
                let wanted = required || stage.number() >= 4 || mode >= MutationMode::SandboxRepo;
                assert_eq!(needs_approval(&contract, stage), wanted, "{stage} {mode}");
            }
        }
    }
}

#[test]
fn the_policy_of_a_contract_says_who_may_decide() {
    let (olga, anna) = (name("olga"), name("anna"));
    let faults = |p: ApprovalPolicy, by: Option<&OperatorName>| policy_faults(Some(&p), &olga, by);
    assert_eq!(policy_faults(None, &olga, None), []);
    assert_eq!(faults(policy(&[], false, 1), None), []);
    assert_eq!(faults(policy(&["anna", "olga"], false, 1), None), []);
    let not_named = [PolicyFault::NotAnApprover(olga.clone())];
    assert_eq!(faults(policy(&["anna"], false, 1), None), not_named);
    assert_eq!(faults(policy(&[], true, 1), Some(&anna)), []);
    let same = [PolicyFault::SameEyes(olga.clone())];
    assert_eq!(faults(policy(&[], true, 1), Some(&olga)), same);
    assert_eq!(
        faults(policy(&[], true, 1), None),
        [PolicyFault::UnknownRequester]
    );
    for quorum in [0, 2, 3] {
        let refused = [PolicyFault::Quorum(quorum)];
        assert_eq!(faults(policy(&[], false, quorum), None), refused);
    }
}

fn decision<'a>(decides: &'a OperatorName) -> DecisionFacts<'a> {
    DecisionFacts {
        decided: Decided::Nothing,
        now: at("2026-06-01T11:00:00Z"),
        expires_at: at("2026-06-01T12:00:00Z"),
        policy: None,
        decides,
        decision: DecisionKind::Grant,
        requested_by: None,
        sentence: None,
        changed_records: Vec::new(),
    }
}

#[test]
fn to_say_no_one_pair_of_eyes_is_enough_but_not_anybodys() {
    let (olga, policy) = (name("olga"), policy(&["anna"], true, 2));
    let judged = |decision_kind| {
        judge_decision(&DecisionFacts {
            policy: Some(&policy),
            decision: decision_kind,
            ..decision(&olga)
        })
    };
    assert_eq!(judged(DecisionKind::Grant).len(), 3);
    let denied = [DecisionFault::Policy(PolicyFault::NotAnApprover(
        olga.clone(),
    ))];
    assert_eq!(judged(DecisionKind::Denial), denied);
}

#[test]
fn an_operator_says_that_he_asked_once_in_time_and_before_anybody_decides() {
    let (olga, anna) = (name("olga"), name("anna"));
    let end = at("2026-06-01T12:00:00Z");
    let denied = Decided::Denied { by: anna.clone() };
    for (decided, by_decision) in [
        (Decided::Nothing, None),
        (Decided::Granted, Some(DecisionFault::Granted)),
        (denied, Some(DecisionFault::Denied(anna.clone()))),
    ] {
        for (now, late) in [
            ("2026-06-01T11:59:59Z", false),
            ("2026-06-01T12:00:00Z", true),
        ] {
            for asked in [None, Some(&olga)] {
                let mut expected: Vec<_> = by_decision.iter().cloned().collect();
                expected.extend(late.then_some(DecisionFault::Expired(end)));
                expected.extend(asked.map(|by| DecisionFault::AskedBy(by.clone())));
                assert_eq!(judge_asking(&decided, (at(now), end), asked), expected);
            }
        }
    }
}

#[test]
fn a_grant_that_says_otherwise_who_asked_does_not_count() {
    let (olga, anna) = (name("olga"), name("anna"));
    for requested_by in [None, Some(olga), Some(anna.clone())] {
        for self_approved in [false, true] {
            let is_right = self_approved == (requested_by.as_ref() != Some(&anna));
            let judged = judge_consumption(&facts(Standing::Granted(Box::new(GrantFacts {
                self_approved,
                requested_by: requested_by.clone(),
                ..grant()
            }))));
            assert_eq!(judged.is_ok(), is_right, "{requested_by:?} {self_approved}");
        }
    }
}

#[test]
fn a_sentence_is_compared_byte_for_byte() {
    let sentence = bindings().sentence(at("2026-06-01T12:00:00Z"));
    let olga = name("olga");
    let judged = |typed: &str| {
        judge_decision(&DecisionFacts {
            sentence: Some((&sentence, typed)),
            ..decision(&olga)
        })
    };
    assert_eq!(judged(&sentence), []);
    let mut wrong = vec![
        String::new(),
        format!("{sentence} "),
        format!(" {sentence}"),
        format!("{sentence}\n"),
        format!("\"{sentence}\""),
        sentence.replace(' ', "\u{a0}"),
        sentence.replace('a', "\u{430}"),
        sentence[..sentence.len() - 1].to_owned(),
    ];
    for at in 0..sentence.len() {
        let mut bytes = sentence.clone().into_bytes();
        bytes[at] ^= 1;
        wrong.push(String::from_utf8(bytes).unwrap());
    }
    for typed in wrong {
        assert_eq!(judged(&typed), [DecisionFault::OtherSentence], "{typed:?}");
    }
}

#[test]
fn a_decision_is_taken_once_in_time_and_on_the_same_records() {
    let (olga, anna) = (name("olga"), name("anna"));
    let decisions = [
        Decided::Nothing,
        Decided::Granted,
        Decided::Denied { by: anna },
    ];
    for decided in decisions {
        for (late, now) in [
            (false, "2026-06-01T11:00:00Z"),
            (true, "2026-06-01T12:00:00Z"),
        ] {
            for changed in [false, true] {
                let records = changed.then(|| "target".to_owned());
                let found = judge_decision(&DecisionFacts {
                    decided: decided.clone(),
                    now: at(now),
                    changed_records: records.into_iter().collect(),
                    ..decision(&olga)
                });
                let wrong = [decided != Decided::Nothing, late, changed];
                let count = wrong.iter().filter(|w| **w).count();
                assert_eq!(found.len(), count, "{found:?}");
            }
        }
    }
}

#[test]
fn every_state_shows_its_three_words() {
    let (now, later) = (at("2026-06-01T11:00:00Z"), at("2026-06-01T12:00:00Z"));
    let denied = Decided::Denied { by: name("olga") };
    let shown = |decided: &Decided, now, consumed| {
        let s = standing(decided, (now, later), consumed);
        assert!(s.required);
        let status = s.status.map_or("-", PacketStatus::as_str);
        format!("{} {} {} {status}", s.phase, s.granted, s.execution_allowed)
    };
    let used = |status| Some(Some(status));
    let rows = [
        shown(&Decided::Nothing, now, None),
        shown(&Decided::Granted, now, None),
        shown(&denied, now, None),
        shown(&Decided::Nothing, later, None),
        shown(&Decided::Granted, later, None),
        shown(&Decided::Granted, later, used(RunStatus::Pass)),
        shown(&Decided::Granted, now, used(RunStatus::Fail)),
        shown(&Decided::Granted, now, Some(None)),
    ];
    assert_eq!(
        rows,
        [
            "requested false false -",
            "granted true true -",
            "denied false false -",
            "expired false false -",
            "expired false false -",
            "consumed true false consumed_by_pass_evidence",
            "consumed true false consumed_without_pass",
            "consumed true false consumed_without_pass",
        ]
    );
}

#[test]
fn from_the_fourth_stage_on_a_plain_file_key_is_never_enough() {
    for stage in Stage::all() {
        for raised in [
            None,
            Some(Presence::None),
            Some(Presence::Claimed),
            Some(Presence::Uv),
        ] {
            let mut g = grant();
            g.floor = floor(stage, raised);
            g.presence = Presence::None;
            let refused = !codes(&facts(Standing::Granted(Box::new(g)))).is_empty();
            let is_raised = matches!(raised, Some(Presence::Claimed | Presence::Uv));
            assert_eq!(
                refused,
                stage.number() >= 4 || is_raised,
                "{stage} {raised:?}"
            );
        }
    }
}
