//! Homes that can't be written, can't be named, or are not whole: each command says what it can, and harms nothing.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::namespace::{has_mounts, script};
use crate::place::{Ran, sh};
use crate::test_home::{TINY, TestHome, blockers};

/// A home with one run that passed.
fn lived_in() -> (TestHome, String) {
    let test_home = TestHome::new();
    let (code, report) = test_home.run_tiny();
    assert_eq!(code, 0, "{report}");
    (test_home, report["run_id"].as_str().unwrap().to_owned())
}

fn error_of(mut command: Command) -> (i32, String, String) {
    let ran = Ran::of(command.output().unwrap());
    let error = &ran.json()["error"];
    let text = |key: &str| error[key].to_string();
    (ran.code.unwrap(), text("code"), error.to_string())
}

#[test]
fn a_home_that_can_not_be_written_serves_what_only_reads() {
    if !has_mounts() {
        return;
    }
    let close = "import sqlite3; c = sqlite3.connect('cto.db'); c.execute('PRAGMA wal_checkpoint(TRUNCATE)'); c.close()";
    let die = "import os, sqlite3; c = sqlite3.connect('cto.db'); c.execute('CREATE TABLE later (a)'); c.commit(); os._exit(0)";
    for (left, runs) in [
        ("true".to_owned(), 0),
        (
            format!("python3 -c \"{close}\" && rm -f cto.db-shm cto.db-wal"),
            0,
        ),
        // Nobody can read a log without its index here: better no list than one that lacks its end, and no run is shown as
        // this home's without its ledger.
        (format!("python3 -c \"{die}\" && rm -f cto.db-shm"), 70),
    ] {
        let (test_home, run_id) = lived_in();
        sh(&test_home.home(), &left);
        let told = script(
            test_home,
            &format!(
                r#"
mount --bind "$CTO_HOME" "$CTO_HOME"
mount -o remount,bind,ro "$CTO_HOME"
for name in show verify diff logs explain; do keep $name $name {run_id}; done
keep latest show latest
keep runs runs
keep config config show
keep doctor doctor
"$CTO" export {run_id} --patch > out/patch || true
keep tar export {run_id} --tar out/pack.tar
keep run run tiny --cases cases
keep recover recover
keep gc gc
"#
            ),
        );
        for name in ["show", "verify", "diff", "explain", "latest", "config"] {
            let (code, answer) = told.json(name);
            // Where the ledger can't be read, a run is not shown as anybody else's either.
            let may_fail = runs != 0 && name != "config";
            assert!(code == 0 || (may_fail && code == runs), "{name}: {answer}");
        }
        let logs = told.text("logs.code");
        assert!(
            ["0", runs.to_string().as_str()].contains(&logs.trim()),
            "{}",
            told.text("logs.err")
        );
        let (code, listed) = told.json("runs");
        assert_eq!(code, runs, "{left}: {listed}");
        let found = if runs == 0 {
            run_id.as_str()
        } else {
            "store_io"
        };
        assert!(listed.to_string().contains(found), "{left}: {listed}");
        assert!(told.text("patch").contains("+new") || runs != 0);
        assert!([0, runs].contains(&told.json("tar").0));
        let doctor = told.text("doctor.json");
        assert!(doctor.contains("make it writable"), "{doctor}");
        for name in ["run", "recover", "gc"] {
            let (code, answer) = told.json(name);
            let error = &answer["error"];
            assert_eq!(
                (code, &error["code"]),
                (2, &Value::from("home_read_only")),
                "{name}"
            );
            assert!(error.to_string().contains("make it writable"), "{error}");
        }
    }
}

#[test]
fn a_place_that_is_not_text_is_an_error_and_not_another_place() {
    let test_home = TestHome::new();
    let strange = || {
        let mut bytes = test_home.path().join("h").into_os_string().into_vec();
        bytes.push(0xff);
        OsString::from_vec(bytes)
    };
    for name in [
        "CTO_HOME",
        "HERMES_HOME",
        "XDG_STATE_HOME",
        "XDG_CONFIG_HOME",
    ] {
        let mut command = test_home.command(&["runs", "--json"]);
        if name != "XDG_CONFIG_HOME" {
            command.env_remove("CTO_HOME");
        }
        command.env(name, strange());
        let (code, error, text) = error_of(command);
        assert_eq!(
            (code, error.as_str()),
            (2, "\"home_not_text\""),
            "{name}: {text}"
        );
        assert!(text.contains(name), "{text}");
    }
    assert!(!test_home.home().exists());
    // A flag stands above the environment.
    let mut command = test_home.command(&["runs", "--json", "--home"]);
    command.arg(test_home.home()).env("CTO_HOME", strange());
    assert_eq!(Ran::of(command.output().unwrap()).code, Some(0));
}

