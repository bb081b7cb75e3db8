//! Records of operators: any field that is changed after signing is found.

use cto_contract::ids::{Digest, Nonce};
use cto_contract::operator::{OperatorChange, OperatorSchema, OperatorStatement, Signed};
use cto_contract::words::{Custody, Presence};
use cto_evidence::canonical::to_canonical;
use cto_evidence::signed::{check, join};
use cto_evidence::sshsig::{NAMESPACE, SshSig};
use cto_testkit::authenticator::{SoftKey, UP_UV};
use serde_json::{Value, json};

fn signed_by(key: &SoftKey, flags: u8) -> Signed<OperatorStatement> {
    let statement = OperatorStatement {
        schema: OperatorSchema,
        ledger: Digest::from_bytes(&[1; 32]),
        change: OperatorChange::Add,
        operator: "olga".parse().unwrap(),
        public_key: key.public_line(),
        claims_presence: true,
        takes_over: Vec::new(),
        signer: "olga".parse().unwrap(),
        slot: Nonce::from_bytes(&[2; 32]),
        at: "2026-06-01T00:00:00Z".parse().unwrap(),
    };
    let message = to_canonical(&statement).unwrap();
    let armour = key.sign(NAMESPACE, &message, flags, 3);
    join(statement, &SshSig::from_armour(&armour).unwrap(), true).unwrap()
}

#[test]
fn a_record_holds_for_every_type_of_key_and_says_what_its_signature_shows() {
    for key in SoftKey::each(7) {
        check(&signed_by(&key, UP_UV), true).unwrap();
    }
    let touched = signed_by(&SoftKey::sk_ecdsa(7), 0x09).signature;
    assert_eq!(touched.presence, Presence::Up);
    assert_eq!(
        (touched.custody, touched.counter),
        (Custody::Synced, Some(3))
    );
    let plain = signed_by(&SoftKey::ed25519(7), 0);
    assert_eq!(plain.signature.presence, Presence::Claimed);
    // An enrolment that claims nothing makes the same signature worth less, and the record a lie.
    assert!(check(&plain, false).is_err());
}

#[test]
fn any_field_that_is_changed_after_signing_is_found() {
    let other = SoftKey::sk_ed25519(8);
    let good = serde_json::to_value(signed_by(&SoftKey::sk_ed25519(7), UP_UV)).unwrap();
    let foreign = serde_json::to_value(signed_by(&other, UP_UV)).unwrap();
    let changes: [(&str, Value); 13] = [
        ("/statement/ledger", json!("02".repeat(32))),
        ("/statement/change", json!("revoke")),
        ("/statement/operator", json!("eve")),
        ("/statement/public_key", json!(other.public_line())),
        ("/statement/claims_presence", json!(false)),
        ("/statement/signer", json!("eve")),
        ("/statement/slot", json!("03".repeat(32))),
        ("/statement/at", json!("2026-06-01T00:00:01.000000Z")),
        ("/signature/public_key", json!(other.public_line())),
        ("/signature/presence", json!("up")),
        ("/signature/custody", json!("synced")),
        ("/signature/counter", json!(4)),
        ("/signature/armour", foreign["signature"]["armour"].clone()),
    ];
    for (field, value) in changes {
        let mut changed = good.clone();
        *changed.pointer_mut(field).unwrap() = value;
        let changed: Signed<OperatorStatement> = serde_json::from_value(changed).unwrap();
        assert!(check(&changed, true).is_err(), "{field}");
    }
}
