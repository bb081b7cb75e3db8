//! The checked patch in a work tree, and nothing else: no commit, reference, index or object of the target changes.
//!
//! Files are exchanged as a landing does it: what stands in their place is looked at, and on any trouble all of it is put
//! back. Applying again after a kill finishes what was begun.

use std::path::Path;

use cto_rules::patch::PatchEntry;

use super::staging::{Staging, State};
use super::tree_diff::{self, PathChange, TreeEntryId};
use super::{LandingError, apply_to_index, borrowing, lock};
use crate::git_dir::GitDir;
use crate::manifest::EntryMode;
use crate::oid::{Oid, TreeId};
use crate::repository::Repository;
use crate::tree_path::TreePath;

/// What is to be put into a work tree.
#[derive(Clone, Copy, Debug)]
pub struct ApplyRequest<'a> {
    /// As it was checked.
    pub patch: &'a Path,
    /// What the patch says of each path.
    pub entries: &'a [PatchEntry],
    /// The commit that the patch was made against.
    pub base: Oid,
    /// The tree that the patch was made against, and the one that it gives.
    pub trees: (TreeId, TreeId),
}

/// What is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedPatch {
    pub paths: Vec<TreePath>,
    /// All of them were in their new state before this call.
    pub was_there: bool,
    /// Other paths of the work tree that are not as the base commit has them.
    pub others: Vec<TreePath>,
}

/// Puts the patch into the work tree of a repository that stands at its base. `scratch` must not exist yet.
pub fn apply_to_work_tree(
    target: &Repository,
    request: &ApplyRequest<'_>,
    scratch: &Path,
) -> Result<AppliedPatch, LandingError> {
    let work_tree = target.work_tree().ok_or(LandingError::NoWorkTree)?;
    let lock = lock::LandingLock::take(target)?;
    let applied = check_base(target, request.base)
        .and_then(|()| changes_of(target, request, scratch))
        .and_then(|(git_dir, changes)| put_all(target, work_tree, &git_dir, &changes));
    lock.release();
    applied
}

/// The work tree must belong to the commit that the patch was made against.
fn check_base(target: &Repository, expected: Oid) -> Result<(), LandingError> {
    let found = target.head()?.id();
    if found == Some(expected) {
        return Ok(());
    }
    let found = found.map_or_else(|| "no commit".to_owned(), |id| id.to_string());
    Err(LandingError::OtherBase { expected, found })
}

/// What the patch does to the base, with the new content in a git directory of ours.
fn changes_of(
    target: &Repository,
    request: &ApplyRequest<'_>,
    scratch: &Path,
) -> Result<(GitDir, Vec<PathChange>), LandingError> {
    let base = target.resolve(Some(&request.base.to_string()))?;
    let git_dir = borrowing(target, scratch)?;
    tree_diff::read_tree(&git_dir, base.tree)?;
    apply_to_index(&git_dir, request.patch)?;
    let found = tree_diff::write_tree(&git_dir)?;
    let (before, after) = request.trees;
    // Paths that were withheld from the agent are in the commit and not in the tree that was checked.
    if base.tree == before && found != after {
        let expected = after;
        return Err(LandingError::OtherTree { expected, found });
    }
    let changes = tree_diff::between(&git_dir, base.tree, found)?;
    match differing(&changes, request.entries) {
        None => Ok((git_dir, changes)),
        Some(path) => Err(LandingError::NotAsChecked { path }),
    }
}

/// The first path that the base and the patch do not agree about.
fn differing(changes: &[PathChange], entries: &[PatchEntry]) -> Option<TreePath> {
    let is_same = |change: &PathChange, entry: &PatchEntry| {
        side_is(
            change.before,
            entry.before_mode,
            entry.before_oid.as_deref(),
        ) && side_is(change.after, entry.after_mode, entry.after_oid.as_deref())
    };
    let of = |path: &[u8]| entries.iter().find(|entry| entry.path == path);
    let odd = changes.iter().find(|change| {
        let entry = of(change.path.as_bytes());
        !entry.is_some_and(|entry| is_same(change, entry))
    });
    if let Some(change) = odd {
        return Some(change.path.clone());
    }
    let is_known = |entry: &&PatchEntry| {
        let mut changes = changes.iter();
        changes.any(|change| change.path.as_bytes() == entry.path)
    };
    let unknown = entries.iter().find(|entry| !is_known(entry))?;
    Some(TreePath::from(unknown.path.as_slice()))
}

/// Whether a side of a change is what the patch says. Where only the mode changed it names no content.
fn side_is(entry: Option<TreeEntryId>, mode: Option<u32>, oid: Option<&str>) -> bool {
    match (entry, mode) {
        (None, None) => true,
        (Some(entry), Some(mode)) => {
            let is_mode = EntryMode::from_octal(format!("{mode:06o}").as_bytes());
            is_mode == Some(entry.mode) && oid.is_none_or(|oid| oid == entry.oid.to_string())
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn put_all(
    target: &Repository,
    work_tree: &Path,
    git_dir: &GitDir,
    changes: &[PathChange],
) -> Result<AppliedPatch, LandingError> {
    let staging = Staging::new(target.own_git_directory(), work_tree)?;
    let put = put_staged(git_dir, &staging, changes);
    let cleared = staging.clear();
    let was_there = put?;
    cleared?;
    let is_ours = |path: &TreePath| changes.iter().any(|change| change.path == *path);
    let others = target.fingerprint()?.dirty.into_iter();
    Ok(AppliedPatch {
        paths: changes.iter().map(|change| change.path.clone()).collect(),
        was_there,
        others: others
            .map(|dirty| dirty.path)
            .filter(|path| !is_ours(path))
            .collect(),
    })
}

fn put_staged(
    git_dir: &GitDir,
    staging: &Staging,
    changes: &[PathChange],
) -> Result<bool, LandingError> {
    let found = staging.state_of_all(changes)?;
    let mut others = changes.iter().zip(&found);
    if let Some((change, _)) = others.find(|(_, state)| **state == State::Other) {
        let path = change.path.clone();
        return Err(LandingError::Dirty { path });
    }
    if found.iter().all(|state| *state == State::After) {
        return Ok(true);
    }
    staging.stage(git_dir, changes, &found)?;
    let done = staging.exchange(changes, &found)?;
    let now = staging.state_of_all(changes)?;
    let mut wrong = changes.iter().zip(&now);
    match wrong.find(|(_, state)| **state != State::After) {
        None => Ok(false),
        Some((change, _)) => {
            let path = change.path.clone();
            staging.undo(changes, &done)?;
            Err(LandingError::Dirty { path })
        }
    }
}
