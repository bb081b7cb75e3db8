//! What somebody with a shell as the same user tries against approvals, each through the real command line: edited, cut and
//! replayed grants, other keys, other runs, homes and files that were put back.

use std::fs;
use std::path::Path;
use std::process::Command;

use cto_testkit::authenticator::{SoftKey, UP_UV};
use cto_testkit::has;
use serde_json::Value;

use crate::approvals::{asking, codes, copy_of, cto, granted, request, started};
use crate::operators::{Governed, at_terminal, ivan, make_key, olga};
use crate::place::{Place, sh, write};

/// Rewrites the ledger past `cto`: the last record of a kind becomes another one, and the chain is made anew.
const FORGER: &str = r#"
import hashlib, json, sqlite3, sys
kind, new = sys.argv[1], open(sys.argv[2]).read()
db = sqlite3.connect("home/cto.db")
db.executescript("DROP TRIGGER ledger_no_update; DROP TRIGGER ledger_no_delete; DROP TRIGGER ledger_only_append;")
prev = "0" * 64
last = db.execute("SELECT max(seq) FROM ledger WHERE kind = ?", (kind,)).fetchone()[0]
for row in db.execute("SELECT seq, kind, subject, once, at, record FROM ledger ORDER BY seq").fetchall():
    seq, kind_, subject, once, at, record = row
    record = new if seq == last else record
    lines = [str(seq), prev, kind_, subject, once or "", at, record]
    digest = hashlib.sha256(("\n".join(lines) + "\n").encode()).hexdigest()
    db.execute("UPDATE ledger SET prev = ?, digest = ?, record = ? WHERE seq = ?", (prev, digest, record, seq))
    prev = digest
db.commit()
"#;
const READER: &str = r#"
import sqlite3, sys
db = sqlite3.connect("home/cto.db")
print(db.execute("SELECT record FROM ledger WHERE kind = ? ORDER BY seq DESC", (sys.argv[1],)).fetchone()[0])
"#;

fn python(place: &Place, program: &str, args: &[&str]) -> String {
    let out = Command::new("python3")
        .args(["-c", program])
        .args(args)
        .current_dir(place.path(""))
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap().trim_end().to_owned()
}

fn record(here: &Governed, kind: &str) -> Value {
    serde_json::from_str(&python(&here.place, READER, &[kind])).unwrap()
}

/// Keys sorted and no blanks: all that these records need of RFC 8785.
fn canonical(value: &Value) -> String {
    serde_json::to_string(value).unwrap()
}

fn put_record(here: &Governed, kind: &str, record: &Value) {
    write(&here.place.path("forged.json"), &canonical(record));
    python(&here.place, FORGER, &[kind, "forged.json"]);
}

/// Signs the statement of a record anew.
fn signed_anew(record: &mut Value, key: &SoftKey, counter: u32) {
    let armour = key.sign(
        "cto-approval",
        canonical(&record["statement"]).as_bytes(),
        UP_UV,
        counter,
    );
    record["signature"]["armour"] = armour.into();
    record["signature"]["counter"] = counter.into();
    record["signature"]["public_key"] = key.public_line().into();
}

/// The request does not let a run start; how it is refused.
#[track_caller]
fn refused(here: &Governed, id: &str) -> String {
    let ran = cto(here, &["run", "--request", id]);
    assert_eq!(started(here), 0, "{}", ran.out);
    match ran.code {
        Some(code @ (1 | 3)) => {
            let report = ran.json();
            assert_ne!(report["status"], "pass");
            format!("{code} {}", codes(&report).join(" "))
        }
        _ => ran.error(),
    }
}

