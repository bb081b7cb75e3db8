//! Uncommitted changes of the source: any of them stands before a run, is named, and can be allowed.

use serde_json::json;

use crate::place::write;
use crate::repositories::{PLAIN, plain};
use crate::source::Source;

const WORK: &str = "echo new > src/a.txt";

/// What the owner left in the source, and the paths that are in the way of a run.
const DIRT: &[(&str, &str, &[&str])] = &[
    ("nothing", "true", &[]),
    ("an ignored file", "mkdir build; echo x > build/x", &[]),
    (
        "a tracked file in scope",
        "echo x >> src/b.txt",
        &["src/b.txt"],
    ),
    (
        "a tracked file elsewhere",
        "echo x >> other.txt",
        &["other.txt"],
    ),
    ("a deleted file", "rm other.txt", &["other.txt"]),
    ("a mode", "chmod +x other.txt", &["other.txt"]),
    (
        "a staged file",
        "echo x > staged; git add staged",
        &["staged"],
    ),
    (
        "a file that is untracked",
        "mkdir n; echo x > n/notes; echo y > z",
        &["n/notes", "z"],
    ),
];

#[test]
fn any_uncommitted_change_blocks_and_is_named() {
    for (what, script, expected) in DIRT {
        let source = plain();
        source.sh(script);
        let (code, blockers, report) = source.work(WORK);
        if expected.is_empty() {
            assert_eq!(code, 0, "{what}: {report:#}");
            continue;
        }
        assert_eq!(
            (code, blockers.as_slice()),
            (3, &["dirty_starting_tree".to_owned()][..]),
            "{what}"
        );
        assert_eq!(report["backend_process_started"], false);
        let message = report["blockers"][0]["message"].as_str().unwrap();
        for path in *expected {
            assert!(message.contains(&format!("`{path}`")), "{what}: {message}");
        }
    }
}

#[test]
fn what_is_allowed_to_be_dirty_is_shown_and_never_a_proof() {
    let source = plain();
    source.contract(&format!("{PLAIN}dirty_source: allowed\n"));
    source.sh("echo dirty > other.txt; echo x > notes.txt");
    let (code, _, report) = source.work(&format!(
        "{WORK}; ! grep dirty other.txt; test ! -e notes.txt"
    ));
    assert_eq!(code, 0, "{report:#}");
    let shown = &report["source"];
    assert_eq!(shown["dirty_source"], "allowed");
    assert_eq!(shown["dirty_paths"], json!(["notes.txt", "other.txt"]));
    assert_eq!(shown["dirty_count"], 2);
    let page = std::fs::read_to_string(source.pack(&report).join("report.md")).unwrap();
    assert!(page.contains("this run never counts as a proof"), "{page}");
    source.place.cto(&["verify", "latest"]).expect(0);
}

#[test]
fn many_untracked_files_are_counted_and_the_first_are_named() {
    let source = plain();
    source.sh("mkdir many; for i in $(seq 100 399); do echo x > many/$i; done");
    let (code, _, report) = source.work(WORK);
    assert_eq!(code, 3);
    let message = report["blockers"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("`many/100`") && message.contains("and 280 more"),
        "{message}"
    );
    // Where they are ignored there is nothing to say, however many there are.
    source.sh("rm -r many; mkdir build; for i in $(seq 100 399); do echo x > build/$i; done");
    assert_eq!(source.work(WORK).0, 0);
    source.contract(&format!("{PLAIN}dirty_source: allowed\n"));
    source.sh("mkdir many; for i in $(seq 100 399); do echo x > many/$i; done");
    let (code, _, report) = source.work(WORK);
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(report["source"]["dirty_count"], 300);
    assert_eq!(
        report["source"]["dirty_paths"].as_array().unwrap().len(),
        100
    );
}

/// Runs with the contract at this place below the test's own directory.
fn with_contract_at(source: &Source, place: &str) -> (Option<i32>, String) {
    let text = std::fs::read_to_string(source.place.path("task.yaml")).unwrap();
    write(&source.place.path(place), &text);
    let args = [
        "run",
        "--repo",
        "repo",
        "--contract",
        place,
        "--engine",
        "command",
        "--stage",
        "3",
        "--json",
        "--",
        "sh",
        "-ec",
        WORK,
    ];
    let mut command = source.place.command(&args);
    command
        .env("CTO_HARNESS_ALLOW_COMMAND", "1")
        .env("CTO_HARNESS_COMMAND_STAGE", "3");
    let ran = crate::place::Ran::of(command.output().unwrap());
    (ran.code, ran.json()["blockers"].to_string())
}

#[test]
fn the_contract_itself_does_not_count_wherever_it_lies() {
    for place in [
        "repo/cto-task.yaml",
        "repo/tasks/deep/one.yaml",
        "repo/src/../src/t.yaml",
    ] {
        let source = plain();
        let (code, blockers) = with_contract_at(&source, place);
        assert_eq!((code, blockers.as_str()), (Some(0), "[]"), "{place}");
        // Nothing but that one file: what lies beside it counts.
        source.sh("echo x > other.yaml");
        let (code, blockers) = with_contract_at(&source, place);
        assert_eq!(code, Some(3), "{place}");
        assert!(
            blockers.contains("`other.yaml`") && !blockers.contains("more"),
            "{blockers}"
        );
    }
    // Also when it is tracked and changed, or staged.
    let source = plain();
    source.sh("echo old > task.yaml; git add task.yaml; git commit -qm contract");
    assert_eq!(with_contract_at(&source, "repo/task.yaml").0, Some(0));
    source.sh("git add task.yaml");
    assert_eq!(with_contract_at(&source, "repo/task.yaml").0, Some(0));
    // A run beside it counts the same file as a change.
    let (code, blockers, _) = source.work(WORK);
    assert_eq!(
        (code, blockers.as_slice()),
        (3, &["dirty_starting_tree".to_owned()][..])
    );
}

#[test]
fn an_attempt_made_again_knows_its_contract() {
    let source = plain();
    assert_eq!(with_contract_at(&source, "repo/task.yaml").0, Some(0));
    let mut again = source
        .place
        .command(&["rerun", "latest", "--note", "Again.", "--json"]);
    again
        .env("CTO_HARNESS_ALLOW_COMMAND", "1")
        .env("CTO_HARNESS_COMMAND_STAGE", "3");
    let ran = crate::place::Ran::of(again.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
}
