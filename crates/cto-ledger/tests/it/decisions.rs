//! What enters the ledger and what does not.

use cto_contract::operator::OperatorChange::{Add, Revoke};
use cto_contract::words::Presence;
use cto_evidence::key::SigningKey;
use cto_evidence::sshsig::{NAMESPACE, SshSig};
use cto_ledger::{Entered, LedgerError};
use cto_testkit::authenticator::{SoftKey, UP_UV};

use crate::home::{TestHome, at, digest, trusted};

fn code(result: Result<Entered, LedgerError>) -> &'static str {
    result.map_or_else(|error| error.code(), |_| "ok")
}

#[test]
fn the_first_operator_signs_for_himself_and_the_next_by_him() {
    let (home, olga) = TestHome::with_olga(1);
    let ivan = SoftKey::ed25519(2);
    let by_himself = home.change(Add, ("ivan", &ivan), ("ivan", &ivan), (0, 0));
    assert_eq!(code(by_himself), "signature_key_unknown");
    home.ledger(|l| l.release(at(1))).unwrap();
    assert_eq!(
        code(home.change(Add, ("ivan", &ivan), ("olga", &olga), (UP_UV, 2))),
        "ok"
    );
    let authority = home.ledger(|l| l.authority()).unwrap();
    assert_eq!(authority.operators.active().count(), 2);
    // What counted before there was anybody counts by the first one's signature.
    assert!(authority.trust.get(&home.harness_key().keyid).is_some());
    assert_eq!(home.store.verify_ledger().unwrap().broken, None);
}

#[test]
fn a_revoked_key_signs_nothing_and_never_comes_back() {
    let (home, olga) = TestHome::with_olga(1);
    let ivan = SoftKey::sk_ecdsa(2);
    home.change(Add, ("ivan", &ivan), ("olga", &olga), (UP_UV, 2))
        .unwrap();
    home.change(Revoke, ("olga", &olga), ("ivan", &ivan), (UP_UV, 1))
        .unwrap();
    let again = home.change(
        Add,
        ("eve", &SoftKey::ed25519(3)),
        ("olga", &olga),
        (UP_UV, 3),
    );
    assert_eq!(code(again), "signature_key_revoked");
    home.ledger(|l| l.release(at(1))).unwrap();
    let back = home.change(Add, ("olga", &olga), ("ivan", &ivan), (UP_UV, 2));
    assert_eq!(code(back), "operator_change_refused");
}

#[test]
fn only_one_signature_is_asked_for_at_a_time_and_not_for_ever() {
    let (home, _) = TestHome::with_olga(1);
    let first = home.ask_trust("olga", vec![], 3).unwrap();
    assert_eq!(
        home.ask_trust("olga", vec![], 4).unwrap_err().code(),
        "signing_slot_taken"
    );
    // Its time is over after five minutes.
    let second = home.ask_trust("olga", vec![], 8).unwrap();
    assert_ne!(first.message, second.message);
    let waiting = home.ledger(|l| l.open_slot(at(9))).unwrap().unwrap();
    assert_eq!(waiting.expires_at, second.expires_at);
    assert!(home.ledger(|l| l.release(at(9))).unwrap().is_some());
    assert!(home.ledger(|l| l.open_slot(at(9))).unwrap().is_none());
}

#[test]
fn a_signature_counts_once_in_its_slot_in_its_time_and_for_its_bytes() {
    let (home, olga) = TestHome::with_olga(1);
    let key = trusted(&SigningKey::from_random(&[9; 32]));
    let keys = || vec![key.clone()];

    let late = home.ask_trust("olga", keys(), 10).unwrap();
    assert_eq!(
        code(home.enter(late, &olga, (UP_UV, 2), Presence::None, 15)),
        "signing_slot_expired"
    );

    let asked = home.ask_trust("olga", keys(), 20).unwrap();
    let mut other = asked.clone();
    other.statement.keys[0].name = "another".to_owned();
    other.message = cto_evidence::canonical::to_canonical(&other.statement).unwrap();
    let swapped = home.enter(other, &olga, (UP_UV, 2), Presence::None, 21);
    assert_eq!(code(swapped), "signing_slot_other_statement");
    // The signature of one statement is none of another.
    let armour = olga.sign(NAMESPACE, &asked.message, UP_UV, 2);
    let signature = SshSig::from_armour(&armour).unwrap();
    let mut moved = asked.statement.clone();
    moved.at = at(21);
    let entered: Result<_, LedgerError> =
        home.ledger(|l| l.enter(moved, &signature, (Presence::None, at(21)), |_, _| Ok(())));
    assert_eq!(code(entered), "signature_invalid");

    let again = asked.clone();
    assert_eq!(
        code(home.enter(asked, &olga, (UP_UV, 2), Presence::None, 21)),
        "ok"
    );
    assert_eq!(
        code(home.enter(again, &olga, (UP_UV, 3), Presence::None, 21)),
        "signing_slot_closed"
    );

    let mut unasked = home.ask_trust("olga", keys(), 30).unwrap();
    home.ledger(|l| l.release(at(30))).unwrap();
    unasked.statement.slot = digest(7).as_str().parse().unwrap();
    unasked.message = cto_evidence::canonical::to_canonical(&unasked.statement).unwrap();
    assert_eq!(
        code(home.enter(unasked, &olga, (UP_UV, 4), Presence::None, 31)),
        "signing_slot_unknown"
    );
}

