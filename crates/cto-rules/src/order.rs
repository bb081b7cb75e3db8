//! The order of events that a pack must show, as a function of the types in its log.
//!
//! The answer names each event that is absent or out of place, and each that the run's ending excuses. A pass needs
//! everything, an ending with blockers needs what came before it without a gap.
//!
//! A run that ends because of a fault here carries `missing_required_event`. That blocker is left out when the ending is
//! judged, so the answer is the same before and after it was given.

#[cfg(test)]
mod tests;

use cto_contract::blocker::{Blocker, BlockerCode, status_of};
use cto_contract::event::EventType;
use cto_contract::order::{EventFault, EventProblem};
use cto_contract::words::RunStatus;

use crate::lifecycle::RunState;

/// All that the order is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    pub types: &'a [EventType],
    /// Types that the contract requires.
    pub contract_events: &'a [String],
    pub approval_required: bool,
    /// The run is measured by the `fake` lane.
    pub is_measured: bool,
    /// The run was blocked for want of an approval.
    pub lacks_approval: bool,
    /// The status that everything else gives the run.
    pub status: RunStatus,
    /// The run was closed by a recovery.
    pub recovered: bool,
}

impl<'a> Shape<'a> {
    /// The shape of a log of these types that ends with these blockers.
    pub fn of(state: &'a RunState, types: &'a [EventType], blockers: &[Blocker]) -> Self {
        let others: Vec<Blocker> = blockers
            .iter()
            .filter(|b| b.code != BlockerCode::MissingRequiredEvent)
            .cloned()
            .collect();
        let lacks = |b: &Blocker| b.code == BlockerCode::ApprovalMissing;
        Self {
            types,
            contract_events: (state.contract.as_ref())
                .map_or(&[], |c| &c.contract.evidence_expectations.required_events),
            approval_required: (state.eligibility.as_ref())
                .is_some_and(|e| e.decision.approval_required),
            is_measured: state.is_measured(),
            lacks_approval: others.iter().any(lacks),
            status: status_of(&others, state.moment()),
            recovered: state.recovered.is_some(),
        }
    }
}

/// Why a run could end without an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Omission {
    /// A gate blocked the run.
    Gate,
    Denial,
    /// The harness died.
    Death,
    /// Anything else ended the run.
    End,
}

impl Omission {
    /// The reason in words.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Gate => "a gate blocked the run before it",
            Self::Denial => "the approval was denied before it",
            Self::Death => "the harness died before it",
            Self::End => "the run ended before it",
        }
    }
}

/// An event that a whole run has and this one may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Omitted {
    pub event: EventType,
    pub why: Omission,
}

/// What the order of a log shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// What is absent or out of place.
    pub faults: Vec<EventFault>,
    /// What the ending excuses.
    pub omitted: Vec<Omitted>,
    /// The contract requires events of its own, and the run ended before they could be looked for.
    unlooked: bool,
}

impl Order {
    /// Whether all required events are there; none when the contract's own were not looked for.
    pub fn passed(&self) -> Option<bool> {
        match (self.faults.is_empty(), self.unlooked) {
            (false, _) => Some(false),
            (true, true) => None,
            (true, false) => Some(true),
        }
    }
}

/// The place of a type on the path of a run; none for side events.
fn place(event: EventType) -> Option<u8> {
    Some(match event {
        EventType::RunStarted => 0,
        EventType::TaskContractCreated => 1,
        EventType::EligibilityDecided => 2,
        EventType::PlanUpdated => 3,
        EventType::ApprovalRequested => 4,
        EventType::ApprovalGranted | EventType::ApprovalDenied => 5,
        EventType::ApprovalConsumed => 6,
        EventType::BackendGateBlocked => 7,
        EventType::BackendStarted => 8,
        EventType::BackendFinished => 9,
        EventType::PatchApplied => 10,
        EventType::GitDiffChecked => 11,
        EventType::VerificationCompleted => 12,
        EventType::BaselineCompared => 13,
        EventType::RunRecovered => 14,
        EventType::RunCompleted => 15,
        EventType::SetupCompleted
        | EventType::SourceChecked
        | EventType::BackendPlan
        | EventType::BackendActivity
        | EventType::ModelProbed
        | EventType::ModelUsage
        | EventType::BackendOutputCapped
        | EventType::SandboxDenied
        | EventType::LimitExceeded
        | EventType::LogRewritten
        | EventType::StepStarted
        | EventType::StepFinished => return None,
    })
}

