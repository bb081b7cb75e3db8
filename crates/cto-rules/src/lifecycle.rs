//! The run's life: what the log says so far, and what comes next.
//!
//! `next_step(replay(log))` gives the same answer after a crash as before it. A step that started and did not finish
//! is never performed again: the run is closed as interrupted.

use std::collections::BTreeSet;

use cto_contract::blocker::{Blocker, BlockerCode, Moment, status_of};
use cto_contract::comparison::BaselineComparison;
use cto_contract::event::{
    Approval, ApprovalConsumed, BackendFinished, DiffChecked, EligibilityDecided, EventKind,
    EventType, GateBlocked, LogRewritten, ModelProbe, PatchApplied, PlanUpdated, RunCompleted,
    RunEvent, RunRecovered, RunStarted, SandboxDenied, SetupCompleted, SourceChecked, Step,
    TaskContractCreated, VerificationCompleted,
};
use cto_contract::ids::{CaseId, RunId};
use cto_contract::lanes::{BaselineChecks, LadderRule};
use cto_contract::text::{one_line, shorten};
use cto_contract::time::Utc;
use cto_contract::words::{Action, ApprovalStatus, FaultClass, Lane, RunStatus, Stage};

use crate::order::{self, Shape};
use crate::verdicts::{
    another_model, backend_blockers, left_behind, log_rewritten, provider_fault,
};

/// What a log says, folded.
#[derive(Debug, Clone)]
pub struct RunState {
    pub run_id: RunId,
    pub case_id: CaseId,
    pub lane: Lane,
    pub started_at: Utc,
    pub last_at: Utc,
    pub started: RunStarted,
    pub contract: Option<TaskContractCreated>,
    pub eligibility: Option<EligibilityDecided>,
    /// What the model answered before anything was started.
    pub model_probe: Option<ModelProbe>,
    pub gate_blocked: Option<GateBlocked>,
    pub plan: Option<PlanUpdated>,
    /// What was decided about an approval; none while nobody has.
    pub approval: Option<ApprovalStatus>,
    /// What an operator granted, as the log has it.
    pub granted: Option<Approval>,
    pub approval_consumed: Option<ApprovalConsumed>,
    pub setup: Option<SetupCompleted>,
    pub source: Option<SourceChecked>,
    pub backend_started: bool,
    pub workspace_start_clean: Option<bool>,
    /// What the backend's program said of its version.
    pub version_output: Option<String>,
    pub backend: Option<BackendFinished>,
    pub patch: Option<PatchApplied>,
    pub diff: Option<DiffChecked>,
    pub verification: Option<VerificationCompleted>,
    pub comparison: Option<BaselineComparison>,
    pub denials: Vec<SandboxDenied>,
    pub limit_blockers: Vec<Blocker>,
    /// Each time that its log was written again without a secret.
    pub rewritten: Vec<LogRewritten>,
    pub recovered: Option<RunRecovered>,
    pub completed: Option<RunCompleted>,
    pub finished_steps: BTreeSet<Step>,
    pub open_step: Option<Step>,
    /// Blockers that steps gave when they finished.
    pub step_blockers: Vec<Blocker>,
    pub types: Vec<EventType>,
}

/// A log that no run could have written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("the log is empty")]
    Empty,
    #[error("the log begins with `{0}`, not with `run.started`")]
    NotStarted(EventType),
    #[error("event {seq} `{event}` is illegal while {state}")]
    Illegal {
        seq: u64,
        event: EventType,
        state: String,
    },
}

/// Folds a log.
pub fn replay<'a>(events: impl IntoIterator<Item = &'a RunEvent>) -> Result<RunState, ReplayError> {
    let mut events = events.into_iter();
    let first = events.next().ok_or(ReplayError::Empty)?;
    events.try_fold(RunState::begin(first)?, RunState::apply)
}

impl RunState {
    fn begin(first: &RunEvent) -> Result<Self, ReplayError> {
        let EventKind::RunStarted(started) = &first.kind else {
            return Err(ReplayError::NotStarted(first.kind.event_type()));
        };
        Ok(Self {
            run_id: first.run_id.clone(),
            case_id: first.case_id.clone(),
            lane: first.backend,
            started_at: first.ts,
            last_at: first.ts,
            started: started.clone(),
            contract: None,
            eligibility: None,
            model_probe: None,
            gate_blocked: None,
            plan: None,
            approval: None,
            granted: None,
            approval_consumed: None,
            setup: None,
            source: None,
            backend_started: false,
            workspace_start_clean: None,
            version_output: None,
            backend: None,
            patch: None,
            diff: None,
            verification: None,
            comparison: None,
            denials: Vec::new(),
            limit_blockers: Vec::new(),
            rewritten: Vec::new(),
            recovered: None,
            completed: None,
            finished_steps: BTreeSet::new(),
            open_step: None,
            step_blockers: Vec::new(),
            types: vec![EventType::RunStarted],
        })
    }

