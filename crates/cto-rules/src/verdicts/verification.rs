//! The checks: what is checked at all, and what checking came to.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{BackendFinished, ReviewVerdict, VerificationCompleted};
use cto_contract::ids::TreeId;
use cto_contract::task::TaskContract;
use cto_contract::text::shorten;
use cto_contract::verification::{CommandResult, Verification};

use super::pipeline;
use crate::checks::judge;
use crate::lifecycle::RunState;

/// Why nothing was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotChecked {
    /// The change is refused, so its code is not run.
    ChangeRefused,
    /// The contract says why it has no command: shown, and not held against the change.
    Rationale(String),
    /// The contract names no command and gives no reason.
    NoCommand,
    /// A stop was asked for while the checks ran: how they ended says nothing.
    Stopped,
}

impl NotChecked {
    /// The sentence of `test.log` and of the report.
    pub fn sentence(&self) -> String {
        match self {
            Self::ChangeRefused => {
                "the change is not acceptable, so its code was not run".to_owned()
            }
            Self::Rationale(why) => format!("not verified by tests: {}", shorten(why, 400)),
            Self::NoCommand => "no verification command was available".to_owned(),
            Self::Stopped => "a stop was asked for while the checks ran".to_owned(),
        }
    }

    fn is_acceptable(&self) -> bool {
        match self {
            Self::Rationale(_) => true,
            Self::ChangeRefused | Self::NoCommand | Self::Stopped => false,
        }
    }
}

/// Whether there is nothing to check, from the log so far.
pub fn nothing_to_check(state: &RunState, contract: &TaskContract) -> Option<NotChecked> {
    let is_taken = state
        .patch
        .as_ref()
        .is_some_and(|p| p.blockers.is_empty() && p.applied_tree_id.is_some());
    let is_allowed = state.diff.as_ref().is_some_and(|d| d.blockers.is_empty());
    if !(is_taken && is_allowed) {
        return Some(NotChecked::ChangeRefused);
    }
    match (
        contract.verification_commands.is_empty(),
        &contract.no_test_rationale,
    ) {
        (false, _) => None,
        (true, Some(why)) => Some(NotChecked::Rationale(why.clone())),
        (true, None) => Some(NotChecked::NoCommand),
    }
}

/// The event of checks that did not take place, or do not count.
pub fn not_checked(
    state: &RunState,
    why: &NotChecked,
    baseline: Vec<CommandResult>,
) -> VerificationCompleted {
    let sentence = why.sentence();
    let missing = (*why == NotChecked::NoCommand).then(|| {
        Blocker::new(
            BlockerCode::MissingTestCommand,
            "verification_commands",
            "verification is required and the contract names no command",
        )
    });
    let rejected = match why {
        NotChecked::Stopped => None,
        NotChecked::ChangeRefused | NotChecked::Rationale(_) | NotChecked::NoCommand => {
            rejection(state.backend.as_ref())
        }
    };
    VerificationCompleted {
        verification: Verification::not_run(&sentence, baseline),
        verified_tree_id: applied_tree(state).filter(|_| why.is_acceptable()).cloned(),
        dirty_paths: Vec::new(),
        blockers: missing.into_iter().chain(rejected).collect(),
    }
}

/// What the checks showed.
#[derive(Debug, Clone)]
pub struct CheckFacts {
    pub baseline: Vec<CommandResult>,
    /// Each with the test that was planted for it.
    pub after: Vec<CommandResult>,
    /// Of the tree that was checked.
    pub tree_id: TreeId,
    /// What the checks changed in it, bounded.
    pub dirty_paths: Vec<String>,
}

/// The event of checks that took place.
pub fn checked(
    state: &RunState,
    contract: &TaskContract,
    facts: CheckFacts,
) -> VerificationCompleted {
    let judgement = judge(contract, facts.baseline, facts.after);
    let beside = beside_checks(state, &facts.tree_id, &facts.dirty_paths);
    VerificationCompleted {
        verification: judgement.verification,
        verified_tree_id: Some(facts.tree_id),
        dirty_paths: facts.dirty_paths,
        blockers: judgement.blockers.into_iter().chain(beside).collect(),
    }
}

/// The blockers that recorded checks give when they are judged again; none where no check ran.
pub fn checks_again(
    state: &RunState,
    contract: &TaskContract,
    recorded: &VerificationCompleted,
) -> Option<Vec<Blocker>> {
    let tree_id = recorded.verified_tree_id.as_ref()?;
    if recorded.verification.not_run.is_some() {
        return None;
    }
    let beside = beside_checks(state, tree_id, &recorded.dirty_paths);
    let (baseline, commands) = (
        recorded.verification.baseline.clone(),
        recorded.verification.commands.clone(),
    );
    let flaws = judge(contract, baseline, commands).blockers;
    Some(flaws.into_iter().chain(beside).collect())
}

/// What speaks against a change beside the results of its checks.
fn beside_checks(state: &RunState, tree_id: &TreeId, dirty_paths: &[String]) -> Vec<Blocker> {
    let dirty = dirty_paths.first().map(|first| {
        Blocker::new(
            BlockerCode::DirtyEndingTree,
            first.as_str(),
            format!(
                "the checks changed: {}",
                shorten(&dirty_paths.join(", "), 400)
            ),
        )
    });
    let other_tree = (applied_tree(state) != Some(tree_id)).then(|| {
        Blocker::new(
            BlockerCode::VerifiedTreeMismatch,
            tree_id.as_str(),
            format!("tree {tree_id} was checked, not the patch's"),
        )
    });
    rejection(state.backend.as_ref())
        .into_iter()
        .chain(dirty)
        .chain(other_tree)
        .collect()
}

fn applied_tree(state: &RunState) -> Option<&TreeId> {
    state.patch.as_ref()?.applied_tree_id.as_ref()
}

/// The backend's own reviewer counts for nothing but a rejection.
fn rejection(backend: Option<&BackendFinished>) -> Option<Blocker> {
    let backend = backend?;
    if let Some(phases) = &backend.pipeline {
        return pipeline::rejection(phases);
    }
    let words = backend.agent.as_ref()?;
    if words.review != Some(ReviewVerdict::Reject) {
        return None;
    }
    let note = words.review_note.as_deref().unwrap_or("without a reason");
    Some(Blocker::new(
        BlockerCode::ReviewerRejected,
        "review",
        format!(
            "the backend's reviewer rejects the change: {}",
            shorten(note, 400)
        ),
    ))
}
