//! What a run is about: a case with its own small tree, or a task on a repository.

use std::path::PathBuf;

use cto_contract::ids::CaseId;
use cto_contract::task::TaskContract;
use cto_contract::words::{Lane, Stage};

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
    /// The commit to start from; `HEAD` if none is named.
    pub rev: Option<String>,
}

impl Task {
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

    /// Refuses a stage or lane that this kind of work can never have, before a run id is given out.
    pub(crate) fn check(&self, lane: Lane, stage: Option<Stage>) -> Result<(), RunError> {
        let number = stage.map(Stage::number);
        match self {
            Self::Case(case) => {
                if let Some(stage) = stage.filter(|s| s.number() > 2) {
                    return Err(RunError::StageNeedsRepository(stage));
                }
                case.check()?;
            }
            Self::Repository(_) => {
                if lane == Lane::Fake {
                    return Err(RunError::FakeNeedsCase);
                }
                if number == Some(2) {
                    return Err(RunError::RepositoryNeedsStage);
                }
            }
        }
        Ok(())
    }
}
