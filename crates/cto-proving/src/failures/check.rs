//! The eight checks of a row, from the sealed pack alone and from what lies around it.

use std::fs;
use std::path::PathBuf;

use cto_contract::artifact::{
    ATTESTATION, EVENTS, FreshnessSource, REPORT_JSON, REQUIRED, SHA256SUMS,
};
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{EventKind, EventType, RunEvent, Scope};
use cto_contract::outputs::Checks;
use cto_contract::report::Report;
use cto_contract::trust::TrustedKey;
use cto_contract::verify::{VerifyCheck, VerifyCode, VerifyReport};
use cto_contract::words::{Lane, RunStatus};
use cto_evidence::chain::read_log;
use cto_evidence::verify::{VerifyOptions, verify};
use cto_rules::eligibility::endpoint_hint;
use cto_rules::paths::refusal_hint;

use super::fixture::Fixture;

/// What is there to be judged after a run.
#[derive(Debug, Clone)]
pub struct Seen {
    pub pack: PathBuf,
    /// Keys whose packs have a known origin.
    pub trusted: Vec<TrustedKey>,
    /// Paths around the run that changed.
    pub outside: Vec<String>,
    /// What went wrong with the trigger itself.
    pub troubles: Vec<String>,
}

/// What the checks came to.
#[derive(Debug, Clone, Default)]
pub struct Judged {
    pub status: Option<RunStatus>,
    pub checks: Checks,
    pub errors: Vec<String>,
}

/// A pack as it lies there.
pub(crate) struct Pack<'a> {
    seen: &'a Seen,
    pub(crate) report: Report,
    pub(crate) events: Vec<RunEvent>,
    verified: VerifyReport,
}

impl<'a> Pack<'a> {
    pub(crate) fn read(seen: &'a Seen) -> Result<Self, String> {
        let read = |name: &str| {
            fs::read(seen.pack.join(name)).map_err(|e| format!("`{name}` can't be read: {e}"))
        };
        let report = serde_json::from_slice(&read(REPORT_JSON)?)
            .map_err(|e| format!("`{REPORT_JSON}` is no report: {e}"))?;
        let log = read_log(&read(EVENTS)?).map_err(|e| format!("`{EVENTS}` is no log: {e}"))?;
        let options = VerifyOptions {
            trusted: seen.trusted.clone(),
            asked_name: cto_evidence::verify::name_in_path(&seen.pack),
            ..VerifyOptions::default()
        };
        Ok(Self {
            seen,
            report,
            events: log.events,
            verified: verify(&seen.pack, &options),
        })
    }
}

/// Judges a row by what its run left. Every check is made, whatever the others say.
pub fn judge(fixture: &Fixture, seen: &Seen) -> Judged {
    let mut judged = Judged {
        errors: seen.troubles.clone(),
        ..Judged::default()
    };
    let around = outside(fixture, seen);
    judged.checks.outside = around.is_empty();
    match Pack::read(seen) {
        Err(why) => judged.errors.push(why),
        Ok(pack) => {
            judged.status = Some(pack.report.verdict.status);
            let mut check = |name: &str, sentences: Vec<String>| {
                let errors = sentences.iter().map(|s| format!("{name}: {s}"));
                judged.errors.extend(errors);
                sentences.is_empty()
            };
            judged.checks.blocker = check("blocker", blocker(fixture, &pack));
            judged.checks.event = check("event", event(fixture, &pack));
            judged.checks.status = check("status", status(fixture, &pack));
            judged.checks.exit_code = check("exit_code", exit_code(fixture, &pack));
            judged.checks.artifacts = check("artifacts", artifacts(fixture, &pack));
            judged.checks.digests = check("digests", digests(&pack));
            judged.checks.freshness = check("freshness", freshness(&pack));
        }
    }
    let errors = around.into_iter().map(|s| format!("outside: {s}"));
    judged.errors.extend(errors);
    judged
}

/// The control must pass, untouched surroundings and all.
pub(super) fn judge_control(seen: &Seen) -> Result<(), String> {
    let pack = Pack::read(seen)?;
    if pack.report.verdict.status != RunStatus::Pass {
        let codes: Vec<String> = pack.report.verdict.blockers.iter().map(shown).collect();
        return Err(format!("an honest run did not pass: {}", codes.join("; ")));
    }
    let mut wrong = digests(&pack);
    wrong.extend(freshness(&pack));
    wrong.extend(seen.troubles.iter().cloned());
    wrong.extend(seen.outside.iter().map(|p| format!("`{p}` changed")));
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("; "))
    }
}

fn shown(blocker: &Blocker) -> String {
    format!(
        "{}: {}",
        blocker.code,
        cto_contract::text::shorten(&blocker.message, 200)
    )
}