    /// Takes one event, or says why it can't come now.
    pub fn apply(mut self, event: &RunEvent) -> Result<Self, ReplayError> {
        let kind = event.kind.event_type();
        let illegal = |state: &str| ReplayError::Illegal {
            seq: event.seq,
            event: kind,
            state: state.to_owned(),
        };
        if self.completed.is_some() && !matches!(event.kind, EventKind::RunRecovered(_)) {
            return Err(illegal("the run is completed"));
        }
        match &event.kind {
            EventKind::RunStarted(_) => return Err(illegal("the run has started")),
            EventKind::StepStarted(data) => {
                if let Some(open) = self.open_step {
                    return Err(illegal(&format!("step `{open}` is open")));
                }
                if self.finished_steps.contains(&data.step) {
                    return Err(illegal(&format!("step `{}` is finished", data.step)));
                }
                self.open_step = Some(data.step);
            }
            EventKind::StepFinished(data) => {
                if self.open_step != Some(data.step) {
                    return Err(illegal(&format!("step `{}` is not open", data.step)));
                }
                self.open_step = None;
                self.finished_steps.insert(data.step);
                self.step_blockers.extend(data.blockers.iter().cloned());
            }
            EventKind::TaskContractCreated(data) => self.contract = Some(data.clone()),
            EventKind::EligibilityDecided(data) => self.eligibility = Some(data.clone()),
            EventKind::ModelProbed(data) => self.model_probe = Some(data.clone()),
            EventKind::BackendGateBlocked(data) => self.gate_blocked = Some(data.clone()),
            EventKind::PlanUpdated(data) => self.plan = Some(data.clone()),
            EventKind::SetupCompleted(data) => self.setup = Some(data.clone()),
            EventKind::SourceChecked(data) => self.source = Some(data.clone()),
            EventKind::BackendStarted(data) => {
                if self.backend_started {
                    return Err(illegal(
                        "the backend has started: it is never started again",
                    ));
                }
                self.backend_started = true;
                self.version_output.clone_from(&data.version_output);
                self.workspace_start_clean = data.workspace_clean;
            }
            EventKind::BackendFinished(data) => {
                if !self.backend_started {
                    return Err(illegal("the backend has not started"));
                }
                self.backend = Some(data.clone());
            }
            EventKind::PatchApplied(data) => self.patch = Some(data.clone()),
            EventKind::GitDiffChecked(data) => self.diff = Some(data.clone()),
            EventKind::VerificationCompleted(data) => self.verification = Some(data.clone()),
            EventKind::BaselineCompared(data) => self.comparison = Some(data.clone()),
            EventKind::SandboxDenied(data) => {
                match self.denials.iter_mut().find(|seen| seen.is_same(data)) {
                    Some(seen) => seen.count = data.count,
                    None => self.denials.push(data.clone()),
                }
            }
            EventKind::LimitExceeded(data) => self.limit_blockers.push(data.blocker.clone()),
            EventKind::RunRecovered(data) => {
                if self.recovered.is_some() {
                    return Err(illegal("the run was recovered"));
                }
                self.recovered = Some(data.clone());
                self.completed = None;
                self.open_step = None;
            }
            EventKind::RunCompleted(data) => self.completed = Some(data.clone()),
            EventKind::ApprovalGranted(data) => {
                self.approval = Some(ApprovalStatus::Granted);
                self.granted = Some(data.clone());
            }
            EventKind::ApprovalDenied(_) => self.approval = Some(ApprovalStatus::Denied),
            EventKind::ApprovalConsumed(data) => self.approval_consumed = Some(data.clone()),
            EventKind::LogRewritten(data) => self.rewritten.push(data.clone()),
            EventKind::ApprovalRequested(_)
            | EventKind::BackendPlan(_)
            | EventKind::BackendActivity(_)
            | EventKind::ModelUsage(_)
            | EventKind::BackendOutputCapped(_) => {}
        }
        self.last_at = event.ts;
        self.types.push(kind);
        Ok(self)
    }

    /// The forbidden actions that something was an attempt at.
    pub fn attempted_actions(&self) -> BTreeSet<Action> {
        self.forbidden_denials().filter_map(|d| d.action).collect()
    }