#[test]
fn a_grant_that_is_edited_cut_or_signed_by_another_in_the_database_starts_nothing() {
    let from = asking("");
    let id = granted(&from);
    type Edit = fn(&mut Value);
    let edits: [(&str, Edit); 6] = [
        ("a later end", |g| {
            g["statement"]["expires_at"] = "2099-01-01T00:00:00.000000Z".into();
        }),
        ("another stage", |g| {
            g["statement"]["bindings"]["stage"] = 3.into()
        }),
        ("a cut signature", |g| {
            let armour = g["signature"]["armour"].as_str().unwrap();
            g["signature"]["armour"] = armour[..armour.len() / 2].into();
        }),
        ("more presence", |g| {
            g["signature"]["presence"] = "up".into()
        }),
        ("another ledger", |g| {
            g["statement"]["ledger"] = "0".repeat(64).into();
            signed_anew(g, &olga(), 90);
        }),
        ("a key of nobody", |g| {
            signed_anew(g, &SoftKey::sk_ed25519(66), 90)
        }),
    ];
    for (name, edit) in edits {
        let here = copy_of(&from);
        let mut grant = record(&here, "request.granted");
        edit(&mut grant);
        put_record(&here, "request.granted", &grant);
        assert_ne!(refused(&here, &id), "", "{name}");
        // Who takes the checkpoints away as well is told that they are gone.
        fs::remove_dir_all(here.config().join("checkpoints")).unwrap();
        assert_ne!(refused(&here, &id), "", "{name}, no checkpoints");
    }
}

#[test]
fn a_grant_of_another_ledger_is_no_grant_here() {
    let (here, there) = (asking(""), asking(""));
    let (id, foreign) = (granted(&here), granted(&there));
    assert_ne!(id, foreign);
    let grant = record(&there, "request.granted");
    put_record(&here, "request.granted", &grant);
    assert_eq!(refused(&here, &id), "70 store_bad_record");
    let unknown = cto(&here, &["run", "--request", &foreign]);
    assert_eq!(unknown.error(), "2 request_unknown");
}

#[test]
fn a_grant_is_not_good_again_after_its_home_was_put_back() {
    let here = asking("");
    let id = granted(&here);
    sh(&here.place.path(""), "cp -a home before");
    cto(&here, &["run", "--request", &id]).expect(0);
    // All of home, the ledger and what marks its end; the config directory is where it was.
    sh(&here.place.path(""), "rm -rf home && mv before home");
    let told = refused(&here, &id);
    assert!(told.contains("ledger_rolled_back"), "{told}");
}

#[test]
fn a_grant_is_for_its_lane_stage_sandbox_contract_and_head_and_for_no_other() {
    let from = asking("");
    let id = granted(&from);
    let kept = format!("home/requests/{id}.json");
    let edits = [
        ("\"lane\":\"fake\"", "\"lane\":\"command\",\"_\":0"),
        ("\"stage\":null", "\"stage\":1"),
    ];
    for (old, new) in edits {
        let here = copy_of(&from);
        let file = here.place.path(&kept);
        let text = fs::read_to_string(&file).unwrap();
        let compact: Value = serde_json::from_str(&text).unwrap();
        let compact = canonical(&compact);
        assert!(compact.contains(old), "{compact}");
        write(
            &file,
            &compact.replace(old, new.split(",\"_\"").next().unwrap()),
        );
        let ran = cto(&here, &["run", "--request", &id]);
        assert!(matches!(ran.code, Some(2 | 3 | 5)), "{new}: {}", ran.out);
        assert_eq!(started(&here), 0, "{new}");
    }
    let here = copy_of(&from);
    let ran = cto(&here, &["run", "--request", &id, "--sandbox", "none"]);
    assert!(matches!(ran.code, Some(2 | 3)), "{}", ran.out);
    assert_eq!(started(&here), 0);
    // The contract is the one that was shown, whatever its file says by now.
    let here = copy_of(&from);
    let file = here.place.path("cases/asks/case.yaml");
    let text = fs::read_to_string(&file).unwrap();
    write(
        &file,
        &text.replace("allowed_paths: [a.txt]", "allowed_paths: [a.txt, b.txt]"),
    );
    let ran = cto(&here, &["run", "--request", &id]);
    let report = ran.json();
    if report["status"] == "pass" {
        let pack = here.place.pack(report["run_id"].as_str().unwrap());
        let contract = fs::read_to_string(pack.join("task-contract.json")).unwrap();
        assert!(!contract.contains("b.txt"), "{contract}");
    } else {
        assert_eq!(started(&here), 0, "{}", ran.out);
    }
}

