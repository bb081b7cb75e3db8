//! Who may run: `cto route`, and what the first stage lets through.

use serde_json::{Value, json};

use crate::place::{Place, Ran, sh, write};
use crate::records::admit;
use crate::schemas::fits_schema;
use crate::source::Source;

const CONTRACT: &str = "allowed_paths: [src/]\nverification_commands: [{run: grep -q new src/a.txt, must_fail_before: true}]\n";

fn source(rest: &str) -> Source {
    let source = Source::new(&[("src/a.txt", "old\n")]);
    source.contract(&format!("{CONTRACT}{rest}"));
    source
}

/// Asks for the `command` lane at stage 3, with both gates open.
fn route(source: &Source, flags: &[&str]) -> Ran {
    let asked = ["route", "--contract", "task.yaml", "--engine", "command"];
    let mut command = source.place.command(&[&asked, flags].concat());
    command.args(["--stage", "3"]);
    command
        .env("CTO_HARNESS_ALLOW_COMMAND", "1")
        .env("CTO_HARNESS_COMMAND_STAGE", "3")
        .env(
            "CTO_HARNESS_COMMAND_LOCAL_BASE_URL",
            "http://127.0.0.1:9/v1",
        );
    Ran::of(command.output().unwrap())
}

/// The gates with an outcome.
fn gates(decision: &Value, outcome: &str) -> Vec<String> {
    let facts = decision["facts"].as_array().unwrap().iter();
    facts
        .filter(|fact| fact["outcome"] == outcome)
        .map(|fact| fact["gate"].as_str().unwrap().to_owned())
        .collect()
}

#[track_caller]
fn leaves_nothing(place: &Place) {
    for dir in ["harness-runs", "work", "rooms", "requests"] {
        let entries = std::fs::read_dir(place.home().join(dir));
        assert_eq!(entries.map_or(0, Iterator::count), 0, "{dir}");
    }
}

#[test]
fn a_route_is_the_decision_of_the_run_that_follows() {
    let source = source("");
    let routed = route(&source, &["--repo", "repo", "--json"])
        .expect(0)
        .json();
    fits_schema(&source.place, "route", &routed);
    leaves_nothing(&source.place);
    assert_eq!(routed["selected_backend"], "command");
    assert_eq!(gates(&routed, "unknown"), [] as [&str; 0]);
    let report = source.run(&["sh", "-c", "echo new > src/a.txt"]).expect(0);
    let file = source.pack(&report.json()).join("eligibility.json");
    let decided: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(routed["decision_id"], decided["decision_id"]);
    assert_eq!(routed["denied_backends"], decided["denied_backends"]);
}

#[test]
fn what_a_route_does_not_look_at_is_unknown_and_selects_nobody() {
    let source = source("network: model\n");
    admit(&source, "local", "m");
    let made = source.place.path("made-by-the-command");
    let config = format!(
        "schema: cto.harness/v1\nproviders: {{local: {{credential_command: [touch, {}]}}}}\n",
        made.display()
    );
    write(&source.place.path("config/cto/harness.yaml"), &config);
    let routed = route(&source, &["--json"]).expect(0).json();
    fits_schema(&source.place, "route", &routed);
    assert_eq!(
        (&routed["selected_backend"], &routed["reasons"]),
        (&json!("none"), &json!([]))
    );
    assert_eq!(
        gates(&routed, "unknown"),
        [
            "repository",
            "start_tree_clean",
            "model_access",
            "model_answer"
        ]
    );
    let page = route(&source, &["--repo", "repo"]).expect(0).out;
    assert!(page.contains("not decided, asked for"), "{page}");
    assert!(page.contains("a run would still look at"), "{page}");
    assert!(page.contains("unknown      model_access"), "{page}");
    assert!(!made.exists(), "the command was started");
    leaves_nothing(&source.place);
}

