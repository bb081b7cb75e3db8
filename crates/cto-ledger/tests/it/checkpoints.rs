//! A ledger that is put back, swapped or cut is seen.

use std::fs;
use std::path::Path;
use std::process::Command;

use cto_contract::operator::OperatorChange::Add;
use cto_ledger::SecondPlace;
use cto_testkit::authenticator::{SoftKey, UP_UV};

use crate::home::{TestHome, at};

fn faults(home: &TestHome) -> Vec<String> {
    home.ledger(|ledger| {
        let authority = ledger.authority().unwrap();
        let standing = ledger.standing(&authority).unwrap();
        let faults = standing.ledger_faults();
        faults
            .iter()
            .map(|fault| format!("{fault:?}").split(' ').next().unwrap().to_owned())
            .collect()
    })
}

fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    all.sort();
    all
}

#[test]
fn every_decision_leaves_a_checkpoint_and_all_are_kept() {
    let (home, olga) = TestHome::with_olga(1);
    assert_eq!(faults(&home), [""; 0]);
    home.change(
        Add,
        ("ivan", &SoftKey::ed25519(2)),
        ("olga", &olga),
        (UP_UV, 2),
    )
    .unwrap();
    assert_eq!(files(&home.config().join("checkpoints")).len(), 2);
    assert_eq!(faults(&home), [""; 0]);
}

#[test]
fn an_older_database_that_is_put_back_is_seen() {
    let (home, olga) = TestHome::with_olga(1);
    let home = home.reopen(1);
    let aside = home.dir.path().join("aside.db");
    fs::copy(home.database(), &aside).unwrap();
    home.change(
        Add,
        ("ivan", &SoftKey::ed25519(2)),
        ("olga", &olga),
        (UP_UV, 2),
    )
    .unwrap();
    let home = home.reopen(1);
    assert_eq!(faults(&home), [""; 0]);
    let database = home.database();
    for file in ["cto.db-wal", "cto.db-shm"] {
        fs::remove_file(home.dir.path().join(file)).ok();
    }
    fs::copy(&aside, &database).unwrap();
    let home = home.reopen(1);
    assert_eq!(faults(&home), ["Behind"]);
    // Nobody goes on from there, and it could not be hidden: an entry of another head has another file.
    let on = home.change(
        Add,
        ("eve", &SoftKey::ed25519(3)),
        ("olga", &olga),
        (UP_UV, 3),
    );
    assert_eq!(on.unwrap_err().code(), "ledger_rolled_back");
    for _ in 0..5 {
        home.ledger(|ledger| ledger.release(at(2))).unwrap();
        let lost = cto_contract::ledger::LedgerLost {
            at: at(3),
            ledger: home.store.ledger_id().unwrap(),
            seq: 1,
            digest: crate::home::digest(1),
        };
        let lost = cto_contract::ledger::Record::LedgerLost(lost);
        home.store.append(&lost).unwrap();
        home.ledger(|ledger| ledger.checkpoint(at(3))).unwrap();
    }
    assert!(faults(&home).contains(&"Differs".to_owned()));
}

#[test]
fn a_new_ledger_under_the_same_config_is_not_the_old_one() {
    let (home, _) = TestHome::with_olga(1);
    let home = home.reopen(1);
    let database = home.database();
    fs::remove_file(&database).unwrap();
    for file in ["cto.db-wal", "cto.db-shm"] {
        fs::remove_file(home.dir.path().join(file)).ok();
    }
    let home = home.reopen(2);
    assert_eq!(faults(&home), ["OtherLedger"]);
}

