//! Why a run was allowed, blocked or failed: a fold of its report and its decision. It reads data, never a sentence.

use cto_contract::blocker::Blocker;
use cto_contract::claim::{Claim, ClaimKind};
use cto_contract::eligibility::EligibilityDecision;
use cto_contract::outputs::{
    ExplainOutput, ExplainTag, ExplainedBlocker, ExplainedCheck, ExplainedClaim,
};
use cto_contract::report::Report;
use cto_contract::trust::Provenance;
use cto_contract::verification::CommandResult;
use cto_contract::words::{ClaimLevel, RunStatus};

/// The first lines that a check printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    pub lines: Vec<String>,
    /// There were more.
    pub is_cut: bool,
}

/// Explains a run. `printed` is asked for the output of each check that failed.
pub fn explain(
    report: &Report,
    decision: &EligibilityDecision,
    provenance: Provenance,
    printed: impl Fn(&CommandResult) -> Printed,
) -> ExplainOutput {
    let verification = &report.checks.verification;
    let mut before = verification.baseline.iter();
    let check = |result: &CommandResult| {
        let failed = (!result.passed).then(|| printed(result));
        let Printed { lines, is_cut } = failed.unwrap_or_default();
        ExplainedCheck {
            result: result.clone(),
            before: before.next().cloned(),
            output: lines,
            output_cut: is_cut,
        }
    };
    let is_started = report.backend.backend_process_started;
    ExplainOutput {
        schema_version: ExplainTag,
        run_id: report.run.run_id.clone(),
        origin: provenance.origin,
        of_this_home: provenance.of_this_home,
        case_id: report.run.case_id.clone(),
        backend: report.backend.backend,
        stage: report.authority.stage,
        status: report.verdict.status,
        sentence: sentence(report),
        gates: decision.facts.clone(),
        blockers: report.verdict.blockers.iter().map(blocker).collect(),
        checks: verification.commands.iter().map(check).collect(),
        checks_not_run: verification.not_run.clone(),
        paths: report.change.scopes.clone(),
        claims: report
            .verdict
            .claims
            .iter()
            .map(|claim| ExplainedClaim {
                claim: claim.clone(),
                raised_by: raised_by(claim, is_started).map(str::to_owned),
            })
            .collect(),
    }
}

fn sentence(report: &Report) -> String {
    let lane = report.backend.backend;
    let stage = report.authority.stage;
    let reason = report.verdict.failure_reason.as_deref().unwrap_or_default();
    match report.verdict.status {
        RunStatus::Pass => format!(
            "the {lane} lane was allowed at stage {stage}, changed only what it may, and the checks pass"
        ),
        RunStatus::Fail => {
            format!("the {lane} lane was allowed at stage {stage}, and the run failed: {reason}")
        }
        RunStatus::Blocked if report.backend.backend_process_started => format!(
            "the {lane} lane was allowed at stage {stage}, and the run was blocked: {reason}"
        ),
        RunStatus::Blocked => format!("no backend was started: {reason}"),
    }
}

fn blocker(blocker: &Blocker) -> ExplainedBlocker {
    let row = blocker.code.row();
    ExplainedBlocker {
        code: blocker.code,
        subject: blocker.subject.clone(),
        status: row.status,
        fault: row.fault,
        message: blocker.message.clone(),
        hint: blocker.hint.clone(),
    }
}

/// What would give a claim a higher level; none when there is no higher one.
fn raised_by(claim: &Claim, is_started: bool) -> Option<&'static str> {
    let is_inferred = match claim.level {
        ClaimLevel::Verified => return None,
        ClaimLevel::Inferred => true,
        ClaimLevel::SelfReported | ClaimLevel::Absent => false,
    };
    if !is_started && claim.kind != ClaimKind::OperatorAccepted {
        return Some("a run whose backend starts: see the blockers");
    }
    Some(match claim.kind {
        ClaimKind::OperatorAccepted => {
            "an operator looks at the change and decides; no run can do that"
        }
        ClaimKind::BackendAccount => "nothing: a backend's word about itself stays its word",
        ClaimKind::PathsWithinContract => {
            "a change of allowed paths only; `cto why PATH --run RUN` names the rule that refuses one"
        }
        ClaimKind::PatchGivesCheckedTree => {
            "a change that can be written as a patch, and checks that are reached"
        }
        ClaimKind::ChecksPass if is_inferred => {
            "a check that runs outside the process of the code under test: an oracle, which the backend never sees"
        }
        ClaimKind::ChecksPass => "a change on which all checks pass",
        ClaimKind::ChecksFailBefore if is_inferred => {
            "the same: an oracle outside the process of the code under test"
        }
        ClaimKind::ChecksFailBefore => {
            "a check that fails on the untouched baseline, and passes with the change; `must_fail_before: true` insists on it"
        }
        ClaimKind::SourceUnchanged => "a source that nobody changes while the run goes on",
        ClaimKind::NothingSurvived => {
            "a kernel that allows pid namespaces; `cto doctor` says what is missing"
        }
        ClaimKind::WritesConfined => {
            "confinement of class `full`; `cto doctor` says what this kernel refuses"
        }
    })
}

#[cfg(test)]
mod tests;
