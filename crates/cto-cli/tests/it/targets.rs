//! Targets: at stage 5 a repository changes only by a signed record of its owner, and a blocked run shows no path of it.

use std::fs;

use serde_json::{Value, json};

use crate::operators::{Governed, olga};
use crate::place::{sh, write};

fn record(path: &str) -> Value {
    json!({
        "admission_status": "admitted", "target_repository_path": path, "ownership_evidence": "mine",
        "risk_classification": "low_risk_noncritical", "allowed_paths": ["src/"], "operator_outcome_required": true,
        "forbidden_paths": ["src/secret/", ".git/"],
        "forbidden_actions": ["push", "merge", "deploy", "close", "pr_open", "issue_close", "public_publication",
            "credential_change", "vendor_source_mutation", "cortex_core_mutation"],
        "approval_source": "olga", "approval_timestamp": "2026-06-01", "review_trigger": "another path",
    })
}

const CONTRACT: &str = "schema: cto.contract/v1
task_id: land
title: land
instruction: Write new into src/a.txt.
risk_class: low_risk_noncritical
mutation_mode: owned-noncritical-repo
allowed_paths: [src/]
forbidden_actions: [push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]
verification_commands: [{run: grep -q new src/a.txt, must_fail_before: true}]
";

fn stage_five(here: &Governed, more: &[(&str, &str)]) -> Value {
    let args = [
        "run",
        "--repo",
        "elsewhere/app",
        "--contract",
        "contract.yaml",
        "--engine",
        "command",
        "--stage",
        "5",
        "--json",
        "-q",
        "--",
        "/bin/true",
    ];
    let mut command = here.place.command(&args);
    command
        .env("CTO_HARNESS_ALLOW_COMMAND", "1")
        .env("CTO_HARNESS_COMMAND_STAGE", "5");
    for (name, value) in more {
        command.env(name, value);
    }
    crate::place::Ran::of(command.output().unwrap())
        .expect(3)
        .json()
}

fn has(report: &Value, code: &str) -> bool {
    let blockers = report["blockers"].as_array().unwrap();
    blockers.iter().any(|b| b["code"] == code)
}

#[test]
fn a_target_changes_only_by_a_signed_record_and_no_blocked_pack_holds_its_path() {
    let here = Governed::new();
    let repo = here.place.path("elsewhere/app");
    write(&repo.join("src/a.txt"), "old\n");
    write(&here.place.path("contract.yaml"), CONTRACT);
    sh(
        &repo,
        "git init -q -b main . && git add -A && git -c user.name=o -c user.email=o@e commit -qm first",
    );
    let path = fs::canonicalize(&repo).unwrap();
    let path = path.to_str().unwrap();
    let is_unseen = |report: &Value| {
        let pack = here.place.pack(report["run_id"].as_str().unwrap());
        for file in [
            "report.json",
            "report.md",
            "eligibility.json",
            "events.normalized.jsonl",
            "trace.jsonl",
        ] {
            let text = fs::read_to_string(pack.join(file)).unwrap();
            assert!(!text.contains("elsewhere/app"), "{file}: {text}");
        }
        here.place
            .cto(&["verify", report["run_id"].as_str().unwrap()])
            .expect(0);
    };
    let status = |report: &Value| report["target_repository_admission_status"].clone();

    let missing = stage_five(&here, &[]);
    assert!(has(&missing, "target_admission_missing"), "{missing:#}");
    assert_eq!(status(&missing), "missing");
    assert_eq!(missing["case_process_started"], false);
    is_unseen(&missing);

    // Named by the environment, and wrong in a line that holds the path.
    let file = here.place.path("target.json");
    write(&file, &format!("{:#}", record("elsewhere/app")));
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let named = [(
        "CTO_HARNESS_COMMAND_STAGE5_TARGET_ADMISSION_FILE",
        file.to_str().unwrap(),
    )];
    let invalid = stage_five(&here, &named);
    assert!(has(&invalid, "target_admission_invalid"), "{invalid:#}");
    assert_eq!(status(&invalid), "invalid");
    is_unseen(&invalid);

    // Good but for the signature.
    write(&file, &format!("{:#}", record(path)));
    let unsigned = stage_five(&here, &named);
    assert!(has(&unsigned, "target_not_admitted"), "{unsigned:#}");
    assert_eq!(status(&unsigned), "not_admitted");
    is_unseen(&unsigned);

    here.signs(
        &["admit", "target", "--file", file.to_str().unwrap()],
        &olga(),
    )
    .expect(0);
    let signed = stage_five(&here, &[]);
    assert_eq!(status(&signed), "admitted", "{signed:#}");
    assert!(!has(&signed, "target_not_admitted"), "{signed:#}");
    assert!(has(&signed, "approval_missing"), "{signed:#}");
    is_unseen(&signed);
    // What the owner forbids is part of the contract from now on.
    let pack = here.place.pack(signed["run_id"].as_str().unwrap());
    let contract = fs::read_to_string(pack.join("task-contract.json")).unwrap();
    assert!(contract.contains("src/secret/"), "{contract}");
}
