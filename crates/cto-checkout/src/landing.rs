//! Puts one commit on one branch of a repository, or nothing at all.
//!
//! [`prepare`] makes the commit in a git directory of ours and touches nothing of the target; its id can be recorded before
//! anything happens. [`Prepared::land`] takes the right to it by value. It can be called again after a kill at any moment:
//! whatever part was done, the rest is done, or everything is as it was before.
//!
//! Git runs with the target's own directory once, for the one reference: without hooks, and against the value that the
//! branch must have.

mod applied;
mod branches;
mod checked_out;
mod commit;
mod lock;
mod objects;
mod rollback;
mod staging;
mod tree_diff;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use cto_contract::task::BranchUpdate;
use cto_rules::landing::LandingGrant;

use crate::git::{Call, GitError};
use crate::git_dir::{GitDir, GitDirError, ObjectKind};
use crate::oid::{Oid, TreeId};
use crate::remove::RemoveError;
use crate::repository::{Repository, RepositoryError, alternates, object_id};
use crate::tree_path::TreePath;

pub use applied::{AppliedPatch, ApplyRequest, apply_to_work_tree};
pub use commit::{CommitText, Person, PersonError};
pub use rollback::{RollbackRequest, prepare_rollback};
pub use tree_diff::{PathChange, TreeEntryId};

const WALL: Duration = Duration::from_secs(300);
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// What git takes for "there is none".
const NO_ID: &str = "0000000000000000000000000000000000000000";