/// The row's blocker is there with its reason and fault, and none that the trigger does not explain.
fn blocker(fixture: &Fixture, pack: &Pack<'_>) -> Vec<String> {
    let verdict = &pack.report.verdict;
    let row = fixture.row();
    let mut wrong: Vec<String> = verdict
        .blockers
        .iter()
        .filter(|b| b.code != fixture.blocker && !fixture.companions.contains(&b.code))
        .map(|b| format!("not expected: {}", shown(b)))
        .collect();
    let Some(own) = verdict.blockers.iter().find(|b| b.code == fixture.blocker) else {
        wrong.push(format!("{} is not in the report", fixture.blocker));
        return wrong;
    };
    let hints = Scope::ALL.iter().filter_map(|scope| refusal_hint(*scope));
    let is_of_a_path = own.code == BlockerCode::DisallowedFileChange
        && hints.into_iter().any(|hint| own.hint == hint);
    let endpoint = Lane::Command.base_url().map(|name| endpoint_hint(&name));
    let is_of_an_endpoint = own.code == BlockerCode::LocalProviderConfigMissing
        && endpoint.is_some_and(|hint| own.hint == hint);
    let is_known = own.hint == row.hint || is_of_a_path || is_of_an_endpoint;
    if !is_known || own.message.is_empty() {
        wrong.push("it has no message, or not the hint of its row".to_owned());
    }
    let deciding = verdict
        .blockers
        .iter()
        .find(|b| b.code.row().status == verdict.status);
    if deciding.is_some_and(|b| b.code == fixture.blocker) {
        let reason = own.failure_reason(Lane::Command);
        if verdict.failure_reason.as_ref() != Some(&reason) {
            wrong.push(format!("`failure_reason` is not `{reason}`"));
        }
        if verdict.fault_class != row.fault {
            wrong.push(format!("`fault_class` is {}", verdict.fault_class));
        }
    } else if fixture.companions.is_empty() {
        wrong.push("another blocker decided".to_owned());
    }
    wrong
}

/// The event of the row is in the log, and it is the one that carries the blocker.
fn event(fixture: &Fixture, pack: &Pack<'_>) -> Vec<String> {
    let Some(wanted) = fixture.row().event else {
        return Vec::new();
    };
    let mut of_type = pack
        .events
        .iter()
        .filter(|e| e.kind.event_type() == wanted)
        .peekable();
    if of_type.peek().is_none() {
        return vec![format!("`{wanted}` is not in the log")];
    }
    let carries = |e: &RunEvent| {
        blockers_of(&e.kind).is_none_or(|found| found.iter().any(|b| b.code == fixture.blocker))
    };
    if !of_type.any(carries) {
        return vec![format!("`{wanted}` does not carry {}", fixture.blocker)];
    }
    let last = pack.events.last().map(|e| e.kind.event_type());
    if last != Some(EventType::RunCompleted) {
        return vec!["the log does not end with `run.completed`".to_owned()];
    }
    Vec::new()
}

/// What an event says against the run; none where it has no place for that.
fn blockers_of(kind: &EventKind) -> Option<&[Blocker]> {
    match kind {
        EventKind::BackendGateBlocked(data) => Some(&data.blockers),
        EventKind::GitDiffChecked(data) => Some(&data.blockers),
        EventKind::VerificationCompleted(data) => Some(&data.blockers),
        EventKind::RunCompleted(data) => Some(&data.blockers),
        EventKind::PatchApplied(data) => Some(&data.blockers),
        EventKind::SetupCompleted(data) => Some(&data.blockers),
        EventKind::SourceChecked(data) => Some(&data.blockers),
        EventKind::StepFinished(data) => Some(&data.blockers),
        EventKind::LimitExceeded(data) => Some(std::slice::from_ref(&data.blocker)),
        EventKind::RunStarted(_)
        | EventKind::TaskContractCreated(_)
        | EventKind::EligibilityDecided(_)
        | EventKind::PlanUpdated(_)
        | EventKind::ApprovalRequested(_)
        | EventKind::ApprovalGranted(_)
        | EventKind::ApprovalDenied(_)
        | EventKind::ApprovalConsumed(_)
        | EventKind::BackendStarted(_)
        | EventKind::BackendPlan(_)
        | EventKind::BackendActivity(_)
        | EventKind::ModelProbed(_)
        | EventKind::ModelUsage(_)
        | EventKind::BackendOutputCapped(_)
        | EventKind::BackendFinished(_)
        | EventKind::BaselineCompared(_)
        | EventKind::SandboxDenied(_)
        | EventKind::LogRewritten(_)
        | EventKind::RunRecovered(_)
        | EventKind::StepStarted(_) => None,
    }
}

