//! Whether report, log and statement tell one story, and whether it carries the verdict.

use std::collections::BTreeMap;

use cto_contract::artifact::{ATTESTATION, EVENTS, REPORT_JSON, SHA256SUMS};
use cto_contract::attestation::Predicate;
use cto_contract::blocker::{Blocker, Moment};
use cto_contract::event::{EventType, RunEvent};
use cto_contract::ids::Digest;
use cto_contract::report::Report;
use cto_contract::task::Limits;
use cto_contract::verify::VerifyCode;
use cto_contract::words::{Action, RunStatus};
use cto_rules::checks::judge_again;
use cto_rules::lifecycle::RunState;
use cto_rules::order::{self, Shape};
use serde_json::Value;

use super::documents::{Documents, Facts};
use super::files::Files;
use super::findings::Findings;
use crate::canonical::digest_of;
use crate::chain::Log;

/// Checks that the log ends where the statement says.
pub(super) fn check_head(log: &Log, predicate: &Predicate, findings: &mut Findings) {
    let same =
        log.head == predicate.event_chain_head && log.events.len() as u64 == predicate.events;
    findings.need(
        same,
        VerifyCode::ChainBroken,
        EVENTS,
        "the log does not end where the attestation says",
    );
}

/// Checks the required order. What is missing must be named by a report that is no pass.
pub(super) fn check_order(state: &RunState, report: Option<&Report>, findings: &mut Findings) {
    let Some(completed) = &state.completed else {
        findings.file(
            VerifyCode::EventOrder,
            EVENTS,
            "the last line is not run.completed",
        );
        return;
    };
    let order = order::judge(&Shape::of(state, &state.types, &completed.blockers));
    let named = |r: &Report| r.checks.missing_events == order.faults;
    if !report.is_some_and(|r| named(r) && r.verdict.status != RunStatus::Pass) {
        for fault in &order.faults {
            findings.file(VerifyCode::EventOrder, EVENTS, fault.sentence());
        }
    }
    let Some(report) = report else { return };
    let mut need = |holds: bool, message: &str| {
        findings.need(holds, VerifyCode::ReportMismatch, REPORT_JSON, message)
    };
    need(
        named(report),
        "missing_events are not what is wrong with the log",
    );
    need(
        report.checks.required_events_passed == order.passed(),
        "required_events_passed is not what the log shows",
    );
    let omitted: BTreeMap<&str, &str> = order
        .omitted
        .iter()
        .map(|o| (o.event.as_str(), o.why.sentence()))
        .collect();
    let excused: BTreeMap<&str, &str> = report
        .verdict
        .not_applicable
        .iter()
        .filter(|(name, _)| name.parse::<EventType>().is_ok())
        .map(|(name, why)| (name.as_str(), why.as_str()))
        .collect();
    need(
        excused == omitted,
        "not_applicable does not name the events that the run omitted",
    );
}

/// Compares the report's index with the files.
pub(super) fn check_index(
    report: &Report,
    value: Option<&Value>,
    files: &Files,
    findings: &mut Findings,
) {
    let section = &report.artifacts;
    let mismatch = VerifyCode::ReportMismatch;
    findings.need(
        section.artifact_paths == files.paths,
        mismatch,
        REPORT_JSON,
        "artifact_paths are not the files of the pack",
    );
    let indexed = |p: &&String| *p != SHA256SUMS && *p != ATTESTATION;
    let same_keys = section
        .artifact_digests
        .keys()
        .eq(files.paths.iter().filter(indexed));
    findings.need(
        same_keys,
        mismatch,
        REPORT_JSON,
        "artifact_digests do not cover the files of the pack",
    );
    for (path, digest) in section
        .artifact_digests
        .iter()
        .filter(|(p, _)| *p != REPORT_JSON)
    {
        let found = files
            .digests
            .get(path)
            .or_else(|| files.digest_of_withheld(path));
        if let Some(found) = found {
            findings.need(
                found == digest,
                mismatch,
                path,
                "has another digest than report.json says",
            );
        }
    }
    let own = value.and_then(own_digest);
    findings.need(
        own.as_ref() == section.artifact_digests.get(REPORT_JSON),
        mismatch,
        REPORT_JSON,
        "its own digest does not hold",
    );
}

/// SHA-256 of the report's RFC 8785 form without the entry that holds it.
fn own_digest(report: &Value) -> Option<Digest> {
    let mut value = report.clone();
    value
        .get_mut("artifact_digests")?
        .as_object_mut()?
        .remove(REPORT_JSON);
    digest_of(&value).ok()
}

