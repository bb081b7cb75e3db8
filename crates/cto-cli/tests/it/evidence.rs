use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::place::{Place, sh};

fn codes(place: &Place, pack: &Path, extra: &[&str]) -> String {
    let ran = place.cto(&[&["verify", pack.to_str().unwrap(), "--json"], extra].concat());
    let report = ran.json();
    let mut codes: Vec<&str> = report["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["code"].as_str().unwrap())
        .collect();
    codes.dedup();
    assert_eq!(
        ran.code == Some(0),
        codes.is_empty(),
        "the exit code says the same"
    );
    assert_eq!(report["ok"] == true, codes.is_empty());
    format!("{} {}", ran.code.unwrap(), codes.join(" "))
}

#[test]
fn verify_names_what_is_wrong() {
    let place = Place::new().with_key();
    let pack = place.passed();
    let name = pack.file_name().unwrap().to_str().unwrap().to_owned();
    let damaged = |script: &str| {
        let copy = place.path("copy");
        sh(
            &place.path(""),
            &format!("rm -rf copy && cp -a home/harness-runs/{name} copy && cd copy && {script}"),
        );
        codes(&place, &copy, &[])
    };
    assert_eq!(damaged("true"), "0 ");
    assert!(damaged("printf x >> test.log").starts_with("5 digest_mismatch"));
    assert!(damaged("rm test.log").starts_with("5 file_missing"));
    assert!(damaged("touch more").starts_with("5 file_extra"));
    assert!(damaged("mv test.log best.log").contains("file_missing"));
    assert!(damaged("ln -sf /etc/hostname test.log").contains("file_linked"));
    assert!(damaged("rm attestation.dsse.json").contains("not_sealed"));
    let other = place.path("home/harness-runs/20200101T000000Z-r1-string-slugify-aaaaaa");
    sh(
        &place.path(""),
        &format!("cp -a home/harness-runs/{name} {}", other.display()),
    );
    assert_eq!(codes(&place, &other, &[]), "5 subject_mismatch");
    let by_id = place
        .cto(&[
            "verify",
            "20200101T000000Z-r1-string-slugify-aaaaaa",
            "--json",
        ])
        .expect(5)
        .json();
    assert_eq!(by_id["errors"][0]["code"], "subject_mismatch");
    assert_eq!(
        codes(
            &place,
            &pack,
            &["--expect-run", "20200101T000000Z-r1-string-slugify-aaaaaa"]
        ),
        "5 expectation_mismatch"
    );
    assert_eq!(
        codes(&place, &pack, &["--expect-nonce", &"0".repeat(64)]),
        "5 expectation_mismatch"
    );
    assert_eq!(
        codes(&place, &pack, &["--expect-contract", &"0".repeat(64)]),
        "5 expectation_mismatch"
    );
    symlink(&pack, place.path("link")).unwrap();
    assert_eq!(
        place.cto(&["verify", "./link", "--json"]).error(),
        "2 run_unknown"
    );
}

#[test]
fn an_origin_is_known_by_a_key_that_counts() {
    let place = Place::new().with_key();
    let pack = place.passed();
    let key = place.cto(&["key", "show", "--json"]).json();
    let stranger = Place::new();
    let public = key["public_key"].as_str().unwrap();
    assert_eq!(codes(&stranger, &pack, &[]), "5 origin_unknown");
    assert_eq!(codes(&stranger, &pack, &["--integrity-only"]), "0 ");
    assert_eq!(codes(&stranger, &pack, &["--key", public]), "0 ");
    fs::write(
        stranger.path("key.pem"),
        key["public_key_pem"].as_str().unwrap(),
    )
    .unwrap();
    assert_eq!(codes(&stranger, &pack, &["--key", "key.pem"]), "0 ");
    stranger
        .cto(&["trust", "add", "key.pem", "--name", "a friend"])
        .expect(0);
    assert_eq!(codes(&stranger, &pack, &[]), "0 ");
    stranger
        .cto(&[
            "trust",
            "add",
            public,
            "--name",
            "a friend",
            "--valid-until",
            "2020-01-01T00:00:00Z",
        ])
        .expect(0);
    assert_eq!(codes(&stranger, &pack, &[]), "5 origin_expired");
    stranger
        .cto(&["trust", "revoke", &key["keyid"].as_str().unwrap()[..8]])
        .expect(0);
    assert_eq!(codes(&stranger, &pack, &[]), "5 origin_revoked");
    assert_eq!(
        stranger
            .cto(&["trust", "add", public, "--name", "x", "--json"])
            .error(),
        "2 trust_revoked"
    );
    // A rotated key still vouches for what it sealed before.
    place.cto(&["key", "rotate"]).expect(0);
    assert_eq!(codes(&place, &pack, &[]), "0 ");
}

#[test]
fn a_replay_says_exactly_what_was_said_live() {
    let place = Place::new().with_key();
    let live = place.cto(&["run", "r1-string-slugify"]).expect(0);
    let replayed = place.cto(&["replay", "latest"]).expect(0);
    assert_eq!(replayed.out, live.err);
    let watched = place.cto(&["watch", "latest"]).expect(0);
    assert_eq!(watched.out, live.err);
    let json = place.cto(&["replay", "latest", "--json"]).json();
    assert_eq!(json["same"], true, "{json}");
}

#[test]
fn events_as_they_happen_are_the_log() {
    let place = Place::new().with_key();
    let ran = place
        .cto(&["run", "r1-string-slugify", "--events", "-q"])
        .expect(0);
    let logged = place.cto(&["logs", "latest", "--events"]).expect(0);
    assert_eq!(ran.out, logged.out);
    assert_eq!(ran.err, "");
}

#[test]
fn a_blocked_and_a_failed_run_have_their_exit_codes() {
    let place = Place::new().with_key();
    place
        .cto(&["run", "r1-string-slugify", "--engine", "codex"])
        .expect(3);
    let cases = place.cto(&["cases", "r1-string-slugify", "--json"]).json();
    let cheat = cases["cheats"][0].as_str().unwrap().to_owned();
    let report = place.cto(&["run", "r1-string-slugify", "--cheat", &cheat, "--json"]);
    assert!(matches!(report.code, Some(1 | 3)), "{:?}", report.code);
    assert_eq!(report.json()["conformance"], true);
    let listed = place.cto(&["runs", "--status", "pass", "--json"]).json();
    assert_eq!(listed["rows"].as_array().unwrap().len(), 0);
}

#[test]
fn what_an_agent_wrote_does_not_steer_a_terminal() {
    let place = Place::new().with_key();
    place.case(
        "escape",
        "allowed_paths: [a.txt]\nverification_commands: [\"grep -q after a.txt\"]\n",
    );
    let yaml = place.path("cases/escape/case.yaml");
    let text = fs::read_to_string(&yaml).unwrap().replace(
        "title: Change a.txt",
        "title: \"Change\\e[31m \\x9b31m \\u202e red\"",
    );
    fs::write(&yaml, text).unwrap();
    for args in [
        vec!["cases", "escape", "--cases", "cases"],
        vec!["cases", "--cases", "cases"],
        vec!["run", "escape", "--cases", "cases"],
        vec!["show", "latest"],
        vec!["runs"],
        vec!["cases", "escape", "--cases", "cases", "--json"],
        vec!["cases", "--cases", "cases", "--json"],
        vec!["show", "latest", "--json"],
    ] {
        let ran = place.cto(&args);
        let steers = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
        let all = format!("{}{}", ran.out, ran.err);
        assert!(args[0] == "runs" || all.contains("red"), "{args:?}: {all}");
        assert!(!all.contains(steers), "{args:?}: {all:?}");
    }
}
