//! Records that an operator signs for: from the command line into the ledger, and from there into their files.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use cto_testkit::authenticator::UP_UV;
use cto_testkit::has;
use serde_json::{Value, json};

use crate::operators::{Governed, at_terminal, ivan, make_key, olga};
use crate::place::{Place, write};
use crate::schemas::fits_schema;

fn model(trigger: &str) -> Value {
    json!({
        "status": "admitted", "provider": "mine", "model": "m1", "credential_source_class": "none",
        "allowed_network_class": "loopback", "approval_source": "olga", "admission_timestamp": "2026-06-01",
        "review_trigger": trigger,
    })
}

fn target(path: &str) -> Value {
    json!({
        "admission_status": "admitted", "target_repository_path": path, "ownership_evidence": "mine",
        "risk_classification": "low_risk_noncritical", "allowed_paths": ["src/"], "operator_outcome_required": true,
        "forbidden_actions": ["push", "merge", "deploy", "close", "pr_open", "issue_close", "public_publication",
            "credential_change", "vendor_source_mutation", "cortex_core_mutation"],
        "approval_source": "olga", "approval_timestamp": "2026-06-01", "review_trigger": "another path",
    })
}

fn put(here: &Governed, name: &str, record: &Value) -> String {
    let file = here.place.path(name);
    write(&file, &format!("{record:#}"));
    file.to_str().unwrap().to_owned()
}

fn row(place: &Place, kind: &str) -> Value {
    let listed = place.cto(&["admissions", "--json"]).expect(0).json();
    fits_schema(place, "admissions", &listed);
    let rows = listed["records"].as_array().unwrap();
    let of_kind = rows.iter().find(|row| row["kind"] == kind);
    of_kind.unwrap_or_else(|| panic!("{listed:#}")).clone()
}

fn model_file(here: &Governed) -> PathBuf {
    here.config()
        .join("admissions/MODEL-PROVIDER-ADMISSION.mine-m1.json")
}

#[test]
fn a_signed_record_enters_the_ledger_and_its_file_is_written_from_there() {
    let here = Governed::new();
    let file = put(&here, "model.json", &model("before another model"));
    let admit = ["admit", "model", "--file", &file];
    let asked = here.asks(&admit).expect(4).json();
    fits_schema(&here.place, "signing", &asked);
    assert!(
        !model_file(&here).exists(),
        "nothing counts before it is signed"
    );
    let taken = here.brings(&admit, &asked, &olga(), UP_UV).expect(0).json();
    fits_schema(&here.place, "admit", &taken);
    assert_eq!(taken["admission"], "signed");
    assert_eq!(taken["path"], model_file(&here).to_str().unwrap());
    let signed = row(&here.place, "model");
    assert_eq!(
        (&signed["state"], &signed["admission"]),
        (&"admitted".into(), &"signed".into())
    );
    let by = &signed["signature"];
    assert_eq!(
        (&by["signer"], &by["presence"], &by["custody"]),
        (&"olga".into(), &"uv".into(), &"unattested".into())
    );
    let first = by["seq"].as_u64().unwrap();
    let shown = here.place.cto(&["admissions"]).expect(0).out;
    assert!(shown.contains("signed by olga (presence: uv"), "{shown}");

    // Another record about the same takes its place only when that is said, and gets a greater number.
    let other = put(&here, "other.json", &model("2020-01-01 is over"));
    let again = ["admit", "model", "--file", &other];
    assert_eq!(here.asks(&again).error(), "2 record_exists");
    let replace = [&again[..], &["--replace"]].concat();
    here.signs(&replace, &olga()).expect(0);
    let stale = row(&here.place, "model");
    assert_eq!(stale["state"], "stale");
    assert!(stale["signature"]["seq"].as_u64().unwrap() > first);
    here.place.cto(&["ledger", "verify"]).expect(0);
}

