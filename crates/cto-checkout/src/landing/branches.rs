//! Where a branch is, and who works on it.

use std::path::PathBuf;

use super::{BranchName, LandingError};
use crate::oid::Oid;
use crate::repository::{GitFiles, RefAt, Repository, RepositoryError};

const STATE_BYTES_MAX: u64 = 1 << 20;
/// Files of a work tree's git directory that name a branch while something is under way on it.
const UNDER_WAY: [&str; 4] = [
    "rebase-merge/head-name",
    "rebase-apply/head-name",
    "rebase-merge/update-refs",
    "BISECT_START",
];

/// Where the branch is now; none if it is not there.
pub(super) fn value(target: &Repository, branch: &BranchName) -> Result<Option<Oid>, LandingError> {
    match target.reference_at(branch.as_str())? {
        RefAt::None => Ok(None),
        RefAt::Id(id) => Ok(Some(id)),
        RefAt::Symbolic => {
            let branch = branch.as_str().to_owned();
            Err(LandingError::SymbolicBranch { branch })
        }
    }
}

/// The git directories of all work trees in which the branch is checked out, or under way.
pub(super) fn users(
    target: &Repository,
    branch: &BranchName,
) -> Result<Vec<PathBuf>, LandingError> {
    let mut users = Vec::new();
    for git_dir in target.work_tree_git_dirs()? {
        if uses(&git_dir, branch)? {
            users.push(git_dir.path().to_owned());
        }
    }
    Ok(users)
}

fn uses(git_dir: &GitFiles, branch: &BranchName) -> Result<bool, RepositoryError> {
    let head = git_dir.bytes("HEAD", STATE_BYTES_MAX)?.unwrap_or_default();
    let head = head.strip_prefix(b"ref:").unwrap_or_default();
    if head.trim_ascii() == branch.as_str().as_bytes() {
        return Ok(true);
    }
    let short = branch.as_str().trim_start_matches("refs/heads/");
    for name in UNDER_WAY {
        let text = git_dir.bytes(name, STATE_BYTES_MAX)?.unwrap_or_default();
        let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        if lines.any(|line| line == branch.as_str().as_bytes() || line == short.as_bytes()) {
            return Ok(true);
        }
    }
    Ok(false)
}
