//! `kill -9` at every event that a run records, and during its seal: nothing is lost, nothing runs on, nothing half-written
//! is accepted.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cto_contract::event::{EventKind, RunEvent};
use cto_contract::words::Lane;
use cto_runner::{Catalog, Environment, Harness, OpenOptions, RunRequest, Task};
use cto_sandbox::{Launcher, StopToken};
use serde_json::Value;

use crate::test_home::{CTO, TINY, TestHome, search_path};

/// Not a test of its own: the process that the tests below start and that kills itself.
#[test]
fn child_process_of_the_crash_tests() {
    let Ok(spec) = std::env::var("CTO_CRASH_AT") else {
        return;
    };
    let root = std::env::var("CTO_CRASH_ROOT").unwrap();
    let root = Path::new(&root);
    let env = Environment::new([("PATH".to_owned(), search_path())]);
    let harness = Harness::open(OpenOptions {
        home: root.join("home"),
        config: root.join("config/cto"),
        env,
        launcher: Launcher::at(CTO),
    })
    .unwrap();
    let case = Catalog {
        extra: Some(root.join("cases")),
    }
    .find(TINY)
    .unwrap();
    let request = RunRequest {
        task: Task::Case(case),
        lane: Lane::Fake,
        argv: Vec::new(),
        stage: None,
        timeout_seconds: None,
        cheat: None,
        parent: None,
        conformance: false,
        sandbox: cto_runner::SandboxAsk::default(),
        approval: Default::default(),
    };
    let die = || {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .unwrap()
    };
    if let Some(file) = spec.strip_prefix("file:") {
        let runs = root.join("home/harness-runs");
        let file = file.to_owned();
        std::thread::spawn(move || {
            loop {
                for entry in std::fs::read_dir(&runs).into_iter().flatten().flatten() {
                    if entry.path().join(&file).exists() {
                        die();
                    }
                }
            }
        });
    }
    let at: Option<u64> = spec.strip_prefix("event:").map(|n| n.parse().unwrap());
    let mut observer = |event: &RunEvent| {
        if Some(event.seq) == at {
            die();
        }
    };
    harness
        .run(&request, &StopToken::new().unwrap(), &mut observer)
        .unwrap();
}

fn crash(test_home: &TestHome, at: &str) -> bool {
    let out = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "crash::child_process_of_the_crash_tests",
            "--nocapture",
        ])
        .env("CTO_CRASH_AT", at)
        .env("CTO_CRASH_ROOT", test_home.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    !out.status.success()
}

/// Processes that work below a directory. A killed tree needs a moment to be gone.
fn survivors(below: &Path) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found: Vec<String> = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter(|e| {
                std::fs::read_link(e.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(below))
            })
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        if found.is_empty() || Instant::now() > deadline {
            return found;
        }
        std::thread::yield_now();
    }
}

