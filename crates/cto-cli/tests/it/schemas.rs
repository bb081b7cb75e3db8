use serde_json::Value;

use crate::place::{Place, Ran};

/// Checks one document against what `cto schema` prints.
#[track_caller]
pub(crate) fn fits_schema(place: &Place, name: &str, document: &Value) {
    let schema = place.cto(&["schema", name]).expect(0).json();
    let validator =
        jsonschema::validator_for(&schema).unwrap_or_else(|e| panic!("schema {name}: {e}"));
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(
        errors.is_empty(),
        "{name}: {}\n{document:#}",
        errors.join("\n")
    );
}

#[track_caller]
fn check_lines(place: &Place, name: &str, ran: &Ran) {
    let lines: Vec<Value> = ran
        .out
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert!(!lines.is_empty());
    for line in &lines {
        fits_schema(place, name, line);
    }
}

#[test]
fn every_json_output_fits_its_schema() {
    let place = Place::new().with_key();
    let json = |args: &[&str]| place.cto(&[args, &["--json", "-q"]].concat());
    let run = json(&["run", "r1-string-slugify"]).expect(0);
    fits_schema(&place, "run", &run.json());
    let report = run.json();
    let id = report["run_id"].as_str().unwrap();
    let pack = place.pack(id);
    assert_eq!(
        run.out,
        std::fs::read_to_string(pack.join("report.json")).unwrap(),
        "exactly the file"
    );
    crate::place::write(&place.path("project/a.py"), "");
    for (args, name) in [
        (vec!["cases"], "cases"),
        (vec!["cases", "c-new-file"], "case-show"),
        (vec!["engines"], "engines"),
        (vec!["runs"], "runs"),
        (vec!["show", id], "show"),
        (vec!["explain", id], "explain"),
        (vec!["run", "r1-string-slugify", "--plan"], "plan"),
        (vec!["gc", "--dry-run"], "gc"),
        (vec!["rerun", id, "--note", "Again."], "rerun"),
        (vec!["diff", id], "diff"),
        (vec!["logs", id], "logs"),
        (vec!["logs", id, "--events"], "logs"),
        (vec!["replay", "latest"], "replay"),
        (vec!["verify", id], "verify"),
        (vec!["export", id, "--tar", "out.tar"], "export"),
        (vec!["export", id, "--patch"], "export"),
        (vec!["export", id, "--patch", "out.patch"], "export"),
        (vec!["import", "out.tar"], "import"),
        (vec!["init", "project"], "init"),
        (
            vec!["contract", "check", "project/cto-task.yaml"],
            "contract-check",
        ),
        (
            vec!["why", "a.py", "--contract", "project/cto-task.yaml"],
            "why",
        ),
        (vec!["why", "push", "--run", id], "why"),
        (vec!["schema"], "schemas"),
        (vec!["schema", "--all", "schemas"], "written"),
        (vec!["key", "show"], "key"),
        (vec!["key", "rotate"], "key"),
        (vec!["trust", "list"], "trust-list"),
        (vec!["config", "show"], "config"),
        (vec!["doctor"], "doctor"),
        (vec!["recover"], "recover"),
        (vec!["index", "rebuild"], "index"),
        (vec!["completions", "bash"], "text"),
        (vec!["man"], "text"),
        (vec!["man", "pages"], "written"),
    ] {
        fits_schema(&place, name, &json(&args).expect(0).json());
    }
    check_lines(&place, "watch", &json(&["watch", id]).expect(0));
    let key = json(&["key", "show"]).json();
    let public = key["public_key"].as_str().unwrap();
    fits_schema(
        &place,
        "trust-change",
        &json(&["trust", "add", public, "--name", "again"])
            .expect(0)
            .json(),
    );
    fits_schema(
        &place,
        "trust-change",
        &json(&["trust", "revoke", key["keyid"].as_str().unwrap()])
            .expect(0)
            .json(),
    );
    fits_schema(&place, "error", &json(&["run", "nothing"]).expect(2).json());
    fits_schema(&place, "error", &json(&["run"]).expect(2).json());
    fits_schema(
        &place,
        "verify",
        &json(&["verify", "./schemas"]).expect(5).json(),
    );
    let row = json(&["runs"]).json()["rows"][0].clone();
    fits_schema(&place, "run-row", &row);
    files_of_a_pack(&place, &pack);
}

fn files_of_a_pack(place: &Place, pack: &std::path::Path) {
    let read = |name: &str| std::fs::read_to_string(pack.join(name)).unwrap();
    let value = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap();
    fits_schema(place, "contract", &value("task-contract.json"));
    fits_schema(place, "eligibility", &value("eligibility.json"));
    fits_schema(place, "envelope", &value("attestation.dsse.json"));
    for (file, name) in [
        ("events.normalized.jsonl", "event"),
        ("trace.jsonl", "trace"),
    ] {
        for line in read(file).lines() {
            fits_schema(place, name, &serde_json::from_str(line).unwrap());
        }
    }
    for entry in std::fs::read_dir(place.path("config/cto/trust/harness")).unwrap() {
        fits_schema(
            place,
            "trust",
            &serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap(),
        );
    }
}

#[test]
fn the_matrix_fits_its_schema_and_is_no_run() {
    let place = Place::new().with_key();
    let matrix = place.cto(&["matrix", "--json", "-q"]).expect(0).json();
    fits_schema(&place, "matrix", &matrix);
    let written = std::fs::read_to_string(matrix["report_path"].as_str().unwrap()).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), matrix);
    let runs = matrix["runs"].as_array().unwrap().len() as u64;
    let rebuilt = place.cto(&["index", "rebuild", "--json"]).expect(0).json();
    assert_eq!(rebuilt["rebuilt"]["runs"].as_u64(), Some(runs));
    assert_eq!(
        place.cto(&["runs", "--json", "--limit", "1000"]).json()["rows"]
            .as_array()
            .unwrap()
            .len() as u64,
        runs
    );
    let id = matrix["matrix_id"].as_str().unwrap();
    assert_eq!(place.cto(&["show", id, "--json"]).error(), "2 run_unknown");
}