#[test]
fn a_grant_is_for_the_commit_that_was_shown() {
    let here = asking("");
    let repo = here.place.path("repo");
    fs::create_dir(&repo).unwrap();
    write(&repo.join("a.txt"), "old\n");
    let contract = "schema: cto.contract/v1\ntask_id: asks\ntitle: t\ninstruction: i\nallowed_paths: [a.txt]\nforbidden_actions: [push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]\nmutation_mode: copied-fixture\napproval_required: true\nverification_commands: [{run: grep -q new a.txt, must_fail_before: true}]\n";
    write(&here.place.path("task.yaml"), contract);
    sh(
        &repo,
        "git init -q -b main . && git config user.email a@b && git config user.name a && git add -A && git commit -qm one",
    );
    let words = [
        "request",
        "--repo",
        "repo",
        "--contract",
        "task.yaml",
        "--stage",
        "3",
        "--engine",
        "command",
        "--",
        "/bin/sh",
        "-c",
        "echo new > a.txt",
    ];
    let open = |args: &[&str]| {
        let mut command = here.place.command(args);
        command
            .env("CTO_HARNESS_ALLOW_COMMAND", "1")
            .env("CTO_HARNESS_COMMAND_STAGE", "3");
        crate::place::Ran::of(command.output().unwrap())
    };
    let mut asked: Vec<&str> = words[..1].to_vec();
    asked.extend(["--json", "-q"]);
    asked.extend(&words[1..]);
    let asked = open(&asked).expect(0).json();
    let id = asked["request"]["request_id"].as_str().unwrap();
    here.signs(&["approve", id], &olga()).expect(0);
    sh(&repo, "git commit -q --allow-empty -m two");
    let run = ["run", "--request", id, "--json", "-q"];
    let report = open(&run).expect(3).json();
    assert_eq!(codes(&report), ["approval_scope_mismatch"]);
    assert_eq!(started(&here), 0);
    sh(&repo, "git reset -q --hard HEAD~1");
    open(&run).expect(0);
}

#[test]
fn a_sentence_with_one_changed_letter_other_quotes_or_a_blank_more_approves_nothing() {
    let here = asking("");
    let id = request(&here);
    let approve = ["approve", id.as_str()];
    let asked = here.asks(&approve).expect(4).json();
    let sentence = asked["sentence"].as_str().unwrap();
    for wrong in [
        sentence.replacen("one run", "ome run", 1),
        sentence.replacen('a', "\u{430}", 1),
        format!("\u{201c}{sentence}\u{201d}"),
        format!("\"{sentence}\""),
        format!("{sentence} "),
        format!(" {sentence}"),
        format!("{sentence}\n"),
        sentence.trim_end_matches('.').to_owned(),
    ] {
        let mut other = asked.clone();
        other["sentence"] = wrong.clone().into();
        let refused = here.brings(&approve, &other, &olga(), UP_UV);
        assert_eq!(refused.error(), "2 sentence_differs", "{wrong:?}");
    }
    assert!(refused(&here, &id).starts_with('4') || started(&here) == 0);
}

#[test]
fn an_older_operators_file_that_is_put_back_starts_no_approved_run() {
    let here = asking("");
    let file = here.config().join("operators.allowed_signers");
    let older = fs::read_to_string(&file).unwrap();
    here.signs(&["operator", "add", "ivan", "ivan.pub"], &olga())
        .expect(0);
    let id = request(&here);
    here.signs(&["approve", &id, "--as", "ivan"], &ivan())
        .expect(0);
    write(&file, &older);
    assert_eq!(refused(&here, &id), "3 trust_rolled_back");
}

