//! `cto validate failures` as a person calls it.

use std::collections::BTreeSet;

use cto_contract::blocker::BlockerCode;
use serde_json::Value;

use crate::place::Place;
use crate::schemas::fits_schema;

fn names(value: &Value, field: &str) -> BTreeSet<String> {
    let list = value.as_array().unwrap().iter();
    list.map(|v| v[field].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_way_to_fail_closes_as_its_row_says() {
    let place = Place::new();
    let ran = place.cto(&["validate", "failures", "--json", "-q"]);
    let output = ran.json();
    assert_eq!(output["errors"], serde_json::json!([]), "{output:#}");
    assert_eq!((ran.code, &output["ok"]), (Some(0), &Value::Bool(true)));

    let rows = output["checked"].as_array().unwrap();
    for row in rows {
        let checks = row["checks"].as_object().unwrap();
        assert_eq!(checks.len(), 8, "{row}");
        assert!(checks.values().all(|v| v == true), "{row}");
        let code: BlockerCode = row["blocker"].as_str().unwrap().parse().unwrap();
        assert_eq!(row["status"], code.row().status.as_str());
        // Each pack is there to be read, and verifies without the harness that made it.
        let report = output["failure_reports"][row["fixture"].as_str().unwrap()].as_str();
        let pack = std::path::Path::new(report.unwrap()).parent().unwrap();
        let verified = place.cto(&[
            "verify",
            pack.to_str().unwrap(),
            "--integrity-only",
            "--json",
        ]);
        assert_eq!(verified.expect(0).json()["status"], row["status"]);
    }
    let triggered = names(&output["checked"], "blocker");
    let excused = names(&output["not_covered"], "blocker");
    let all: BTreeSet<String> = BlockerCode::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(&triggered | &excused, all);
    assert_eq!(&triggered & &excused, BTreeSet::new());
    for row in [
        "no_diff",
        "disallowed_file_change",
        "verification_failed",
        "missing_test_command",
        "missing_required_event",
        "reviewer_rejected",
        "timeout",
        "lifecycle_timeout_after_valid_patch",
        "dirty_starting_tree",
        "dirty_ending_tree",
        "artifact_write_failure",
        "provider_unavailable",
        "backend_failed",
        "secret_exposed",
        "source_changed_during_run",
        "verification_tampered",
        "patch_not_reproducible",
        "interrupted",
        "limit_exceeded",
    ] {
        assert!(triggered.contains(row), "{row}");
    }
    place.assert_no_runs();
    fits_schema(&place, "validate-failures", &output);
}

#[test]
fn a_fixture_is_chosen_by_name_and_shown_to_a_person() {
    let place = Place::new();
    let ran = place
        .cto(&[
            "validate",
            "failures",
            "--only",
            "gate-missing",
            "--jobs",
            "1",
        ])
        .expect(0);
    assert!(ran.out.contains("gate-missing-wrong-value"), "{}", ran.out);
    assert!(ran.out.contains("2 of 2 fixtures close as they must"));
    assert!(ran.err.contains("ok       gate-missing ("), "{}", ran.err);
    let wrong = place.cto(&["validate", "failures", "--only", "gate-mising", "--json"]);
    assert_eq!(wrong.error(), "2 fixture_unknown");
    assert!(wrong.out.contains("did you mean `gate-missing`?"));
}
