//! What a backend with phases of its own wrote about them. It may turn a pass into a refusal, never the reverse.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{EventFileFault, PhaseStatus, PhaseWords, PipelinePhase, PipelineWords};
use cto_contract::text::shorten;

/// How an error begins that says that a role's answer held no result in its envelope.
const ENVELOPE: &str = "AGENT_RESULT";

/// Whether the backend's own words say how it ended, so that its exit code adds nothing: it came to the end of its phases,
/// or a role gave no result as the protocol wants it.
pub(super) fn tells_how_it_ended(words: &PipelineWords) -> bool {
    words.ended || words.phases.iter().any(is_without_envelope)
}

fn is_without_envelope(phase: &PhaseWords) -> bool {
    let error = phase.error.as_deref().unwrap_or_default();
    phase.status == PhaseStatus::Failed && error.starts_with(ENVELOPE)
}

/// What the phases say against how the backend ended: a result that is none, a phase that failed or is missing, a file that
/// can't be relied on.
pub(crate) fn phase_blockers(words: &PipelineWords) -> Vec<Blocker> {
    if let Some(phase) = words.phases.iter().find(|p| is_without_envelope(p)) {
        let error = phase.error.as_deref().unwrap_or_default();
        return vec![Blocker::new(
            BlockerCode::AgentProtocolFailed,
            phase.phase.as_str(),
            format!("{} gave no result: {}", phase.phase, shorten(error, 200)),
        )];
    }
    let failed = |subject: &str, message: String| {
        vec![Blocker::new(BlockerCode::BackendFailed, subject, message)]
    };
    if let Some(fault) = words.fault {
        let why = match fault {
            EventFileFault::Missing => "it wrote nothing about its phases",
            EventFileFault::Rewritten => "what it wrote about its phases was cut or replaced",
            EventFileFault::Unreadable => "what it wrote about its phases can't all be read",
            EventFileFault::Several => "there is more than one file about its phases",
            EventFileFault::Contradicted => {
                "what it wrote about its phases is not what its model answered"
            }
        };
        return failed(&format!("event file {fault}"), why.to_owned());
    }
    let end_of = |phase| words.phases.iter().find(|p| p.phase == phase);
    match end_of(PipelinePhase::Implement) {
        Some(end) if end.status == PhaseStatus::Completed => {}
        Some(end) => {
            let error = end.error.as_deref().unwrap_or("without a reason");
            let message = format!("implement {}: {}", end.status, shorten(error, 200));
            return failed(&format!("implement {}", end.status), message);
        }
        None => return failed("no end of implement", "implement never ended".to_owned()),
    }
    for phase in [PipelinePhase::Verify, PipelinePhase::Review] {
        if end_of(phase).is_none() {
            return failed(
                &format!("no end of {phase}"),
                format!("{phase} never ended"),
            );
        }
    }
    Vec::new()
}

/// Why the backend's own verifier or reviewer rejects the change: its status, a critical finding, a rubric that fails at the
/// last, whatever the backend made of it.
pub(super) fn rejection(words: &PipelineWords) -> Option<Blocker> {
    let judging = [PipelinePhase::Review, PipelinePhase::Verify];
    let ends = judging.into_iter().filter_map(|phase| {
        let mut phases = words.phases.iter();
        phases.find(|end| end.phase == phase && !is_without_envelope(end))
    });
    let mut reasons = ends.filter_map(|end| Some((end.phase, reason(end)?)));
    let (phase, reason) = reasons.next()?;
    Some(Blocker::new(
        BlockerCode::ReviewerRejected,
        phase.as_str(),
        format!("the backend's own {phase} rejects the change: {reason}"),
    ))
}

fn reason(end: &PhaseWords) -> Option<String> {
    if !end.is_against() {
        return None;
    }
    if end.critical > 0 {
        return Some(format!("{} critical findings", end.critical));
    }
    if !end.failed_rubrics.is_empty() {
        let names = shorten(&end.failed_rubrics.join(", "), 200);
        return Some(format!("failed: {names}"));
    }
    let error = end.error.as_deref().unwrap_or("without a reason");
    match end.status {
        PhaseStatus::Completed => None,
        PhaseStatus::Failed | PhaseStatus::Blocked => {
            Some(format!("{}, {}", end.status, shorten(error, 200)))
        }
    }
}

#[cfg(test)]
mod tests;
