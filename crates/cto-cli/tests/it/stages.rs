//! The validators of the proof stages, with the lanes' doubles: they hold, what they came to is in the ledger, and each of
//! their checks goes red for a product that does otherwise.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cto_contract::blocker::BlockerCode;
use cto_contract::comparison::Agreement;
use cto_contract::event::EventType;
use cto_contract::words::{Lane, MutationMode, RunStatus, Stage};
use cto_proving::stages::{Gathered, Options, PASS, Program, checks, gather_all};
use cto_runner::Environment;
use cto_sandbox::{Launcher, StopToken};
use serde_json::{Value, json};

use crate::place::{CTO, Place, search_path};
use crate::schemas::fits_schema;

/// Validates a lane up to the last stage that has a validator.
fn holds(lane: &str) -> (Place, Value) {
    let place = Place::lasting();
    let ran = place.cto(&["validate", "stage3", "--lane", lane, "--json", "-q"]);
    let output = ran.json();
    assert_eq!(output["errors"], json!([]), "{output:#}");
    assert_eq!(ran.code, Some(0));
    (place, output)
}

#[test]
fn the_stages_of_case_hold_with_its_double() {
    holds("case");
}

#[test]
fn the_stages_of_codex_hold_with_its_double() {
    holds("codex");
}

#[test]
fn the_stages_of_pi_hold_with_its_double() {
    holds("pi");
}

#[test]
fn the_stages_of_claude_hold_with_its_double() {
    holds("claude");
}

#[test]
fn the_stages_of_a_command_hold_and_the_output_says_where_everything_is() {
    let (place, output) = holds("command");
    fits_schema(&place, "validate-stage", &output);
    assert_eq!(
        (&output["stage"], &output["lane"], &output["real"]),
        (&json!(3), &json!("command"), &json!(false))
    );
    assert_eq!(output["required_stage"]["ok"], true);
    assert_eq!(output["required_stage"]["stage"], 2);
    let is_file = |path: &Value| PathBuf::from(path.as_str().unwrap()).is_file();
    assert!(is_file(&output["required_stage"]["path"]));
    for name in [
        "pass_report",
        "no_target_inspection_proof",
        "source_non_mutation_proof",
    ] {
        assert!(is_file(&output[name]), "{name}");
    }
    let failures = output["failure_reports"].as_object().unwrap();
    let names: Vec<&str> = failures.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "artifact-write-failure",
            "dirty-copy-end",
            "dirty-copy-start",
            "dirty-source",
            "disallowed-file",
            "failed-tests",
            "missing-event",
            "missing-stage-gate",
            "timeout",
        ]
    );
    assert!(failures.values().all(is_file));
    // Nothing of it is among the runs of the real home; the ledger knows that it was done.
    place.assert_no_runs();
    let proof: Value = serde_json::from_slice(
        &std::fs::read(output["source_non_mutation_proof"].as_str().unwrap()).unwrap(),
    )
    .unwrap();
    fits_schema(&place, "stage3-copied-repo-proof", &proof);
    let proof: Value = serde_json::from_slice(
        &std::fs::read(output["no_target_inspection_proof"].as_str().unwrap()).unwrap(),
    )
    .unwrap();
    fits_schema(&place, "stage2-no-target-inspection", &proof);
}

#[test]
fn a_lane_without_a_validator_is_refused_by_name() {
    let place = Place::new();
    let ran = place.cto(&["validate", "stage1", "--lane", "fake", "--json"]);
    assert_eq!(ran.error(), "2 lane_unknown");
}

