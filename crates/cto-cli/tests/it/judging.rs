//! What passes and what must not: the shipped cases with their honest change and with every cheat.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cto_contract::verify::Integrity;
use cto_contract::words::{ClaimLevel, Lane, RunStatus};
use cto_runner::{Catalog, Environment, Harness, OpenOptions, RunRequest, RunResult, Task};
use cto_sandbox::{Launcher, StopToken};

use crate::test_home::{CTO, TestHome, blockers, files, search_path, write};

fn open(test_home: &TestHome) -> Harness {
    open_with(test_home, search_path())
}

fn open_with(test_home: &TestHome, path: String) -> Harness {
    Harness::open(OpenOptions {
        home: test_home.home(),
        config: test_home.config(),
        env: Environment::new([("PATH".to_owned(), path)]),
        launcher: Launcher::at(CTO),
    })
    .unwrap()
}

fn run(harness: &Harness, id: &str, cheat: Option<String>) -> RunResult {
    run_with(harness, id, cheat, &StopToken::new().unwrap())
}

fn run_with(harness: &Harness, id: &str, cheat: Option<String>, stop: &StopToken) -> RunResult {
    let case = Catalog::default().find(id).unwrap();
    let request = RunRequest {
        task: Task::Case(case),
        lane: Lane::Fake,
        argv: Vec::new(),
        stage: None,
        timeout_seconds: None,
        cheat,
        parent: None,
        conformance: false,
        sandbox: cto_runner::SandboxAsk::default(),
        approval: Default::default(),
    };
    harness.run(&request, stop, &mut |_| {}).unwrap()
}

#[test]
fn a_run_that_ends_early_stops_nobody_else() {
    let test_home = TestHome::new();
    // Without git the backend can't start, while the checks of the baseline have begun.
    let harness = open_with(&test_home, "/no/such/directory".to_owned());
    let stop = StopToken::new().unwrap();
    let result = run_with(&harness, "r1-string-slugify", None, &stop);
    assert_eq!(result.report.verdict.status, RunStatus::Blocked);
    assert!(
        !stop.is_asked(),
        "the runs of a matrix share what stops them"
    );
}

/// Runs all jobs on as many threads as there are cores.
fn in_parallel<T: Sync>(jobs: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(job);
                }
            });
        }
    });
}

#[test]
fn every_shipped_case_passes_with_its_honest_change() {
    let test_home = TestHome::new();
    let harness = open(&test_home);
    let ids = Catalog::default().ids().unwrap();
    assert!(ids.len() >= 12);
    in_parallel(&ids, |id| {
        let result = run(&harness, id, None);
        let report = &result.report;
        assert_eq!(
            report.verdict.status,
            RunStatus::Pass,
            "{id}: {:?}",
            report.verdict.blockers
        );
        assert_eq!(result.verified.integrity, Integrity::Ok, "{id}");
        assert_eq!(
            report.checks.verification.level,
            ClaimLevel::Verified,
            "{id}: an oracle must lift the claim"
        );
        assert_eq!(
            report.checks.verification.baseline_failed,
            Some(true),
            "{id}: the checks must fail before the change"
        );
        assert_eq!(
            report.change.patch_tree_id, report.change.verified_tree_id,
            "{id}"
        );
    });
}