/// Compares report and log, section by section.
pub(super) fn check_story(
    report: &Report,
    log: &Log,
    facts: &Facts<'_>,
    documents: &Documents,
    findings: &mut Findings,
) {
    let run = &report.run;
    let same_run = run.run_id == log.run_id
        && run.case_id == log.case_id
        && run.nonce == log.nonce
        && report.backend.backend == log.backend;
    findings.need(
        same_run,
        VerifyCode::RunMismatch,
        REPORT_JSON,
        "belongs to another run, case, nonce or backend than the log",
    );
    let mut need = |holds: bool, message: &str| {
        findings.need(holds, VerifyCode::ReportMismatch, REPORT_JSON, message)
    };
    check_start(report, log, facts, &mut need);
    check_authority(report, facts, documents, &mut need);
    check_backend(report, facts, &mut need);
    check_contract(facts, &mut need);
    check_checks(report, facts, documents, &mut need);
}

/// Takes what must hold, and what to say if it does not.
type Need<'n> = &'n mut dyn FnMut(bool, &str);

fn check_start(report: &Report, log: &Log, facts: &Facts<'_>, need: Need<'_>) {
    let run = &report.run;
    need(
        log.events
            .first()
            .is_some_and(|e: &RunEvent| e.ts == run.run_started_at),
        "run_started_at is not the time of run.started",
    );
    let Some(started) = facts.started else { return };
    need(
        started.conformance == run.conformance,
        "conformance is not that of run.started",
    );
    need(
        started.fake_baseline == run.fake_baseline.unwrap_or(false),
        "fake_baseline is not that of run.started",
    );
    need(
        started.parent_run_id == run.parent_run_id,
        "parent_run_id is not that of run.started",
    );
    need(
        started.harness_version == run.harness_version,
        "harness_version is not that of run.started",
    );
    need(
        started.stage == report.authority.stage,
        "stage is not that of run.started",
    );
    need(
        started.mutation_mode == report.authority.mutation_mode,
        "mutation_mode is not that of run.started",
    );
}

fn check_authority(report: &Report, facts: &Facts<'_>, documents: &Documents, need: Need<'_>) {
    let authority = &report.authority;
    need(
        authority.approval_id.as_deref() == facts.approval_id,
        "approval_id is not that of approval.consumed",
    );
    need(
        authority.approval_status == facts.approval_status(),
        "approval_status is not what the log says",
    );
    if let Some(event) = facts.contract {
        need(
            event.contract_digest == authority.contract_digest,
            "contract_digest is not that of task.contract.created",
        );
        let value = documents.contract_value.as_ref();
        let file = value.and_then(|v| digest_of(v).ok());
        need(
            file.as_ref() == Some(&authority.contract_digest),
            "contract_digest is not that of task-contract.json",
        );
    }
    let permitted = documents.contract.as_ref().map(|c| &c.permitted_actions);
    let is_forbidden = |action: &&Action| permitted.is_none_or(|p| !p.contains(action));
    let attempted = facts.attempted.iter().filter(is_forbidden);
    need(
        attempted.eq(&authority.forbidden_actions_attempted),
        "forbidden_actions_attempted is not what sandbox.denied says",
    );
}

/// What the log says of the task must be what its contract says, and what was planned lies within it.
fn check_contract(facts: &Facts<'_>, need: Need<'_>) {
    let Some(contract) = facts.contract.map(|created| &created.contract) else {
        return;
    };
    need(
        facts.started.is_none_or(|s| s.title == contract.title),
        "the title of run.started is not that of the contract",
    );
    let Some(plan) = facts.plan.map(|planned| &planned.plan) else {
        return;
    };
    let commands = contract.verification_commands.iter().map(|c| &c.run);
    need(
        plan.verification.iter().eq(commands) && plan.setup == contract.setup_commands,
        "plan.updated names other commands than the contract",
    );
    need(
        is_within(&plan.limits, &contract.limits),
        "plan.updated has wider limits than the contract",
    );
}

/// Whether no limit of the contract was left out or raised. Settings may only narrow it.
fn is_within(planned: &Limits, contract: &Limits) -> bool {
    fn held<T: PartialOrd>(planned: Option<T>, contract: Option<T>) -> bool {
        contract.is_none_or(|bound| planned.is_some_and(|planned| planned <= bound))
    }
    let Limits {
        wall_seconds,
        cpu_seconds,
        memory_mb,
        processes,
        open_files,
        disk_mb,
        file_mb,
        output_mb,
        tokens,
        requests,
        cost,
    } = *contract;
    held(planned.wall_seconds, wall_seconds)
        && held(planned.cpu_seconds, cpu_seconds)
        && held(planned.memory_mb, memory_mb)
        && held(planned.processes, processes)
        && held(planned.open_files, open_files)
        && held(planned.disk_mb, disk_mb)
        && held(planned.file_mb, file_mb)
        && held(planned.output_mb, output_mb)
        && held(planned.tokens, tokens)
        && held(planned.requests, requests)
        && held(planned.cost, cost)
}

