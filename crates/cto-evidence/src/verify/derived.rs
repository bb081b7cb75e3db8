//! Everything that follows from the log, made again by the folds that made it: conclusion, report, page and trace. A pack that
//! says anything else does not verify, whoever signed it.

use cto_contract::artifact::{EVENTS, REPORT_JSON, REPORT_MD, TASK_CONTRACT, TEST_LOG, TRACE};
use cto_contract::blocker::Blocker;
use cto_contract::event::{EventKind, RunCompleted};
use cto_contract::report::Report;
use cto_contract::stage_proof::PACK_PROOFS;
use cto_contract::task::TaskContract;
use cto_contract::verify::VerifyCode;
use cto_contract::words::RunStatus;
use cto_rules::checks::shows_ends;
use cto_rules::lifecycle::{RunState, conclude, replay};
use cto_rules::verdicts::checks_again;

use super::files::Files;
use super::findings::Findings;
use crate::again::{differences, page, proof_files, report_again, trace_lines};
use crate::chain::Log;

/// The wall clock of a report has three digits.
const ROUNDING_NS: u64 = 1_000_000;

/// Compares the pack with what its log gives. Only for a pack in which nothing else is wrong.
pub(super) fn check(
    report: &Report,
    log: &Log,
    state: &RunState,
    files: &Files,
    findings: &mut Findings,
) {
    check_conclusion(log, findings);
    check_checks(state, findings);
    check_test_log(report, state, files, findings);
    check_wall(report, findings);
    let trace = trace_lines(&log.events).ok();
    check_bytes(files, TRACE, trace.as_deref(), findings);
    let Ok(again) = report_again(report, state) else {
        let message = "can't be made from the log again";
        findings.file(VerifyCode::ReportMismatch, REPORT_JSON, message);
        return;
    };
    for field in differences(report, &again).unwrap_or_default() {
        let message = format!("`{field}` does not follow from the log");
        findings.file(VerifyCode::ReportMismatch, REPORT_JSON, message);
    }
    // A run that ended before its contract was recorded has one all the same.
    let contract: Option<TaskContract> = files
        .bytes_of(TASK_CONTRACT)
        .and_then(|bytes| serde_json::from_slice(bytes).ok());
    let page = page(&again, contract.as_ref());
    check_bytes(files, REPORT_MD, Some(&page), findings);
    check_proofs(files, state, &again, findings);
}

/// The proofs of a pack are those of its log: none is missing, none is more, none says anything else.
fn check_proofs(files: &Files, state: &RunState, again: &Report, findings: &mut Findings) {
    let Ok(made) = proof_files(state, again) else {
        let message = "the proofs can't be made from the log again";
        findings.file(VerifyCode::ReportMismatch, REPORT_JSON, message);
        return;
    };
    for name in PACK_PROOFS {
        let is_there = files.paths.iter().any(|path| path == name);
        findings.need(
            is_there == made.contains_key(name),
            VerifyCode::ReportMismatch,
            name,
            "is there or missing against what the log says",
        );
        check_bytes(files, name, made.get(name).map(Vec::as_slice), findings);
    }
}

/// The end of the log must be what the rules make of everything before it. Sentences may be worded anew later; codes and what
/// they are about may not.
fn check_conclusion(log: &Log, findings: &mut Findings) {
    let Some((last, before)) = log.events.split_last() else {
        return;
    };
    let (EventKind::RunCompleted(completed), Ok(state)) = (&last.kind, replay(before)) else {
        return;
    };
    let again = conclude(&state);
    let told = |end: &RunCompleted| (end.status, end.failure_reason.clone(), end.fault_class);
    let mut need = |holds: bool, message: &str| {
        findings.need(holds, VerifyCode::VerdictMismatch, EVENTS, message);
    };
    need(
        told(&again) == told(completed),
        "the verdict of run.completed does not follow from the events before it",
    );
    need(
        subjects(&again.blockers) == subjects(&completed.blockers),
        "the blockers of run.completed are not those of the events before it",
    );
}

/// What the checks came to must follow from their results.
fn check_checks(state: &RunState, findings: &mut Findings) {
    let contract = state.contract.as_ref().map(|c| &c.contract);
    let (Some(recorded), Some(contract)) = (&state.verification, contract) else {
        return;
    };
    let same = checks_again(state, contract, recorded)
        .is_none_or(|again| subjects(&again) == subjects(&recorded.blockers));
    findings.need(
        same,
        VerifyCode::VerdictMismatch,
        EVENTS,
        "the blockers of verification.completed do not follow from the results of its commands",
    );
}

/// The claims of a pass rest on `test.log`: it must show how every execution ended, as the log of the run has it.
fn check_test_log(report: &Report, state: &RunState, files: &Files, findings: &mut Findings) {
    let Some(recorded) = state.verification.as_ref().map(|v| &v.verification) else {
        return;
    };
    if report.verdict.status != RunStatus::Pass || files.withheld.contains(TEST_LOG) {
        return;
    }
    let executions = recorded.baseline.iter().chain(&recorded.commands);
    findings.need(
        shows_ends(&files.ends, executions),
        VerifyCode::VerdictMismatch,
        TEST_LOG,
        "does not show the ends of the commands that verification.completed has",
    );
}

fn subjects(blockers: &[Blocker]) -> Vec<(&str, &str)> {
    let pairs = blockers.iter();
    pairs
        .map(|b| (b.code.as_str(), b.subject.as_str()))
        .collect()
}

/// How long the run took lies between the writing of its trace and that of its page.
fn check_wall(report: &Report, findings: &mut Findings) {
    let times = &report.artifacts.freshness;
    let at = |name: &str| times.get(name).map(|f| f.monotonic_ns);
    let (Some(from), Some(to)) = (at(TRACE), at(REPORT_MD)) else {
        return;
    };
    let wall = report.resources.wall_seconds.unwrap_or(-1.0);
    #[expect(clippy::cast_precision_loss, reason = "compared to the millisecond")]
    let seconds = |ns: u64| ns as f64 / 1e9;
    let range = seconds(from.saturating_sub(ROUNDING_NS))..=seconds(to.saturating_add(ROUNDING_NS));
    findings.need(
        range.contains(&wall),
        VerifyCode::ReportMismatch,
        REPORT_JSON,
        "wall_seconds is not when its trace and its page were written",
    );
}

fn check_bytes(files: &Files, name: &str, again: Option<&[u8]>, findings: &mut Findings) {
    let (Some(found), Some(again)) = (files.bytes_of(name), again) else {
        return;
    };
    if found == again {
        return;
    }
    let lines = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (found, again) = (lines(found), lines(again));
    let differs = found.iter().zip(&again).position(|(a, b)| a != b);
    let line = differs.unwrap_or(found.len().min(again.len())) + 1;
    let message = format!("line {line} does not follow from the log");
    findings.file(VerifyCode::ReportMismatch, name, message);
}
