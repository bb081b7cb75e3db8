//! The trees of a run: what all of them are made from, and the one that the patch is applied to.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use cto_checkout::{Baseline, GitDir, GitLayer, Patch, PatchedLayer, WorkingCopy, apply_patch};
use cto_contract::ids::TreeId;
use cto_contract::plan::TreeKind;
use cto_rules::verdicts::Fault;

use crate::error_chain;
use crate::room::{Room, Rooms, Tree};

/// What every tree of a run is made from.
pub(crate) struct RunTrees {
    pub(crate) baseline: Baseline,
    pub(crate) git_dir: GitDir,
    /// The fresh `.git` of a repository's copy; none for a case.
    pub(crate) git_layer: Option<GitLayer>,
    pub(crate) rooms: Rooms,
    /// What the checks run in.
    pub(crate) checks_kind: TreeKind,
    /// Says that the baseline is in use, as long as it is open.
    pub(crate) _baseline_use: File,
}

/// The baseline with only the patch applied, and the tree that it was found to be.
pub(crate) struct Applied {
    pub(crate) tree: AppliedTree,
    pub(crate) tree_id: TreeId,
}

/// What lies below every tree that is an overlay, the topmost first.
pub(crate) type Below = Vec<PathBuf>;

pub(crate) enum AppliedTree {
    Copy(WorkingCopy),
    Layer(PatchedLayer),
}

impl RunTrees {
    /// A room with the untouched baseline.
    pub(crate) fn baseline_room(&self, below: &Below, work: &Path) -> io::Result<Room> {
        let place = work.join("baseline");
        let tree = match self.checks_kind {
            TreeKind::Overlay => Tree::Overlay {
                lowers: below.clone(),
                upper: place,
            },
            TreeKind::Copy => Tree::Copy(self.copy(&place, None)?),
        };
        self.rooms.room("baseline", tree)
    }

    /// The room that is checked: the very tree that the patch was applied to.
    pub(crate) fn checked_room(
        &self,
        below: &Below,
        applied: &Applied,
        work: &Path,
    ) -> io::Result<Room> {
        let tree = match &applied.tree {
            AppliedTree::Layer(layer) => over(layer, below, work.join("checked")),
            AppliedTree::Copy(copy) => Tree::Copy(copy.path().to_owned()),
        };
        self.rooms.room("checked", tree)
    }

    /// A tree with the patch for the canary alone. `is_used`: nothing is copied when none will be planted.
    pub(crate) fn canary_room(
        &self,
        below: &Below,
        (applied, patch): (&Applied, &Patch),
        work: &Path,
        is_used: bool,
    ) -> io::Result<Room> {
        let place = work.join("canary");
        let tree = match &applied.tree {
            AppliedTree::Layer(layer) => over(layer, below, place),
            AppliedTree::Copy(_) if !is_used => Tree::Copy(place),
            AppliedTree::Copy(_) => Tree::Copy(self.copy(&place, Some(patch))?),
        };
        self.rooms.room("canary", tree)
    }

    /// A copy of the baseline, with a patch if there is one, and its `.git`.
    fn copy(&self, place: &Path, patch: Option<&Patch>) -> io::Result<PathBuf> {
        let other = |e: &dyn std::error::Error| io::Error::other(error_chain(e));
        let mut copy = WorkingCopy::make(&self.baseline, place).map_err(|e| other(&e))?;
        if let Some(patch) = patch {
            apply_patch(&self.git_dir, &patch.path, &copy).map_err(|e| other(&e))?;
            // A file that the patch removed must not be looked for.
            copy.restamp().map_err(|e| other(&e))?;
        }
        if let Some(layer) = &self.git_layer {
            layer.copy_into(&copy).map_err(|e| other(&e))?;
        }
        Ok(place.to_owned())
    }
}

/// The patch over everything that lies below.
fn over(layer: &PatchedLayer, below: &Below, upper: PathBuf) -> Tree {
    let lowers = std::iter::once(&layer.path).chain(below);
    Tree::Overlay {
        lowers: lowers.cloned().collect(),
        upper,
    }
}

/// The id in the words of a report.
pub(crate) fn tree_id(id: &cto_checkout::TreeId) -> Result<TreeId, Fault> {
    id.to_string().parse().map_err(|_| Fault::TreeNotReadable {
        why: format!("`{id}` is not a tree id"),
    })
}
