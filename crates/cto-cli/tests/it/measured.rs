//! Every run of a gated lane on a case is measured by the `fake` lane, in the same run.

use std::fs;

use serde_json::Value;

use crate::place::{GOOD_REST, Place, Ran};

fn run(place: &Place, program: &str) -> Ran {
    let mut command = place.command(&[
        "run", "small", "--cases", "cases", "--engine", "command", "--json", "--", "/bin/sh", "-c",
        program,
    ]);
    command
        .env("CTO_HARNESS_ALLOW_COMMAND", "1")
        .env("CTO_HARNESS_COMMAND_STAGE", "2");
    Ran::of(command.output().unwrap())
}

fn report_of(place: &Place, path: &Value) -> Value {
    let path = path.as_str().unwrap();
    let path = path.replace("$CTO_HOME", place.home().to_str().unwrap());
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_pass_of_a_gated_lane_matches_the_fake_lane_in_all_respects_and_stays_the_latest() {
    let place = Place::new().with_key();
    place.case("small", GOOD_REST);
    let report = run(&place, "echo after > a.txt").expect(0).json();
    let compared = report["baseline_comparison"].as_object().unwrap();
    for respect in [
        "report_shape",
        "event_order",
        "allowed_writes",
        "verification",
        "blockers",
        "artifact_digests",
        "freshness",
    ] {
        assert_eq!(
            compared[respect]["result"], "match",
            "{respect}: {compared:?}"
        );
    }
    let fake = report_of(&place, &compared["fake_report"]);
    assert_eq!(
        (
            &fake["backend"],
            &fake["status"],
            &fake["fake_baseline"],
            &fake["parent_run_id"]
        ),
        (
            &"fake".into(),
            &"pass".into(),
            &true.into(),
            &report["run_id"]
        )
    );
    let lane = report_of(&place, &compared["lane_report"]);
    assert_eq!(lane["run_id"], report["run_id"]);
    for run_id in [&fake["run_id"], &report["run_id"]] {
        place.cto(&["verify", run_id.as_str().unwrap()]).expect(0);
    }
    let latest = place.cto(&["show", "latest", "--json"]).expect(0).json();
    assert_eq!(latest["run_id"], report["run_id"]);
    place.cto(&["index", "rebuild"]).expect(0);
    let latest = place.cto(&["show", "latest", "--json"]).expect(0).json();
    assert_eq!(latest["run_id"], report["run_id"]);
}

#[test]
fn a_lane_that_does_otherwise_than_fake_is_told_in_which_respects() {
    let place = Place::new().with_key();
    place.case("small", GOOD_REST);
    let report = run(&place, "true").expect(1).json();
    let compared = &report["baseline_comparison"];
    assert_eq!(compared["blockers"]["result"], "differs");
    assert_eq!(compared["verification"]["result"], "differs");
    assert_eq!(compared["report_shape"]["result"], "match");
}

#[test]
fn a_case_that_the_fake_lane_does_not_pass_is_blocked_before_the_agent_starts() {
    let place = Place::new().with_key();
    let case = place.case("small", GOOD_REST);
    fs::remove_dir_all(case.join("fake")).unwrap();
    let report = run(&place, "echo after > a.txt").expect(3).json();
    assert_eq!(report["blockers"][0]["code"], "baseline_broken");
    assert_eq!(report["blockers"][0]["subject"], "fake");
    assert_eq!(report["case_process_started"], false);
    let run_id = report["run_id"].as_str().unwrap();
    place.cto(&["verify", run_id]).expect(0);
}