fn status(fixture: &Fixture, pack: &Pack<'_>) -> Vec<String> {
    let wanted = fixture.row().status;
    let signed = pack.verified.status;
    let told = pack.report.verdict.status;
    let mut wrong = Vec::new();
    if told != wanted {
        wrong.push(format!("the report says {told}, the row {wanted}"));
    }
    if signed != Some(wanted) {
        wrong.push(format!("the attestation does not say {wanted}"));
    }
    wrong
}

/// What `cto run` would have ended with. The numbers are contracts of their own, so they stand here once more.
fn exit_code(fixture: &Fixture, pack: &Pack<'_>) -> Vec<String> {
    let wanted = match fixture.row().status {
        RunStatus::Pass => 0,
        RunStatus::Fail => 1,
        RunStatus::Blocked => 3,
    };
    let code = pack.report.verdict.status.exit_code();
    if code == wanted {
        Vec::new()
    } else {
        vec![format!("{code} instead of {wanted}")]
    }
}

/// Every required file, the marker of the row, and what its fixture must show.
fn artifacts(fixture: &Fixture, pack: &Pack<'_>) -> Vec<String> {
    let is_file = |name: &str| {
        let meta = fs::symlink_metadata(pack.seen.pack.join(name));
        meta.is_ok_and(|m| m.is_file())
    };
    let listed = |name: &str| {
        [SHA256SUMS, ATTESTATION].contains(&name)
            || pack
                .report
                .artifacts
                .artifact_paths
                .iter()
                .any(|p| p == name)
    };
    let marker = fixture.row().marker_path(Lane::Command);
    let mut wrong = Vec::new();
    for name in REQUIRED.into_iter().chain(marker.as_deref()) {
        if !is_file(name) {
            wrong.push(format!("`{name}` is missing"));
        } else if !listed(name) {
            wrong.push(format!("the report does not list `{name}`"));
        }
    }
    let shown = marker.as_deref().map(|m| (m, fixture.blocker.as_str()));
    for (name, text) in shown.into_iter().chain(fixture.shows.iter().copied()) {
        let held = fs::read(pack.seen.pack.join(name)).unwrap_or_default();
        let held = String::from_utf8_lossy(&held);
        if text.is_empty() && !held.is_empty() {
            wrong.push(format!("`{name}` is not empty"));
        } else if !held.contains(text) {
            wrong.push(format!("`{name}` does not show `{text}`"));
        }
    }
    if !pack.report.run.conformance {
        wrong.push("the pack is not marked as conformance".to_owned());
    }
    let started = pack.report.backend.backend_process_started;
    if fixture.row().event == Some(EventType::BackendGateBlocked) && started {
        wrong.push("a process started behind a closed gate".to_owned());
    }
    wrong
}

/// The pack is what was sealed, by a known key, and adds up.
pub(crate) fn digests(pack: &Pack<'_>) -> Vec<String> {
    let mut wrong: Vec<String> = pack
        .verified
        .errors
        .iter()
        .filter(|e| e.code != VerifyCode::FreshnessInvalid)
        .map(|e| {
            format!(
                "{}: {}",
                e.code,
                cto_contract::text::shorten(&e.message, 200)
            )
        })
        .collect();
    for needed in [
        VerifyCheck::Digests,
        VerifyCheck::Attestation,
        VerifyCheck::Chain,
        VerifyCheck::Origin,
    ] {
        if !pack.verified.checked.contains(&needed) {
            wrong.push(format!("{needed} was not checked"));
        }
    }
    wrong
}

/// Every file was written by this very run.
pub(crate) fn freshness(pack: &Pack<'_>) -> Vec<String> {
    let mut wrong: Vec<String> = pack
        .verified
        .errors
        .iter()
        .filter(|e| e.code == VerifyCode::FreshnessInvalid)
        .map(|e| cto_contract::text::shorten(&e.message, 200))
        .collect();
    if !pack.verified.checked.contains(&VerifyCheck::Freshness) {
        wrong.push("it was not checked".to_owned());
    }
    let run = &pack.report.run;
    for name in REQUIRED
        .iter()
        .filter(|n| ![SHA256SUMS, ATTESTATION].contains(n))
    {
        let fresh = pack.report.artifacts.freshness.get(*name).is_some_and(|f| {
            f.source == FreshnessSource::Written
                && f.nonce == run.nonce
                && f.wall >= run.run_started_at
        });
        if !fresh {
            wrong.push(format!("`{name}` was not written by this run"));
        }
    }
    wrong
}

/// Around the workspace exactly that changed which had to.
fn outside(fixture: &Fixture, seen: &Seen) -> Vec<String> {
    let expected = fixture.changes_outside;
    let more = seen
        .outside
        .iter()
        .filter(|p| !expected.contains(&p.as_str()))
        .map(|p| format!("`{p}` changed"));
    let fewer = expected
        .iter()
        .filter(|p| !seen.outside.iter().any(|o| o == *p))
        .map(|p| format!("`{p}` did not change, so nothing was triggered"));
    more.chain(fewer).collect()
}
