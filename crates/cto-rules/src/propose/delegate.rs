//! The contract of a task that is given in one sentence: proposed from the project, bounded by what was said.

use cto_contract::ids::CaseId;
use cto_contract::path::PathPattern;
use cto_contract::task::{TaskContract, VerificationCommand};
use cto_contract::text::{one_line, shorten};
use cto_contract::words::{Lane, MutationMode, NetworkClass, RiskClass, Stage};

use super::languages;

/// Longest title.
const TITLE_CHARS_MAX: usize = 72;
/// Longest id of a task.
const ID_CHARS_MAX: usize = 48;

/// What was said of the task.
#[derive(Debug, Clone, Copy)]
pub struct Delegated<'a> {
    pub task: &'a str,
    /// Instead of the paths that the project's files suggest.
    pub allow: &'a [PathPattern],
    /// Instead of the checks that the project's files suggest.
    pub verify: &'a [String],
    pub lane: Lane,
    pub stage: Stage,
}

/// Why there is no contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DelegateFault {
    #[error("the task is empty")]
    NoTask,
    #[error("nothing says which paths may change")]
    NoPaths,
    #[error("nothing says how the change is checked")]
    NoChecks,
}

/// Bounds the proposed contract by what was said. Nothing of it is looser than what a contract file would have to say.
pub fn delegate(
    proposed: TaskContract,
    said: Delegated<'_>,
) -> Result<TaskContract, DelegateFault> {
    let task = said.task.trim();
    if task.is_empty() {
        return Err(DelegateFault::NoTask);
    }
    let allowed_paths = match said.allow {
        [] => proposed.allowed_paths,
        named => named.to_vec(),
    };
    if allowed_paths.is_empty() {
        return Err(DelegateFault::NoPaths);
    }
    let verification_commands: Vec<VerificationCommand> = match said.verify {
        [] => proposed.verification_commands,
        named => named.iter().map(|run| languages::plain(run)).collect(),
    };
    if verification_commands.is_empty() {
        return Err(DelegateFault::NoChecks);
    }
    let first = task.lines().next().unwrap_or(task);
    let (risk_class, mutation_mode) = match said.stage.mode() {
        mode @ (MutationMode::None | MutationMode::CopiedFixture) => (RiskClass::Copied, mode),
        mode @ MutationMode::SandboxRepo => (RiskClass::Disposable, mode),
        mode @ (MutationMode::OwnedNoncriticalRepo | MutationMode::CandidateDefault) => {
            (RiskClass::LowRiskNoncritical, mode)
        }
    };
    Ok(TaskContract {
        task_id: task_id(first).unwrap_or(proposed.task_id),
        title: shorten(&one_line(first), TITLE_CHARS_MAX),
        instruction: format!("{task}\n"),
        risk_class,
        mutation_mode: Some(mutation_mode),
        allowed_paths,
        verification_commands,
        network: match said.lane {
            Lane::Fake | Lane::Command => NetworkClass::None,
            Lane::Case | Lane::Codex | Lane::Pi | Lane::Claude | Lane::Acp => NetworkClass::Model,
        },
        ..proposed
    })
}

/// The first words as an id; none where nothing of them can be used.
fn task_id(text: &str) -> Option<CaseId> {
    let mut slug = String::new();
    for c in text.chars().map(|c| c.to_ascii_lowercase()) {
        if slug.len() == ID_CHARS_MAX {
            break;
        }
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::ProjectFacts;
    use crate::propose::propose;
    use proptest::prelude::*;

    fn said<'a>(task: &'a str, allow: &'a [PathPattern], verify: &'a [String]) -> Delegated<'a> {
        Delegated {
            task,
            allow,
            verify,
            lane: Lane::Command,
            stage: Stage::COPIED_REPOSITORY,
        }
    }

    fn proposed() -> TaskContract {
        propose(&ProjectFacts::default()).contract
    }

    #[test]
    fn a_task_needs_words_paths_and_checks() {
        let (paths, checks) = (["a.txt".parse().unwrap()], ["make test".to_owned()]);
        let fault = |s| delegate(proposed(), s).unwrap_err();
        assert_eq!(fault(said(" \n", &paths, &checks)), DelegateFault::NoTask);
        assert_eq!(fault(said("x", &[], &checks)), DelegateFault::NoPaths);
        assert_eq!(fault(said("x", &paths, &[])), DelegateFault::NoChecks);
        let made = delegate(proposed(), said("Mend it!\nNow.", &paths, &checks)).unwrap();
        assert_eq!(made.task_id.as_str(), "mend-it");
        assert_eq!(made.title, "Mend it!");
        assert_eq!(made.instruction, "Mend it!\nNow.\n");
        assert!(made.unlisted_actions().is_empty());
        assert_eq!(made.mutation_mode, Some(MutationMode::CopiedFixture));
    }

    proptest! {
        #[test]
        fn any_text_gives_an_id_or_keeps_the_proposed_one(task in "\\PC{1,80}") {
            let (paths, checks) = (["a.txt".parse().unwrap()], ["true".to_owned()]);
            if let Ok(made) = delegate(proposed(), said(&task, &paths, &checks)) {
                prop_assert!(made.task_id.as_str().len() <= 64);
            }
        }
    }
}
