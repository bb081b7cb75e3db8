//! The same case in the `fake` lane, as a run of its own with its own pack: what a gated lane is measured by.

use std::collections::BTreeSet;

use cto_contract::artifact::{
    ATTESTATION, EVENTS, REPORT_JSON, REPORT_MD, REQUIRED, SHA256SUMS, TRACE,
};
use cto_contract::comparison::BaselineComparison;
use cto_contract::event::{EventType, RunEvent};
use cto_contract::report::Report;
use cto_contract::verify::Integrity;
use cto_contract::words::{Lane, Stage};
use cto_rules::comparison::{Side, can_measure, compare};
use cto_rules::lifecycle::conclude;
use cto_rules::verdicts::Fault;
use cto_rules::views::report::{ReportInput, report};

use crate::error_chain;
use crate::harness::{ApprovalAsk, Parent, RunRequest};
use crate::open_run::{OpenRun, StepError};
use crate::task::Task;

/// What only the seal makes.
const BY_THE_SEAL: [&str; 6] = [
    REPORT_JSON,
    REPORT_MD,
    EVENTS,
    TRACE,
    SHA256SUMS,
    ATTESTATION,
];

/// A run of `fake` that another one can be measured by.
pub(crate) struct FakeBaseline {
    report: Report,
    types: Vec<EventType>,
    is_fresh: bool,
}

/// Runs the case in the `fake` lane, under the same limits and the same sandbox.
pub(crate) fn fake_baseline(run: &mut OpenRun<'_>) -> Result<FakeBaseline, StepError> {
    let failed = |why: String| Fault::FakeBaselineFailed { why };
    let mut task = run.request.task.clone();
    if let Task::Case(case) = &mut task {
        // An approval is for the lane's run. The ruler applies the case's own patch to a copy, and needs none.
        case.file.approval_required = false;
    }
    let request = RunRequest {
        task,
        lane: Lane::Fake,
        argv: Vec::new(),
        stage: Some(Stage::FIXTURE),
        timeout_seconds: run.limits.limits.wall_seconds,
        cheat: None,
        parent: Some(Parent::Measured(run.run_id.clone())),
        conformance: run.request.conformance,
        sandbox: run.request.sandbox,
        approval: ApprovalAsk::None,
    };
    let mut types = Vec::new();
    let mut observer = |event: &RunEvent| types.push(event.kind.event_type());
    let result = run.harness.run(&request, &run.stop, &mut observer);
    let result = result.map_err(|e| failed(error_chain(&e)))?;
    if !can_measure(&result.report) {
        let first = result.report.verdict.blockers.first();
        let why = first.map_or_else(String::new, |b| format!("{}: {}", b.code, b.message));
        return Err(failed(format!("run {}: {why}", result.run_id)).into());
    }
    Ok(FakeBaseline {
        is_fresh: result.verified.integrity == Integrity::Ok,
        report: result.report,
        types,
    })
}

impl FakeBaseline {
    /// Compares the run, as it stands before its last line, with this one.
    pub(crate) fn compare(&self, run: &OpenRun<'_>) -> BaselineComparison {
        // As it will stand once the comparison is recorded.
        let mut state = run.state().clone();
        state.types.push(EventType::BaselineCompared);
        let input = ReportInput {
            contract_digest: run.contract_digest.clone(),
            identity_digest: None,
            finished_at: state.last_at,
            wall_seconds: 0.0,
        };
        let of_lane = report(&state, &conclude(&state), &input);
        let mut lane_types = state.types.clone();
        lane_types.push(EventType::RunCompleted);
        let is_there = |name: &&&str| run.pack.join(name).symlink_metadata().is_ok();
        let written: BTreeSet<String> = REQUIRED
            .iter()
            .filter(is_there)
            .map(ToString::to_string)
            .collect();
        let dated = |name: &String| run.times.has(name) || BY_THE_SEAL.contains(&name.as_str());
        let lane = Side {
            is_fresh: written.iter().all(dated),
            report: &of_lane,
            types: &lane_types,
            artifacts: with_seal(written),
        };
        let indexed = self.report.artifacts.artifact_paths.iter().cloned();
        let fake = Side {
            report: &self.report,
            types: &self.types,
            artifacts: with_seal(indexed.collect()),
            is_fresh: self.is_fresh,
        };
        compare(&fake, &lane)
    }
}

fn with_seal(mut names: BTreeSet<String>) -> BTreeSet<String> {
    names.extend(BY_THE_SEAL.map(str::to_owned));
    names
}
