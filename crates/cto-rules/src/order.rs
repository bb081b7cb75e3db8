//! The order of events that a pack must show, as a function of the types in its log.
//!
//! Answers are sentences, one for each thing that is absent or out of place. An empty answer means that the log has
//! the shape of its ending: a pass needs everything, an ending with blockers needs what came before it without a gap.
//!
//! A run that ended because of such a sentence carries `missing_required_event`, and its log still lacks the event:
//! readers must take that blocker together with this answer.

#[cfg(test)]
mod tests;

use cto_contract::blocker::BlockerCode;
use cto_contract::event::{EventKind, EventType};
use cto_contract::words::RunStatus;

/// How the log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// The status in the last `run.completed`.
    pub status: RunStatus,
    /// The run was closed by a recovery.
    pub recovered: bool,
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
        EventType::RunRecovered => 13,
        EventType::RunCompleted => 14,
        EventType::SetupCompleted
        | EventType::SourceChecked
        | EventType::BackendPlan
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

/// Says what is absent or out of order, the final `run.completed` included. `extra` are types that the contract wants.
pub fn missing_events(events: &[EventType], extra: &[String], ending: Ending) -> Vec<String> {
    let approval = if events.iter().any(|e| is_approval(*e)) {
        Approval::Seen
    } else {
        Approval::NotNeeded
    };
    judge(events, extra, ending, approval)
}

