//! What a change lands in: a disposable repository of our own making, or the owner's.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

use cto_checkout::{BranchName, LandingError, Repository, RepositoryError, TreePath};
use cto_contract::task::BranchUpdate;
use cto_rules::landing::TargetFault;

use super::subject::Subject;
use super::{COPIED_MAX, LOOK_AGAIN, LandError, open_repository};
use crate::error_chain;
use crate::harness::Harness;

/// A repository that is about to be changed, locked against runs that copy from it.
pub(super) struct Target {
    pub(super) repository: Repository,
    /// The contract's own file, whose state does not matter.
    pub(super) left_alone: Option<TreePath>,
    _lock: Option<File>,
}

impl Target {
    /// Opens it, or says in what state it was found.
    pub(super) fn open(
        harness: &Harness,
        subject: &Subject,
        scratch: &Path,
    ) -> Result<Result<Self, TargetFault>, LandError> {
        if subject.plan.disposable.is_some() {
            return Self::disposable(harness, subject, scratch);
        }
        let opened = open_repository(&subject.repository, &scratch.join("target"));
        let repository = match opened {
            Ok(repository) => repository,
            Err(error) => return Ok(Err(not_there(&error))),
        };
        let lock = alone(harness, repository.git_directory())?;
        let left_alone = subject.contract_file.as_deref();
        let left_alone = left_alone.and_then(|file| path_in(&repository, file));
        Ok(Ok(Self {
            repository,
            left_alone,
            _lock: Some(lock),
        }))
    }

    /// Makes the disposable repository, unless it is there.
    fn disposable(
        harness: &Harness,
        subject: &Subject,
        scratch: &Path,
    ) -> Result<Result<Self, TargetFault>, LandError> {
        let place = harness.home.disposable(&subject.run_id);
        let unmade = |e: RepositoryError| LandError::Disposable(Box::new(e));
        if !place.exists() {
            let source = match open_repository(&subject.repository, &scratch.join("source")) {
                Ok(source) => source,
                Err(error) => return Ok(Err(not_there(&error))),
            };
            let commit = match source.resolve(Some(&subject.base.to_string())) {
                Ok(commit) => commit,
                Err(error) => return Ok(Err(not_there(&error))),
            };
            let write = |source| LandError::Write {
                path: place.clone(),
                source,
            };
            let above = place.parent().unwrap_or(&place);
            crate::home::make_private(above)
                .map_err(|e| write(std::io::Error::other(error_chain(&e))))?;
            let draft = place.with_extension("new");
            cto_checkout::remove_tree(&draft).map_err(|e| write(std::io::Error::other(e)))?;
            source
                .make_disposable(&commit, &checked_out_branch(subject), &draft)
                .map_err(unmade)?;
            std::fs::rename(&draft, &place)
                .and_then(|()| crate::open_run::sync_dir(above))
                .map_err(write)?;
        }
        let repository = open_repository(&place, &scratch.join("target")).map_err(unmade)?;
        Ok(Ok(Self {
            repository,
            left_alone: None,
            _lock: None,
        }))
    }

    /// Whether nothing in its work tree differs from what is committed there.
    pub(super) fn is_clean(&self) -> bool {
        let seen = self.repository.fingerprint();
        seen.is_ok_and(|seen| {
            let mut dirty = seen.dirty.iter();
            dirty.all(|dirty| Some(&dirty.path) == self.left_alone.as_ref())
        })
    }
}

/// Waits a while for runs that copy from the repository: a change of it would spoil them.
fn alone(harness: &Harness, git_directory: &Path) -> Result<File, LandError> {
    let until = Instant::now() + COPIED_MAX;
    loop {
        let locked = harness.home.lock_target_alone(git_directory);
        let locked = locked.map_err(|source| LandError::Write {
            path: harness.home.locks(),
            source,
        })?;
        match locked {
            Some(file) => return Ok(file),
            None if Instant::now() >= until => return Err(LandError::TargetBusy),
            None => std::thread::sleep(LOOK_AGAIN),
        }
    }
}

/// What is checked out in a disposable repository: the branch of the policy, or one beside it that nothing lands on.
fn checked_out_branch(subject: &Subject) -> BranchName {
    const BESIDE: [&str; 2] = ["refs/heads/cto-base", "refs/heads/cto-base-1"];
    let beside = BESIDE
        .into_iter()
        .find(|name| *name != subject.branch.as_str());
    match (subject.plan.update, beside) {
        (BranchUpdate::RefOnly, Some(name)) => {
            BranchName::parse(name).unwrap_or_else(|_| subject.branch.clone())
        }
        (BranchUpdate::CheckedOut, _) | (BranchUpdate::RefOnly, None) => subject.branch.clone(),
    }
}

fn not_there(error: &RepositoryError) -> TargetFault {
    let why = error_chain(error);
    if let RepositoryError::Unsupported { .. } = error {
        return TargetFault::Unsupported { why };
    }
    TargetFault::Gone { why }
}

/// What an error of the landing says of the target. What is the machine's fault leaves the landing open.
pub(super) fn fault_of(error: &LandingError) -> Result<TargetFault, LandError> {
    let why = || error_chain(error);
    Ok(match error {
        LandingError::Moved { .. }
        | LandingError::OtherBase { .. }
        | LandingError::SymbolicBranch { .. }
        | LandingError::BranchName { .. } => TargetFault::Moved { why: why() },
        LandingError::InUse { .. } | LandingError::NotCheckedOut { .. } => {
            TargetFault::InUse { why: why() }
        }
        LandingError::Dirty { path } => TargetFault::Dirty {
            path: path.to_string(),
        },
        LandingError::Locked { path } => TargetFault::Locked {
            what: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        },
        LandingError::Index { .. } | LandingError::NoWorkTree => {
            TargetFault::Unsupported { why: why() }
        }
        LandingError::OtherTree { .. }
        | LandingError::OtherGrant { .. }
        | LandingError::NotAsChecked { .. } => TargetFault::OtherTree { why: why() },
        LandingError::NotExact { path } => TargetFault::NotExact {
            path: path.to_string(),
        },
        LandingError::Repository(_) | LandingError::Git(_) => TargetFault::Gone { why: why() },
        LandingError::Person(_)
        | LandingError::GitDir(_)
        | LandingError::Write { .. }
        | LandingError::Remove(_)
        | LandingError::Unfinished { .. } => {
            return Err(LandError::Write {
                path: std::path::PathBuf::from("target"),
                source: std::io::Error::other(why()),
            });
        }
    })
}

/// The path of a file in the work tree, as git has it.
fn path_in(repository: &Repository, file: &Path) -> Option<TreePath> {
    let top = repository.work_tree()?.canonicalize().ok()?;
    let file = file.parent()?.canonicalize().ok()?.join(file.file_name()?);
    let inside = file.strip_prefix(top).ok()?;
    Some(TreePath::from(inside.as_os_str().as_bytes()))
}