#[test]
fn no_cheat_of_any_shipped_case_passes() {
    let test_home = TestHome::new();
    let harness = open(&test_home);
    let catalog = Catalog::default();
    let mut jobs = Vec::new();
    for id in catalog.ids().unwrap() {
        let cheats = catalog.find(&id).unwrap().cheats().unwrap();
        assert!(cheats.len() >= 3, "{id} has {} cheats", cheats.len());
        jobs.extend(cheats.into_iter().map(|cheat| (id.clone(), cheat)));
    }
    let caught = Mutex::new(std::collections::BTreeMap::<&'static str, u32>::new());
    in_parallel(&jobs, |(id, cheat)| {
        let result = run(&harness, id, Some(cheat.clone()));
        assert_eq!(
            result.report.verdict.status,
            RunStatus::Fail,
            "{id}: {cheat} passed"
        );
        assert!(
            result.report.run.conformance,
            "{id}: {cheat} must never count as a real pass"
        );
        let first = result.report.verdict.blockers[0].code.as_str();
        *caught.lock().unwrap().entry(first).or_default() += 1;
    });
    let caught = caught.into_inner().unwrap();
    for code in ["verification_failed", "disallowed_file_change"] {
        assert!(
            caught.contains_key(code),
            "no cheat was caught by {code}: {caught:?}"
        );
    }
}

pub(crate) fn verdict_of(test_home: &TestHome, id: &str) -> (i32, Vec<String>, serde_json::Value) {
    let (code, report) =
        test_home.json(&["run", id, "--cases", test_home.cases().to_str().unwrap()]);
    (code, blockers(&report), report)
}

#[test]
fn a_change_that_does_nothing_is_no_diff() {
    let test_home = TestHome::new();
    let dir = test_home.case("idle", "");
    write(&dir.join("fake.patch"), "");
    std::fs::remove_file(dir.join("fake.patch")).unwrap();
    std::fs::create_dir(dir.join("fake")).unwrap();
    write(&dir.join("fake/a.txt"), "old\n");
    let (code, found, report) = verdict_of(&test_home, "idle");
    assert_eq!((code, found[0].as_str()), (1, "no_diff"));
    assert_eq!(report["changed_files"].as_array().unwrap().len(), 0);
    let run_id = report["run_id"].as_str().unwrap();
    assert_eq!(
        std::fs::read(test_home.pack(run_id).join("patch.diff")).unwrap(),
        b""
    );
}

#[test]
fn a_change_outside_the_contract_is_named_and_its_code_is_not_run() {
    let test_home = TestHome::new();
    test_home.case("wide", "allowed_paths: [b.txt]\n");
    let (code, found, report) = verdict_of(&test_home, "wide");
    assert_eq!(
        (code, found),
        (1, vec!["disallowed_file_change".to_owned()])
    );
    assert_eq!(report["allowed_writes_passed"], false);
    assert_eq!(report["changed_files"][0], "a.txt");
    assert!(
        report["verification"]["not_run"]
            .as_str()
            .unwrap()
            .contains("not run")
    );
}

#[test]
fn checks_that_fail_and_checks_that_never_failed_before_are_both_failures() {
    let test_home = TestHome::new();
    test_home.case("red", "verification_commands: [\"grep -q newer a.txt\"]\n");
    test_home.case(
        "green-before",
        "verification_commands: [{run: \"true\", must_fail_before: true}]\n",
    );
    assert_eq!(verdict_of(&test_home, "red").1, ["verification_failed"]);
    assert_eq!(
        verdict_of(&test_home, "green-before").1,
        ["verification_failed"]
    );
}

#[test]
fn no_command_is_a_block_and_a_reason_for_it_is_shown() {
    let test_home = TestHome::new();
    test_home.case("untested", "verification_commands: []\n");
    test_home.case(
        "explained",
        "verification_commands: []\nno_test_rationale: a text nobody can test\n",
    );
    let (code, found, _) = verdict_of(&test_home, "untested");
    assert_eq!((code, found), (3, vec!["missing_test_command".to_owned()]));
    let (code, found, report) = verdict_of(&test_home, "explained");
    assert_eq!((code, found.len()), (0, 0));
    assert_eq!(report["verification"]["level"], "absent");
    let run_id = report["run_id"].as_str().unwrap();
    let page = std::fs::read_to_string(test_home.pack(run_id).join("report.md")).unwrap();
    assert!(page.contains("Not verified by tests"), "{page}");
}

#[test]
fn checks_that_change_the_tree_leave_it_dirty() {
    let test_home = TestHome::new();
    test_home.case("messy", "verification_commands: [\"echo x > left-over\"]\n");
    let (code, found, report) = verdict_of(&test_home, "messy");
    assert_eq!((code, found), (1, vec!["dirty_ending_tree".to_owned()]));
    assert!(
        report["blockers"][0]["message"]
            .as_str()
            .unwrap()
            .contains("left-over")
    );
}

#[test]
fn a_check_that_never_ends_is_a_timeout() {
    let test_home = TestHome::new();
    test_home.case(
        "endless",
        "verification_commands: [\"tail -f /dev/null\"]\nlimits: {wall_seconds: 1}\n",
    );
    let (code, found, report) = verdict_of(&test_home, "endless");
    assert_eq!((code, found[0].as_str()), (3, "timeout"));
    let run_id = report["run_id"].as_str().unwrap();
    assert!(
        test_home
            .pack(run_id)
            .join("backend/provider-timeout.txt")
            .exists()
    );
}

#[test]
fn a_backend_that_fails_is_a_failure() {
    let test_home = TestHome::new();
    let dir = test_home.case("broken", "");
    write(&dir.join("fake.patch"), "this is no patch\n");
    let (code, found, _) = verdict_of(&test_home, "broken");
    assert_eq!((code, found[0].as_str()), (1, "backend_failed"));
}

#[test]
fn a_gated_lane_is_blocked_before_anything_is_touched() {
    let test_home = TestHome::new();
    let (code, report) = test_home.json(&["run", "r1-string-slugify", "--engine", "codex"]);
    assert_eq!(code, 3);
    assert!(blockers(&report).contains(&"gate_missing".to_owned()));
    assert_eq!(
        report["failure_reason"],
        "gate missing: CTO_HARNESS_ALLOW_CODEX"
    );
    assert_eq!(report["case_process_started"], false);
    let run_id = report["run_id"].as_str().unwrap();
    assert!(
        test_home
            .pack(run_id)
            .join("backend/codex-gate.log")
            .exists()
    );
    assert_eq!(
        std::fs::read_dir(test_home.home().join("baselines"))
            .unwrap()
            .count(),
        0,
        "nothing is copied"
    );
    assert_eq!(test_home.json(&["verify", run_id]).0, 0);
}

#[test]
fn a_contract_without_paths_or_actions_is_blocked_with_both_reasons() {
    let test_home = TestHome::new();
    test_home.case("boundless", "allowed_paths: []\npermitted_actions: []\n");
    let file = test_home.cases().join("boundless/case.yaml");
    let text = std::fs::read_to_string(&file)
        .unwrap()
        .replace("[push, merge, ", "[");
    write(&file, &text);
    let (code, found, _) = verdict_of(&test_home, "boundless");
    assert_eq!(code, 3);
    assert_eq!(
        found,
        ["allowed_paths_missing", "forbidden_actions_missing"]
    );
}

#[test]
fn a_home_inside_somebodys_repository_changes_nothing() {
    let test_home = TestHome::new();
    let init = std::process::Command::new("git")
        .args(["init", "-q"])
        .current_dir(test_home.path())
        .status()
        .unwrap();
    assert!(init.success());
    let (code, report) = test_home.run_tiny();
    assert_eq!(code, 0, "{report}");
}

#[test]
fn what_the_baseline_ignores_is_thrown_away_and_no_violation() {
    let test_home = TestHome::new();
    let dir = test_home.case("messy-build", "");
    write(&dir.join("workspace/.gitignore"), "build/\n*.log\n");
    std::fs::remove_file(dir.join("fake.patch")).unwrap();
    std::fs::create_dir_all(dir.join("fake/build/deep")).unwrap();
    write(&dir.join("fake/a.txt"), "new\n");
    write(&dir.join("fake/build/deep/out.bin"), "x");
    write(&dir.join("fake/run.log"), "x");
    let (code, found, report) = verdict_of(&test_home, "messy-build");
    assert_eq!((code, found.len()), (0, 0), "{report}");
    assert_eq!(report["residue"]["count"], 2);
    assert_eq!(report["changed_files"], serde_json::json!(["a.txt"]));
}

#[test]
fn an_event_that_a_contract_requires_and_nobody_recorded_fails_the_run() {
    let test_home = TestHome::new();
    test_home.case(
        "expectant",
        "evidence_expectations: {required_events: [sandbox.denied]}\n",
    );
    let (code, found, report) = verdict_of(&test_home, "expectant");
    assert_eq!(
        (code, found),
        (1, vec!["missing_required_event".to_owned()])
    );
    assert_eq!(report["required_events_passed"], false);
    assert_eq!(
        test_home
            .json(&["verify", report["run_id"].as_str().unwrap()])
            .0,
        0
    );
}

#[test]
fn protected_risk_classes_are_refused_by_name() {
    let test_home = TestHome::new();
    test_home.case("prod", "risk_class: production\n");
    test_home.case("nobodys", "risk_class: unowned\n");
    assert_eq!(verdict_of(&test_home, "prod").1, ["critical_repository"]);
    assert_eq!(verdict_of(&test_home, "nobodys").1, ["unowned_repository"]);
}

#[test]
fn stage_one_starts_no_process_and_later_stages_need_a_repository() {
    let test_home = TestHome::new();
    let (code, report) = test_home.json(&["run", "r1-string-slugify", "--stage", "1"]);
    assert_eq!(
        (code, blockers(&report)),
        (3, vec!["stage_not_proven".to_owned()])
    );
    assert_eq!(report["backend_process_started"], false);
    let (code, error) = test_home.json(&["run", "r1-string-slugify", "--stage", "5"]);
    assert_eq!(code, 2, "{error}");
}

#[test]
fn a_backend_that_is_not_installed_is_a_block_with_its_marker() {
    let test_home = TestHome::new();
    test_home.tiny();
    // Git stands on the harness's own path, but not on the one that it gives to the backend.
    let out = test_home
        .command(&[
            "run",
            "tiny",
            "--json",
            "--cases",
            test_home.cases().to_str().unwrap(),
        ])
        .env("PATH", test_home.path())
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(3), "{report}");
    assert!(
        blockers(&report).contains(&"provider_unavailable".to_owned()),
        "{report}"
    );
    let pack = test_home.pack(report["run_id"].as_str().unwrap());
    assert!(pack.join("backend/provider-unavailable.txt").exists());
    assert_eq!(report["backend_completion"], "none");
}

#[test]
fn every_oracle_carries_the_same_probe() {
    // A case is whole in its own directory, so the helper stands in each; it must not drift apart.
    let cases = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    let probes: std::collections::BTreeSet<Vec<u8>> = files(&cases)
        .into_iter()
        .filter(|path| path.ends_with("oracle/probe.py"))
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    assert_eq!(probes.len(), 1);
}
