//! Programs that do not end when their work is done.

use std::fs;

use serde_json::Value;

use crate::place::write;
use crate::source::Source;

const COMMIT: &str = "echo new > src/a.txt; git add -A; git commit -qm work; ";

/// A repository with a history of its own, and a wall clock that a program which never ends runs into.
fn source() -> Source {
    let source = Source::new(&[("src/a.txt", "older\n")]);
    source.sh("echo old > src/a.txt; git commit -qam second");
    source.contract("history: ancestors\nallowed_paths: [src/]\nverification_commands: [{run: grep -q new src/a.txt, must_fail_before: true}]\nlimits: {wall_seconds: 12}\n");
    let path = source.place.path("config/cto/harness.yaml");
    write(&path, "schema: cto.harness/v1\nsettle_seconds: 2\n");
    source
}

fn ended_by(report: &Value, source: &Source) -> (String, Value, bool) {
    let pack = source.pack(report);
    let log = fs::read_to_string(pack.join("events.normalized.jsonl")).unwrap();
    let mut events = log
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    let end = events.rfind(|e| e["type"] == "backend.finished").unwrap();
    let marker = "backend/provider-lifecycle-harness-completed.txt";
    (
        report["backend_completion"].as_str().unwrap().to_owned(),
        end["data"]["stopped_by"].clone(),
        pack.join(marker).is_file(),
    )
}

#[test]
fn a_program_that_lingers_after_its_commit_is_ended_and_its_change_is_judged() {
    let source = source();
    let (code, blockers, report) = source.work(&format!("{COMMIT} exec sleep 600"));
    assert_eq!((code, blockers), (0, vec![]), "{report:#}");
    assert_eq!(
        ended_by(&report, &source),
        ("harness".to_owned(), "lingering".into(), true)
    );
    source.place.cto(&["verify", "latest"]).expect(0);
}

#[test]
fn a_program_that_still_works_or_has_not_committed_is_left_to_its_wall_clock() {
    let no_commit = "echo new > src/a.txt; exec sleep 600";
    let has_child = format!("{COMMIT} sleep 600; :");
    let own_session = format!("{COMMIT} setsid sleep 600 & exec sleep 600");
    let dirty = format!("{COMMIT} echo new too > src/b.txt; exec sleep 600");
    let works = format!("{COMMIT} while :; do :; done");
    let prints = format!("{COMMIT} exec yes . | (while read x; do sleep 1; echo alive; done)");
    // Each takes its whole wall clock, so they wait together.
    std::thread::scope(|scope| {
        for script in [no_commit, &has_child, &own_session, &dirty, &works, &prints] {
            scope.spawn(move || runs_into_its_wall_clock(script));
        }
    });
}

fn runs_into_its_wall_clock(script: &str) {
    let source = source();
    let (code, blockers, report) = source.work(script);
    assert_eq!(
        (code, blockers),
        (1, vec!["lifecycle_timeout_after_valid_patch".to_owned()]),
        "{script}: {report:#}"
    );
    assert_eq!(
        ended_by(&report, &source),
        ("harness".to_owned(), "wall".into(), false),
        "{script}"
    );
    assert_eq!(
        report["failure_reason"],
        "lifecycle timeout after valid patch"
    );
    assert_eq!(report["sandbox"]["no_survivors"], true);
    let pack = source.pack(&report);
    assert!(pack.join("backend/provider-timeout.txt").is_file());
}
