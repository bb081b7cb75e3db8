//! How a backend ended, and what it left changed that was not its own.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{AgentWords, BackendFinished, BackendStop, SaidEnd, Step};
use cto_contract::text::{one_line, shorten};
use cto_contract::words::Lane;

use super::{Fault, fault, pipeline, provider_fault};
use crate::lifecycle::RunState;

/// Longest message with an agent's own words in it.
const MESSAGE_CHARS: usize = 400;

/// Judges how the backend ended: its exit code and its words are no evidence for success, but a bad end is a failure.
pub(crate) fn backend_blockers(state: &RunState) -> Vec<Blocker> {
    let Some(end) = &state.backend else {
        return Vec::new();
    };
    let lane = state.lane;
    if let Some(why) = &end.start_failure {
        return vec![Blocker::new(
            BlockerCode::ProviderUnavailable,
            lane.as_str(),
            format!("the {lane} backend could not be started: {why}"),
        )];
    }
    let mut found = Vec::new();
    if let Some(blocker) = provider_fault(end) {
        // However it ended then, the cause was not its own.
        found.push(blocker);
    } else if end.timed_out {
        let has_valid_patch = state
            .diff
            .as_ref()
            .is_some_and(|d| d.blockers.is_empty() && !d.changed_files.is_empty());
        let code = if has_valid_patch {
            BlockerCode::LifecycleTimeoutAfterValidPatch
        } else {
            BlockerCode::Timeout
        };
        found.push(Blocker::new(
            code,
            "backend",
            format!(
                "the {lane} backend was over its wall clock after {:.1} s",
                end.seconds
            ),
        ));
    } else if let Some(BackendStop::Finished | BackendStop::Lingering | BackendStop::Budget) =
        end.stopped_by
    {
        // It had finished, or a limit that is named elsewhere ended it: how it was ended then says nothing about it.
    } else if end.stopped_by == Some(BackendStop::InputUnread) {
        found.push(Blocker::new(
            BlockerCode::BackendFailed,
            "unread input",
            format!("the {lane} backend did not read what it was told"),
        ));
    } else if let Some(signal) = end.signal {
        found.push(Blocker::new(
            BlockerCode::BackendFailed,
            format!("signal {signal}"),
            format!("the {lane} backend was ended by signal {signal}"),
        ));
    } else if matches!(end.exit_code, Some(0 | 1))
        && end
            .pipeline
            .as_ref()
            .is_some_and(pipeline::tells_how_it_ended)
    {
        // One build ends with 1 where a role failed, another with 0: what its phases say is told below.
    } else if end.exit_code != Some(0) {
        let code = end
            .exit_code
            .map_or_else(|| "unknown".to_owned(), |c| c.to_string());
        let failure = end.agent.as_ref().and_then(|words| words.failure.as_ref());
        let says = failure.map_or_else(String::new, |why| format!(": {}", one_line(why)));
        found.push(Blocker::new(
            BlockerCode::BackendFailed,
            format!("exit code {code}"),
            shorten(
                &format!("the {lane} backend ended with exit code {code}{says}"),
                MESSAGE_CHARS,
            ),
        ));
    }
    if found.is_empty()
        && let Some(words) = &end.agent
    {
        found.extend(said_end(lane, words));
    }
    if found.is_empty()
        && let Some(words) = &end.pipeline
    {
        found.extend(pipeline::phase_blockers(words));
    }
    if !end.no_survivors {
        found.push(Blocker::new(
            BlockerCode::SandboxUnavailable,
            "survivors",
            "it could not be shown that nothing of the backend survived",
        ));
    }
    found
}

/// Judges what a program says of its own end: it may speak against itself, never for itself.
fn said_end(lane: Lane, words: &AgentWords) -> Option<Blocker> {
    let (subject, message) = match words.end? {
        SaidEnd::Done => return None,
        SaidEnd::Failed => {
            let why = words.failure.as_deref().unwrap_or("it does not say why");
            let why = one_line(why);
            (
                "failure of its own",
                format!("the {lane} backend says that it failed: {why}"),
            )
        }
        SaidEnd::Unsaid => (
            "no word about its end",
            format!(
                "the {lane} backend was over without its end signal, so it may have been cut off"
            ),
        ),
    };
    let message = shorten(&message, MESSAGE_CHARS);
    Some(Blocker::new(BlockerCode::BackendFailed, subject, message))
}

/// Judges what a backend left changed that was not its own, however it ended.
pub(crate) fn left_behind(end: &BackendFinished) -> Vec<Blocker> {
    let mut found = Vec::new();
    if end.program_replaced {
        found.push(fault(Step::Backend, &Fault::ProgramReplaced));
    }
    let Some(roots) = &end.protected_roots else {
        return found;
    };
    if let Some(why) = &roots.unreadable {
        let why = why.clone();
        found.push(fault(
            Step::Backend,
            &Fault::ProtectedRootsUnreadable { why },
        ));
    }
    if roots.changed > 0 {
        found.push(Blocker::new(
            BlockerCode::ProtectedRootMutated,
            roots.names.first().map_or("", String::as_str),
            format!(
                "{} paths of a protected root changed while the backend ran: {}",
                roots.changed,
                shorten(&roots.names.join(", "), 300)
            ),
        ));
    }
    found
}
