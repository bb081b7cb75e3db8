//! The log as `trace.jsonl`.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{AskedModel, EventKind, ModelProbe, RunEvent, Step};
use cto_contract::text::shorten;
use cto_contract::time::Utc;
use cto_contract::trace::{TraceEntry, TraceOutcome, TraceSchema};
use cto_contract::verification::{CommandResult, Verification};

/// Longest sentence of a blocker in a line.
const MESSAGE_CHARS_MAX: usize = 400;
/// Longest name of a provider or a model.
const NAME_CHARS_MAX: usize = 100;

/// Folds the log into actions and checks.
pub fn trace(events: &[RunEvent]) -> Vec<TraceEntry> {
    let mut out = Vec::new();
    let mut open: Option<(Step, Utc)> = None;
    let mut asked_model = None;
    for event in events {
        let at = event.ts;
        match &event.kind {
            EventKind::StepStarted(s) => open = Some((s.step, at)),
            EventKind::StepFinished(s) => {
                let started = open.take().map_or(at, |(_, t)| t);
                out.push(entry(
                    s.step.as_str(),
                    started,
                    Some(at),
                    &s.blockers,
                    "step",
                ));
            }
            EventKind::EligibilityDecided(e) => {
                out.push(entry(
                    "check:eligibility",
                    at,
                    Some(at),
                    &e.decision.reasons,
                    &format!("selected {}", e.decision.selected_backend),
                ));
            }
            EventKind::ModelProbed(p) => {
                let mut line = entry("check:model", at, Some(at), &[], &probe_words(p));
                if p.fault.is_some() {
                    line.outcome = TraceOutcome::Refused;
                }
                out.push(line);
            }
            EventKind::PatchApplied(p) => {
                out.push(entry(
                    "check:patch",
                    at,
                    Some(at),
                    &p.blockers,
                    &format!(
                        "{} bytes, {} paths, tree {}",
                        p.patch_bytes,
                        p.changes.len(),
                        p.tree_id
                    ),
                ));
            }
            EventKind::GitDiffChecked(d) => {
                out.push(entry(
                    "check:paths",
                    at,
                    Some(at),
                    &d.blockers,
                    &format!("{} changed paths", d.changed_files.len()),
                ));
            }
            EventKind::VerificationCompleted(v) => {
                out.extend(
                    v.verification
                        .baseline
                        .iter()
                        .map(|c| command("check:baseline", at, c, false)),
                );
                out.extend(
                    v.verification
                        .commands
                        .iter()
                        .map(|c| command("check:command", at, c, true)),
                );
                out.push(entry(
                    "check:verification",
                    at,
                    Some(at),
                    &v.blockers,
                    &canary_word(&v.verification),
                ));
            }
            EventKind::SetupCompleted(s) => {
                out.extend(
                    s.commands
                        .iter()
                        .map(|c| command("setup:command", at, c, true)),
                );
            }
            EventKind::BaselineCompared(c) => {
                let differing = c.differences();
                let detail = match differing.as_slice() {
                    [] => "matches".to_owned(),
                    _ => format!("differs: {}", differing.join(", ")),
                };
                out.push(entry("check:fake_baseline", at, Some(at), &[], &detail));
            }
            EventKind::SourceChecked(s) => {
                out.push(entry(
                    "check:source",
                    at,
                    Some(at),
                    &s.blockers,
                    &format!("fingerprint {}", s.fingerprint_after),
                ));
            }
            EventKind::LimitExceeded(l) => {
                out.push(entry(
                    "limit",
                    at,
                    Some(at),
                    std::slice::from_ref(&l.blocker),
                    &format!("{} in {}", l.limit, l.step),
                ));
            }
            EventKind::RunRecovered(r) => {
                if let Some((step, started)) = open.take() {
                    let mut cut = entry(step.as_str(), started, None, &[], "cut off");
                    cut.outcome = TraceOutcome::Interrupted;
                    out.push(cut);
                }
                out.push(entry("recover", at, Some(at), &[], &r.reason));
            }
            EventKind::RunCompleted(c) => {
                out.push(entry(
                    "verdict",
                    at,
                    Some(at),
                    &c.blockers,
                    c.status.as_str(),
                ));
            }
            EventKind::RunStarted(s) => asked_model.clone_from(&s.asked_model),
            EventKind::PlanUpdated(p) => {
                let runtime = p.plan.runtime_model_provider.as_deref();
                let words = asked_model.as_ref().map(|m| model_words(m, runtime));
                out.extend(words.map(|words| entry("model", at, Some(at), &[], &words)));
            }
            EventKind::TaskContractCreated(_)
            | EventKind::ApprovalRequested(_)
            | EventKind::ApprovalGranted(_)
            | EventKind::ApprovalDenied(_)
            | EventKind::ApprovalConsumed(_)
            | EventKind::BackendGateBlocked(_)
            | EventKind::BackendStarted(_)
            | EventKind::BackendPlan(_)
            | EventKind::BackendActivity(_)
            | EventKind::ModelUsage(_)
            | EventKind::BackendOutputCapped(_)
            | EventKind::BackendFinished(_)
            | EventKind::SandboxDenied(_)
            | EventKind::LogRewritten(_) => {}
        }
    }
    out
}

