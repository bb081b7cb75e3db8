use super::*;
use cto_contract::ids::{Digest, Nonce};
use proptest::prelude::*;

fn change(what: OperatorChange, operator: &str, key: &str, signer: &str) -> OperatorStatement {
    OperatorStatement {
        schema: cto_contract::operator::OperatorSchema,
        ledger: Digest::from_bytes(&[1; 32]),
        change: what,
        operator: operator.parse().unwrap(),
        public_key: key.to_owned(),
        claims_presence: key.starts_with("claims"),
        takes_over: Vec::new(),
        signer: signer.parse().unwrap(),
        slot: Nonce::from_bytes(&[2; 32]),
        at: "2026-06-01T00:00:00Z".parse().unwrap(),
    }
}

/// Plays `add NAME KEY by NAME KEY PRESENCE` and `revoke …`, and says what came of the last one.
fn play(lines: &[&str]) -> (Operators, String) {
    let mut operators = Operators::default();
    let mut last = String::new();
    for line in lines {
        let [what, operator, key, "by", signer, signing, presence] =
            line.split(' ').collect::<Vec<_>>()[..]
        else {
            panic!("{line}");
        };
        let statement = change(what.parse().unwrap(), operator, key, signer);
        let by = SignedBy {
            public_key: signing,
            presence: presence.parse().unwrap(),
        };
        let before = operators.clone();
        let done = operators.apply(&statement, by);
        last = done
            .as_ref()
            .map_or_else(ToString::to_string, |()| "ok".to_owned());
        if done.is_err() {
            assert_eq!(operators, before, "a refused change changes nothing");
        }
    }
    (operators, last)
}

fn last(lines: &[&str]) -> String {
    play(lines).1
}

const OLGA: &str = "add olga claims-1 by olga claims-1 claimed";

#[test]
fn the_first_operator_signs_for_himself() {
    assert_eq!(last(&[OLGA]), "ok");
    insta::assert_snapshot!(last(&["add olga claims-1 by olga claims-2 claimed"]), @"the first operator has to sign for himself, with the key that he adds");
    insta::assert_snapshot!(last(&["add olga claims-1 by ivan claims-1 claimed"]), @"the first operator has to sign for himself, with the key that he adds");
    insta::assert_snapshot!(last(&["revoke olga claims-1 by olga claims-1 claimed"]), @"there is no operator yet whose key could be revoked");
}

#[test]
fn whoever_comes_later_is_added_by_somebody_who_counts() {
    assert_eq!(
        last(&[OLGA, "add ivan sk-1 by olga claims-1 claimed"]),
        "ok"
    );
    insta::assert_snapshot!(last(&[OLGA, "add ivan sk-1 by ivan sk-1 uv"]), @"`ivan` has no such key here, or no longer");
    insta::assert_snapshot!(last(&[OLGA, "add ivan sk-1 by olga claims-2 claimed"]), @"`olga` has no such key here, or no longer");
    insta::assert_snapshot!(last(&[OLGA, "add ivan claims-1 by olga claims-1 claimed"]), @"the key is `olga`'s already");
    insta::assert_snapshot!(last(&[
        OLGA,
        "add ivan sk-1 by olga claims-1 claimed",
        "revoke olga claims-1 by ivan sk-1 up",
        "add eve claims-3 by olga claims-1 claimed",
    ]), @"`olga` has no such key here, or no longer");
}

#[test]
fn a_key_without_presence_makes_no_key_with_it() {
    let plain = "add bot plain-1 by bot plain-1 none";
    assert_eq!(last(&[plain, "add bot plain-2 by bot plain-1 none"]), "ok");
    for stronger in ["claims-2", "sk-2"] {
        let line = format!("add bot {stronger} by bot plain-1 none");
        assert_eq!(
            last(&[plain, &line]),
            "a key without presence can't add one that has it"
        );
    }
    // A security key that nobody touched is worth no more.
    assert_eq!(
        last(&[
            "add olga sk-1 by olga sk-1 uv",
            "add eve claims-2 by olga sk-1 none"
        ]),
        "a key without presence can't add one that has it"
    );
}