/// Why nothing landed. Unless it says otherwise, the target is as it was.
#[derive(Debug, thiserror::Error)]
pub enum LandingError {
    #[error("`{branch}` is no name of a branch")]
    BranchName { branch: String },
    #[error("`{branch}` moved: it is at {found} and was at {expected}")]
    Moved {
        branch: String,
        expected: String,
        found: String,
    },
    #[error("`{branch}` stands for another reference")]
    SymbolicBranch { branch: String },
    #[error("`{branch}` is in use in `{place}`")]
    InUse { branch: String, place: PathBuf },
    #[error("`{branch}` is not what is checked out")]
    NotCheckedOut { branch: String },
    #[error("the work tree is not clean: `{path}`")]
    Dirty { path: TreePath },
    #[error("another process holds `{path}`")]
    Locked { path: PathBuf },
    #[error("the index can't be written anew: {detail}")]
    Index { detail: &'static str },
    #[error("the patch gives the tree {found} and not {expected}, which was checked")]
    OtherTree { expected: TreeId, found: TreeId },
    #[error("the right to land is for the tree {granted} and not for {asked}")]
    OtherGrant { granted: String, asked: TreeId },
    #[error("HEAD is at {found}, and the patch was made for {expected}")]
    OtherBase { expected: Oid, found: String },
    #[error("the repository has no work tree")]
    NoWorkTree,
    #[error("what the patch does to `{path}` is not what was checked")]
    NotAsChecked { path: TreePath },
    #[error("the landed paths are not what they were: `{path}`")]
    NotExact { path: TreePath },
    #[error("the name or address of a person can't stand in a commit")]
    Person(#[from] PersonError),
    #[error("the target can't be read")]
    Repository(#[from] RepositoryError),
    #[error("git did not do it")]
    Git(#[from] GitError),
    #[error("could not make a git directory of our own")]
    GitDir(#[from] GitDirError),
    #[error("could not write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("could not clean up")]
    Remove(#[from] RemoveError),
    /// The reference moved and something after it failed: landing again finishes it.
    #[error("the commit {commit} is on its branch, but the work tree is not finished")]
    Unfinished { commit: Oid, source: Box<Self> },
}

impl LandingError {
    fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Write { path, source }
    }
}

/// A branch by its full name, such as `refs/heads/main`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BranchName(String);

impl BranchName {
    /// Takes a short or a full name.
    pub fn parse(name: &str) -> Result<Self, LandingError> {
        let full = match name.strip_prefix("refs/heads/") {
            Some(_) => name.to_owned(),
            None => format!("refs/heads/{name}"),
        };
        let short = full.trim_start_matches("refs/heads/");
        let is_plain = crate::repository::is_ref_name(full.as_bytes())
            && !short.is_empty()
            && !short.starts_with('-')
            && short != "HEAD"
            && full.is_ascii();
        if is_plain {
            Ok(Self(full))
        } else {
            let branch = TreePath::from(name).to_string();
            Err(LandingError::BranchName { branch })
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is to land.
#[derive(Clone, Copy, Debug)]
pub struct LandingRequest<'a> {
    /// As it was checked.
    pub patch: &'a Path,
    /// The tree that was checked.
    pub tree: TreeId,
    /// The commit that the patch was made against.
    pub base: Oid,
    pub branch: &'a BranchName,
    /// Where the branch was then; none if it was not there.
    pub expected: Option<Oid>,
    pub update: BranchUpdate,
    /// A file of the work tree whose state does not matter: the contract that the run was asked for by.
    pub left_alone: Option<&'a TreePath>,
    pub text: &'a CommitText,
}

/// A commit that is ready, and what putting it on its branch will change.
#[derive(Debug)]
pub struct Prepared {
    commit: Oid,
    parent: Oid,
    tree: TreeId,
    branch: BranchName,
    expected: Option<Oid>,
    update: BranchUpdate,
    changes: Vec<PathChange>,
    left_alone: Option<TreePath>,
    git_dir: GitDir,
}

/// What is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landed {
    pub commit: Oid,
    pub tree: TreeId,
    /// It was on its branch before this call.
    pub was_there: bool,
}

/// Says where the branch stands on which a change is to be put from `base`; an error where it could not be put there now.
pub fn foresee(
    target: &Repository,
    branch: &BranchName,
    base: Oid,
    update: BranchUpdate,
) -> Result<Option<Oid>, LandingError> {
    let found = branches::value(target, branch)?;
    if found.is_some_and(|found| found != base) {
        return Err(moved(branch, Some(base), found));
    }
    let users = branches::users(target, branch)?;
    match update {
        BranchUpdate::RefOnly => {
            if let Some(place) = users.into_iter().next() {
                let branch = branch.as_str().to_owned();
                return Err(LandingError::InUse { branch, place });
            }
        }
        BranchUpdate::CheckedOut => {
            checked_out::check_head(target, branch)?;
            let own = target.own_git_directory();
            if let Some(place) = users.into_iter().find(|place| place != own) {
                let branch = branch.as_str().to_owned();
                return Err(LandingError::InUse { branch, place });
            }
        }
    }
    Ok(found)
}

fn moved(branch: &BranchName, expected: Option<Oid>, found: Option<Oid>) -> LandingError {
    let shown = |id: Option<Oid>| id.map_or_else(|| "no commit".to_owned(), |id| id.to_string());
    LandingError::Moved {
        branch: branch.as_str().to_owned(),
        expected: shown(expected),
        found: shown(found),
    }
}

/// Makes the commit in `scratch`, which must not exist yet. The same request gives the same commit. Nothing of the target
/// is touched.
pub fn prepare(
    target: &Repository,
    request: &LandingRequest<'_>,
    scratch: &Path,
) -> Result<Prepared, LandingError> {
    let base = target.resolve(Some(&request.base.to_string()))?;
    let git_dir = borrowing(target, scratch)?;
    tree_diff::read_tree(&git_dir, base.tree)?;
    apply_to_index(&git_dir, request.patch)?;
    let found = tree_diff::write_tree(&git_dir)?;
    if found != request.tree {
        let expected = request.tree;
        return Err(LandingError::OtherTree { expected, found });
    }
    let changes = tree_diff::between(&git_dir, base.tree, found)?;
    Prepared::new(git_dir, found, changes, request.base, request)
}

impl Prepared {
    fn new(
        git_dir: GitDir,
        tree: TreeId,
        changes: Vec<PathChange>,
        parent: Oid,
        request: &LandingRequest<'_>,
    ) -> Result<Self, LandingError> {
        let content = request.text.object(tree, parent);
        let commit = object_id(ObjectKind::Commit, &content);
        git_dir.write_object(ObjectKind::Commit, &commit, &content)?;
        Ok(Self {
            commit,
            parent,
            tree,
            branch: request.branch.clone(),
            expected: request.expected,
            update: request.update,
            changes,
            left_alone: request.left_alone.cloned(),
            git_dir,
        })
    }

    /// The commit that will stand on the branch.
    pub const fn commit(&self) -> Oid {
        self.commit
    }

    pub const fn tree(&self) -> TreeId {
        self.tree
    }

    /// The commit that it stands on.
    pub const fn parent(&self) -> Oid {
        self.parent
    }

    /// The paths that will change, with what they are before and after.
    pub fn changes(&self) -> &[PathChange] {
        &self.changes
    }

    /// Puts the commit on its branch. The right to it is spent, whatever comes of it.
    pub fn land(&self, target: &Repository, grant: LandingGrant) -> Result<Landed, LandingError> {
        if grant.tree().as_str() != self.tree.to_string() {
            return Err(LandingError::OtherGrant {
                granted: grant.tree().as_str().to_owned(),
                asked: self.tree,
            });
        }
        drop(grant);
        let lock = lock::LandingLock::take(target)?;
        let landed = match self.update {
            BranchUpdate::RefOnly => self.land_ref_only(target),
            BranchUpdate::CheckedOut => checked_out::land(self, target),
        };
        lock.release();
        landed
    }

    fn land_ref_only(&self, target: &Repository) -> Result<Landed, LandingError> {
        if self.is_landed(target)? {
            return Ok(self.landed(true));
        }
        if let Some(place) = branches::users(target, &self.branch)?.into_iter().next() {
            let branch = self.branch.as_str().to_owned();
            return Err(LandingError::InUse { branch, place });
        }
        objects::move_in(&self.git_dir, target)?;
        self.move_branch(target)?;
        Ok(self.landed(false))
    }

    fn landed(&self, was_there: bool) -> Landed {
        Landed {
            commit: self.commit,
            tree: self.tree,
            was_there,
        }
    }

    /// Whether the branch is at the commit already; an error where it is anywhere else than it was.
    fn is_landed(&self, target: &Repository) -> Result<bool, LandingError> {
        let found = branches::value(target, &self.branch)?;
        if found == Some(self.commit) {
            return Ok(true);
        }
        if found != self.expected {
            return Err(self.moved(found));
        }
        Ok(false)
    }

    fn moved(&self, found: Option<Oid>) -> LandingError {
        moved(&self.branch, self.expected, found)
    }

    /// Moves the reference, if it is where it was.
    fn move_branch(&self, target: &Repository) -> Result<(), LandingError> {
        let expected = self.expected.map(|id| id.to_string());
        let call = Call {
            verb: "update-ref",
            arguments: [
                "-m",
                "cto: landed a checked change",
                "--no-deref",
                self.branch.as_str(),
                &self.commit.to_string(),
                expected.as_deref().unwrap_or(NO_ID),
            ]
            .map(str::to_owned)
            .into(),
            git_dir: target.git_directory(),
            work_tree: None,
            wall: WALL,
            output_bytes_max: ANSWER_BYTES_MAX,
        };
        let finished = call.run(Stdio::null(), &mut io::sink());
        let done = finished.and_then(|finished| call.expect_success(finished, &[]));
        let Err(error) = done else { return Ok(()) };
        // Why it failed is read from the target, not from what git says.
        let found = branches::value(target, &self.branch)?;
        if found == Some(self.commit) {
            return Ok(());
        }
        if found != self.expected {
            return Err(self.moved(found));
        }
        let lock = format!("{}.lock", self.branch.as_str());
        let lock = target.git_directory().join(lock);
        if lock.exists() {
            return Err(LandingError::Locked { path: lock });
        }
        Err(error.into())
    }
}

/// A git directory of ours that sees the target's objects and writes its own.
fn borrowing(target: &Repository, scratch: &Path) -> Result<GitDir, LandingError> {
    let git_dir = GitDir::create(scratch)?;
    let objects = target.git_directory().join("objects");
    let objects = alternates::object_directories(&objects)?;
    let listed = alternates::encode(objects.iter().map(PathBuf::as_path));
    git_dir.replace("objects/info/alternates", &listed)?;
    Ok(git_dir)
}

/// Applies the patch to the index of our git directory; an empty one changes nothing.
fn apply_to_index(git_dir: &GitDir, patch: &Path) -> Result<(), LandingError> {
    let file = std::fs::File::open(patch).map_err(RepositoryError::read(patch))?;
    let length = file.metadata().map_err(RepositoryError::read(patch))?.len();
    if length == 0 {
        return Ok(());
    }
    let arguments = ["--cached", "--whitespace=nowarn", "-p1", "-"];
    let call = tree_diff::call("apply", &arguments, git_dir);
    let finished = call.run(file.into(), &mut io::sink())?;
    Ok(call.expect_success(finished, &[])?)
}