#[test]
fn a_route_names_every_reason_against_every_lane() {
    let source = source("");
    source.sh("echo more >> src/a.txt");
    let page = route(&source, &["--repo", "repo"]).expect(3).out;
    for words in [
        "command  refused, asked for",
        "dirty_starting_tree (start_tree_clean): ",
        "fake     refused\n",
        "provider_unavailable (lane_available): ",
        "      next: commit or stash the changes, or say `dirty_source: allowed` in the contract",
        "gate_missing (CTO_HARNESS_ALLOW_PI): set the lane's environment name to exactly 1",
        "operator",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // A gate that is closed keeps the repository from being looked at.
    let asked = ["route", "--contract", "task.yaml", "--engine", "command"];
    let flags = ["--stage", "3", "--repo", "repo", "--json"];
    let closed = source.place.cto(&[&asked[..], &flags].concat());
    let closed = closed.expect(3).json();
    assert_eq!(closed["missing_gates"], json!(["lane_gate", "stage_gate"]));
    assert_eq!(
        gates(&closed, "unknown"),
        ["repository", "start_tree_clean"]
    );
    for fact in closed["facts"].as_array().unwrap() {
        let is_unknown = fact["outcome"] == "unknown";
        assert_eq!(fact["value"].is_null(), is_unknown, "{fact}");
        assert_eq!(fact["checked_at"].is_null(), is_unknown, "{fact}");
    }
    leaves_nothing(&source.place);
}

#[test]
fn a_route_without_a_lane_asks_for_the_default_one() {
    let source = source("");
    let routed = source
        .place
        .cto(&["route", "--contract", "task.yaml", "--json"]);
    let routed = routed.expect(3).json();
    assert_eq!(routed["requested_backend"], "fake");
    assert_eq!(routed["missing_gates"], json!(["lane_available"]));
    sh(&source.place.path(""), "rm task.yaml");
    let gone = source
        .place
        .cto(&["route", "--contract", "task.yaml", "--json"]);
    assert_eq!(gone.error(), "2 contract_unreadable");
}

#[test]
fn a_stage_that_does_not_fit_the_work_is_a_mistake_whichever_way_it_is_asked_for() {
    let source = source("");
    let repository: &[&str] = &["run", "--repo", "repo", "--contract", "task.yaml"];
    let case: &[&str] = &["run", "r1-string-slugify"];
    for (work, number, expected) in [
        (repository, "2", "2 repository_needs_stage"),
        (case, "3", "2 stage_needs_repository"),
        (case, "5", "2 stage_needs_repository"),
    ] {
        for flag in [&[][..], &["--stage", number]] {
            let args = [
                work,
                &["--engine", "command", "--json"],
                flag,
                &["--", "true"],
            ]
            .concat();
            let mut command = source.place.command(&args);
            command
                .env("CTO_HARNESS_ALLOW_COMMAND", "1")
                .env("CTO_HARNESS_COMMAND_STAGE", number);
            assert_eq!(
                Ran::of(command.output().unwrap()).error(),
                expected,
                "{args:?}"
            );
        }
    }
    source.place.assert_no_runs();
}

#[test]
fn the_first_stage_of_a_gated_lane_starts_no_process() {
    let place = Place::new().with_key();
    for stage in [None, Some("1")] {
        let mut command = place.command(&[
            "run",
            "r1-string-slugify",
            "--engine",
            "command",
            "--json",
            "--",
            "true",
        ]);
        command.env("CTO_HARNESS_ALLOW_COMMAND", "1");
        if let Some(stage) = stage {
            command.env("CTO_HARNESS_COMMAND_STAGE", stage);
        }
        let report = Ran::of(command.output().unwrap()).expect(3).json();
        let blockers = report["blockers"].as_array().unwrap();
        let codes: Vec<&Value> = blockers.iter().map(|b| &b["code"]).collect();
        assert_eq!(codes, ["stage_gate_missing"], "{stage:?}");
        assert_eq!(report["status"], "blocked");
        assert_eq!(report["stage"], 1);
        assert_eq!(report["mutation_mode"], "none");
        assert_eq!(report["allowed_mutation_scope"], "none");
        assert_eq!(report["backend_process_started"], false);
        let id = report["run_id"].as_str().unwrap();
        place.cto(&["verify", id]).expect(0);
    }
}