#[test]
fn copies_of_a_home_can_be_told_apart_by_their_checkpoints() {
    let here = asking("");
    let id = granted(&here);
    let copy = copy_of(&here);
    for home in [&here, &copy] {
        cto(home, &["run", "--request", &id]).expect(0);
    }
    let names = |home: &Governed| {
        let found = fs::read_dir(home.config().join("checkpoints")).unwrap();
        let mut names: Vec<_> = found.map(|f| f.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_ne!(names(&here), names(&copy));
    // Whoever lays the ones beside the others sees that one ledger went two ways.
    let from = copy.config().join("checkpoints");
    sh(
        Path::new("/"),
        &format!(
            "cp -n '{}'/* '{}'/",
            from.display(),
            here.config().join("checkpoints").display()
        ),
    );
    let checked = cto(&here, &["ledger", "verify"]).expect(5).json();
    assert_eq!(checked["errors"][0]["code"], "ledger_rolled_back");
}

/// An agent with a shell as the same user, the `cto` binary, the key file and every way that comes to mind.
#[test]
fn nobody_else_signs_with_a_key_that_was_enrolled_with_presence() {
    let is_there = Command::new("ssh-keygen").arg("-?").output().is_ok();
    if !has("ssh-keygen", is_there) {
        return;
    }
    let here = asking("");
    let key = make_key(&here.place, "locked", "correct horse");
    let public = format!("{}.pub", key.display());
    here.signs(&["operator", "add", "anna", &public], &olga())
        .expect(0);
    let id = request(&here);
    let approve = ["approve", id.as_str(), "--as", "anna"];
    let with_key = [&approve[..], &["--key", key.to_str().unwrap()]].concat();
    // Nobody sits at a terminal.
    assert_eq!(here.asks(&with_key).error(), "2 no_terminal");
    // A terminal of the agent's own, and guesses.
    for guess in ["guess", "correct horse "] {
        let (code, told) = at_terminal(&here.place, &with_key, Some(guess));
        assert_ne!(code, 0, "{told}");
    }
    // Programs that answer for a person: asked by ssh-keygen, or in its place.
    let sign = |script: &str| {
        let asked = here.asks(&approve).expect(4).json();
        let file = asked["file"].as_str().unwrap();
        write(
            &here.place.path("message.json"),
            &fs::read_to_string(file).unwrap(),
        );
        let script = format!("rm -f message.json.sig; {script}; true");
        sh(&here.place.path(""), &script);
        let sentence = asked["sentence"].as_str().unwrap();
        let brought = ["--signature", "message.json.sig", "--sentence", sentence];
        here.asks(&[&approve[..], &brought].concat())
    };
    let keygen = "ssh-keygen -Y sign -n cto-approval -q -f";
    let ways = [
        // The stock tool without a person, with and without a program that answers.
        format!("setsid -w {keygen} locked message.json </dev/null >/dev/null 2>&1"),
        format!(
            "printf '#!/bin/sh\\necho guess\\n' > ask && chmod +x ask && SSH_ASKPASS=$PWD/ask SSH_ASKPASS_REQUIRE=force DISPLAY=:0 setsid -w {keygen} locked message.json </dev/null >/dev/null 2>&1"
        ),
        // The public half alone, and the passphrase taken off a copy.
        format!("setsid -w {keygen} locked.pub message.json </dev/null >/dev/null 2>&1"),
        format!(
            "cp locked copy && ssh-keygen -q -p -P guess -N '' -f copy </dev/null >/dev/null 2>&1; setsid -w {keygen} copy message.json </dev/null >/dev/null 2>&1; mv -f message.json.sig x 2>/dev/null; cp x message.json.sig 2>/dev/null"
        ),
        // A key of his own, in her name.
        format!(
            "rm -f own own.pub && ssh-keygen -q -t ed25519 -N '' -f own && {keygen} own message.json >/dev/null 2>&1"
        ),
        // Her key, and another namespace or other bytes.
        "rm -f own own.pub && ssh-keygen -q -t ed25519 -N '' -f own && ssh-keygen -Y sign -n git -q -f own message.json >/dev/null 2>&1".to_owned(),
    ];
    for way in ways {
        let tried = sign(&way);
        assert_eq!(tried.code, Some(2), "{way}: {}{}", tried.out, tried.err);
    }
    // An ssh-agent that holds other keys signs nothing for her.
    let (code, told) = at_terminal(&here.place, &[&approve[..], &["--agent"]].concat(), None);
    assert_ne!(code, 0, "{told}");
    // Nothing of all that decided anything.
    let row = cto(&here, &["inbox", "--all"]).expect(0).json()["requests"][0].clone();
    assert_eq!(row["standing"]["phase"], "requested");
    cto(&here, &["ledger", "release"]);
    let (code, told) = at_terminal(&here.place, &with_key, Some("correct horse"));
    assert_eq!(code, 0, "the control: {told}");
}
