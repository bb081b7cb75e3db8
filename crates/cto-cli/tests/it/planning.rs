//! Looking ahead, looking back and trying again: `run --plan`, `explain`, `rerun`.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::place::{GOOD_REST, Place, Ran, sh, write};
use crate::source::Source;

const CONTRACT: &str = "allowed_paths: [src/]\nforbidden_paths: [.env]\nverification_commands: [{run: grep -q new src/a.txt, must_fail_before: true}]\n";

fn source() -> Source {
    let source = Source::new(&[
        ("src/a.txt", "old\n"),
        (".env", "A=1\n"),
        ("other.txt", "other\n"),
    ]);
    source.contract(CONTRACT);
    source
}

/// What the log of a run recorded as its plan.
fn recorded(place: &Place, run_id: &str) -> String {
    let log = std::fs::read_to_string(place.pack(run_id).join("events.normalized.jsonl")).unwrap();
    let events = log.lines().map(|l| serde_json::from_str(l).unwrap());
    let mut plans = events.filter(|e: &Value| e["type"] == "plan.updated");
    let plan = plans.next().unwrap();
    assert_eq!(plans.next(), None);
    plan["data"].to_string()
}

/// What `--plan` printed, in the same form.
fn printed(ran: &Ran) -> String {
    let plan = ran.json();
    assert_eq!(plan["status"], "pass", "{plan:#}");
    json!({"plan": plan["plan"], "identity": plan["identity"]}).to_string()
}

/// Everything that could tell of a run.
#[track_caller]
fn holds_no_run(place: &Place) {
    for dir in ["harness-runs", "work", "rooms", "requests"] {
        let left: Vec<_> = std::fs::read_dir(place.home().join(dir))
            .map(|entries| entries.map(|e| e.unwrap().file_name()).collect())
            .unwrap_or_default();
        assert!(left.is_empty(), "{dir}: {left:?}");
    }
    let runs = place.cto(&["runs", "--json"]).expect(0).json();
    assert_eq!(runs["rows"], json!([]));
    // Runs that only the ledger knows would come back here.
    let rebuilt = place.cto(&["index", "rebuild", "--json"]).expect(0).json();
    assert_eq!(
        rebuilt["rebuilt"],
        json!({"runs": 0, "running": 0, "missing": 0, "unknown": 0})
    );
}