fn check_backend(report: &Report, facts: &Facts<'_>, need: Need<'_>) {
    let backend = &report.backend;
    need(
        backend.identity.as_ref() == facts.plan.map(|p| &p.identity),
        "identity is not that of plan.updated",
    );
    let identity = backend.identity.as_ref();
    need(
        identity.and_then(|i| digest_of(i).ok()) == backend.identity_digest,
        "identity_digest is not that of identity",
    );
    let version = facts
        .backend_started
        .and_then(|s| s.version_output.as_ref());
    need(
        backend.launched == facts.plan.map(|p| p.plan.launched(version)),
        "launched is not what plan.updated says",
    );
    match facts.backend_started {
        Some(event) => need(
            Some(&event.identity_digest) == backend.identity_digest.as_ref(),
            "identity_digest is not that of backend.started",
        ),
        None => need(
            !backend.backend_process_started,
            "backend_process_started without backend.started",
        ),
    }
}

fn check_checks(report: &Report, facts: &Facts<'_>, documents: &Documents, need: Need<'_>) {
    let verification = &report.checks.verification;
    match facts.verification {
        Some(event) => need(
            event.verification == *verification,
            "verification is not that of verification.completed",
        ),
        None => need(
            verification.passed.is_none(),
            "verification has a verdict without verification.completed",
        ),
    }
    if let (Some(event), Some(contract)) = (facts.verification, &documents.contract) {
        let recorded = &event.verification;
        need(
            judge_again(contract, recorded) == (recorded.passed, recorded.level),
            "verification does not follow from the results of its commands",
        );
    }
    need(
        report.checks.tests_passed == verification.passed,
        "tests_passed and verification.passed differ",
    );
}

/// Compares report and statement.
pub(super) fn check_predicate(report: &Report, predicate: &Predicate, findings: &mut Findings) {
    let run = &report.run;
    let same_run = predicate.run_id == run.run_id
        && predicate.case_id == run.case_id
        && predicate.nonce == run.nonce
        && predicate.backend == report.backend.backend;
    findings.need(
        same_run,
        VerifyCode::RunMismatch,
        REPORT_JSON,
        "belongs to another run, case, nonce or backend than the attestation",
    );
    findings.need(
        predicate.status == report.verdict.status,
        VerifyCode::VerdictMismatch,
        REPORT_JSON,
        "status is not the signed one",
    );
    let pairs = BTreeMap::from([
        (
            "contract_digest",
            predicate.contract_digest == report.authority.contract_digest,
        ),
        (
            "identity_digest",
            predicate.identity_digest == report.backend.identity_digest,
        ),
        (
            "approval_id",
            predicate.approval_id == report.authority.approval_id,
        ),
        (
            "patch_tree_id",
            predicate.patch_tree_id == report.change.patch_tree_id,
        ),
        (
            "run_finished_at",
            predicate.run_finished_at == run.run_finished_at,
        ),
        ("conformance", predicate.conformance == run.conformance),
        (
            "harness_version",
            predicate.harness_version == run.harness_version,
        ),
    ]);
    for (field, same) in pairs {
        findings.need(
            same,
            VerifyCode::StatementMismatch,
            ATTESTATION,
            &format!("{field} is not that of report.json"),
        );
    }
}

/// Checks that the verdict follows: a pass has everything and no blocker, anything else has a reason.
pub(super) fn check_verdict(
    report: &Report,
    facts: &Facts<'_>,
    documents: &Documents,
    findings: &mut Findings,
) {
    let verdict = &report.verdict;
    let mut need = |holds: bool, message: &str| {
        findings.need(holds, VerifyCode::VerdictMismatch, REPORT_JSON, message)
    };
    if let Some(completed) = facts.completed {
        need(
            completed.status == verdict.status,
            "status is not that of run.completed",
        );
        need(
            completed.blockers == verdict.blockers,
            "blockers are not those of run.completed",
        );
        need(
            completed.failure_reason == verdict.failure_reason,
            "failure_reason is not that of run.completed",
        );
        need(
            completed.fault_class == verdict.fault_class,
            "fault_class is not that of run.completed",
        );
    }
    let moment = match facts.backend_started {
        Some(_) => Moment::AfterStart,
        None => Moment::BeforeStart,
    };
    let fails = |b: &Blocker| b.code.status_at(moment) == RunStatus::Fail;
    match verdict.status {
        RunStatus::Pass => {
            let untested = documents.contract.as_ref().is_some_and(|c| {
                c.verification_commands.is_empty() && c.no_test_rationale.is_some()
            });
            need(verdict.blockers.is_empty(), "a pass with blockers");
            need(
                report.checks.verification.passed == Some(true) || untested,
                "a pass whose verification did not pass",
            );
            need(
                facts.diff.is_some_and(|d| d.allowed_writes_passed),
                "a pass whose path policy did not hold",
            );
            need(
                report.checks.required_events_passed == Some(true),
                "a pass without its required events",
            );
            need(
                report.authority.forbidden_actions_attempted.is_empty(),
                "a pass with forbidden actions",
            );
        }
        RunStatus::Fail => need(!verdict.blockers.is_empty(), "a failure without a blocker"),
        RunStatus::Blocked => {
            need(!verdict.blockers.is_empty(), "a block without a blocker");
            need(
                !verdict.blockers.iter().any(fails),
                "blocked although one blocker is a failure",
            );
        }
    }
}