#[test]
fn a_statement_of_another_ledger_counts_for_nothing_here() {
    let (here, olga) = TestHome::with_olga(1);
    let (there, _) = TestHome::with_olga(2);
    let mut asked = here
        .ask_trust("olga", vec![trusted(&SigningKey::from_random(&[9; 32]))], 3)
        .unwrap();
    asked.statement.ledger = there.store.ledger_id().unwrap();
    asked.message = cto_evidence::canonical::to_canonical(&asked.statement).unwrap();
    let error = here
        .enter(asked, &olga, (UP_UV, 2), Presence::None, 4)
        .unwrap_err();
    assert_eq!(error.code(), "signature_other_ledger", "{error}");
}

#[test]
fn a_counter_that_was_above_zero_has_to_rise_and_presence_has_its_floor() {
    let (home, olga) = TestHome::with_olga(1);
    let keys = || vec![trusted(&SigningKey::from_random(&[9; 32]))];
    let tries = |flags: u8, counter: u32, floor: Presence| {
        let asked = home.ask_trust("olga", keys(), 10).unwrap();
        let result = code(home.enter(asked, &olga, (flags, counter), floor, 11));
        home.ledger(|l| l.release(at(11))).unwrap();
        result
    };
    assert_eq!(tries(UP_UV, 1, Presence::None), "signature_counter_stuck");
    assert_eq!(tries(UP_UV, 0, Presence::None), "signature_counter_stuck");
    // Flags 0: stock tools accept it, and nobody touched the key.
    assert_eq!(tries(0, 2, Presence::Claimed), "signature_presence_too_low");
    assert_eq!(tries(1, 2, Presence::Uv), "signature_presence_too_low");
    assert_eq!(tries(1, 2, Presence::Up), "ok");
    assert_eq!(tries(UP_UV, 9, Presence::Uv), "ok");
}

#[test]
fn what_the_command_checks_besides_can_still_refuse_and_then_nothing_stays() {
    let (home, olga) = TestHome::with_olga(1);
    let asked = home
        .ask_trust("olga", vec![trusted(&SigningKey::from_random(&[9; 32]))], 3)
        .unwrap();
    let before = home.store.ledger_head().unwrap();
    let armour = olga.sign(NAMESPACE, &asked.message, UP_UV, 2);
    let signature = SshSig::from_armour(&armour).unwrap();
    let refused: Result<Entered, LedgerError> = home.ledger(|l| {
        l.enter(
            asked.statement,
            &signature,
            (Presence::None, at(4)),
            |_, authority| {
                assert!(authority.is_governed());
                Err(LedgerError::NothingAsked)
            },
        )
    });
    assert!(refused.is_err());
    assert_eq!(home.store.ledger_head().unwrap(), before);
}

#[test]
fn what_waits_for_a_signature_can_be_taken_up_later_unless_somebody_changed_it() {
    let (home, olga) = TestHome::with_olga(1);
    let asked = home
        .ask_trust("olga", vec![trusted(&SigningKey::from_random(&[9; 32]))], 3)
        .unwrap();
    type Trust = cto_contract::authority::TrustStatement;
    let later = home.ledger(|l| l.asked::<Trust>(at(4))).unwrap();
    assert_eq!(later.statement, asked.statement);
    let other = home.ledger(|l| l.asked::<cto_contract::operator::OperatorStatement>(at(4)));
    assert_eq!(other.unwrap_err().code(), "nothing_to_sign");
    let text = std::fs::read_to_string(&asked.file).unwrap();
    std::fs::remove_file(&asked.file).unwrap();
    let gone = home.ledger(|l| l.asked::<Trust>(at(4)));
    assert_eq!(gone.unwrap_err().code(), "draft_changed");
    write(
        &asked.file,
        text.replace("a harness", "an attacker").as_bytes(),
    );
    let changed = home.ledger(|l| l.asked::<Trust>(at(4)));
    assert_eq!(changed.unwrap_err().code(), "draft_changed");
    assert_eq!(
        code(home.enter(asked, &olga, (UP_UV, 2), Presence::None, 4)),
        "ok"
    );
}

#[expect(clippy::disallowed_methods, reason = "an attacker's file")]
fn write(path: &std::path::Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}