#[test]
fn the_plan_of_a_case_is_that_of_the_run_that_follows() {
    let place = Place::new().with_key();
    let planned = place
        .cto(&["run", "r1-string-slugify", "--plan", "--json"])
        .expect(0);
    holds_no_run(&place);
    let report = place
        .cto(&["run", "r1-string-slugify", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        printed(&planned),
        recorded(&place, report["run_id"].as_str().unwrap())
    );
    // With the baseline there already it is the same again.
    let again = place
        .cto(&["run", "r1-string-slugify", "--plan", "--json"])
        .expect(0);
    assert_eq!(printed(&planned), printed(&again));
}

#[test]
fn the_plan_of_a_repository_is_that_of_the_run_that_follows() {
    let source = source();
    let argv = ["sh", "-c", "echo new > src/a.txt"];
    let mut command = source.command(&argv);
    let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let at = words.iter().position(|w| w == "--").unwrap();
    let mut plan = source.place.command(&[]);
    plan.args(&words[..at]).arg("--plan").args(&words[at..]);
    plan.env("CTO_HARNESS_ALLOW_COMMAND", "1")
        .env("CTO_HARNESS_COMMAND_STAGE", "3");
    let planned = Ran::of(plan.output().unwrap()).expect(0);
    holds_no_run(&source.place);
    let report = Ran::of(command.output().unwrap()).expect(0).json();
    let run_id = report["run_id"].as_str().unwrap();
    assert_eq!(printed(&planned), recorded(&source.place, run_id));
    let plan = planned.json();
    assert_eq!(plan["plan"]["source"]["withheld"], json!([".env"]));
    assert_eq!(plan["plan"]["argv"], json!(argv));
    assert!(
        !planned
            .out
            .contains(source.place.path("").to_str().unwrap()),
        "a plan names no place of this machine"
    );
}

#[test]
fn a_plan_that_is_blocked_names_every_gate_and_what_to_do() {
    let source = source();
    let mut command = source.place.command(&[
        "run",
        "--repo",
        "repo",
        "--contract",
        "task.yaml",
        "--engine",
        "command",
        "--stage",
        "3",
        "--plan",
        "--",
        "true",
    ]);
    let plain = Ran::of(command.output().unwrap()).expect(3);
    for gate in ["CTO_HARNESS_ALLOW_COMMAND", "CTO_HARNESS_COMMAND_STAGE"] {
        assert!(plain.out.contains(gate), "{}", plain.out);
    }
    assert_eq!(plain.out.matches("  next").count(), 2, "{}", plain.out);
    let ran = Ran::of(command.arg("--json").output().unwrap());
    // What follows `--` is the program's.
    assert_eq!(ran.code, Some(3));
    let json = source
        .place
        .cto(&[
            "run",
            "r1-string-slugify",
            "--engine",
            "pi",
            "--plan",
            "--json",
        ])
        .expect(3)
        .json();
    assert_eq!(json["status"], "blocked");
    assert_eq!(json["plan"], Value::Null);
    assert_eq!(
        json["blockers"], json["decision"]["reasons"],
        "one for each missing gate"
    );
    assert!(json["blockers"].as_array().unwrap().len() > 1);
    holds_no_run(&source.place);
}

#[test]
fn a_plan_that_ends_early_leaves_nothing_either() {
    let place = Place::new().with_key();
    assert_eq!(
        place.cto(&["run", "nothing", "--plan", "--json"]).error(),
        "2 case_unknown"
    );
    place.case(
        "unfit",
        "allowed_paths: [a.txt]\ninputs: [{from: /nothing/here, mode: read-only}]\n",
    );
    let ran = place.cto(&["run", "unfit", "--cases", "cases", "--plan", "--json"]);
    assert_eq!(ran.error(), "2 input_refused");
    holds_no_run(&place);
    // One that was killed is cleared by the next recovery, and never taken for a run.
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let left = place
        .home()
        .join(format!("work/.plan-{}-0123456789abcdef", gone.id()));
    write(&left.join("work/a/lock"), "");
    let found = place.cto(&["recover", "--json"]).expect(0).json();
    assert_eq!(found["runs"][0]["outcome"], "discarded");
    assert!(!left.exists());
}

#[test]
fn a_failed_check_is_explained_with_what_it_printed() {
    let place = Place::new().with_key();
    let lines = "for n in $(seq 30); do echo line $n; done; printf '\\033[31mred'; exit 3";
    place.case(
        "loud",
        &format!("allowed_paths: [a.txt]\nverification_commands: [\"true\", {lines:?}]\n"),
    );
    place.cto(&["run", "loud", "--cases", "cases"]).expect(1);
    let told = place.cto(&["explain", "latest", "--json"]).expect(0).json();
    assert_eq!(told["status"], "fail");
    let checks = told["checks"].as_array().unwrap();
    assert_eq!((checks.len(), &checks[0]["output"]), (2, &json!([])));
    assert_eq!(checks[1]["exit_code"], 3);
    let output = checks[1]["output"].as_array().unwrap();
    assert_eq!(output.len(), 20);
    assert_eq!(
        (&output[0], &output[19]),
        (&json!("line 1"), &json!("line 20"))
    );
    assert_eq!(checks[1]["output_cut"], true);
    assert_eq!(checks[1]["before"]["exit_code"], 3);
    assert_eq!(told["blockers"][0]["code"], "verification_failed");
    assert!(!told["blockers"][0]["hint"].as_str().unwrap().is_empty());
    let page = place.cto(&["explain", "latest"]).expect(0).out;
    for words in [
        "verification_failed",
        "| line 1",
        "line 20",
        "test.log",
        "passed       lane_available",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains('\u{1b}'));
}

#[test]
fn gates_paths_and_claims_are_explained_from_the_pack_alone() {
    let source = source();
    let (_, _, report) = source.work("echo new > src/a.txt; echo x > other.txt");
    let pack = source.pack(&report);
    let elsewhere = Place::new();
    sh(
        &elsewhere.path(""),
        &format!("cp -a {} here", pack.display()),
    );
    let told = elsewhere
        .cto(&["explain", "./here", "--json"])
        .expect(0)
        .json();
    assert!(!elsewhere.home().exists(), "a path needs no home");
    let paths = told["paths"].as_array().unwrap();
    let of = |path: &str| {
        let found = paths.iter().find(|p| p["path"] == path).unwrap();
        format!("{} by {}", found["scope"], found["decided_by"])
    };
    assert_eq!(of("src/a.txt"), r#""allowed" by "src/""#);
    assert!(of("other.txt").starts_with(r#""not_allowed""#));
    let gates = told["gates"].as_array().unwrap();
    let gate = gates.iter().find(|g| g["gate"] == "stage_gate").unwrap();
    assert_eq!(gate["outcome"], "passed");
    assert_eq!(gate["source"], "environment");
    assert_eq!(gate["refusal"], Value::Null);
    for claim in told["claims"].as_array().unwrap() {
        assert_eq!(
            claim["raised_by"].is_null(),
            claim["level"] == "verified",
            "{claim}"
        );
    }

    // Blocked: each missing gate with its reason.
    let ran = Ran::of(
        source
            .command(&["true"])
            .env_remove("CTO_HARNESS_ALLOW_COMMAND")
            .output()
            .unwrap(),
    );
    let id = ran.expect(3).json()["run_id"].as_str().unwrap().to_owned();
    let told = source
        .place
        .cto(&["explain", &id, "--json"])
        .expect(0)
        .json();
    let gates = told["gates"].as_array().unwrap();
    let missing: Vec<&Value> = gates.iter().filter(|g| g["outcome"] == "missing").collect();
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0]["gate"], "lane_gate");
    assert_eq!(missing[0]["refusal"]["code"], "gate_missing");
    assert!(
        told["sentence"]
            .as_str()
            .unwrap()
            .contains("CTO_HARNESS_ALLOW_COMMAND")
    );
}

#[test]
fn a_rerun_is_the_same_task_with_a_note_and_a_parent() {
    let source = source();
    let script = "cat \"$CTO_TASK\" > src/brief.md; grep -q 'public names' \"$CTO_TASK\" && echo new > src/a.txt; true";
    let (code, _, first) = source.work(script);
    assert_eq!(code, 1, "{first:#}");
    let parent = first["run_id"].as_str().unwrap();
    let request = source.place.home().join(format!("requests/{parent}.json"));
    let mode = std::fs::metadata(&request).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let rerun = |id: &str, note: &str, gates: bool| {
        let mut command = source
            .place
            .command(&["rerun", id, "--note", note, "--json"]);
        if gates {
            command
                .env("CTO_HARNESS_ALLOW_COMMAND", "1")
                .env("CTO_HARNESS_COMMAND_STAGE", "3");
        }
        Ran::of(command.output().unwrap())
    };
    let closed = rerun(parent, "Keep the public names.", false)
        .expect(3)
        .json();
    assert_eq!(
        closed["blockers"][0]["code"], "gate_missing",
        "gates are not inherited"
    );
    let second = rerun(parent, "Keep the public names.", true)
        .expect(0)
        .json();
    assert_eq!(second["parent_run_id"], parent);
    assert_eq!(second["stage"], first["stage"]);
    assert_eq!(second["launched"]["argv"], first["launched"]["argv"]);
    let pack = source.pack(&second);
    let contract: Value =
        serde_json::from_slice(&std::fs::read(pack.join("task-contract.json")).unwrap()).unwrap();
    assert_eq!(
        contract["instruction"],
        "Do it.\n\n## Feedback on the earlier attempt\n\nKeep the public names.\n"
    );
    let patch = std::fs::read_to_string(pack.join("patch.diff")).unwrap();
    assert!(
        patch.contains("+> ## Feedback on the earlier attempt"),
        "the brief quotes it: {patch}"
    );
    // And again: both notes stand, in order.
    let third = rerun(
        second["run_id"].as_str().unwrap(),
        "And the public names again.",
        true,
    )
    .expect(0)
    .json();
    let contract = std::fs::read_to_string(source.pack(&third).join("task-contract.json")).unwrap();
    assert_eq!(
        contract.matches("Feedback on the earlier attempt").count(),
        2
    );
    source
        .place
        .cto(&["verify", third["run_id"].as_str().unwrap()])
        .expect(0);
}

#[test]
fn a_case_of_a_directory_is_found_again_from_anywhere() {
    let place = Place::new().with_key();
    place.case("mine", GOOD_REST);
    place.cto(&["run", "mine", "--cases", "cases"]).expect(0);
    let elsewhere = place.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut command = place.command(&["rerun", "latest", "--note", "Once more.", "--json"]);
    let ran = Ran::of(command.current_dir(&elsewhere).output().unwrap()).expect(0);
    assert_eq!(ran.json()["case_id"], "mine");
    assert!(!ran.err.contains("has changed"));
    place.case(
        "mine",
        &format!("{GOOD_REST}success_criteria: [It is after.]\n"),
    );
    let ran = place
        .cto(&["rerun", "latest", "--note", "Once more."])
        .expect(0);
    assert!(
        ran.err.contains("the case has changed since"),
        "{}",
        ran.err
    );
}

#[test]
fn what_can_not_be_tried_again_says_so() {
    let here = Place::new().with_key();
    here.passed();
    here.cto(&["export", "latest", "--tar", "run.tar"])
        .expect(0);
    let there = Place::new().with_key();
    let file = here.path("run.tar");
    there.cto(&["import", file.to_str().unwrap()]).expect(0);
    let again = |place: &Place, run: &str, note: &str| {
        place.cto(&["rerun", run, "--note", note, "--json"]).error()
    };
    assert_eq!(again(&there, "2", "Again."), "2 request_unknown");
    assert_eq!(again(&there, "latest", "Again."), "2 run_unknown");
    let error = |place: &Place, note: &str| again(place, "latest", note);
    assert_eq!(error(&here, "  "), "2 note_refused");
    assert_eq!(error(&here, &"x".repeat(20_000)), "2 note_refused");
    let token = ["ghp", "_", "0123456789abcdefghijABCDEFGHIJ012345"].concat();
    assert_eq!(error(&here, &format!("use {token}")), "2 contract_secret");
    let packs = std::fs::read_dir(here.home().join("harness-runs"))
        .unwrap()
        .count();
    assert_eq!(packs, 1, "nothing was started");
    // A contract that somebody widened is not asked for again.
    let id = here.cto(&["runs", "--json"]).json()["rows"][0]["run_id"]
        .as_str()
        .unwrap()
        .to_owned();
    sh(
        &here.pack(&id),
        "sed -i 's/strings.py/else.py/' task-contract.json",
    );
    assert_eq!(error(&here, "Again."), "5 pack_broken");
}