/// A run that waits until it is ended, from the moment its backend works.
fn waiting(mut command: Command) -> std::process::Child {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.contains("\"type\":\"backend.started\"")));
    // Read to the end, so that nobody waits for a reader.
    std::thread::spawn(move || lines.count());
    child
}

fn waiting_run(test_home: &TestHome, before: &[&str]) -> std::process::Child {
    let cases = test_home.cases();
    let args = ["run", TINY, "--events", "--engine", "command", "--cases"];
    let like = test_home.command(&args);
    let mut words: Vec<OsString> = before.iter().map(OsString::from).collect();
    words.push(like.get_program().to_owned());
    words.extend(like.get_args().map(OsString::from));
    words.push(cases.into_os_string());
    words.extend(["--", "sleep", "100"].map(OsString::from));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().stdin(Stdio::null());
    command.envs(like.get_envs().filter_map(|(k, v)| Some((k, v?))));
    command
        .env("CTO_HARNESS_ALLOW_COMMAND", "1")
        .env("CTO_HARNESS_COMMAND_STAGE", "2");
    waiting(command)
}

fn signal(child: &std::process::Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn a_hangup_seals_like_a_term_unless_it_is_to_be_ignored() {
    for (before, sent, code) in [
        (vec![], vec![Signal::HUP], 129),
        (vec!["nohup"], vec![Signal::HUP, Signal::TERM], 143),
    ] {
        let test_home = TestHome::new();
        test_home.tiny();
        let mut child = waiting_run(&test_home, &before);
        for one in sent {
            signal(&child, one);
        }
        assert_eq!(child.wait().unwrap().code(), Some(code), "{before:?}");
        let run_id = test_home.run_of("command");
        let report = std::fs::read(test_home.pack(&run_id).join("report.json")).unwrap();
        let report: Value = serde_json::from_slice(&report).unwrap();
        assert!(
            blockers(&report).contains(&"interrupted".to_owned()),
            "{report}"
        );
        assert_eq!(test_home.json(&["verify", &run_id]).0, 0);
    }
}

/// A home whose last run died while its backend worked.
pub(crate) fn with_a_dead_run() -> (TestHome, String) {
    let test_home = TestHome::new();
    test_home.tiny();
    let mut child = waiting_run(&test_home, &[]);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    let run_id = test_home.run_of("command");
    (test_home, run_id)
}

/// Recovers, and says what became of the first thing that was found.
pub(crate) fn recovered(test_home: &TestHome) -> (i32, Value) {
    let (code, answer) = test_home.json(&["recover"]);
    (code, answer["runs"][0].clone())
}

pub(crate) fn sealed_and_verified(test_home: &TestHome, run_id: &str) {
    let (code, row) = recovered(test_home);
    assert_eq!(
        (code, &row["outcome"]),
        (0, &Value::from("sealed")),
        "{row}"
    );
    assert_eq!(test_home.json(&["verify", run_id]).0, 0);
    assert_eq!(
        test_home.json(&["recover"]).1["runs"],
        Value::Array(Vec::new())
    );
}

#[test]
fn a_run_is_closed_though_its_work_directory_is_gone() {
    for database in ["true", "rm -f cto.db cto.db-wal cto.db-shm"] {
        let (test_home, run_id) = with_a_dead_run();
        // Whoever was killed may still have processes that are just going.
        sh(
            &test_home.home(),
            &format!("until rm -rf work/*; do :; done; {database}"),
        );
        sealed_and_verified(&test_home, &run_id);
        let left = std::fs::read_dir(test_home.home().join("rooms")).unwrap();
        assert_eq!(left.count(), 0, "its rooms are left");
    }
}

#[test]
fn a_lock_of_another_boot_is_no_living_holder() {
    let (test_home, run_id) = with_a_dead_run();
    let lock = test_home.home().join("work").join(&run_id).join("lock");
    let mut holder: Value = serde_json::from_slice(&std::fs::read(&lock).unwrap()).unwrap();
    // The number of a process that lives, from before the machine was started.
    holder["pid"] = Value::from(std::process::id());
    holder["boot_id"] = Value::from("00000000-0000-0000-0000-000000000000");
    holder["started_boot_ns"] = Value::from(u64::MAX);
    std::fs::write(&lock, holder.to_string()).unwrap();
    sealed_and_verified(&test_home, &run_id);
}

#[test]
fn a_run_directory_without_a_log_is_left_as_it_is_and_named() {
    let (test_home, run_id) = with_a_dead_run();
    sh(&test_home.pack(&run_id), "rm events.normalized.jsonl");
    for _ in 0..2 {
        let (code, row) = recovered(&test_home);
        assert_eq!(
            (code, &row["outcome"]),
            (1, &Value::from("failed")),
            "{row}"
        );
        let detail = row["detail"].as_str().unwrap();
        assert!(
            detail.contains("no log") && detail.contains("move it away"),
            "{detail}"
        );
    }
    assert!(test_home.pack(&run_id).join("task-contract.json").exists());
    // What it says to do is enough.
    let aside = test_home.path().join("aside");
    std::fs::rename(test_home.pack(&run_id), aside).unwrap();
    assert_eq!(recovered(&test_home).0, 0);
    assert_eq!(
        test_home.json(&["recover"]).1["runs"],
        Value::Array(Vec::new())
    );
}

#[test]
fn a_work_directory_without_a_run_is_cleared() {
    let (test_home, _) = lived_in();
    let name = "20260101T000000Z-tiny-abcdef";
    let draft = test_home.home().join(format!("harness-runs/.new-{name}"));
    for dir in [test_home.home().join("work").join(name), draft.clone()] {
        std::fs::create_dir(dir).unwrap();
    }
    let (code, row) = recovered(&test_home);
    assert_eq!(
        (code, &row["outcome"]),
        (0, &Value::from("discarded")),
        "{row}"
    );
    assert!(!draft.exists());
    assert_eq!(
        test_home.json(&["recover"]).1["runs"],
        Value::Array(Vec::new())
    );
}

#[test]
fn two_recoveries_at_once_close_a_run_once() {
    let (test_home, run_id) = with_a_dead_run();
    let start = || {
        let mut command = test_home.command(&["recover", "--json"]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let both: Vec<_> = (0..4).map(|_| start()).collect();
    let mut sealed = 0;
    for child in both {
        let out = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_eq!(out.status.code(), Some(0), "{text}");
        sealed += text.matches("\"sealed\"").count();
    }
    assert_eq!(sealed, 1);
    assert_eq!(test_home.json(&["verify", &run_id]).0, 0);
    assert_eq!(
        test_home.json(&["recover"]).1["runs"],
        Value::Array(Vec::new())
    );
}

/// What recovery and `cto gc` say of a database that something was done to, with nothing of the run touched.
fn of_damage(damage: impl Fn(&Path)) -> String {
    let (test_home, run_id) = with_a_dead_run();
    damage(&test_home.home());
    let before = std::fs::read(test_home.pack(&run_id).join("events.normalized.jsonl")).unwrap();
    let mut said = Vec::new();
    for command in ["recover", "gc"] {
        let (code, error, text) = error_of(test_home.command(&[command, "--json"]));
        assert_eq!(code, 70, "{text}");
        said.push(error);
    }
    assert_eq!(said[0], said[1]);
    let after = std::fs::read(test_home.pack(&run_id).join("events.normalized.jsonl")).unwrap();
    assert_eq!(before, after);
    assert!(
        !test_home
            .pack(&run_id)
            .join("attestation.dsse.json")
            .exists()
    );
    said.remove(0)
}

#[test]
fn a_database_that_is_damaged_or_newer_is_named_and_nothing_is_touched() {
    let damage = |script: &'static str| of_damage(|home| sh(home, script));
    assert_eq!(damage("rm -f cto.db-*; : > cto.db"), "\"store_empty\"");
    assert_eq!(
        damage("rm -f cto.db-*; truncate -s 5000 cto.db"),
        "\"store_corrupt\""
    );
    assert_eq!(damage("rm cto.db"), "\"store_orphaned\"");
    let newer = "import sqlite3; c = sqlite3.connect('cto.db'); c.execute('PRAGMA user_version = 99'); c.commit(); c.close()";
    assert_eq!(
        of_damage(|home| sh(home, &format!("python3 -c \"{newer}\""))),
        "\"store_newer\""
    );
}

#[test]
fn a_directory_of_runs_that_can_not_be_written_ends_a_run_before_its_id_and_leaves_nothing() {
    if !has_mounts() {
        return;
    }
    let (test_home, run_id) = lived_in();
    let told = script(
        test_home,
        r#"
runs="$CTO_HOME/harness-runs"
mount --bind "$runs" "$runs"
mount -o remount,bind,ro "$runs"
keep run run tiny --cases cases
umount "$runs"
keep recover recover
ls "$CTO_HOME/work" > out/work
ls -A "$runs" > out/runs
keep next run tiny --cases cases
"#,
    );
    let (code, answer) = told.json("run");
    assert_eq!(code, 70, "{answer}");
    let error = answer["error"].to_string();
    assert!(error.contains("Read-only file system"), "{error}");
    assert_eq!(told.json("recover").0, 0);
    assert_eq!(told.text("work"), "");
    assert_eq!(told.text("runs").trim(), run_id);
    assert_eq!(told.json("next").0, 0);
}