#[test]
fn a_key_without_presence_revokes_nobody_else() {
    let bot = "add bot plain-1 by olga claims-1 claimed";
    let other = "add ivan plain-2 by olga claims-1 claimed";
    let refused =
        "a key without presence revokes only keys of its own operator that have none either";
    for (line, expected) in [
        ("revoke olga claims-1 by bot plain-1 none", refused),
        ("revoke ivan plain-2 by bot plain-1 none", refused),
        ("revoke bot plain-1 by bot plain-1 none", "ok"),
        ("revoke bot plain-1 by olga claims-1 claimed", "ok"),
    ] {
        assert_eq!(last(&[OLGA, bot, other, line]), expected, "{line}");
    }
    let spare = "add bot plain-3 by bot plain-1 none";
    let gone = "revoke bot plain-3 by bot plain-1 none";
    assert_eq!(last(&[OLGA, bot, spare, gone]), "ok");
    // Nor does a security key that nobody touched.
    let untouched = "revoke olga claims-1 by ivan sk-1 none";
    let ivan = "add ivan sk-1 by olga claims-1 claimed";
    assert_eq!(last(&[OLGA, ivan, untouched]), refused);
}

#[test]
fn a_revoked_key_stays_revoked_and_the_last_one_can_not_be() {
    let second = "add olga claims-2 by olga claims-1 claimed";
    let gone = "revoke olga claims-1 by olga claims-2 claimed";
    assert_eq!(last(&[OLGA, second, gone]), "ok");
    insta::assert_snapshot!(last(&[OLGA, second, gone, "add olga claims-1 by olga claims-2 claimed"]), @"the key was revoked, and a revoked key stays revoked");
    insta::assert_snapshot!(last(&[OLGA, second, gone, "revoke olga claims-1 by olga claims-2 claimed"]), @"`olga` has no such key");
    insta::assert_snapshot!(last(&[OLGA, "revoke olga claims-1 by olga claims-1 claimed"]), @"it is the last key that counts");
}

#[test]
fn the_file_lists_the_keys_that_count() {
    let (operators, _) = play(&[
        OLGA,
        "add ivan sk-1 by olga claims-1 claimed",
        "revoke olga claims-1 by ivan sk-1 up",
    ]);
    insta::assert_snapshot!(operators.allowed_signers("cto-approval"), @r#"
    # Written by cto from its ledger; `cto operator add|revoke` changes it. A change by hand counts for nothing.
    ivan namespaces="cto-approval" sk-1
    "#);
}

#[test]
fn presence_is_ordered_and_a_setting_only_raises_the_floor() {
    let order = [
        Presence::None,
        Presence::Claimed,
        Presence::Up,
        Presence::Uv,
    ];
    for (i, presence) in order.iter().enumerate() {
        for (j, need) in order.iter().enumerate() {
            assert_eq!(meets(*presence, *need), i >= j);
        }
        for stage in 1..=6 {
            let stage = Stage::try_from(stage).unwrap();
            let least = floor(stage, None);
            assert_eq!(least == Presence::None, stage.number() < 4);
            assert!(meets(floor(stage, Some(*presence)), least));
            assert!(meets(floor(stage, Some(*presence)), *presence));
        }
    }
}

#[test]
fn a_counter_that_was_ever_above_zero_must_rise() {
    let check = |counts: &[u32]| {
        let mut counters = Counters::default();
        let rises: Vec<bool> = counts
            .iter()
            .map(|count| counters.rises("sk-1", Some(*count)))
            .collect();
        rises.last().copied().unwrap()
    };
    assert!(check(&[0, 0]));
    assert!(check(&[0, 7, 8]));
    assert!(!check(&[7, 7]));
    assert!(!check(&[7, 0]));
    assert!(!check(&[7, 6]));
    let mut counters = Counters::default();
    assert!(counters.rises("sk-1", Some(7)) && counters.rises("sk-2", Some(7)));
    assert!(counters.rises("plain", None) && counters.rises("plain", None));
}

proptest! {
    /// Whatever is tried in whatever order, somebody who counts is left once somebody did.
    #[test]
    fn nobody_can_lock_everybody_out(
        tries in proptest::collection::vec((any::<bool>(), 0_u8..3, 0_u8..4, 0_u8..3, 0_u8..4), 1..40),
    ) {
        let mut operators = Operators::default();
        let mut once = false;
        for (add, operator, key, signer, signing) in tries {
            let what = if add { OperatorChange::Add } else { OperatorChange::Revoke };
            let (key, signing) = (format!("claims-{key}"), format!("claims-{signing}"));
            let statement = change(what, &format!("o{operator}"), &key, &format!("o{signer}"));
            let by = SignedBy { public_key: &signing, presence: Presence::Claimed };
            let signer_counts = operators.find(&statement.signer, &signing).is_some();
            let empty = operators.is_empty();
            if operators.apply(&statement, by).is_ok() {
                prop_assert!(signer_counts || empty);
            }
            once |= !operators.is_empty();
            prop_assert_eq!(once, operators.active().count() > 0);
        }
    }
}