    fn forbidden_denials(&self) -> impl Iterator<Item = &SandboxDenied> {
        let permitted = self
            .contract
            .as_ref()
            .map(|c| &c.contract.permitted_actions);
        self.denials.iter().filter(move |denial| {
            denial
                .action
                .is_some_and(|a| permitted.is_none_or(|p| !p.contains(&a)))
        })
    }

    /// Where the approval stands.
    pub fn approval_status(&self) -> ApprovalStatus {
        let is_required = |e: &EligibilityDecided| e.decision.approval_required;
        match (
            self.approval,
            self.eligibility.as_ref().is_some_and(is_required),
        ) {
            (Some(decided), _) => decided,
            (None, true) => ApprovalStatus::Requested,
            (None, false) => ApprovalStatus::NotRequired,
        }
    }

    /// Whether the run is measured by the `fake` lane: every run of a lane that climbs on a case.
    pub fn is_measured(&self) -> bool {
        self.lane.traits().ladder == LadderRule::Climbs && self.started.stage == Stage::FIXTURE
    }

    /// Whether its backend had been started.
    pub const fn moment(&self) -> Moment {
        match self.backend_started {
            true => Moment::AfterStart,
            false => Moment::BeforeStart,
        }
    }

    /// Whether the change is recorded and not judged: the model's provider failed the agent.
    fn is_left_unjudged(&self) -> bool {
        let end = self.backend.as_ref();
        end.is_some_and(|end| provider_fault(end).is_some())
    }

    /// Whether the decision let a backend run.
    pub fn is_eligible(&self) -> bool {
        self.eligibility
            .as_ref()
            .is_some_and(|e| e.decision.selected_backend.0.is_some())
    }
}

/// What the runner must do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Record the intent, act, record the result.
    Perform(Step),
    /// A step began and its end was never recorded: record `run.recovered`, never the step again.
    Recover(Step),
    /// The log is complete; only the seal may be missing.
    Seal(RunStatus),
}

/// The order of the steps before `seal`.
pub const STEPS: [Step; 12] = [
    Step::Contract,
    Step::Eligibility,
    Step::Prepare,
    Step::Plan,
    Step::FakeBaseline,
    Step::Setup,
    Step::Baseline,
    Step::Backend,
    Step::Change,
    Step::Policy,
    Step::Verification,
    Step::Complete,
];

/// Decides the next step from the log alone.
pub fn next_step(state: &RunState) -> Next {
    if let Some(done) = &state.completed {
        return Next::Seal(done.status);
    }
    if let Some(step) = state.open_step {
        return Next::Recover(step);
    }
    if state.recovered.is_some() {
        return Next::Perform(Step::Complete);
    }
    // Where no backend ran there is nothing to judge.
    let never_ran = state
        .backend
        .as_ref()
        .is_some_and(|b| b.start_failure.is_some());
    // Where a step could not record what it found, the next ones have nothing to judge.
    let unseen = |step, seen: bool| state.finished_steps.contains(&step) && !seen;
    let blind = unseen(Step::Backend, state.backend.is_some())
        || unseen(Step::Change, state.patch.is_some())
        || unseen(Step::Policy, state.diff.is_some());
    let stopped = is_interrupted(state)
        || never_ran
        || blind
        || (state.finished_steps.contains(&Step::Change) && state.is_left_unjudged())
        || state.gate_blocked.is_some()
        || (state.eligibility.is_some() && !state.is_eligible())
        || (!state.backend_started
            && (!state.step_blockers.is_empty()
                || !state.limit_blockers.is_empty()
                || state.setup.as_ref().is_some_and(|s| !s.blockers.is_empty())));
    if stopped {
        return Next::Perform(Step::Complete);
    }
    let next = STEPS
        .iter()
        .copied()
        .find(|s| !state.finished_steps.contains(s) && has_work(state, *s));
    Next::Perform(next.unwrap_or(Step::Complete))
}

/// Whether there is anything to do in a step.
fn has_work(state: &RunState, step: Step) -> bool {
    let contract = state.contract.as_ref().map(|c| &c.contract);
    match step {
        Step::FakeBaseline => state.is_measured(),
        Step::Setup => contract.is_some_and(|c| !c.setup_commands.is_empty()),
        Step::Baseline => {
            let is_first = state.lane.traits().baseline_checks == BaselineChecks::First;
            is_first && contract.is_some_and(|c| !c.verification_commands.is_empty())
        }
        Step::Contract
        | Step::Eligibility
        | Step::Prepare
        | Step::Plan
        | Step::Backend
        | Step::Change
        | Step::Policy
        | Step::Verification
        | Step::Complete
        | Step::Seal => true,
    }
}