/// The path of a run whose backend was let in, without the approval and the end, which every log has.
const PATH: [EventType; 9] = [
    EventType::RunStarted,
    EventType::TaskContractCreated,
    EventType::EligibilityDecided,
    EventType::PlanUpdated,
    EventType::BackendStarted,
    EventType::BackendFinished,
    EventType::PatchApplied,
    EventType::GitDiffChecked,
    EventType::VerificationCompleted,
];

/// What a run needs that a gate stopped before anything was prepared.
const BLOCKED_PATH: [EventType; 4] = [
    EventType::RunStarted,
    EventType::TaskContractCreated,
    EventType::EligibilityDecided,
    EventType::BackendGateBlocked,
];

/// How many events of the path stand before the approval.
const BEFORE_APPROVAL: usize = 4;

/// The events of a log that stand on the path of a run, but for its approval: what two runs of one case share.
pub fn spine(types: &[EventType]) -> Vec<EventType> {
    let on_path = |e: &EventType| {
        place(*e).is_some() && !is_approval(*e) && *e != EventType::BaselineCompared
    };
    types.iter().copied().filter(on_path).collect()
}

fn is_approval(event: EventType) -> bool {
    place(event).is_some_and(|p| (4..=6).contains(&p))
}

/// Judges a log, the final `run.completed` included.
pub fn judge(shape: &Shape<'_>) -> Order {
    let mut faults = Vec::new();
    check_ends(shape.types, &mut faults);
    let before_recovery = split_recovery(shape, &mut faults);
    let spine: Vec<EventType> = before_recovery
        .iter()
        .copied()
        .filter(|e| place(*e).is_some())
        .collect();
    let has = |event: EventType| spine.contains(&event);
    let is_pass = shape.status == RunStatus::Pass;
    let is_gated = has(EventType::BackendGateBlocked);
    check_order(&spine, &mut faults);
    check_contradictions(&spine, is_gated, &mut faults);
    check_approval(shape, &spine, &mut faults);
    let path = path(&spine, shape);
    let required: &[EventType] = if is_pass {
        for event in [EventType::ApprovalDenied, EventType::BackendGateBlocked] {
            if has(event) {
                faults.push(EventFault::new(event, EventProblem::NotInPass));
            }
        }
        &path
    } else if is_gated {
        // Its approval may be anywhere, and its plan may have been made.
        &BLOCKED_PATH
    } else {
        // The first event is never excused: without it there is no run.
        let reached = path.iter().rposition(|e| has(*e)).unwrap_or(0);
        &path[..=reached]
    };
    let absent = |events: &[EventType]| -> Vec<EventType> {
        events.iter().copied().filter(|e| !has(*e)).collect()
    };
    let missing = absent(required);
    faults.extend((missing.iter()).map(|event| EventFault::new(*event, EventProblem::Missing)));
    let mut omitted = absent(&path);
    omitted.retain(|event| !required.contains(event));
    if shape.is_measured && !is_pass && !has(EventType::BaselineCompared) {
        omitted.push(EventType::BaselineCompared);
    }
    // Nobody can expect more of a run that stopped early than the beginning of its path.
    let has_checks = has(EventType::VerificationCompleted);
    let is_whole = is_pass || (has_checks && !is_gated && !shape.recovered);
    if is_whole {
        check_contract_events(shape, &mut faults);
    } else {
        let known = shape.contract_events.iter().filter_map(|n| n.parse().ok());
        for event in known {
            if !shape.types.contains(&event)
                && !omitted.contains(&event)
                && !missing.contains(&event)
            {
                omitted.push(event);
            }
        }
    }
    let why = if is_gated {
        Omission::Gate
    } else if has(EventType::ApprovalDenied) {
        Omission::Denial
    } else if shape.recovered {
        Omission::Death
    } else {
        Omission::End
    };
    Order {
        faults,
        omitted: (omitted.into_iter())
            .map(|event| Omitted { event, why })
            .collect(),
        unlooked: !is_whole && !shape.contract_events.is_empty(),
    }
}

/// The path of a run from its start to its checks, with the approval where one is required.
fn path(spine: &[EventType], shape: &Shape<'_>) -> Vec<EventType> {
    let mut path = PATH[..BEFORE_APPROVAL].to_vec();
    if shape.approval_required {
        path.push(EventType::ApprovalRequested);
        if spine.contains(&EventType::ApprovalDenied) {
            path.push(EventType::ApprovalDenied);
        } else {
            path.extend([EventType::ApprovalGranted, EventType::ApprovalConsumed]);
        }
    }
    path.extend(&PATH[BEFORE_APPROVAL..]);
    // A run that ended early is compared as far as it came: it excuses nothing before it.
    if shape.is_measured && shape.status == RunStatus::Pass {
        path.push(EventType::BaselineCompared);
    }
    path
}

