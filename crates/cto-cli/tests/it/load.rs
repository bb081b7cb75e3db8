//! Many runs at once on one home.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};

use crate::test_home::{TINY, TestHome, write};

const RUNS: usize = 100;

#[test]
fn a_hundred_runs_at_once_give_a_hundred_packs_that_verify() {
    let test_home = TestHome::new();
    test_home.tiny();
    let cases = test_home.cases();
    let children: Vec<Child> = (0..RUNS)
        .map(|_| {
            test_home
                .command(&["run", TINY, "--json", "--cases", cases.to_str().unwrap()])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut ids = BTreeSet::new();
    for child in children {
        let out = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&out.stderr);
        assert_eq!(
            out.status.code(),
            Some(0),
            "{told}{}",
            String::from_utf8_lossy(&out.stdout)
        );
        let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(report["status"], "pass");
        assert!(
            ids.insert(report["run_id"].as_str().unwrap().to_owned()),
            "a run id was given out twice"
        );
    }
    assert_eq!(ids.iter().cloned().collect::<Vec<_>>(), test_home.packs());
    for id in &ids {
        let options = cto_evidence::verify::VerifyOptions {
            integrity_only: true,
            ..Default::default()
        };
        let answer = cto_evidence::verify::verify(&test_home.pack(id), &options);
        assert!(answer.ok, "{id}: {:?}", answer.errors);
    }
    for dir in ["work", "rooms"] {
        let left = std::fs::read_dir(test_home.home().join(dir)).unwrap();
        assert_eq!(left.count(), 0, "{dir}");
    }
    let (_, rebuilt) = test_home.json(&["index", "rebuild"]);
    assert_eq!(rebuilt["rebuilt"]["runs"], RUNS, "{rebuilt}");
}

#[test]
fn two_processes_never_write_one_run() {
    let test_home = TestHome::new();
    test_home.case(
        "slow",
        "verification_commands: [\"tail -f /dev/null\"]\nlimits: {wall_seconds: 30}\n",
    );
    let cases = test_home.cases();
    let mut child = test_home
        .command(&[
            "run",
            "slow",
            "--events",
            "--cases",
            cases.to_str().unwrap(),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let started = lines
        .by_ref()
        .map(Result::unwrap)
        .find(|l| l.contains("\"type\":\"git.diff.checked\""));
    assert!(started.is_some());
    let run_id = test_home.packs().remove(0);
    let (code, answer) = test_home.json(&["recover"]);
    assert_eq!(code, 0);
    assert!(
        answer.to_string().contains("live"),
        "a living run must be left alone: {answer}"
    );
    assert!(
        !test_home
            .pack(&run_id)
            .join("attestation.dsse.json")
            .exists()
    );
    let (code, _) = test_home.json(&["stop", &run_id]);
    assert_eq!(code, 0);
    let _rest: Vec<_> = lines.collect();
    assert_eq!(
        child.wait().unwrap().code(),
        Some(143),
        "a stopped run ends after a sealed pack"
    );
    let report: serde_json::Value = serde_json::from_slice(
        &std::fs::read(test_home.pack(&run_id).join("report.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(report["status"], "blocked");
    assert!(crate::test_home::blockers(&report).contains(&"interrupted".to_owned()));
    assert_eq!(test_home.json(&["verify", &run_id]).0, 0);
}

#[test]
fn that_overlays_can_be_mounted_is_remembered_until_a_run_does_not_pass() {
    let test_home = TestHome::new();
    let wide = test_home.case("wide", "");
    for n in 0..120 {
        write(&wide.join(format!("workspace/data/{n}.txt")), "x\n");
    }
    test_home.case("wrong", "verification_commands: [grep -q never a.txt]\n");
    let cases = test_home.cases();
    let run = |id: &str| test_home.json(&["run", id, "--cases", cases.to_str().unwrap()]);
    let (code, report) = run("wide");
    assert_eq!(code, 0, "{report}");
    let events = test_home.pack(report["run_id"].as_str().unwrap());
    let events = std::fs::read_to_string(events.join("events.normalized.jsonl")).unwrap();
    let note = test_home.home().join("overlays");
    let kept = std::fs::read_to_string(&note).unwrap_or_default();
    assert_eq!(
        events.contains(r#""checks_kind":"overlay""#),
        !kept.is_empty()
    );
    if !cto_testkit::has("overlay mounts", !kept.is_empty()) {
        return;
    }
    // What was noted elsewhere, or on another day, is worth nothing here.
    write(&note, "boot 0\n");
    assert_eq!(run("wide").0, 0);
    assert_eq!(std::fs::read_to_string(&note).unwrap(), kept);
    assert_eq!(run("wide").0, 0);
    assert_eq!(run("wrong").0, 1);
    assert!(!note.exists());
}

/// Runs the tiny case by an agent of one line, and gives exit code, report and log.
fn by_agent(test_home: &TestHome, agent: &str) -> (i32, serde_json::Value, String) {
    test_home.tiny();
    let cases = test_home.cases();
    let args = ["run", TINY, "--json", "--engine", "command", "--cases"];
    let mut command = test_home.command(&args);
    command.arg(cases).args(["--", "sh", "-c", agent]);
    let out = command
        .env("CTO_HARNESS_ALLOW_COMMAND", "1")
        .env("CTO_HARNESS_COMMAND_STAGE", "2")
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    let pack = test_home.pack(report["run_id"].as_str().unwrap());
    let log = std::fs::read_to_string(pack.join("events.normalized.jsonl")).unwrap();
    (out.status.code().unwrap(), report, log)
}

#[test]
fn a_backend_that_tells_without_end_is_recorded_or_cut_and_its_pack_verifies() {
    let test_home = TestHome::new();
    let line = r#"{"schema":"cto.agent/v1","type":"plan","steps":["go on"]}"#;
    let agent = format!("echo new > a.txt; yes '{line}' | head -n 30000");
    let (code, report, log) = by_agent(&test_home, &agent);
    assert_eq!(code, 0, "{report}");
    let told = log.matches("\"type\":\"backend.plan\"").count();
    assert!(told > 0, "nothing of it was recorded");
    let run_id = report["run_id"].as_str().unwrap();
    assert_eq!(test_home.json(&["verify", run_id]).0, 0);
}

#[test]
fn a_line_of_a_gigabyte_is_capped_by_name_and_its_pack_verifies() {
    let test_home = TestHome::new();
    let agent = "echo new > a.txt; head -c 1G /dev/zero | tr '\\0' x";
    let (_, report, log) = by_agent(&test_home, agent);
    assert!(
        log.contains("\"type\":\"backend.output.capped\""),
        "{report}"
    );
    let run_id = report["run_id"].as_str().unwrap();
    let output = test_home.pack(run_id).join("backend/stdout.log");
    // The cap of a run that names none.
    assert!(output.metadata().unwrap().len() <= 64 << 20);
    assert_eq!(test_home.json(&["verify", run_id]).0, 0);
}