fn entry(
    action: &str,
    started_at: Utc,
    finished_at: Option<Utc>,
    blockers: &[Blocker],
    detail: &str,
) -> TraceEntry {
    let codes: Vec<BlockerCode> = blockers.iter().map(|b| b.code).collect();
    TraceEntry {
        schema_version: TraceSchema,
        action: action.to_owned(),
        started_at,
        finished_at,
        outcome: if codes.is_empty() {
            TraceOutcome::Ok
        } else {
            TraceOutcome::Refused
        },
        blockers: codes,
        detail: std::iter::once(detail.to_owned())
            .chain(
                blockers
                    .iter()
                    .map(|b| shorten(&b.message, MESSAGE_CHARS_MAX)),
            )
            .collect::<Vec<_>>()
            .join("; "),
    }
}

/// The pair that was asked for, and the provider as the program knows it.
fn model_words(asked: &AskedModel, runtime: Option<&str>) -> String {
    let shown = |name: Option<&str>| shorten(name.unwrap_or("none"), NAME_CHARS_MAX);
    format!(
        "provider {}, model {}, runtime provider {}",
        shown(asked.provider.as_deref()),
        shown(asked.model.as_deref()),
        shown(runtime)
    )
}

fn probe_words(probe: &ModelProbe) -> String {
    let answer = match (probe.fault, &probe.answered_by) {
        (Some(fault), _) => fault.as_str().to_owned(),
        (None, Some(by)) => format!("answered as {}", shorten(by, 120)),
        (None, None) => "answered".to_owned(),
    };
    let model = shorten(&probe.model, 120);
    format!("{model} on {}: {answer}, {} ms", probe.wire, probe.millis)
}

fn canary_word(verification: &Verification) -> String {
    match &verification.not_run {
        Some(_) => "not run".to_owned(),
        None => format!("canary {}", super::checks::canary_words(verification)),
    }
}

fn command(action: &str, at: Utc, result: &CommandResult, must_pass: bool) -> TraceEntry {
    let code = result.exit_code.map_or_else(
        || format!("signal {}", result.signal.unwrap_or(0)),
        |c| format!("exit {c}"),
    );
    let mut line = entry(
        action,
        at,
        Some(at),
        &[],
        &format!("{}: {code}", result.line()),
    );
    if must_pass && !result.passed {
        line.outcome = TraceOutcome::Refused;
        let code = if result.timed_out {
            BlockerCode::Timeout
        } else {
            BlockerCode::VerificationFailed
        };
        line.blockers.push(code);
    }
    line
}
