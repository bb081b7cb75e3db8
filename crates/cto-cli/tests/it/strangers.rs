//! Packs of somebody else, and packs that pass themselves off as this home's.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::place::{Place, sh, write};

/// Commands that show a run, with what else they need.
const SHOWING: [&[&str]; 8] = [
    &["show"],
    &["diff"],
    &["logs"],
    &["explain"],
    &["replay"],
    &["watch"],
    &["export", "--patch"],
    &["export", "--tar", "x.tar"],
];

fn with<'a>(command: &[&'a str], run: &'a str) -> Vec<&'a str> {
    let (name, rest) = command.split_first().unwrap();
    let mut args = vec![*name, run];
    args.extend(rest);
    args
}

fn id(pack: &Path) -> String {
    pack.file_name().unwrap().to_str().unwrap().to_owned()
}

/// A home with a run of its own and, younger by its date, one of somebody else.
fn host_and_guest() -> (Place, String, Place, String) {
    let (host, guest) = (Place::new().with_key(), Place::new().with_key());
    let own = id(&host.passed());
    let theirs = id(&guest.passed());
    let file = host.path("theirs.tar");
    guest
        .cto(&["export", "latest", "--tar", file.to_str().unwrap()])
        .expect(0);
    host.cto(&["import", "theirs.tar"]).expect(0);
    (host, own, guest, theirs)
}

#[test]
fn the_patch_of_a_stranger_is_handed_over_only_to_who_asks_for_any() {
    let (host, _, guest, theirs) = host_and_guest();
    let export = |more: &[&str]| {
        let args = [&["export", theirs.as_str(), "--patch", "--json"], more].concat();
        host.cto(&args)
    };
    assert_eq!(export(&[]).error(), "5 origin_unknown");
    let plain = host.cto(&["export", &theirs, "--patch"]).expect(5);
    assert!(plain.out.is_empty(), "{}", plain.out);
    assert!(plain.err.contains("--any-origin"), "{}", plain.err);
    let taken = export(&["--any-origin"]).expect(0).json();
    assert_eq!(taken["origin"], "unknown");
    assert_eq!(taken["of_this_home"], false);
    assert!(taken["patch"].as_str().unwrap().contains("diff --git"));

    let key = guest.cto(&["key", "show", "--json"]).expect(0).json();
    let (public, keyid) = (&key["public_key"], key["keyid"].as_str().unwrap());
    host.cto(&[
        "trust",
        "add",
        public.as_str().unwrap(),
        "--name",
        "guest",
        "--valid-from",
        "2020-01-01T00:00:00Z",
    ])
    .expect(0);
    assert_eq!(export(&[]).expect(0).json()["origin"], "known");
    host.cto(&["trust", "revoke", keyid]).expect(0);
    assert_eq!(export(&[]).error(), "5 origin_revoked");
    let rows = host.cto(&["runs", "--json"]).expect(0).json();
    let row = |id: &str| {
        let rows = rows["rows"].as_array().unwrap();
        rows.iter().find(|r| r["run_id"] == id).unwrap().clone()
    };
    assert_eq!(row(&theirs)["origin"], "revoked", "as the keys stand now");

    // The own key, revoked: its packs are still of this home, and count no more.
    let own = host.cto(&["key", "show", "--json"]).expect(0).json();
    host.cto(&["trust", "revoke", own["keyid"].as_str().unwrap()])
        .expect(0);
    assert_eq!(
        host.cto(&["export", "latest", "--patch", "--json"]).error(),
        "5 origin_revoked"
    );
    let shown = host.cto(&["show", "latest", "--json"]).expect(0).json();
    assert_eq!(
        (&shown["origin"], &shown["of_this_home"]),
        (&"revoked".into(), &Value::Bool(true))
    );
}

#[test]
fn origin_is_shown_wherever_a_run_is() {
    let (host, own, _, theirs) = host_and_guest();
    for command in SHOWING {
        for (run, origin, of_this_home) in [(&own, "known", true), (&theirs, "unknown", false)] {
            let mut args = with(command, run);
            if command.contains(&"--patch") {
                args.push("--any-origin");
            }
            let said = host.cto(&args).expect(0);
            let all = format!("{}{}", said.out, said.err);
            let word = if of_this_home {
                "; a run of this home"
            } else {
                "; not a run of this home"
            };
            assert!(
                all.contains(origin) && all.contains(word),
                "{args:?}: {all}"
            );
            if command[0] == "watch" {
                continue;
            }
            args.push("--json");
            let json = host.cto(&args).expect(0).json();
            assert_eq!(json["origin"], origin, "{args:?}");
            assert_eq!(json["of_this_home"], of_this_home, "{args:?}");
        }
    }
    let listed = host.cto(&["runs"]).expect(0).out;
    assert!(listed.contains("unknown, imported"), "{listed}");
}