fn events_of(test_home: &TestHome, run_id: &str) -> Vec<RunEvent> {
    let text =
        std::fs::read_to_string(test_home.pack(run_id).join("events.normalized.jsonl")).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// Recovers, and checks everything that must hold after a crash.
fn check_recovered(test_home: &TestHome, at: &str) -> Value {
    assert_eq!(survivors(&test_home.home()), Vec::<String>::new(), "{at}");
    let (code, answer) = test_home.json(&["recover"]);
    assert_eq!(code, 0, "{at}: {answer}");
    for dir in ["work", "rooms"] {
        let left = std::fs::read_dir(test_home.home().join(dir));
        let left = left.map_or(0, Iterator::count);
        assert_eq!(left, 0, "{at}: scratch is left in {dir}");
    }
    let packs = test_home.packs();
    assert!(packs.len() <= 1, "{at}: {packs:?}");
    let Some(run_id) = packs.first() else {
        return Value::Null;
    };
    let (code, verified) = test_home.json(&["verify", run_id]);
    assert_eq!(code, 0, "{at}: {verified}");
    let events = events_of(test_home, run_id);
    let starts = events
        .iter()
        .filter(|e| matches!(e.kind, EventKind::BackendStarted(_)))
        .count();
    assert!(starts <= 1, "{at}: the backend was started {starts} times");
    assert!(
        matches!(events.last().unwrap().kind, EventKind::RunCompleted(_)),
        "{at}"
    );
    let (_, listed) = test_home.json(&["runs"]);
    assert!(
        listed.to_string().contains(run_id.as_str()),
        "{at}: {listed}"
    );
    let (_, again) = test_home.json(&["recover"]);
    assert!(
        !again.to_string().contains(run_id.as_str()),
        "{at}: a second recovery found work: {again}"
    );
    serde_json::from_slice(&std::fs::read(test_home.pack(run_id).join("report.json")).unwrap())
        .unwrap()
}

#[test]
fn any_single_crash_is_survived() {
    let whole = TestHome::new();
    whole.tiny();
    assert!(!crash(&whole, "never"));
    let run_id = whole.packs().remove(0);
    let events = events_of(&whole, &run_id);
    let last = events.last().unwrap().seq;
    assert!(last > 20, "a run has its steps bracketed: {last} events");
    let moments: Vec<u64> = (1..=last).collect();
    let check = |seq: u64| {
        let test_home = TestHome::new();
        test_home.tiny();
        let at = format!("event:{seq}");
        assert!(crash(&test_home, &at), "{at}: the child ended by itself");
        let report = check_recovered(&test_home, &at);
        if seq == 1 {
            // The run id had not been given out: there is no pack, and nothing is left.
            assert_eq!(report, Value::Null);
            return;
        }
        assert_eq!(report["status"], "blocked", "{at}");
        assert_eq!(report["blockers"][0]["code"], "interrupted", "{at}");
        assert_eq!(report["fault_class"], "environment", "{at}");
    };
    // Two at a time: each is mostly waiting for its child.
    let (left, right) = moments.split_at(moments.len() / 2);
    std::thread::scope(|scope| {
        let half = scope.spawn(|| left.iter().for_each(|n| check(*n)));
        right.iter().for_each(|n| check(*n));
        half.join().unwrap();
    });
}

#[test]
fn a_crash_while_sealing_leaves_a_whole_pack_or_an_interrupted_one() {
    for file in [
        "trace.jsonl",
        "report.md",
        "report.json",
        "SHA256SUMS",
        ".attestation.tmp",
        "attestation.dsse.json",
    ] {
        let test_home = TestHome::new();
        test_home.tiny();
        let at = format!("file:{file}");
        let killed = crash(&test_home, &at);
        let report = check_recovered(&test_home, &at);
        let status = report["status"].as_str().unwrap();
        // The kill races the seal; either the attestation was there and counts, or the run is interrupted.
        assert!(
            status == "pass" || (killed && status == "blocked"),
            "{at}: {report}"
        );
    }
}

#[test]
fn a_torn_last_line_is_cut_and_the_cut_is_recorded() {
    let test_home = TestHome::new();
    test_home.tiny();
    assert!(crash(&test_home, "event:12"));
    let run_id = test_home.packs().remove(0);
    let log = test_home.pack(&run_id).join("events.normalized.jsonl");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes.extend_from_slice(b"{\"schema_version\":\"cto.ev");
    std::fs::write(&log, &bytes).unwrap();
    let report = check_recovered(&test_home, "torn");
    assert_eq!(report["blockers"][0]["code"], "interrupted");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("\"bytes_cut\":25"), "{text}");
}

#[test]
fn a_damaged_log_is_not_repaired_silently() {
    let test_home = TestHome::new();
    test_home.tiny();
    assert!(crash(&test_home, "event:12"));
    let run_id = test_home.packs().remove(0);
    let log = test_home.pack(&run_id).join("events.normalized.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replacen("\"seq\":5", "\"seq\":6", 1)).unwrap();
    let (code, answer) = test_home.json(&["recover"]);
    assert_eq!(code, 1, "{answer}");
    assert!(answer.to_string().contains("failed"), "{answer}");
    assert!(
        !test_home
            .pack(&run_id)
            .join("attestation.dsse.json")
            .exists()
    );
}

#[test]
fn the_next_run_seals_what_crashed_before_it() {
    let test_home = TestHome::new();
    test_home.tiny();
    assert!(crash(&test_home, "event:14"));
    let crashed = test_home.packs().remove(0);
    let (code, _) = test_home.run_tiny();
    assert_eq!(code, 0);
    assert!(
        test_home
            .pack(&crashed)
            .join("attestation.dsse.json")
            .exists()
    );
    assert_eq!(test_home.packs().len(), 2);
}