#[test]
fn a_checkpoint_that_somebody_touched_blocks_rather_than_counts_less() {
    let (home, _) = TestHome::with_olga(1);
    let directory = home.config().join("checkpoints");
    let [only] = &files(&directory)[..] else {
        panic!()
    };
    let good = fs::read(only).unwrap();
    for at in [0, good.len() / 2, good.len() - 2] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        write(only, &bad);
        assert_eq!(faults(&home), ["Unreadable"], "byte {at}");
    }
    // Another harness's checkpoint in its place.
    let (other, _) = TestHome::with_olga(3);
    let [foreign] = &files(&other.config().join("checkpoints"))[..] else {
        panic!()
    };
    fs::copy(foreign, only).unwrap();
    assert_eq!(faults(&home), ["Unreadable"]);
    fs::remove_file(only).unwrap();
    assert_eq!(faults(&home), ["Unwitnessed"]);
    home.ledger(|ledger| ledger.checkpoint(at(9))).unwrap();
    assert_eq!(faults(&home), [""; 0]);
}

#[test]
fn a_second_place_keeps_what_the_first_lost() {
    let (mut home, olga) = TestHome::with_olga(1);
    let second = home.dir.path().join("second");
    home.second = Some(SecondPlace::Directory(second.clone()));
    home.change(
        Add,
        ("ivan", &SoftKey::ed25519(2)),
        ("olga", &olga),
        (UP_UV, 2),
    )
    .unwrap();
    assert_eq!(files(&second).len(), 1);
    fs::remove_dir_all(home.config().join("checkpoints")).unwrap();
    assert_eq!(faults(&home), [""; 0]);
    write(&files(&second)[0], b"{}");
    assert_eq!(faults(&home), ["Unreadable"]);
}

#[test]
fn a_git_ref_gets_one_commit_for_each_checkpoint_and_is_read_back() {
    let (mut home, olga) = TestHome::with_olga(1);
    let repository = home.dir.path().join("repository");
    let git = |arguments: &[&str]| {
        #[expect(clippy::disallowed_methods, reason = "a repository to write to")]
        let out = Command::new("git").args(arguments).output().unwrap();
        assert!(out.status.success());
        String::from_utf8(out.stdout).unwrap()
    };
    let place = repository.to_str().unwrap().to_owned();
    git(&["init", "-q", &place]);
    // A hook of that repository is never run.
    let hook = repository.join(".git/hooks/reference-transaction");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    write(&hook, b"#!/bin/sh\nexit 1\n");
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    home.second = Some(SecondPlace::Git {
        repository: repository.clone(),
        reference: "refs/cto/checkpoints".to_owned(),
    });
    for n in 2..4 {
        let key = SoftKey::ed25519(n);
        let entered = home
            .change(
                Add,
                (&format!("n{n}"), &key),
                ("olga", &olga),
                (UP_UV, u32::from(n)),
            )
            .unwrap();
        assert!(entered.unfinished.is_empty(), "{:?}", entered.unfinished);
    }
    let log = git(&["-C", &place, "log", "--format=%s", "refs/cto/checkpoints"]);
    assert_eq!(log.lines().count(), 2, "{log}");
    assert_eq!(faults(&home), [""; 0]);
}

#[test]
fn a_command_gets_each_checkpoint_and_its_failure_is_told() {
    let (mut home, olga) = TestHome::with_olga(1);
    let kept = home.dir.path().join("kept");
    home.second = Some(SecondPlace::Command(
        ["tee", kept.to_str().unwrap()].map(str::to_owned).to_vec(),
    ));
    home.change(
        Add,
        ("ivan", &SoftKey::ed25519(2)),
        ("olga", &olga),
        (UP_UV, 2),
    )
    .unwrap();
    assert!(
        fs::read_to_string(&kept)
            .unwrap()
            .contains("vnd.cto.checkpoint+json")
    );
    home.second = Some(SecondPlace::Command(vec!["false".to_owned()]));
    let entered = home
        .change(
            Add,
            ("nina", &SoftKey::ed25519(3)),
            ("olga", &olga),
            (UP_UV, 3),
        )
        .unwrap();
    assert_eq!(entered.unfinished.len(), 1);
}

#[expect(clippy::disallowed_methods, reason = "an attacker's file")]
fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}
