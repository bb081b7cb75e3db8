//! The ladder of a home: derived from the ledger and from what verifies now, never from what somebody put there.

use std::fs;
use std::path::{Path, PathBuf};

use cto_contract::model_script::ModelFault;
use cto_contract::words::Lane;
use serde_json::{Value, json};

use crate::lanes::{LanePlace, scripted, told};
use crate::place::{CTO, GOOD_REST, Place, Ran, write};
use crate::schemas::fits_schema;

/// The only row of a lane.
fn row(place: &Place, lane: &str) -> Value {
    let args = ["ladder", "--lane", lane, "--json", "-q"];
    let ladder = place.cto(&args).expect(0).json();
    fits_schema(place, "ladder", &ladder);
    let rows = ladder["lanes"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{ladder:#}");
    rows[0].clone()
}

/// `state reasons` of a stage.
fn stage(row: &Value, number: usize) -> String {
    let stage = &row["stages"][number - 1];
    assert_eq!(stage["stage"], json!(number));
    let reasons = stage["reasons"].as_array().unwrap().iter();
    let reasons: Vec<&str> = reasons.map(|r| r.as_str().unwrap()).collect();
    let words = [&[stage["state"].as_str().unwrap()], &reasons[..]].concat();
    words.join(" ")
}

#[test]
fn a_fresh_home_has_proven_nothing_and_says_what_comes_next() {
    let place = Place::new();
    let ladder = place.cto(&["ladder", "--json"]).expect(0).json();
    let rows = ladder["lanes"].as_array().unwrap();
    let lanes: Vec<&str> = rows.iter().map(|r| r["lane"].as_str().unwrap()).collect();
    assert!(
        !lanes.contains(&"fake") && lanes.contains(&"case"),
        "{lanes:?}"
    );
    for row in rows {
        let lane = row["lane"].as_str().unwrap();
        assert_eq!(stage(row, 1), "unproven not_validated");
        assert_eq!(row["proven"], Value::Null);
        assert_eq!(row["next"], format!("cto validate stage1 --lane {lane}"));
    }
    let page = place.cto(&["ladder"]).expect(0).out;
    assert!(page.contains("its validator has not run here"), "{page}");
}

/// The directory of the only validation in a home.
fn validation(place: &Place) -> PathBuf {
    let mut all = fs::read_dir(place.home().join("validation")).unwrap();
    let only = all.next().unwrap().unwrap().path();
    assert!(all.next().is_none());
    only
}

#[test]
fn a_validation_holds_while_its_output_and_its_packs_are_as_they_were() {
    let place = Place::lasting();
    let args = ["validate", "stage2", "--lane", "command", "--json", "-q"];
    place.cto(&args).expect(0);
    let proven = row(&place, "command");
    assert_eq!(stage(&proven, 1), "proven");
    assert_eq!(stage(&proven, 2), "proven");
    assert_eq!(stage(&proven, 3), "unproven not_validated");
    assert_eq!(proven["proven"], 2);
    assert_eq!(proven["next"], "cto validate stage3 --lane command");

    // A pack of the second stage is taken away: the first still holds.
    let at = validation(&place);
    let output: Value = serde_json::from_slice(&fs::read(at.join("stage2.json")).unwrap()).unwrap();
    let pack = Path::new(output["pass_report"].as_str().unwrap())
        .parent()
        .unwrap()
        .to_owned();
    let aside = place.path("aside");
    fs::rename(&pack, &aside).unwrap();
    let without = row(&place, "command");
    assert_eq!(stage(&without, 1), "proven");
    assert_eq!(stage(&without, 2), "stale evidence_removed");
    fs::rename(&aside, &pack).unwrap();
    assert_eq!(stage(&row(&place, "command"), 2), "proven");

    // What is written over by hand proves nothing, and nothing above it holds.
    let first = at.join("stage1.json");
    let text = fs::read_to_string(&first).unwrap();
    write(
        &first,
        &text.replace("\"lane\": \"command\"", "\"lane\": \"codex\""),
    );
    let forged = row(&place, "command");
    assert_eq!(stage(&forged, 1), "unproven evidence_does_not_verify");
    assert_eq!(stage(&forged, 2), "unproven stage_below");
    assert_eq!(stage(&row(&place, "codex"), 1), "unproven not_validated");
}

#[test]
fn what_was_validated_in_another_home_does_not_count_in_this_one() {
    let (one, other) = (Place::lasting(), Place::lasting().with_key());
    one.cto(&["validate", "stage1", "--lane", "command", "-q"])
        .expect(0);
    let copied = other.home().join("validation");
    fs::create_dir_all(&copied).unwrap();
    fs::rename(validation(&one), copied.join("copied")).unwrap();
    assert_eq!(stage(&row(&other, "command"), 1), "unproven not_validated");
    // And the home that made it misses its evidence.
    assert_eq!(stage(&row(&one, "command"), 1), "stale evidence_removed");
}

#[test]
fn climbing_stops_with_4_where_a_person_decides_and_has_proven_what_needs_none() {
    let place = Place::lasting();
    let args = [
        "ladder", "climb", "--lane", "command", "--to", "4", "--json", "-q",
    ];
    let ladder = place.cto(&args).expect(4).json();
    let row = &ladder["lanes"][0];
    for number in 1..=3 {
        assert_eq!(stage(row, number), "proven");
    }
    assert_eq!(row["proven"], 3);
    // Nothing is done twice.
    let before = fs::read_dir(place.home().join("validation"))
        .unwrap()
        .count();
    place.cto(&args).expect(4);
    let after = fs::read_dir(place.home().join("validation"))
        .unwrap()
        .count();
    assert_eq!(before, after);
}

#[test]
fn a_run_that_climbs_first_gets_the_proofs_below_it_and_says_what_they_cost() {
    let place = Place::lasting();
    place.case("small", GOOD_REST);
    let run = |more: &[&str]| {
        let cases = ["run", "small", "--cases", "cases", "--engine", "command"];
        let agent = ["--", "/bin/sh", "-c", "echo after > a.txt"];
        let mut command = place.command(&[&cases[..], more, &agent].concat());
        command.env("CTO_HARNESS_ALLOW_COMMAND", "1");
        command.env("CTO_HARNESS_COMMAND_STAGE", "2");
        Ran::of(command.output().unwrap()).expect(0)
    };
    run(&["--stage", "2"]);
    assert_eq!(stage(&row(&place, "command"), 1), "unproven not_validated");
    let climbed = run(&["--stage", "2", "--climb"]);
    assert!(climbed.err.contains("climbing took"), "{}", climbed.err);
    let found = row(&place, "command");
    assert_eq!(stage(&found, 1), "proven");
    // Not the proof of its own stage.
    assert_eq!(stage(&found, 2), "unproven not_validated");
    // What is there is not got again.
    let once = validation(&place);
    run(&["--stage", "2", "--climb"]);
    assert_eq!(validation(&place), once);
}

#[test]
fn a_real_pass_is_known_by_its_identity_and_ends_with_its_pack() {
    let program = Place::elsewhere();
    let double = program.path("cto-double-codex");
    fs::copy(CTO, &double).unwrap();
    let at = LanePlace::new(Lane::Codex, &double);
    at.place.case("small", GOOD_REST);
    let cases = at.place.path("cases");
    let model = scripted("  - {run: echo after > a.txt}\n  - {finish: done}\n");
    let args = ["small", "--cases", cases.to_str().unwrap()];
    let (_, report) = at.run(2, &model.base_url(ModelFault::Ok), &args);
    assert_eq!(told(&report), "pass none none", "{report:#}");
    let found = row(&at.place, "codex");
    assert_eq!(found["identity"], report["identity"]);
    assert_eq!(found["stages"][1]["real_pass"], report["run_id"]);
    assert_eq!(stage(&found, 2), "unproven not_validated");
    // The same once more is no news, and a refusal is none at all.
    at.run(2, &model.base_url(ModelFault::Ok), &args);
    assert_eq!(
        row(&at.place, "codex")["stages"][1]["real_pass"],
        report["run_id"]
    );
    // Another record of the model: the pass was under the old one.
    let record = at.place.path("config/cto/model.yaml");
    let text = fs::read_to_string(&record).unwrap();
    write(
        &record,
        &text.replace("before another model", "next spring"),
    );
    assert_eq!(
        stage(&row(&at.place, "codex"), 2),
        "unproven not_validated admission_changed"
    );
    write(&record, &text);
    fs::rename(at.pack(&report), at.place.path("aside")).unwrap();
    assert_eq!(
        stage(&row(&at.place, "codex"), 2),
        "unproven not_validated evidence_removed"
    );
}

#[test]
fn health_is_one_verdict_over_parts_by_name_and_leaves_the_stages_of_case_validated() {
    let place = Place::lasting();
    let ran = place.cto(&["health", "--json", "-q"]);
    let health = ran.json();
    fits_schema(&place, "health", &health);
    assert_eq!(
        (ran.code, &health["status"]),
        (Some(0), &json!("pass")),
        "{health:#}"
    );
    let parts = health["parts"].as_object().unwrap();
    let names: Vec<&str> = parts.keys().map(String::as_str).collect();
    let wanted = [
        "case_provider_adapter",
        "case_stage1",
        "case_stage2",
        "case_stage3",
        "failures",
        "matrix",
    ];
    assert_eq!(names, wanted);
    for part in parts.values() {
        assert_eq!(part["passed"], true);
        assert!(part["checked"].as_u64().unwrap() > 0);
        assert!(Path::new(part["path"].as_str().unwrap()).exists());
    }
    assert_eq!(stage(&row(&place, "case"), 1), "proven");
}

#[test]
fn stages_that_need_a_real_pass_may_be_more_and_never_fewer() {
    let place = Place::new();
    let config = place.path("config/cto/harness.yaml");
    write(
        &config,
        "schema: cto.harness/v1\nladder: {require_real: [2]}\n",
    );
    let ran = place.cto(&["ladder", "--json"]);
    assert_eq!(ran.code, Some(2), "{}", ran.out);
    let error = ran.json()["error"].to_string();
    assert!(
        error.contains("widened, not narrowed") && error.contains("harness.yaml:2"),
        "{error}"
    );
    write(
        &config,
        "schema: cto.harness/v1\nladder: {require_real: [2, 3, 5]}\n",
    );
    let found = row(&place, "codex");
    let needed: Vec<&Value> = found["stages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["real_pass_required"])
        .collect();
    assert_eq!(
        needed,
        [false, true, true, false, true, false]
            .map(Value::Bool)
            .iter()
            .collect::<Vec<_>>()
    );
}
