//! A home whose own key does not count: a run says so at its beginning, and never a pass that `cto verify` refuses.

use std::path::PathBuf;

use serde_json::Value;

use crate::place::write;
use crate::test_home::{TestHome, blockers};

/// The trust file of the one key that is there.
fn trust_file(home: &TestHome) -> PathBuf {
    let files = std::fs::read_dir(home.config().join("trust/harness")).unwrap();
    let mut files = files.map(|e| e.unwrap().path());
    let file = files.next().unwrap();
    assert_eq!(files.next(), None);
    file
}

fn set(file: &PathBuf, field: &str, value: Value) {
    let mut record: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    record[field] = value;
    write(file, &record.to_string());
}

#[test]
fn a_clock_before_the_key_is_told_in_a_pack_and_nothing_is_started() {
    let home = TestHome::new();
    assert_eq!(home.run_tiny().0, 0);
    let file = trust_file(&home);
    // As a machine sees its key whose clock has lost some years.
    set(&file, "valid_from", "2999-01-01T00:00:00Z".into());
    let (code, report) = home.run_tiny();
    assert_eq!(
        (code, &report["status"]),
        (3, &"blocked".into()),
        "{report}"
    );
    assert_eq!(blockers(&report), ["clock_undecidable"]);
    assert_eq!(report["backend_process_started"], false);
    let blocker = &report["blockers"][0];
    assert!(blocker["message"].to_string().contains("2999-01-01"));
    assert!(blocker["hint"].to_string().contains("cto key rotate"));
    // Both say the same: this pack is of a time at which its key does not count.
    let run_id = report["run_id"].as_str().unwrap();
    let (code, verified) = home.json(&["verify", run_id]);
    assert_eq!((code, &verified["origin"]), (5, &"expired".into()));
    assert_eq!(verified["integrity"], "ok");
    // What the hint says is enough, for a key that was made while the clock was ahead.
    assert_eq!(home.json(&["key", "rotate"]).0, 0);
    let (code, report) = home.run_tiny();
    assert_eq!(code, 0, "{report}");
    assert_eq!(home.json(&["verify", "latest"]).0, 0);
}

fn keyid_of(home: &TestHome) -> String {
    let shown = home.json(&["key", "show"]).1;
    shown["keyid"].as_str().unwrap().to_owned()
}

#[test]
fn a_key_that_never_counts_again_gives_out_no_run() {
    type Spoil = fn(&TestHome);
    let ways: [(&str, Spoil); 3] = [
        ("revoked", |home| {
            assert_eq!(home.json(&["trust", "revoke", &keyid_of(home)]).0, 0);
        }),
        ("its time is over", |home| {
            set(
                &trust_file(home),
                "valid_until",
                "2001-01-01T00:00:00Z".into(),
            );
            set(
                &trust_file(home),
                "valid_from",
                "2000-01-01T00:00:00Z".into(),
            );
        }),
        ("not among the trusted", |home| {
            std::fs::remove_file(trust_file(home)).unwrap();
        }),
    ];
    for (why, spoil) in ways {
        let home = TestHome::new();
        assert_eq!(home.run_tiny().0, 0);
        spoil(&home);
        let packs = home.packs();
        let (code, answer) = home.run_tiny();
        let error = &answer["error"];
        assert_eq!(
            (code, &error["code"]),
            (2, &"key_does_not_count".into()),
            "{why}: {answer}"
        );
        assert!(error.to_string().contains(why), "{why}: {error}");
        assert!(error["hint"].to_string().contains("cto "), "{error}");
        assert_eq!(home.packs(), packs, "{why}");
        // What was sealed before is still there to be looked at, and recovery goes on.
        assert_eq!(home.json(&["show", "latest"]).0, 0);
        assert_eq!(home.json(&["recover"]).0, 0);
        if why != "not among the trusted" {
            assert_eq!(home.json(&["key", "rotate"]).0, 0);
            assert_eq!(home.run_tiny().0, 0);
        }
    }
}