#[test]
fn what_a_report_says_of_its_own_origin_does_not_count() {
    let (host, _, _, theirs) = host_and_guest();
    let there = Place::new();
    let copy = there.path(&theirs);
    sh(
        &there.path(""),
        &format!("cp -a {} .", host.pack(&theirs).display()),
    );
    let mut report: Value =
        serde_json::from_slice(&fs::read(copy.join("report.json")).unwrap()).unwrap();
    report["origin"] = "known".into();
    report["of_this_home"] = true.into();
    fs::write(copy.join("report.json"), report.to_string()).unwrap();
    let shown = there.cto(&["show", copy.to_str().unwrap(), "--json"]);
    assert_eq!(shown.error(), "5 file_altered");
}

#[test]
fn latest_is_the_last_run_of_this_home_whatever_was_taken_in() {
    let (host, own, _, theirs) = host_and_guest();
    let latest = |host: &Place| {
        host.cto(&["show", "latest", "--json"]).expect(0).json()["run_id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    // By its time the stranger's may be the younger one: the order is the ledger's.
    assert_ne!(theirs, own);
    assert_eq!(latest(&host), own);
    host.cto(&["index", "rebuild"]).expect(0);
    assert_eq!(latest(&host), own);
    let empty = Place::new().with_key();
    let file = host.path("theirs.tar");
    empty.cto(&["import", file.to_str().unwrap()]).expect(0);
    assert_eq!(
        empty.cto(&["show", "latest", "--json"]).error(),
        "2 run_unknown"
    );
    assert_eq!(
        empty
            .cto(&["show", &theirs[..16], "--json"])
            .expect(0)
            .json()["run_id"],
        theirs.as_str()
    );
}

#[test]
fn in_a_repository_latest_is_the_last_run_on_it_and_never_one_on_another() {
    let place = Place::elsewhere().with_key();
    let case = id(&place.passed());
    let mut on = Vec::new();
    for name in ["one", "two"] {
        let repository = place.path(name);
        write(&repository.join("src/a.txt"), "before\n");
        sh(
            &repository,
            "git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm a",
        );
        write(
            &place.path("task.yaml"),
            "schema: cto.contract/v1\ntask_id: t\ntitle: t\ninstruction: t\nallowed_paths: [src]\nverification_commands: [grep -q after src/a.txt]\n",
        );
        let ran = place
            .command(&[
                "run",
                "--repo",
                name,
                "--contract",
                "task.yaml",
                "--engine",
                "command",
                "--stage",
                "3",
                "--json",
                "-q",
            ])
            .env("CTO_HARNESS_ALLOW_COMMAND", "1")
            .env("CTO_HARNESS_COMMAND_STAGE", "3")
            .args(["--", "sh", "-c", "echo after > src/a.txt"])
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
        on.push(report["run_id"].as_str().unwrap().to_owned());
    }
    let latest = |dir: &str| {
        let out = place
            .command(&["explain", "latest", "--json"])
            .current_dir(place.path(dir))
            .output()
            .unwrap();
        let told: Value = serde_json::from_slice(&out.stdout).unwrap();
        told["run_id"].as_str().unwrap_or("none").to_owned()
    };
    sh(
        &place.path(""),
        "mkdir -p three && cd three && git init -q .",
    );
    let check = || {
        assert_eq!(latest(""), on[1]);
        assert_eq!(latest("one/src"), on[0]);
        assert_eq!(latest("two"), on[1]);
        assert_eq!(latest("three"), case, "cases are of no repository");
    };
    check();
    place.cto(&["index", "rebuild"]).expect(0);
    check();
}

#[test]
fn a_pack_that_the_ledger_does_not_know_is_not_shown_as_ones_own() {
    let (host, own, guest, theirs) = host_and_guest();
    let pack = host.pack(&own);
    let runs = pack.parent().unwrap();
    // Another good pack of this home, under the name of the first; and a stranger's.
    let second = id(&host.passed());
    for other in [host.pack(&second), guest.pack(&theirs)] {
        sh(
            runs,
            &format!("mv {own} ../aside && cp -a {} {own}", other.display()),
        );
        for command in SHOWING.iter().chain([&["verify"][..]].iter()) {
            let args = [with(command, &own), vec!["--json"]].concat();
            let ran = host.cto(&args);
            assert_eq!(ran.code, Some(5), "{args:?}: {}{}", ran.out, ran.err);
        }
        let rows = host.cto(&["runs", "--json"]).expect(5).json();
        assert_eq!(rows["mismatched"], serde_json::json!([own]));
        sh(runs, &format!("rm -rf {own} && mv ../aside {own}"));
    }
    host.cto(&["show", &own]).expect(0);
    host.cto(&["runs"]).expect(0);
    // The seal taken away: the ledger remembers it.
    sh(&pack, "mv attestation.dsse.json ../../seal");
    assert_eq!(
        host.cto(&["show", &own, "--json"]).error(),
        "5 ledger_mismatch"
    );
    sh(&pack, "mv ../../seal attestation.dsse.json");
    // One file changed.
    sh(
        &pack,
        "cp report.json ../../report && sed -i s/pass/fail/ report.json",
    );
    assert_eq!(
        host.cto(&["show", &own, "--json"]).error(),
        "5 file_altered"
    );
    sh(&pack, "mv ../../report report.json");
    // The pack taken away.
    sh(runs, &format!("mv {own} ../aside"));
    assert_eq!(host.cto(&["show", &own, "--json"]).error(), "5 run_lost");
    let rows = host.cto(&["runs", "--json"]).expect(0).json();
    assert_eq!(rows["missing"], serde_json::json!([own]));
}

#[test]
fn another_pack_under_the_id_of_an_own_run_is_not_taken_in() {
    let place = Place::new().with_key();
    let pack = place.passed();
    let own = id(&pack);
    // The same run, sealed otherwise by the very same key.
    let text = fs::read_to_string(place.home().join("keys/harness.pem")).unwrap();
    let key = cto_evidence::key::SigningKey::from_pem(&text).unwrap();
    sh(
        &place.path(""),
        &format!(
            "cp -a {} copy && mv {} gone",
            pack.display(),
            pack.display()
        ),
    );
    resign(&place.path("copy"), &key);
    sh(&place.path(""), &format!("mv copy {own}"));
    place
        .cto(&["verify", &format!("./{own}"), "--json"])
        .expect(5);
    assert_eq!(
        place.cto(&["import", &own, "--json"]).error(),
        "5 ledger_mismatch"
    );
    assert!(!pack.exists());
    // The one that the ledger knows comes back.
    let back = place.cto(&["import", "gone", "--json"]).expect(0).json();
    assert_eq!(back["of_this_home"], true);
    place.cto(&["show", "latest"]).expect(0);
}

/// Adds a field that no reader knows to the report, and makes everything right again with the key.
fn resign(pack: &Path, key: &cto_evidence::key::SigningKey) {
    use cto_contract::attestation::{PAYLOAD_TYPE, Statement};
    use cto_evidence::canonical::{digest_of, sha256, to_canonical};
    use cto_evidence::dsse::{envelope_bytes, open_envelope, seal_envelope};
    let path = |name: &str| pack.join(name);
    let old = fs::read(path("report.json")).unwrap();
    let mut report: Value = serde_json::from_slice(&old).unwrap();
    report["another"] = "field".into();
    let digests = report["artifact_digests"].as_object_mut().unwrap();
    digests.remove("report.json");
    let own = digest_of(&report).unwrap();
    report["artifact_digests"]["report.json"] = serde_json::json!(own);
    let new = to_canonical(&report).unwrap();
    fs::write(path("report.json"), &new).unwrap();
    let sums = fs::read_to_string(path("SHA256SUMS")).unwrap();
    let sums = sums.replace(sha256(&old).as_str(), sha256(&new).as_str());
    fs::write(path("SHA256SUMS"), &sums).unwrap();
    let envelope = fs::read(path("attestation.dsse.json")).unwrap();
    let payload = open_envelope(&envelope, PAYLOAD_TYPE).unwrap().payload;
    let mut statement: Statement = serde_json::from_slice(&payload).unwrap();
    statement.subject[0].digest.sha256 = sha256(sums.as_bytes());
    let envelope = seal_envelope(PAYLOAD_TYPE, &to_canonical(&statement).unwrap(), key);
    fs::write(
        path("attestation.dsse.json"),
        envelope_bytes(&envelope).unwrap(),
    )
    .unwrap();
}

#[test]
fn packs_of_a_hostile_shape_are_refused_and_print_no_escapes() {
    let place = Place::new().with_key();
    let pack = place.passed();
    let own = id(&pack);
    // A link where the pack of an own run should be.
    let runs = pack.parent().unwrap();
    sh(runs, &format!("mv {own} ../aside && ln -s ../aside {own}"));
    for command in SHOWING {
        let args = [with(command, &own), vec!["--json"]].concat();
        assert_eq!(place.cto(&args).code, Some(5), "{args:?}");
    }
    sh(runs, &format!("rm {own} && mv ../aside {own}"));
    let nested = "import sys; sys.stdout.write('[' * 200000 + ']' * 200000)";
    for (name, spoil) in [
        (
            "deep report",
            format!("python3 -c \"{nested}\" > report.json"),
        ),
        (
            "deep seal",
            format!("python3 -c \"{nested}\" > attestation.dsse.json"),
        ),
        ("huge list", "truncate -s 10G SHA256SUMS".to_owned()),
        ("no list", "rm SHA256SUMS".to_owned()),
        (
            "pipe",
            "rm attestation.dsse.json && mkfifo attestation.dsse.json".to_owned(),
        ),
    ] {
        let shown = "a\u{1b}[31mb";
        sh(
            &place.path(""),
            &format!(
                "rm -rf '{shown}' && cp -a {} '{shown}' && cd '{shown}' && {spoil}",
                pack.display()
            ),
        );
        let path = format!("./{shown}");
        for command in ["show", "verify", "explain"] {
            let ran = place.cto(&[command, &path]);
            assert_eq!(
                ran.code,
                Some(5),
                "{name}: {command}: {}{}",
                ran.out,
                ran.err
            );
            assert!(
                !format!("{}{}", ran.out, ran.err).contains('\u{1b}'),
                "{name}"
            );
        }
    }
}
