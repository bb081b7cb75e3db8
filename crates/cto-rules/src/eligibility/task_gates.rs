//! Gates of the task: what its contract says, and what it is to be done on.

use cto_contract::blocker::BlockerCode;
use cto_contract::eligibility::Gate;
use cto_contract::text;
use cto_contract::words::{DirtySource, RiskClass, Stage};

use super::facts::{ApprovalState, Probe, RepositoryState, StartTree, Work};
use super::judgement::{Finding, Judgement, LaneFacts, TASK_CONTRACT, quoted, refused};
use crate::approval::{ApprovalRefusal, needs_approval};

/// Most uncommitted paths that one message names.
const DIRTY_SHOWN_MAX: usize = 20;
/// Most characters of one of them.
const DIRTY_SHOWN_CHARS: usize = 120;

pub(super) fn allowed_paths(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::AllowedPaths;
    let count = facts.asked.contract.allowed_paths.len();
    let judgement = if count > 0 {
        Judgement::Passed
    } else {
        let message = format!("`{gate}` is empty: the contract allows no path to change");
        refused(gate, BlockerCode::AllowedPathsMissing, message)
    };
    facts.given(TASK_CONTRACT, count.to_string(), judgement)
}

pub(super) fn forbidden_actions(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::ForbiddenActions;
    let unlisted = facts.asked.contract.unlisted_actions();
    if unlisted.is_empty() {
        return facts.given(TASK_CONTRACT, "all listed", Judgement::Passed);
    }
    let names: Vec<&str> = unlisted.iter().map(|action| action.as_str()).collect();
    let names = names.join(", ");
    let message = format!("`{gate}` does not list {names}, and nothing permits it");
    let missing = refused(gate, BlockerCode::ForbiddenActionsMissing, message);
    facts.given(TASK_CONTRACT, format!("not listed: {names}"), missing)
}

pub(super) fn risk_class(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::RiskClass;
    let class = facts.asked.contract.risk_class;
    let code = if class == RiskClass::Unowned {
        BlockerCode::UnownedRepository
    } else {
        BlockerCode::CriticalRepository
    };
    let judgement = if class.is_protected() {
        let message = format!("`{gate}` {class} is refused wherever it is named");
        refused(gate, code, message)
    } else {
        Judgement::Passed
    };
    facts.given(TASK_CONTRACT, class.as_str(), judgement)
}

/// The mode must be chosen, and lie within the stage.
pub(super) fn mutation_mode(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::MutationMode;
    let asked = facts.asked.contract.mutation_mode;
    let value = asked.map_or("not chosen", |mode| mode.as_str());
    let stage = facts.stage();
    if stage.stage == Stage::FIRST && !stage.is_permitted {
        // Nothing runs there, so there is nothing to choose a mode for: the stage's gate says so.
        return facts.given(TASK_CONTRACT, value, Judgement::NotRequired);
    }
    let (stage, ceiling) = (stage.stage, stage.stage.mode());
    let judgement = match asked {
        None => refused(
            gate,
            BlockerCode::StageGateMissing,
            format!("`{gate}` was not chosen explicitly"),
        ),
        Some(mode) if mode > ceiling => refused(
            gate,
            BlockerCode::StageNotProven,
            format!(
                "`{gate}` {mode} is beyond stage {stage}, which goes no further than {ceiling}"
            ),
        ),
        Some(_) => Judgement::Passed,
    };
    facts.given(TASK_CONTRACT, value, judgement)
}

pub(super) fn approval(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::Approval;
    if !needs_approval(&facts.asked.contract, facts.stage().stage) {
        return facts.given(TASK_CONTRACT, "not required", Judgement::NotRequired);
    }
    let refused_by = |refusal: &ApprovalRefusal| Judgement::Missing(refusal.blocker());
    let (value, judgement) = match &facts.asked.approval {
        ApprovalState::Granted => ("granted", Judgement::Passed),
        ApprovalState::None => (
            "missing",
            refused(
                gate,
                BlockerCode::ApprovalMissing,
                format!("`{gate}` is needed for this run and there is none"),
            ),
        ),
        ApprovalState::Refused(refusal) => ("refused", refused_by(refusal)),
    };
    facts.given(TASK_CONTRACT, value, judgement)
}

pub(super) fn repository(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::Repository;
    if facts.asked.work == Work::Case {
        return facts.given(TASK_CONTRACT, "no repository", Judgement::NotRequired);
    }
    let source = "the repository's files, read as data";
    let seen = facts.looked_up.repository.as_ref();
    Finding::looked(Probe::Repository, source, seen, |state| {
        let (why, code) = match state {
            RepositoryState::Usable => return ("usable".to_owned(), Judgement::Passed),
            RepositoryState::NotOwned(why) => (why, BlockerCode::SourceNotOwned),
            RepositoryState::Unsupported(why) => (why, BlockerCode::RepositoryUnsupported),
        };
        (why.clone(), refused(gate, code, quoted(gate, why)))
    })
}

pub(super) fn start_tree_clean(facts: &LaneFacts<'_>) -> Finding {
    let gate = Gate::StartTreeClean;
    if facts.asked.work == Work::Case {
        return facts.given(TASK_CONTRACT, "no repository", Judgement::NotRequired);
    }
    let source = "its work tree against its HEAD";
    let seen = facts.looked_up.start_tree.as_ref();
    Finding::looked(Probe::StartTree, source, seen, |tree| {
        if tree.is_clean() {
            return ("clean".to_owned(), Judgement::Passed);
        }
        let named = named(tree);
        match facts.asked.contract.dirty_source {
            DirtySource::Allowed => (
                format!("not committed, which the contract allows: {named}"),
                Judgement::Passed,
            ),
            DirtySource::Refused => {
                let message = format!("`{gate}`: the source has uncommitted changes: {named}");
                let missing = refused(gate, BlockerCode::DirtyStartingTree, message);
                (format!("not committed: {named}"), missing)
            }
        }
    })
}

/// The first paths that are not committed, and how many more there are.
fn named(tree: &StartTree) -> String {
    let shown = tree.paths.iter().take(DIRTY_SHOWN_MAX);
    let shown: Vec<String> = shown
        .map(|path| format!("`{}`", text::shorten(path, DIRTY_SHOWN_CHARS)))
        .collect();
    match tree.count - shown.len() as u64 {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}