#[test]
fn an_older_changed_or_missing_file_of_a_signed_record_is_named_with_its_repair() {
    let here = Governed::new();
    let old = put(&here, "old.json", &model("before another model"));
    here.signs(&["admit", "model", "--file", &old], &olga())
        .expect(0);
    let before = fs::read_to_string(model_file(&here)).unwrap();
    let mut refused = model("before another model");
    refused["status"] = "not_admitted".into();
    let new = put(&here, "new.json", &refused);
    here.signs(&["admit", "model", "--replace", "--file", &new], &olga())
        .expect(0);
    let after = fs::read_to_string(model_file(&here)).unwrap();
    let beside = here.config().join("mine.json");
    let plant = |text: &str| {
        write(&beside, text);
        fs::set_permissions(&beside, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    };
    let spoil: [(&str, &dyn Fn()); 4] = [
        ("put back", &|| write(&model_file(&here), &before)),
        ("changed", &|| {
            write(&model_file(&here), &after.replace("olga", "eve"));
        }),
        ("gone", &|| fs::remove_file(model_file(&here)).unwrap()),
        ("beside it", &|| plant(&before)),
    ];
    for (what, spoil) in spoil {
        spoil();
        let listed = here.place.cto(&["admissions", "--json"]).expect(0).json();
        let rows = listed["records"].as_array().unwrap();
        let is_named = rows.iter().any(|row| row["state"] == "rolled_back");
        assert!(is_named, "{what}: {listed:#}");
        let run = here
            .place
            .cto(&["run", "r1-string-slugify", "--json", "-q"]);
        let report = run.expect(3).json();
        assert_eq!(
            report["blockers"][0]["code"], "trust_rolled_back",
            "{what}: {report:#}"
        );
        let said = report["blockers"][0]["message"].as_str().unwrap();
        assert!(said.contains("cto trust repair"), "{what}: {said}");
        here.place.cto(&["trust", "repair"]).expect(0);
        assert_eq!(fs::read_to_string(model_file(&here)).unwrap(), after);
        assert_eq!(row(&here.place, "model")["state"], "not_admitted", "{what}");
        here.place.cto(&["ledger", "verify"]).expect(0);
    }
}

#[test]
fn without_a_signature_a_record_is_unsigned_and_never_takes_the_place_of_a_signed_one() {
    let here = Governed::new();
    let file = put(&here, "model.json", &model("before another model"));
    let unsigned = ["admit", "model", "--json", "--unsigned", "--file", &file];
    let taken = here.place.cto(&unsigned).expect(0).json();
    fits_schema(&here.place, "admit", &taken);
    assert_eq!(taken["admission"], "unsigned");
    assert_eq!(row(&here.place, "model")["signature"], Value::Null);
    here.signs(&["admit", "model", "--file", &file], &olga())
        .expect(0);
    let other = put(&here, "other.json", &model("never"));
    let over = [
        "admit",
        "model",
        "--json",
        "--unsigned",
        "--replace",
        "--file",
        &other,
    ];
    assert_eq!(here.place.cto(&over).error(), "2 record_signed");
    // The same bytes again change nothing.
    assert_eq!(here.place.cto(&unsigned).expect(0).json()["written"], false);
    let gone = here.place.cto(&["admit", "model", "--file", "gone.json"]);
    assert_eq!(gone.code, Some(2));
    assert!(gone.err.contains("--template"), "{}", gone.err);
    // Nobody signs where nobody decides.
    let place = Place::new().with_key();
    let args = ["admit", "model", "--json", "--as", "olga", "--file", &file];
    assert_eq!(place.cto(&args).error(), "2 no_operator");
}

#[test]
fn a_key_without_presence_admits_no_target_and_replaces_nothing_that_a_person_signed() {
    let is_there = Command::new("ssh-keygen").arg("-?").output().is_ok();
    if !has("ssh-keygen", is_there) {
        return;
    }
    let here = Governed::new();
    let key = make_key(&here.place, "bot", "");
    let key = key.to_str().unwrap();
    let add = [
        "operator",
        "add",
        "bot",
        key,
        "--no-presence",
        "--as",
        "olga",
    ];
    here.signs(&add, &olga()).expect(0);
    let sign = ["--as", "bot", "--key", key];
    let weak = |args: &[&str]| at_terminal(&here.place, &[args, &sign].concat(), None);

    let target = put(&here, "target.json", &target("/srv/t"));
    let (code, told) = weak(&["admit", "target", "--file", &target]);
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("presence `none`"), "{told}");
    let (code, told) = weak(&["operator", "revoke", "olga"]);
    assert_eq!(code, 2, "{told}");
    assert!(
        told.contains("revokes only keys of its own operator"),
        "{told}"
    );

    let first = put(&here, "model.json", &model("before another model"));
    let (code, told) = weak(&["admit", "model", "--file", &first]);
    assert_eq!(code, 0, "{told}");
    let listed = row(&here.place, "model");
    assert_eq!(
        (&listed["admission"], &listed["signature"]["presence"]),
        (&"unsigned".into(), &"none".into())
    );
    let own = [
        "admit",
        "model",
        "--replace",
        "--as",
        "olga",
        "--file",
        &first,
    ];
    here.signs(&own, &olga()).expect(0);
    let second = put(&here, "second.json", &model("never"));
    let (code, told) = weak(&["admit", "model", "--replace", "--file", &second]);
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("shows nobody"), "{told}");
    assert_eq!(row(&here.place, "model")["admission"], "signed");
}

#[test]
fn what_a_revoked_key_signed_counts_as_unsigned() {
    let here = Governed::new();
    here.signs(&["operator", "add", "ivan", "ivan.pub"], &olga())
        .expect(0);
    let file = put(&here, "model.json", &model("before another model"));
    let admit = ["admit", "model", "--as", "ivan", "--file", &file];
    here.signs(&admit, &ivan()).expect(0);
    assert_eq!(row(&here.place, "model")["admission"], "signed");
    let revoke = ["operator", "revoke", "ivan", "--as", "olga"];
    here.signs(&revoke, &olga()).expect(0);
    let listed = row(&here.place, "model");
    assert_eq!(
        (&listed["admission"], &listed["signature"]["key_counts"]),
        (&"unsigned".into(), &false.into())
    );
    assert_eq!(listed["state"], "admitted");
    here.place.cto(&["ledger", "verify"]).expect(0);
}