fn check_ends(events: &[EventType], faults: &mut Vec<EventFault>) {
    let (first, last) = (EventType::RunStarted, EventType::RunCompleted);
    if events.contains(&first) && events.first() != Some(&first) {
        faults.push(EventFault::new(first, EventProblem::NotFirst));
    }
    match events.last() {
        Some(EventType::RunCompleted) => {}
        Some(other) if events.contains(&last) => {
            faults.push(EventFault::with(last, EventProblem::NotLast, *other));
        }
        Some(_) | None => faults.push(EventFault::new(last, EventProblem::Missing)),
    }
}

/// Gives what stands before a recovery, with its superseded `run.completed` replaced by the last one.
fn split_recovery(shape: &Shape<'_>, faults: &mut Vec<EventFault>) -> Vec<EventType> {
    let events = shape.types;
    let recovery = EventType::RunRecovered;
    let Some(at) = events.iter().position(|e| *e == recovery) else {
        if shape.recovered {
            faults.push(EventFault::new(recovery, EventProblem::Missing));
        }
        return events.to_vec();
    };
    if !shape.recovered {
        faults.push(EventFault::new(recovery, EventProblem::NotRecovered));
    }
    let (before, after) = (&events[..at], &events[at..]);
    for event in after.iter().filter(|e| place(**e).is_some_and(|p| p < 14)) {
        faults.push(EventFault::new(*event, EventProblem::AfterRecovery));
    }
    let times = |event: EventType| after.iter().filter(|e| **e == event).count();
    for event in [EventType::RunCompleted, recovery] {
        if times(event) > 1 {
            faults.push(EventFault::new(event, EventProblem::Repeated));
        }
    }
    // A `run.completed` that stands right before the recovery was never sealed and counts no more.
    let superseded = before
        .iter()
        .rposition(|e| place(*e).is_some())
        .filter(|i| before[*i] == EventType::RunCompleted);
    let mut kept = before.to_vec();
    if let Some(i) = superseded {
        kept.remove(i);
    }
    if times(EventType::RunCompleted) > 0 {
        kept.push(EventType::RunCompleted);
    }
    kept
}

fn check_order(spine: &[EventType], faults: &mut Vec<EventFault>) {
    for pair in spine.windows(2) {
        if place(pair[0]) > place(pair[1]) {
            faults.push(EventFault::with(pair[0], EventProblem::OutOfOrder, pair[1]));
        }
    }
    let mut counted = Vec::new();
    for event in spine {
        if counted.contains(event) {
            continue;
        }
        counted.push(*event);
        if spine.iter().filter(|e| *e == event).count() > 1 {
            faults.push(EventFault::new(*event, EventProblem::Repeated));
        }
    }
}

fn check_contradictions(spine: &[EventType], is_gated: bool, faults: &mut Vec<EventFault>) {
    let has = |event: EventType| spine.contains(&event);
    let denial = EventType::ApprovalDenied;
    let last_word = match (has(denial), is_gated) {
        (true, _) => denial,
        (false, true) => EventType::BackendGateBlocked,
        (false, false) => return,
    };
    let mut exclude = |event: EventType| {
        if has(event) {
            faults.push(EventFault::with(event, EventProblem::Excluded, last_word));
        }
    };
    if last_word == denial {
        exclude(EventType::ApprovalGranted);
        exclude(EventType::ApprovalConsumed);
    }
    for event in &PATH[BEFORE_APPROVAL..] {
        exclude(*event);
    }
}

/// An approval stands only in the log of a run that needed and got one.
fn check_approval(shape: &Shape<'_>, spine: &[EventType], faults: &mut Vec<EventFault>) {
    let unasked = spine.iter().find(|e| is_approval(**e));
    if let Some(event) = unasked.filter(|_| !shape.approval_required) {
        faults.push(EventFault::new(*event, EventProblem::NotAskedFor));
    }
    let grants = [EventType::ApprovalGranted, EventType::ApprovalConsumed];
    let granted = shape.types.iter().find(|e| grants.contains(e));
    if let Some(event) = granted.filter(|_| shape.lacks_approval) {
        faults.push(EventFault::new(*event, EventProblem::WithoutApproval));
    }
}

fn check_contract_events(shape: &Shape<'_>, faults: &mut Vec<EventFault>) {
    for name in shape.contract_events {
        match name.parse::<EventType>() {
            Ok(event) if shape.types.contains(&event) => {}
            Ok(event) => faults.push(EventFault::new(event, EventProblem::RequiredMissing)),
            Err(_) => faults.push(EventFault::unknown(name)),
        }
    }
}