type Mutant = (&'static str, fn(&mut Gathered));

fn pass(seen: &mut Gathered) -> &mut cto_proving::stages::RunFacts {
    seen.runs.get_mut(PASS).unwrap()
}

fn code(seen: &mut Gathered, run: &str, code: BlockerCode) {
    let run = seen.runs.get_mut(run).unwrap();
    run.report.verdict.blockers[0].code = code;
}

fn starts(seen: &mut Gathered, run: &str) {
    let run = seen.runs.get_mut(run).unwrap();
    run.report.backend.case_process_started = true;
}

/// One product that does otherwise for each check; those of every stage are added by the test.
fn mutants(stage: u8) -> Vec<Mutant> {
    use BlockerCode as B;
    match stage {
        1 => vec![
            ("fake_is_the_default", |s| {
                s.known.default = Some("case".to_owned())
            }),
            ("registry_knows_the_gate", |s| s.known.gate = None),
            ("usage_knows_the_lane", |s| s.known.in_usage = false),
            ("arguments_are_validated", |s| {
                s.known.unknown_refused = false
            }),
            ("blocked_without_the_gate", |s| starts(s, "gate-absent")),
            ("blocked_by_another_value_of_the_gate", |s| {
                s.runs.get_mut("gate-not-exact").unwrap().has_gate_log = false;
            }),
            ("blocked_with_the_gate_alone", |s| {
                let run = s.runs.get_mut("gate-alone").unwrap();
                run.report.authority.mutation_mode = MutationMode::CopiedFixture;
            }),
            ("blocked_at_stage_one", |s| {
                let run = s.runs.get_mut("stage-one").unwrap();
                run.events.retain(|e| *e != EventType::BackendGateBlocked);
            }),
            ("blocked_when_the_flag_asks_for_more", |s| {
                starts(s, "missing-stage-gate")
            }),
            ("provider_unavailable_is_closed", |s| {
                starts(s, "provider-unavailable")
            }),
            ("missing_event_is_closed", |s| {
                code(s, "missing-event", B::NoDiff)
            }),
            ("artifact_write_failure_is_closed", |s| {
                s.runs.get_mut("artifact-write-failure").unwrap().exit_code = Some(0);
            }),
        ],
        2 => vec![
            ("pass", |s| pass(s).report.verdict.status = RunStatus::Fail),
            ("pass_writes_the_copy_alone", |s| {
                pass(s).report.change.allowed_writes_passed = Some(false);
            }),
            ("pass_has_every_required_event", |s| {
                pass(s).events.retain(|e| *e != EventType::GitDiffChecked);
            }),
            ("fake_baseline_matches", |s| {
                let compared = &mut pass(s).report.authority.baseline_comparison;
                compared.as_mut().unwrap().event_order.result = Agreement::Differs;
            }),
            ("no_target_inspection", |s| {
                pass(s)
                    .no_target
                    .as_mut()
                    .unwrap()
                    .target_repository_path_found = true;
            }),
            ("no_diff_is_closed", |s| {
                let run = s.runs.get_mut("no-diff").unwrap();
                run.report.verdict.status = RunStatus::Pass;
            }),
            ("disallowed_file_is_closed", |s| {
                code(s, "disallowed-file", B::NoDiff)
            }),
            ("failed_tests_are_closed", |s| {
                code(s, "failed-tests", B::NoDiff)
            }),
            ("missing_test_command_is_closed", |s| {
                code(s, "missing-test-command", B::BaselineBroken);
            }),
            ("missing_event_is_closed", |s| {
                code(s, "missing-event", B::NoDiff)
            }),
            ("provider_unavailable_is_closed", |s| {
                starts(s, "provider-unavailable")
            }),
            ("missing_stage_gate_is_closed", |s| {
                starts(s, "missing-stage-gate")
            }),
        ],
        _ => vec![
            ("pass", |s| pass(s).exit_code = Some(1)),
            ("pass_writes_the_copy_alone", |s| {
                pass(s).report.authority.allowed_mutation_scope = "anything".to_owned();
            }),
            ("pass_has_every_required_event", |s| {
                pass(s).events.reverse()
            }),
            ("no_target_inspection", |s| pass(s).no_target = None),
            ("source_is_left_as_it_was", |s| {
                let proof = pass(s).copied_repo.as_mut().unwrap();
                proof.source_head_after = None;
            }),
            ("dirty_source_is_closed", |s| starts(s, "dirty-source")),
            ("dirty_copy_start_is_closed", |s| {
                let run = s.runs.get_mut("dirty-copy-start").unwrap();
                run.copied_repo.as_mut().unwrap().head.passed = true;
            }),
            ("dirty_copy_end_is_closed", |s| {
                let run = s.runs.get_mut("dirty-copy-end").unwrap();
                let proof = run.copied_repo.as_mut().unwrap();
                proof.copied_fixture_ending_clean = Some(true);
            }),
            ("timeout_is_closed", |s| {
                let run = s.runs.get_mut("timeout").unwrap();
                run.report.verdict.status = RunStatus::Pass;
            }),
            ("artifact_write_failure_is_closed", |s| {
                code(s, "artifact-write-failure", B::NoDiff)
            }),
            ("disallowed_file_is_closed", |s| {
                code(s, "disallowed-file", B::NoDiff)
            }),
            ("failed_tests_are_closed", |s| {
                code(s, "failed-tests", B::NoDiff)
            }),
            ("missing_event_is_closed", |s| {
                drop(s.runs.remove("missing-event"))
            }),
            ("missing_stage_gate_is_closed", |s| {
                starts(s, "missing-stage-gate")
            }),
        ],
    }
}

fn of_every_stage() -> Vec<Mutant> {
    vec![
        ("every_run_left_a_pack", |s| {
            s.broken.insert("more", "no pack".to_owned());
        }),
        ("every_pack_verifies", |s| {
            let first = s.runs.values_mut().next().unwrap();
            first.verify_errors.push("digest_mismatch".to_owned());
        }),
        ("every_pack_is_conformance", |s| {
            let first = s.runs.values_mut().next().unwrap();
            first.report.run.conformance = false;
        }),
        ("every_run_says_its_lane_and_stage", |s| {
            let first = s.runs.values_mut().next().unwrap();
            first.report.authority.stage = Stage::DISPOSABLE;
        }),
        ("nothing_around_the_runs_changed", |s| {
            s.outside.push("repository/a.txt".to_owned());
        }),
        ("the_stage_below_holds", |s| s.below_ok = false),
    ]
}

/// Names of the checks that do not hold.
fn red(seen: &Gathered) -> Vec<&'static str> {
    let all = checks(seen.stage).into_iter();
    let red = all.filter(|check| !check.errors(seen).is_empty());
    red.map(|check| check.name).collect()
}

#[test]
fn each_check_of_each_stage_goes_red_for_one_product_that_does_otherwise_and_no_other_does() {
    let place = Place::elsewhere();
    let path = Environment::new([("PATH".to_owned(), search_path())]);
    let options = Options {
        directory: place.path("validation"),
        env: path,
        launcher: Launcher::at(CTO),
        cto: CTO.into(),
        lane: Lane::Command,
        program: Program::Double,
        jobs: 2,
    };
    let stop = StopToken::new().unwrap();
    for seen in gather_all(&options, &stop).unwrap() {
        assert_eq!(red(&seen), Vec::<&str>::new(), "stage {}", seen.stage);
        let mutants: Vec<Mutant> = mutants(seen.stage.number())
            .into_iter()
            .chain(of_every_stage())
            .collect();
        let tried: BTreeSet<&str> = mutants.iter().map(|(name, _)| *name).collect();
        let all: BTreeSet<&str> = checks(seen.stage).iter().map(|check| check.name).collect();
        assert_eq!(tried, all, "stage {}", seen.stage);
        for (name, mutate) in mutants {
            let mut other = seen.clone();
            mutate(&mut other);
            assert_eq!(red(&other), [name], "stage {}", seen.stage);
        }
    }
}