fn is_interrupted(state: &RunState) -> bool {
    state
        .step_blockers
        .iter()
        .any(|b| b.code == BlockerCode::Interrupted)
}

/// Closes a run: gathers every blocker of the log and gives the verdict.
pub fn conclude(state: &RunState) -> RunCompleted {
    let mut blockers: Vec<Blocker> = Vec::new();
    let mut add = |new: &[Blocker]| {
        for blocker in new {
            if !blockers.contains(blocker) {
                blockers.push(blocker.clone());
            }
        }
    };
    if let Some(recovered) = &state.recovered {
        add(&[Blocker::new(
            BlockerCode::Interrupted,
            recovered.interrupted_step.map_or("", Step::as_str),
            recovered.reason.clone(),
        )]);
    }
    if let Some(gate) = &state.gate_blocked {
        add(&gate.blockers);
    }
    add(&state.step_blockers);
    for rewritten in &state.rewritten {
        add(&[log_rewritten(rewritten)]);
    }
    if let Some(setup) = &state.setup {
        add(&setup.blockers);
    }
    // How a backend ended that was told to stop says nothing about it.
    if !is_interrupted(state) {
        add(&backend_blockers(state));
    }
    if let Some(end) = &state.backend {
        add(&left_behind(end));
        add(another_model(end).as_slice());
    }
    if let Some(patch) = &state.patch {
        add(&patch.blockers);
    }
    if let Some(diff) = &state.diff {
        add(&diff.blockers);
    }
    add(&state.limit_blockers);
    if let Some(checks) = &state.verification {
        add(&checks.blockers);
    }
    if let Some(source) = &state.source {
        add(&source.blockers);
    }
    let attempted = state.attempted_actions();
    if let Some(first) = state.forbidden_denials().next() {
        let names: Vec<&str> = attempted.iter().map(|a| a.as_str()).collect();
        add(&[Blocker::new(
            BlockerCode::ForbiddenActionAttempted,
            names.join(", "),
            format!(
                "attempted: {}; first {} {} by {}",
                names.join(", "),
                first.what,
                shorten(&one_line(&first.target), 200),
                first.process
            ),
        )]);
    }
    if state.recovered.is_none() {
        let mut types = state.types.clone();
        types.push(EventType::RunCompleted);
        let order = order::judge(&Shape::of(state, &types, &blockers));
        blockers.extend(order.faults.into_iter().map(|fault| {
            let sentence = fault.sentence();
            Blocker::new(BlockerCode::MissingRequiredEvent, fault.event, sentence)
        }));
    }
    verdict(without_effects(blockers), state)
}

/// What a cause brings about by itself, and so says nothing more.
const EFFECTS: &[(BlockerCode, &[BlockerCode])] = &[
    (BlockerCode::Timeout, UNFINISHED),
    (BlockerCode::LimitExceeded, UNFINISHED),
    // Without an answer of its model a role has nothing to put into its envelope.
    (BlockerCode::ProviderUnavailable, UNFINISHED),
    (BlockerCode::ProviderAuthUnavailable, UNFINISHED),
    (BlockerCode::ProviderReasoningOnly, UNFINISHED),
    (BlockerCode::AgentProtocolFailed, &[BlockerCode::NoDiff]),
];

const UNFINISHED: &[BlockerCode] = &[
    BlockerCode::NoDiff,
    BlockerCode::BackendFailed,
    BlockerCode::AgentProtocolFailed,
    BlockerCode::ReviewerRejected,
];

/// Leaves out what another blocker explains.
fn without_effects(blockers: Vec<Blocker>) -> Vec<Blocker> {
    let is_there = |code: BlockerCode| blockers.iter().any(|b| b.code == code);
    let causes = EFFECTS.iter().filter(|(cause, _)| is_there(*cause));
    let explained: BTreeSet<BlockerCode> = causes.flat_map(|(_, e)| e.iter().copied()).collect();
    blockers
        .into_iter()
        .filter(|b| !explained.contains(&b.code))
        .collect()
}

/// Turns blockers into the record that ends a log.
fn verdict(blockers: Vec<Blocker>, state: &RunState) -> RunCompleted {
    let moment = state.moment();
    let status = status_of(&blockers, moment);
    // The reason is that of the first blocker which has the run's status: a block never explains a failure.
    let deciding = blockers.iter().find(|b| b.code.status_at(moment) == status);
    RunCompleted {
        status,
        failure_reason: deciding.map(|b| b.failure_reason(state.lane)),
        fault_class: deciding.map_or(FaultClass::None, |b| b.code.row().fault),
        blockers,
    }
}

#[cfg(test)]
mod tests;