/// The same for a whole log, which also knows whether an approval was needed. Empty logs lack everything.
pub fn missing_in_log<'a>(log: impl IntoIterator<Item = &'a EventKind>) -> Vec<String> {
    let mut types = Vec::new();
    let mut extra: &[String] = &[];
    let mut approval = Approval::NotNeeded;
    let mut lacks_approval = false;
    let mut ending = Ending {
        status: RunStatus::Pass,
        recovered: false,
    };
    for kind in log {
        types.push(kind.event_type());
        if let EventKind::TaskContractCreated(data) = kind {
            extra = &data.contract.evidence_expectations.required_events;
        }
        if let EventKind::EligibilityDecided(data) = kind
            && data.decision.approval_required
        {
            approval = Approval::Needed;
        }
        if let EventKind::RunCompleted(data) = kind {
            ending.status = data.status;
            lacks_approval = data
                .blockers
                .iter()
                .any(|b| b.code == BlockerCode::ApprovalMissing);
        }
        ending.recovered |= kind.event_type() == EventType::RunRecovered;
    }
    if approval == Approval::NotNeeded && types.iter().any(|e| is_approval(*e)) {
        approval = Approval::Unasked;
    }
    let mut found = judge(&types, extra, ending, approval);
    let grants = [EventType::ApprovalGranted, EventType::ApprovalConsumed];
    if lacks_approval && let Some(event) = types.iter().find(|e| grants.contains(e)) {
        found.push(format!(
            "`{event}` stands in the log of a run that had no approval"
        ));
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approval {
    NotNeeded,
    /// Its events are there, so all of them must be.
    Seen,
    Needed,
    /// Its events are there although the decision did not ask for one.
    Unasked,
}

fn is_approval(event: EventType) -> bool {
    place(event).is_some_and(|p| (4..=6).contains(&p))
}

fn judge(
    events: &[EventType],
    extra: &[String],
    ending: Ending,
    approval: Approval,
) -> Vec<String> {
    let mut found = Vec::new();
    check_ends(events, &mut found);
    let before_recovery = split_recovery(events, ending, &mut found);
    let spine: Vec<EventType> = before_recovery
        .iter()
        .copied()
        .filter(|e| place(*e).is_some())
        .collect();
    check_order(&spine, &mut found);
    let gated = spine.contains(&EventType::BackendGateBlocked);
    check_contradictions(&spine, gated, &mut found);
    if approval == Approval::Unasked {
        found.push("the log has approval events although no approval was required".to_owned());
    }
    let has = |event: EventType| spine.contains(&event);
    let is_cut = if gated && ending.status != RunStatus::Pass {
        // Its approval may be anywhere, and its plan may have been made.
        found.extend(
            BLOCKED_PATH
                .iter()
                .filter(|e| !spine.contains(e))
                .map(|e| missing(*e)),
        );
        true
    } else {
        require_path(&spine, ending, approval, &mut found)
    };
    // Nobody can expect more of a run that stopped early than the beginning of its path.
    if ending.status == RunStatus::Pass
        || (has(EventType::VerificationCompleted) && !is_cut && !ending.recovered)
    {
        check_extra(events, extra, &mut found);
    }
    found
}

fn missing(event: EventType) -> String {
    format!("`{event}` is missing")
}

fn check_ends(events: &[EventType], found: &mut Vec<String>) {
    if events.contains(&EventType::RunStarted) && events.first() != Some(&EventType::RunStarted) {
        found.push(format!(
            "`{}` is not the first event",
            EventType::RunStarted
        ));
    }
    match events.last() {
        Some(EventType::RunCompleted) => {}
        Some(last) if events.contains(&EventType::RunCompleted) => {
            found.push(format!(
                "`{}` is not the last event: `{last}` follows it",
                EventType::RunCompleted
            ));
        }
        Some(_) | None => found.push(missing(EventType::RunCompleted)),
    }
}

/// Gives what stands before a recovery, with its superseded `run.completed` replaced by the last one.
fn split_recovery(events: &[EventType], ending: Ending, found: &mut Vec<String>) -> Vec<EventType> {
    let Some(at) = events.iter().position(|e| *e == EventType::RunRecovered) else {
        if ending.recovered {
            found.push(missing(EventType::RunRecovered));
        }
        return events.to_vec();
    };
    if !ending.recovered {
        found.push(format!(
            "`{}` stands in a log that was not recovered",
            EventType::RunRecovered
        ));
    }
    let (before, after) = (&events[..at], &events[at..]);
    for event in after.iter().filter(|e| place(**e).is_some_and(|p| p < 13)) {
        found.push(format!(
            "`{event}` comes after `{}`",
            EventType::RunRecovered
        ));
    }
    let closed = after
        .iter()
        .filter(|e| **e == EventType::RunCompleted)
        .count();
    if closed > 1 {
        found.push(format!(
            "`{}` occurs {closed} times after the recovery",
            EventType::RunCompleted
        ));
    }
    let times = after
        .iter()
        .filter(|e| **e == EventType::RunRecovered)
        .count();
    if times > 1 {
        found.push(format!(
            "`{}` occurs {times} times",
            EventType::RunRecovered
        ));
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
    if closed > 0 {
        kept.push(EventType::RunCompleted);
    }
    kept
}

fn check_order(spine: &[EventType], found: &mut Vec<String>) {
    for pair in spine.windows(2) {
        if place(pair[0]) > place(pair[1]) {
            found.push(format!("`{}` comes before `{}`", pair[0], pair[1]));
        }
    }
    let mut counted = Vec::new();
    for event in spine {
        if counted.contains(event) {
            continue;
        }
        counted.push(*event);
        let times = spine.iter().filter(|e| *e == event).count();
        if times > 1 {
            found.push(format!("`{event}` occurs {times} times"));
        }
    }
}

fn check_contradictions(spine: &[EventType], gated: bool, found: &mut Vec<String>) {
    let has = |event: EventType| spine.contains(&event);
    let denied = has(EventType::ApprovalDenied);
    if denied && has(EventType::ApprovalGranted) {
        found.push("the approval was both granted and denied".to_owned());
    }
    let last_word = if denied {
        Some(EventType::ApprovalDenied)
    } else {
        gated.then_some(EventType::BackendGateBlocked)
    };
    let Some(last_word) = last_word else { return };
    if denied && has(EventType::ApprovalConsumed) {
        found.push(format!(
            "`{}` stands in a log with `{last_word}`",
            EventType::ApprovalConsumed
        ));
    }
    for event in &PATH[BEFORE_APPROVAL..] {
        if has(*event) {
            found.push(format!("`{event}` stands in a log with `{last_word}`"));
        }
    }
}

/// Asks for the path: whole for a pass, without a gap for any other ending. Returns whether it was cut short.
fn require_path(
    spine: &[EventType],
    ending: Ending,
    approval: Approval,
    found: &mut Vec<String>,
) -> bool {
    let decision = if spine.contains(&EventType::ApprovalDenied) {
        EventType::ApprovalDenied
    } else {
        EventType::ApprovalGranted
    };
    let mut path = PATH[..BEFORE_APPROVAL].to_vec();
    if matches!(approval, Approval::Seen | Approval::Needed) {
        path.extend([EventType::ApprovalRequested, decision]);
        if decision == EventType::ApprovalGranted {
            path.push(EventType::ApprovalConsumed);
        }
    }
    path.extend(&PATH[BEFORE_APPROVAL..]);
    if ending.status == RunStatus::Pass {
        if decision == EventType::ApprovalDenied {
            found.push(format!(
                "a pass cannot have `{}`",
                EventType::ApprovalDenied
            ));
        }
        if spine.contains(&EventType::BackendGateBlocked) {
            found.push(format!(
                "a pass cannot have `{}`",
                EventType::BackendGateBlocked
            ));
        }
        found.extend(
            path.iter()
                .filter(|e| !spine.contains(e))
                .map(|e| missing(*e)),
        );
        return false;
    }
    // The first event is never excused: without it there is no run.
    let reached = path.iter().rposition(|e| spine.contains(e)).unwrap_or(0);
    found.extend(
        path[..=reached]
            .iter()
            .filter(|e| !spine.contains(e))
            .map(|e| missing(*e)),
    );
    reached + 1 < path.len()
}

fn check_extra(events: &[EventType], extra: &[String], found: &mut Vec<String>) {
    for name in extra {
        match name.parse::<EventType>() {
            Ok(event) if events.contains(&event) => {}
            Ok(event) => found.push(format!(
                "`{event}`, which the contract requires, is missing"
            )),
            Err(_) => {
                let shown = cto_contract::text::shorten(name, 60);
                found.push(format!(
                    "`{shown}`, which the contract requires, is missing and is no known event type"
                ));
            }
        }
    }
}