#[test]
fn a_hostile_record_is_shown_whole_and_visible_and_what_is_shown_is_what_is_signed() {
    let here = Governed::new();
    let mut hostile = model("before another model");
    let long = "x".repeat(3000);
    hostile["approval_source"] = format!("olga\u{202e}ton era uoy\u{202c} {long} the end").into();
    let file = put(&here, "model.json", &hostile);
    let asked = here
        .place
        .cto(&["admit", "model", "--file", &file])
        .expect(4);
    for told in [&asked.err, &asked.out] {
        assert!(!told.contains(['\u{202e}', '\u{202c}', '\u{1b}']), "{told}");
    }
    assert!(asked.err.contains("\\u{202e}ton era uoy"), "{}", asked.err);
    assert!(
        asked.err.contains(&format!("{long} the end")),
        "it is not cut"
    );
    let again = here
        .asks(&["admit", "model", "--file", &file])
        .expect(4)
        .json();
    let message = fs::read(again["file"].as_str().unwrap()).unwrap();
    let signed: Value = serde_json::from_slice(&message).unwrap();
    assert_eq!(
        signed["record"]["approval_source"],
        hostile["approval_source"]
    );
    // A character that steers a terminal outright never gets into a record.
    hostile["approval_source"] = "a\u{1b}[2Jb".into();
    let file = put(&here, "ansi.json", &hostile);
    let refused = here.place.cto(&["admit", "model", "--file", &file]);
    assert_eq!(refused.code, Some(2));
    assert!(!refused.err.contains('\u{1b}'), "{}", refused.err);
}

#[test]
fn at_a_terminal_the_fields_are_asked_for_one_after_the_other() {
    let place = Place::new().with_key();
    let nobody = place.cto(&["admit", "model", "--json"]);
    assert_eq!(nobody.error(), "2 no_terminal");
    let answers = [
        "provider=mine",
        "model=m1",
        "credential_source_class=none",
        "allowed_network_class=loopback",
        "approval_source=olga",
        "review_trigger=before another model",
    ];
    let (code, told) = answers_at_terminal(&place, &["admit", "model"], &answers);
    assert_eq!(code, 0, "{told}");
    assert_eq!(row(&place, "model")["state"], "admitted");
    // A build that a person made.
    let answers = [
        "path=/opt/case/ca",
        "version=0.1.0",
        &format!("sha256={}", "ab".repeat(32)),
        "build_command=npm run build",
        "toolchain_versions=node=22.1, npm=10.8",
        "source_commit=7959ac917cdeb0983b4aaa20bb9f42021747fed8",
        "build_started_at=2026-06-01T10:00:00Z",
        "build_time=2026-06-01T10:02:00Z",
        "identity_check.command=ca --help",
        "identity_check.answer=Case",
        "review_trigger=another build",
    ];
    let binary = ["admit", "binary", "--engine", "case"];
    let (code, told) = answers_at_terminal(&place, &binary, &answers);
    assert_eq!(code, 0, "{told}");
    let file = place.path("config/cto/admissions/BINARY-ADMISSION.case.json");
    let written: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(
        written["toolchain_versions"],
        json!({"node": "22.1", "npm": "10.8"})
    );
    // What would have to be kept secret is refused, and not repeated.
    let token = format!("ghp_{}", "aB3dE5fG7h".repeat(4));
    let answers = [
        "provider=mine",
        "model=m2",
        &format!("approval_source={}", &token[..40]),
    ];
    let (code, told) = answers_at_terminal(&place, &["admit", "model"], &answers);
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("looks like a secret"), "{told}");
}

/// Plays a person who answers the questions; `name=answer`, and an empty line for every other.
fn answers_at_terminal(place: &Place, args: &[&str], answers: &[&str]) -> (i32, String) {
    const PERSON: &str = r#"
import os, pty, re, sys
count = int(sys.argv[1])
answers = dict(a.split("=", 1) for a in sys.argv[2:2 + count])
argv = sys.argv[2 + count:]
child, terminal = pty.fork()
if child == 0:
    os.execv(argv[0], argv)
told, at = b"", 0
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    told += piece
    for asked in re.finditer(rb"(?m)^([a-z0-9_.]+) \(.*\) \[.*\]:\r\n", told[at:]):
        answer = answers.get(asked.group(1).decode(), "")
        os.write(terminal, answer.encode() + b"\n")
        end = asked.end()
    else:
        if 'end' in dir():
            at += end
            del end
_, status = os.waitpid(child, 0)
sys.stdout.buffer.write(told)
sys.exit(os.waitstatus_to_exitcode(status))
"#;
    let count = answers.len().to_string();
    let arguments = [&[PERSON, &count][..], answers, &[crate::place::CTO], args].concat();
    crate::operators::person(place, &arguments)
}
