//! A real pack whose log was changed in one place and signed again, with everything that follows from the log made anew: what
//! speaks against the changed fact must be found.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cto_contract::artifact::{
    ATTESTATION, ELIGIBILITY, EVENTS, REPORT_JSON, REPORT_MD, SHA256SUMS, TASK_CONTRACT, TRACE,
};
use cto_contract::event::{EventKind, RunEvent};
use cto_contract::report::Report;
use cto_contract::words::RunStatus;
use cto_evidence::again::{page, report_again, trace_lines};
use cto_evidence::canonical::to_canonical;
use cto_evidence::chain::LineChain;
use cto_evidence::key::SigningKey;
use cto_evidence::seal::{SealInput, seal};
use cto_evidence::verify::{VerifyOptions, verify};
use cto_rules::lifecycle::replay;
use serde_json::Value;

use crate::derived::{leaves, turned};
use crate::forge::put;

/// The pass among the kept packs.
fn kept_pass() -> PathBuf {
    let packs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packs/v1");
    let mut all = fs::read_dir(packs).unwrap().map(|e| e.unwrap().path());
    all.find(|pack| {
        let report = fs::read(pack.join(REPORT_JSON)).unwrap_or_default();
        serde_json::from_slice::<Value>(&report).is_ok_and(|r| r["status"] == "pass")
    })
    .unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), &to).unwrap()),
        }
    }
}

/// Seals the pack again with another log; none where nobody could make a pack of it.
fn sealed_with(pack: &Path, sealed: &Report, events: &[Value]) -> Option<()> {
    let events: Vec<RunEvent> = events
        .iter()
        .map(|event| serde_json::from_value(event.clone()).ok())
        .collect::<Option<_>>()?;
    let first = events.first()?;
    let EventKind::RunStarted(started) = &first.kind else {
        return None;
    };
    let run_id = first.run_id.clone();
    let mut chain = LineChain::start(&started.nonce, run_id, first.case_id.clone(), first.backend);
    let (mut bytes, mut again) = (Vec::new(), Vec::new());
    for event in events {
        if let EventKind::TaskContractCreated(created) = &event.kind {
            let bytes = to_canonical(&created.contract).ok()?;
            put(&pack.join(TASK_CONTRACT), &bytes);
        } else if let EventKind::EligibilityDecided(decided) = &event.kind {
            let bytes = to_canonical(&decided.decision).ok()?;
            put(&pack.join(ELIGIBILITY), &bytes);
        }
        let line = chain.append(event.ts, event.actor, event.kind).ok()?;
        bytes.extend(line.bytes);
        again.push(line.event);
    }
    let state = replay(&again).ok()?;
    for made in [REPORT_JSON, SHA256SUMS, ATTESTATION] {
        fs::remove_file(pack.join(made)).ok();
    }
    let report = report_again(sealed, &state).ok()?;
    put(&pack.join(EVENTS), &bytes);
    put(&pack.join(TRACE), &trace_lines(&again).ok()?);
    let contract = state.contract.as_ref().map(|c| &c.contract);
    put(&pack.join(REPORT_MD), &page(&report, contract));
    let key = SigningKey::from_random(&[9; 32]);
    seal(pack, SealInput { report, key: &key }).ok()?;
    Some(())
}

fn is_a_good_pass(pack: &Path) -> bool {
    let options = VerifyOptions {
        integrity_only: true,
        ..VerifyOptions::default()
    };
    let answer = verify(pack, &options);
    answer.ok && answer.status == Some(RunStatus::Pass)
}

/// What only the one who sealed the pack can know: nothing else in a pack speaks of it. Everything here is his word, and a
/// verdict rests on it only as far as his key does.
const HIS_WORD: &[&str] = &[
    "backend.finished /cpu_seconds",
    "backend.finished /dropped_bytes",
    "backend.finished /peak_memory_bytes",
    "backend.finished /recorded/attempts",
    "backend.finished /recorded/blind",
    "backend.finished /recorded/dropped",
    "backend.finished /sandbox/layers/*/detail",
    "backend.finished /sandbox/layers/*/in_force",
    "backend.finished /sandbox/layers/*/name",
    "backend.finished /sandbox/provider",
    "backend.finished /sandbox/read_paths/*",
    "backend.finished /sandbox/writable_roots/*",
    "backend.finished /seconds",
    "backend.finished /stderr_bytes",
    "backend.finished /stdout_bytes",
    "git.diff.checked /scopes/*/decided_by",
    "patch.applied /residue/count",
    "patch.applied /residue/paths",
    "patch.applied /residue/truncated",
    "patch.applied /scratch_git",
    "plan.updated /plan/argv/*",
    "plan.updated /plan/baseline_files",
    "plan.updated /plan/environment_names/*",
    "plan.updated /plan/sandbox/layers/*/detail",
    "plan.updated /plan/sandbox/layers/*/in_force",
    "plan.updated /plan/sandbox/layers/*/name",
    "plan.updated /plan/sandbox/provider",
    "plan.updated /plan/sandbox/read_paths/*",
    "plan.updated /plan/sandbox/writable_roots/*",
    "plan.updated /plan/working_directory",
    "run.started /conformance",
    "run.started /harness_version",
    "verification.completed /verification/baseline/*/first_error",
    "verification.completed /verification/baseline/*/tests/failed",
    "verification.completed /verification/baseline/*/tests/ran",
    "verification.completed /verification/baseline/*/tests/skipped",
    "verification.completed /verification/commands/*/canary/detail",
    "verification.completed /verification/commands/*/canary/runner",
    "verification.completed /verification/commands/*/tests/failed",
    "verification.completed /verification/commands/*/tests/ran",
    "verification.completed /verification/commands/*/tests/skipped",
];

/// The same place, whichever item of a list it is in.
fn shape(place: &str) -> String {
    let parts = place.split('/').map(|part| match part.parse::<usize>() {
        Ok(_) => "*",
        Err(_) => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn whatever_is_turned_in_the_log_of_a_pass_is_found_unless_nothing_else_speaks_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let pack = dir.path().join("pack");
    copy(&kept_pass(), &pack);
    let sealed: Report =
        serde_json::from_slice(&fs::read(pack.join(REPORT_JSON)).unwrap()).unwrap();
    let log = fs::read_to_string(pack.join(EVENTS)).unwrap();
    let events: Vec<Value> = log
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    sealed_with(&pack, &sealed, &events).unwrap();
    assert!(is_a_good_pass(&pack), "as it was");
    let (mut tried, mut unseen) = (BTreeSet::new(), BTreeSet::new());
    for (n, event) in events.iter().enumerate() {
        let kind = event["type"].as_str().unwrap();
        // Each field of a decision has a test of its own.
        if kind == "eligibility.decided" {
            continue;
        }
        let mut places = Vec::new();
        leaves(&event["data"], "", &mut places);
        for place in places {
            let what = format!("{kind} {}", shape(&place));
            // One item of a list stands for all of them.
            if !tried.insert(what.clone()) {
                continue;
            }
            let place = format!("/data{place}");
            let old = event.pointer(&place).unwrap();
            for other in turned(old).into_iter().filter(|other| other != old) {
                let mut forged = events.clone();
                *forged[n].pointer_mut(&place).unwrap() = other;
                if sealed_with(&pack, &sealed, &forged).is_some() && is_a_good_pass(&pack) {
                    unseen.insert(what.clone());
                }
            }
        }
    }
    assert!(tried.len() > 100, "{}", tried.len());
    let unseen: Vec<&str> = unseen.iter().map(String::as_str).collect();
    assert_eq!(unseen, HIS_WORD);
}
