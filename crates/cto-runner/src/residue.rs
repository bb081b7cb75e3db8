//! Tells what a backend or a check left in a tree apart: the change, and the residue that is thrown away.

use cto_checkout::{Change, Changes, GitError, Manifest, Oddity, TreePath, ignored};
use cto_contract::task::TaskContract;
use cto_rules::residue::{LeftBy, ResidueRules, TrackedPaths};

use crate::trees::RunTrees;

/// What was found, told apart.
pub(crate) struct Sorted {
    pub(crate) changes: Vec<Change>,
    /// Of the change: special files of the residue are thrown away with it.
    pub(crate) oddities: Vec<Oddity>,
    pub(crate) residue: Vec<TreePath>,
}

/// Sorts what was found in a tree that held `tracked` before.
pub(crate) fn sort(
    contract: &TaskContract,
    left_by: LeftBy,
    trees: &RunTrees,
    tracked: &Manifest,
    found: &Changes,
) -> Result<Sorted, GitError> {
    let paths = tracked.iter().map(|(path, _)| path.as_bytes());
    let rules = ResidueRules::new(contract, left_by, TrackedPaths::new(paths));
    let new = found.changes.iter().map(|change| &change.path);
    let odd = found.oddities.iter().map(|oddity| &oddity.path);
    let new = new
        .chain(odd)
        .filter(|path| !rules.is_tracked(path.as_bytes()));
    let ignored = ignored(&trees.git_dir, &trees.baseline, new)?;
    let is_residue = |path: &TreePath| rules.is_residue(path.as_bytes(), ignored.contains(path));
    let (thrown_away, changes): (Vec<Change>, Vec<Change>) = found
        .changes
        .iter()
        .cloned()
        .partition(|change| is_residue(&change.path));
    let (odd_residue, oddities): (Vec<Oddity>, Vec<Oddity>) = found
        .oddities
        .iter()
        .cloned()
        .partition(|oddity| is_residue(&oddity.path));
    let odd_residue = odd_residue.into_iter().filter(|o| o.kind.is_violation());
    let mut residue: Vec<TreePath> = thrown_away
        .into_iter()
        .map(|change| change.path)
        .chain(odd_residue.map(|oddity| oddity.path))
        .collect();
    residue.sort();
    residue.dedup();
    Ok(Sorted {
        changes,
        oddities,
        residue,
    })
}
