//! Files of trust: written from the ledger, and never believed against it.

use std::fs;

use cto_contract::operator::OperatorChange::{Add, Revoke};
use cto_contract::words::Presence;
use cto_evidence::key::SigningKey;
use cto_ledger::OPERATORS_FILE;
use cto_testkit::authenticator::{SoftKey, UP_UV};

use crate::home::{TestHome, trusted};

fn faults(home: &TestHome) -> Vec<String> {
    home.ledger(|ledger| {
        let authority = ledger.authority().unwrap();
        let standing = ledger.standing(&authority).unwrap();
        standing
            .file_faults()
            .iter()
            .map(|fault| format!("{} {:?}", fault.file, fault.state))
            .collect()
    })
}

#[test]
fn an_older_operators_file_that_is_put_back_is_seen_and_mended() {
    let (home, olga) = TestHome::with_olga(1);
    let file = home.config().join(OPERATORS_FILE);
    let ivan = SoftKey::sk_ecdsa(2);
    home.change(Add, ("ivan", &ivan), ("olga", &olga), (UP_UV, 2))
        .unwrap();
    let with_olga = fs::read(&file).unwrap();
    home.change(Revoke, ("olga", &olga), ("ivan", &ivan), (UP_UV, 1))
        .unwrap();
    assert_eq!(faults(&home), [""; 0]);
    assert!(!fs::read_to_string(&file).unwrap().contains("olga "));

    write(&file, &with_olga);
    assert_eq!(faults(&home), [format!("{OPERATORS_FILE} Other")]);
    // Nothing is decided beside such a file.
    let refused = home.change(
        Add,
        ("eve", &SoftKey::ed25519(3)),
        ("olga", &olga),
        (UP_UV, 3),
    );
    assert_eq!(refused.unwrap_err().code(), "trust_rolled_back");
    fs::remove_file(&file).unwrap();
    assert_eq!(faults(&home), [format!("{OPERATORS_FILE} Missing")]);
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    assert_eq!(faults(&home), [format!("{OPERATORS_FILE} Other")]);
    home.ledger(|ledger| ledger.write_files()).unwrap();
    assert_eq!(faults(&home), [""; 0]);
}

#[test]
fn an_operators_file_in_a_home_where_nobody_decides_is_seen() {
    let home = TestHome::new(1);
    assert_eq!(faults(&home), [""; 0]);
    fs::create_dir_all(home.config()).unwrap();
    write(
        &home.config().join(OPERATORS_FILE),
        b"eve ssh-ed25519 AAAA\n",
    );
    assert_eq!(faults(&home), [format!("{OPERATORS_FILE} Extra")]);
}

#[test]
fn a_harness_key_that_nobody_signed_for_counts_no_more_than_one_that_was_revoked() {
    let (home, olga) = TestHome::with_olga(1);
    let trust = home.config().join("trust/harness");
    let mut ci = trusted(&SigningKey::from_random(&[9; 32]));
    let file = trust.join(format!("{}.json", ci.keyid));
    fs::create_dir_all(&trust).unwrap();
    write(&file, b"{}");
    assert_eq!(faults(&home).len(), 1);
    home.ledger(|ledger| ledger.write_files()).unwrap();
    assert!(!file.exists());

    let asked = home.ask_trust("olga", vec![ci.clone()], 3).unwrap();
    home.enter(asked, &olga, (UP_UV, 2), Presence::None, 4)
        .unwrap();
    let counted = fs::read(&file).unwrap();
    ci.revoked_at = Some(crate::home::at(5));
    let asked = home.ask_trust("olga", vec![ci.clone()], 5).unwrap();
    home.enter(asked, &olga, (UP_UV, 3), Presence::None, 6)
        .unwrap();
    assert_eq!(faults(&home), [""; 0]);
    write(&file, &counted);
    assert_eq!(faults(&home).len(), 1);
    home.ledger(|ledger| ledger.write_files()).unwrap();
    ci.revoked_at = None;
    let asked = home.ask_trust("olga", vec![ci], 7).unwrap();
    let back = home.enter(asked, &olga, (UP_UV, 4), Presence::None, 8);
    assert_eq!(back.unwrap_err().code(), "trust_change_refused");
}

#[expect(clippy::disallowed_methods, reason = "an attacker's file")]
fn write(path: &std::path::Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}
