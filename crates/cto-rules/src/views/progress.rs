//! The log as it passes by, one short line an event, for a person who watches.

use cto_contract::event::{EventKind, RunEvent, Step};
use cto_contract::plan::SettingSource;
use cto_contract::text::one_line;
use cto_contract::words::{RunStatus, SandboxClass};

use super::hidden::left_out;

/// What a person is told about an event, indented where it is a part of what goes on; none for those that only the machine needs.
pub fn progress(event: &RunEvent) -> Option<String> {
    match &event.kind {
        EventKind::RunStarted(s) => Some(format!(
            "run {} ({}, stage {})",
            event.run_id, event.backend, s.stage
        )),
        EventKind::StepStarted(s) => step(s.step).map(str::to_owned),
        EventKind::EligibilityDecided(e) => Some(match e.decision.selected_backend.0 {
            Some(_) => format!(
                "eligible: all {} gates passed",
                e.decision.passed_gates.len()
            ),
            None => {
                let missing = e.decision.missing_gates.iter().map(|g| g.as_str());
                let missing: Vec<&str> = missing.collect();
                format!("not eligible: {}", missing.join(", "))
            }
        }),
        EventKind::BackendGateBlocked(g) => Some(format!(
            "blocked at {}: {}",
            one_line(&g.gate),
            one_line(&g.reason)
        )),
        EventKind::BackendOutputCapped(c) => {
            Some(format!("output capped: {} bytes dropped", c.dropped_bytes))
        }
        EventKind::BackendFinished(b) => Some(match (&b.start_failure, b.exit_code, b.signal) {
            (Some(why), _, _) => format!("backend could not start: {}", one_line(why)),
            (None, Some(code), _) => format!(
                "backend ended with exit code {code} after {:.2} s",
                b.seconds
            ),
            (None, None, Some(signal)) => {
                format!("backend ended by signal {signal} after {:.2} s", b.seconds)
            }
            (None, None, None) => format!("backend ended after {:.2} s", b.seconds),
        }),
        EventKind::PatchApplied(p) => Some(format!(
            "patch: {} paths, {} bytes",
            p.changes.len(),
            p.patch_bytes
        )),
        EventKind::GitDiffChecked(d) => Some(if d.allowed_writes_passed {
            format!("scope: all {} paths allowed", d.changed_files.len())
        } else {
            "scope: paths outside the contract changed".to_owned()
        }),
        EventKind::VerificationCompleted(v) => {
            let c = &v.verification;
            let passed = c.commands.iter().filter(|r| r.passed).count();
            Some(match &c.not_run {
                Some(why) => format!("checks: not run ({})", one_line(why)),
                None => format!(
                    "checks: {passed} of {} passed{}, canary {}, claim {}",
                    c.commands.len(),
                    super::checks::old_failures(c),
                    super::checks::canary_words(c),
                    c.level
                ),
            })
        }
        EventKind::SetupCompleted(s) => Some(format!(
            "setup: {} of {} commands passed",
            s.commands.iter().filter(|c| c.passed).count(),
            s.commands.len()
        )),
        EventKind::BaselineCompared(c) => Some(match c.differences().as_slice() {
            [] => "as the fake lane: in all seven respects".to_owned(),
            differing => format!("other than the fake lane: {}", differing.join(", ")),
        }),
        EventKind::SourceChecked(s) => (!s.differences.is_empty()).then(|| {
            format!(
                "the source changed: {}",
                one_line(&s.differences.join(", "))
            )
        }),
        // Told again only for its count.
        EventKind::SandboxDenied(d) if d.count > 1 => None,
        EventKind::SandboxDenied(d) => Some(format!(
            "{}: {} {}",
            if d.what == "exec" { "tried" } else { "denied" },
            one_line(&d.what),
            one_line(&d.target)
        )),
        EventKind::LimitExceeded(l) => {
            Some(format!("limit: {} ({})", one_line(&l.limit), l.allowed))
        }
        EventKind::RunRecovered(r) => Some(format!("recovered: {}", one_line(&r.reason))),
        EventKind::RunCompleted(c) => Some(match (c.status, &c.failure_reason) {
            (RunStatus::Pass, _) | (_, None) => format!("verdict: {}", c.status),
            (RunStatus::Fail | RunStatus::Blocked, Some(why)) => {
                format!("verdict: {} ({})", c.status, one_line(why))
            }
        }),
        EventKind::BackendActivity(a) => Some(format!("  {}: {}", a.kind, one_line(&a.text))),
        EventKind::ModelUsage(u) => Some(format!(
            "  model: {} requests, {} tokens so far",
            u.requests, u.tokens_at_most
        )),
        EventKind::ModelProbed(p) => Some(match (&p.fault, &p.answered_by) {
            (Some(fault), _) => format!("model {}: {fault}", one_line(&p.model)),
            (None, Some(by)) => format!("model {} answers as {}", one_line(&p.model), one_line(by)),
            (None, None) => format!("model {} answers", one_line(&p.model)),
        }),
        EventKind::BackendPlan(t) => Some(format!("backend plans: {}", one_line(&t.text))),
        EventKind::ApprovalRequested(a) => {
            Some(format!("approval requested: {}", one_line(&a.scope)))
        }
        EventKind::ApprovalGranted(a) => {
            Some(format!("approval granted by {}", one_line(&a.actor)))
        }
        EventKind::ApprovalDenied(a) => Some(format!("approval denied by {}", one_line(&a.actor))),
        EventKind::ApprovalConsumed(a) => {
            Some(format!("approval {} consumed", one_line(&a.approval_id)))
        }
        EventKind::LogRewritten(l) => Some(format!("log rewritten: {}", one_line(&l.rule))),
        EventKind::PlanUpdated(p) => {
            let sandbox = &p.plan.sandbox;
            let lines = [
                warning(sandbox.class, sandbox.provider_from),
                left_out(&sandbox.hidden_paths),
            ];
            let lines: Vec<String> = lines.into_iter().flatten().collect();
            (!lines.is_empty()).then(|| lines.join("\n"))
        }
        EventKind::TaskContractCreated(_)
        | EventKind::BackendStarted(_)
        | EventKind::StepFinished(_) => None,
    }
}

/// What a person must not overlook: a run that is held by less than namespaces.
pub fn warning(class: SandboxClass, from: SettingSource) -> Option<String> {
    match class {
        SandboxClass::None => Some(format!(
            "warning: no sandbox (from: {from}): the backend can read and write whatever you can"
        )),
        SandboxClass::Group | SandboxClass::Weak => Some(format!(
            "warning: the sandbox is {class} (from: {from}): the backend sees this machine; nothing beyond stage 2"
        )),
        SandboxClass::Process | SandboxClass::Full => None,
    }
}

/// What a step is called while it lasts; none for those that take no time.
pub fn step(step: Step) -> Option<&'static str> {
    match step {
        Step::Prepare => Some("preparing the workspace"),
        Step::FakeBaseline => Some("running the case in the fake lane, to compare with"),
        Step::Setup => Some("running the setup commands"),
        Step::Baseline => Some("running the checks on the untouched tree"),
        Step::Backend => Some("the backend works"),
        Step::Change => Some("taking the change"),
        Step::Verification => Some("checking"),
        Step::Contract
        | Step::Eligibility
        | Step::Plan
        | Step::Policy
        | Step::Complete
        | Step::Seal => None,
    }
}
