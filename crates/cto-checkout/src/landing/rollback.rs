//! Takes a landed change back: the landed paths become what they were, and nothing else changes.

use std::collections::BTreeSet;
use std::path::Path;

use super::{
    BranchName, BranchUpdate, CommitText, LandingError, LandingRequest, Prepared, borrowing,
    tree_diff,
};
use crate::oid::Oid;
use crate::repository::{Repository, RepositoryError};

/// What is to be taken back.
#[derive(Clone, Copy, Debug)]
pub struct RollbackRequest<'a> {
    /// The commit that was landed on.
    pub base: Oid,
    /// The commit that was landed.
    pub landed: Oid,
    pub branch: &'a BranchName,
    /// Where the branch was when this was asked for before; none takes it as it is now.
    pub tip: Option<Oid>,
    pub update: BranchUpdate,
    /// A file of the work tree whose state does not matter.
    pub left_alone: Option<&'a crate::TreePath>,
    pub text: &'a CommitText,
}

/// Makes the commit that takes a landed one back, on top of whatever the branch holds. The same request with the same tip
/// gives the same commit.
///
/// Refused where a landed path is no longer what was landed: then there is no exact way back.
pub fn prepare_rollback(
    target: &Repository,
    request: &RollbackRequest<'_>,
    scratch: &Path,
) -> Result<Prepared, LandingError> {
    let tip = match request.tip {
        None => super::branches::value(target, request.branch)?,
        tip => tip,
    };
    let tip = tip.ok_or_else(|| RepositoryError::NoSuchRevision {
        rev: request.branch.as_str().to_owned(),
    })?;
    let tree_of = |id: Oid| Ok::<_, LandingError>(target.resolve(Some(&id.to_string()))?.tree);
    let (base, landed, now) = (
        tree_of(request.base)?,
        tree_of(request.landed)?,
        tree_of(tip)?,
    );
    let git_dir = borrowing(target, scratch)?;
    let landed_changes = tree_diff::between(&git_dir, base, landed)?;
    let later = tree_diff::between(&git_dir, landed, now)?;
    let landed_paths: BTreeSet<_> = landed_changes.iter().map(|change| &change.path).collect();
    let mut touched = later
        .iter()
        .filter(|change| landed_paths.contains(&change.path));
    if let Some(change) = touched.next() {
        let path = change.path.clone();
        return Err(LandingError::NotExact { path });
    }
    let back: Vec<_> = landed_changes
        .iter()
        .map(tree_diff::PathChange::turned)
        .collect();
    tree_diff::read_tree(&git_dir, now)?;
    tree_diff::put_into_index(&git_dir, &back)?;
    let tree = tree_diff::write_tree(&git_dir)?;
    // A path can also be lost because another took its place, such as a file where a directory was.
    let changes = tree_diff::between(&git_dir, now, tree)?;
    if let Some(path) = first_difference(&changes, &back) {
        return Err(LandingError::NotExact { path });
    }
    Prepared::new(
        git_dir,
        tree,
        changes,
        tip,
        &LandingRequest {
            patch: Path::new(""),
            tree,
            base: tip,
            branch: request.branch,
            expected: Some(tip),
            update: request.update,
            left_alone: request.left_alone,
            text: request.text,
        },
    )
}

/// The first path that changes otherwise than predicted; both are in git's order.
fn first_difference(
    found: &[tree_diff::PathChange],
    predicted: &[tree_diff::PathChange],
) -> Option<crate::TreePath> {
    let at = found
        .iter()
        .zip(predicted)
        .position(|(one, other)| one != other);
    let at = at.unwrap_or(found.len().min(predicted.len()));
    let other = predicted.get(at).or_else(|| found.get(at));
    other.map(|change| change.path.clone())
}
