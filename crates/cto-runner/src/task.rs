//! What a run is about: a case with its own small tree, or a task on a repository.

use std::path::PathBuf;

use cto_contract::ids::{CaseId, Digest};
use cto_contract::task::TaskContract;
use cto_contract::words::{Lane, Stage};
use cto_rules::eligibility::Work;

use crate::cases::Case;
use crate::harness::RunError;

/// The work that is asked for.
#[derive(Debug, Clone)]
pub enum Task {
    Case(Case),
    Repository(RepositoryTask),
}

/// A task contract and the repository that it is copied from.
#[derive(Debug, Clone)]
pub struct RepositoryTask {
    /// A directory in the repository.
    pub path: PathBuf,
    pub contract: TaskContract,
    /// The file that the contract was read from, whose own state does not matter.
    pub contract_file: Option<PathBuf>,
    /// The commit to start from; `HEAD` if none is named.
    pub rev: Option<String>,
}

impl Task {
    /// What it is done on, as the rules see it.
    pub(crate) fn work(&self) -> Work {
        match self {
            Self::Case(_) => Work::Case,
            Self::Repository(_) => Work::Repository,
        }
    }

    pub fn id(&self) -> &CaseId {
        match self {
            Self::Case(case) => &case.file.id,
            Self::Repository(task) => &task.contract.task_id,
        }
    }

    pub fn contract(&self) -> TaskContract {
        match self {
            Self::Case(case) => case.file.contract(),
            Self::Repository(task) => task.contract.clone(),
        }
    }

    /// What names its source repository in the index.
    pub(crate) fn repository_key(&self) -> Option<Digest> {
        match self {
            Self::Case(_) => None,
            Self::Repository(task) => crate::requests::repository_key(&task.path),
        }
    }

    /// Refuses a stage or lane that this kind of work can never have, before a run id is given out.
    pub(crate) fn check(&self, lane: Lane, stage: Stage) -> Result<(), RunError> {
        match self {
            Self::Case(case) => {
                if stage > Stage::FIXTURE {
                    return Err(RunError::StageNeedsRepository(stage));
                }
                case.check()?;
            }
            Self::Repository(_) => {
                if lane == Lane::Fake {
                    return Err(RunError::FakeNeedsCase);
                }
                if stage == Stage::FIXTURE {
                    return Err(RunError::RepositoryNeedsStage);
                }
            }
        }
        Ok(())
    }
}
