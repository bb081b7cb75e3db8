//! Many runs at once on one home.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};

use crate::ground::{Ground, TINY, write};

const RUNS: usize = 100;

#[test]
fn a_hundred_runs_at_once_give_a_hundred_packs_that_verify() {
    let ground = Ground::new();
    ground.tiny();
    let cases = ground.cases();
    let children: Vec<Child> = (0..RUNS)
        .map(|_| {
            ground
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
    assert_eq!(ids.iter().cloned().collect::<Vec<_>>(), ground.packs());
    for id in &ids {
        let options = cto_evidence::verify::VerifyOptions {
            integrity_only: true,
            ..Default::default()
        };
        let answer = cto_evidence::verify::verify(&ground.pack(id), &options);
        assert!(answer.ok, "{id}: {:?}", answer.errors);
    }
    assert_eq!(
        std::fs::read_dir(ground.home().join("work"))
            .unwrap()
            .count(),
        0
    );
    let (_, rebuilt) = ground.json(&["index", "rebuild"]);
    assert_eq!(rebuilt["rebuilt"]["runs"], RUNS, "{rebuilt}");
}

#[test]
fn two_processes_never_write_one_run() {
    let ground = Ground::new();
    ground.case(
        "slow",
        "verification_commands: [\"tail -f /dev/null\"]\nlimits: {wall_seconds: 30}\n",
    );
    let cases = ground.cases();
    let mut child = ground
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
    let run_id = ground.packs().remove(0);
    let (code, answer) = ground.json(&["recover"]);
    assert_eq!(code, 0);
    assert!(
        answer.to_string().contains("live"),
        "a living run must be left alone: {answer}"
    );
    assert!(!ground.pack(&run_id).join("attestation.dsse.json").exists());
    let (code, _) = ground.json(&["stop", &run_id]);
    assert_eq!(code, 0);
    let _rest: Vec<_> = lines.collect();
    assert_eq!(
        child.wait().unwrap().code(),
        Some(143),
        "a stopped run ends after a sealed pack"
    );
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(ground.pack(&run_id).join("report.json")).unwrap())
            .unwrap();
    assert_eq!(report["status"], "blocked");
    assert!(crate::ground::blockers(&report).contains(&"interrupted".to_owned()));
    assert_eq!(ground.json(&["verify", &run_id]).0, 0);
}

#[test]
fn that_overlays_can_be_mounted_is_remembered_until_a_run_does_not_pass() {
    let ground = Ground::new();
    let wide = ground.case("wide", "");
    for n in 0..120 {
        write(&wide.join(format!("workspace/data/{n}.txt")), "x\n");
    }
    ground.case("wrong", "verification_commands: [grep -q never a.txt]\n");
    let cases = ground.cases();
    let run = |id: &str| ground.json(&["run", id, "--cases", cases.to_str().unwrap()]);
    let (code, report) = run("wide");
    assert_eq!(code, 0, "{report}");
    let events = ground.pack(report["run_id"].as_str().unwrap());
    let events = std::fs::read_to_string(events.join("events.normalized.jsonl")).unwrap();
    let note = ground.home().join("overlays");
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
