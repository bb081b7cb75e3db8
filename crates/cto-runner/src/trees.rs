//! The trees of a run: what all of them are made from, and the one that the patch is applied to.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use cto_checkout::{
    Baseline, Changes, GitDir, GitLayer, Patch, PatchedLayer, ScanCaps, ScanError, WorkingCopy,
    apply_patch, upper_changes,
};
use cto_contract::ids::TreeId;
use cto_contract::plan::TreeKind;
use cto_rules::verdicts::Fault;

use crate::error_chain;
use crate::room::{CHECKED_TREE, Room, Rooms, Tree};

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

/// A room that nothing has run in yet.
pub(crate) struct FreshRoom {
    pub(crate) room: Room,
    /// The copy that it shows, when it is no overlay.
    copy: Option<WorkingCopy>,
}

/// What lies below every tree that is an overlay, the topmost first.
pub(crate) type Below = Vec<PathBuf>;

pub(crate) enum AppliedTree {
    Copy(WorkingCopy),
    Layer(PatchedLayer),
}

impl RunTrees {
    /// The room that is checked: the very tree that the patch was applied to.
    pub(crate) fn checked_room(&self, below: &Below, applied: &Applied) -> io::Result<Room> {
        let tree = match &applied.tree {
            AppliedTree::Layer(layer) => over(layer, below, self.rooms.place(CHECKED_TREE)),
            AppliedTree::Copy(copy) => Tree::Copy(copy.path().to_owned()),
        };
        self.rooms.room("checked", tree)
    }

    /// A room with the untouched baseline.
    pub(crate) fn baseline_room(&self, below: &Below, name: &str) -> io::Result<FreshRoom> {
        let place = self.rooms.place(&format!("tree of {name}"));
        let (tree, copy) = match self.checks_kind {
            TreeKind::Overlay => {
                let lowers = below.clone();
                let upper = place;
                (Tree::Overlay { lowers, upper }, None)
            }
            TreeKind::Copy => {
                let copy = self.copy(&place, None)?;
                (Tree::Copy(place), Some(copy))
            }
        };
        let room = self.rooms.room(name, tree)?;
        Ok(FreshRoom { room, copy })
    }

    /// A room with the patch on a tree of its own.
    pub(crate) fn patched_room(
        &self,
        below: &Below,
        (applied, patch): (&Applied, &Patch),
        name: &str,
    ) -> io::Result<FreshRoom> {
        let place = self.rooms.place(&format!("tree of {name}"));
        let (tree, copy) = match &applied.tree {
            AppliedTree::Layer(layer) => (over(layer, below, place), None),
            AppliedTree::Copy(_) => {
                let copy = self.copy(&place, Some((patch, &applied.tree_id)))?;
                (Tree::Copy(place), Some(copy))
            }
        };
        let room = self.rooms.room(name, tree)?;
        Ok(FreshRoom { room, copy })
    }

    /// A copy of the baseline and its `.git`, with a patch if there is one, which must give this tree.
    fn copy(&self, place: &Path, patch: Option<(&Patch, &TreeId)>) -> io::Result<WorkingCopy> {
        let other = |e: &dyn std::error::Error| io::Error::other(error_chain(e));
        let mut copy = WorkingCopy::make(&self.baseline, place).map_err(|e| other(&e))?;
        if let Some((patch, expected)) = patch {
            apply_patch(&self.git_dir, &patch.path, &copy).map_err(|e| other(&e))?;
            let found = copy.restamp().map_err(|e| other(&e))?.to_string();
            if found != expected.as_str() {
                let why = format!("the patch gave tree {found} this time, not {expected}");
                return Err(io::Error::other(why));
            }
        }
        if let Some(layer) = &self.git_layer {
            layer.copy_into(&copy).map_err(|e| other(&e))?;
        }
        Ok(copy)
    }
}

impl FreshRoom {
    /// What became of the tree since it was made.
    pub(crate) fn changes(&self, applied: &AppliedTree) -> Result<Changes, ScanError> {
        match &self.copy {
            Some(copy) => copy.changes_since(),
            None => applied.changes_in(self.room.upper()),
        }
    }
}

impl AppliedTree {
    /// What commands changed in it: of a layer, what they wrote into the directory above it.
    pub(crate) fn changes_in(&self, upper: Option<&Path>) -> Result<Changes, ScanError> {
        match (self, upper) {
            (Self::Copy(copy), _) => copy.changes_since(),
            (Self::Layer(layer), Some(upper)) => {
                upper_changes(upper, &layer.manifest, &ScanCaps::default())
            }
            // A layer shows nothing by itself: who ran elsewhere ran in another tree.
            (Self::Layer(layer), None) => Err(ScanError::RootReplaced {
                root: layer.path.clone(),
            }),
        }
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
