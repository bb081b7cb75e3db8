//! Trees made of layers: what lies over a baseline is all that was written, so nothing else has to be copied or read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, fstat, statat};

use crate::baseline::Baseline;
use crate::changes::{Change, Changes};
use crate::git_dir::GitDir;
use crate::manifest::{Entry, Manifest, ManifestError, directories_of};
use crate::oid::TreeId;
use crate::patch::{ApplyError, Patch, TreeMismatch, apply_patch, verify_tree};
use crate::scan::{ScanCaps, ScanError};
use crate::tree_path::{TreePath, parent_of};
use crate::working_copy::{CopyError, WorkingCopy};
use crate::{beneath, platform, tree_writer};

/// What somebody works in: a real copy, or the upper directory of an overlay over the baseline.
#[derive(Debug)]
pub enum Workspace {
    Copy(WorkingCopy),
    Overlay(OverlaidTree),
}

impl Workspace {
    /// Returns what differs from the baseline. Nothing may be running in the workspace any more.
    pub fn changes(&self) -> Result<Changes, ScanError> {
        match self {
            Self::Copy(copy) => copy.changes(),
            Self::Overlay(tree) => tree.changes(),
        }
    }
}

/// Every file that was changed or added lies beneath it.
impl AsFd for Workspace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Copy(copy) => copy.as_fd(),
            Self::Overlay(tree) => tree.root.as_fd(),
        }
    }
}

/// The upper directory of an overlay over a baseline. It is kept open: what is read later is what was made.
#[derive(Debug)]
pub struct OverlaidTree {
    baseline: Baseline,
    upper: PathBuf,
    root: OwnedFd,
    caps: ScanCaps,
}

impl OverlaidTree {
    /// Makes the upper directory, which must be absent or empty.
    pub fn make(baseline: &Baseline, upper: &Path) -> Result<Self, CopyError> {
        let root = tree_writer::make_root(upper).map_err(|source| CopyError::Destination {
            path: upper.to_owned(),
            source,
        })?;
        Ok(Self {
            baseline: baseline.clone(),
            upper: upper.to_owned(),
            root,
            caps: ScanCaps::default(),
        })
    }

    /// Sets other bounds than the usual ones for what is read of it.
    #[must_use]
    pub fn with_caps(self, caps: ScanCaps) -> Self {
        Self { caps, ..self }
    }

    pub fn upper(&self) -> &Path {
        &self.upper
    }

    fn changes(&self) -> Result<Changes, ScanError> {
        let held = fstat(&self.root).map_err(|errno| ScanError::Read {
            path: TreePath::root(),
            source: errno.into(),
        })?;
        match statat(CWD, &self.upper, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if (stat.st_dev, stat.st_ino) == (held.st_dev, held.st_ino) => {}
            _ => {
                let root = self.upper.clone();
                return Err(ScanError::RootReplaced { root });
            }
        }
        self.baseline.upper_changes(&self.upper, &self.caps)
    }
}

/// Why a baseline could not be seen with a patch over it.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    #[error("the files that the patch touches could not be laid out")]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("what the patch gave could not be read")]
    Scan(#[from] ScanError),
    #[error("the patch gives something else than the change")]
    Mismatch(#[from] TreeMismatch),
    #[error("the patch and the baseline form no tree")]
    NotATree(#[from] ManifestError),
    #[error("`{path}` could not be hidden")]
    Hide { path: TreePath, source: io::Error },
}

/// A directory that shows, laid over a baseline, the tree that a patch makes of it.
#[derive(Debug)]
pub struct PatchedLayer {
    pub path: PathBuf,
    /// Of the whole tree, computed from the baseline and from what was found after the patch was applied.
    pub tree_id: TreeId,
    pub manifest: Arc<Manifest>,
}

impl PatchedLayer {
    /// Applies a patch to the baseline's versions of the files it changes, and to nothing else.
    ///
    /// `changes` are those that the patch was taken for. A patch that touches any other file of the baseline does not
    /// apply, since that file is not there; one that adds any other file is a mismatch.
    pub fn make(
        git_dir: &GitDir,
        baseline: &Baseline,
        patch: &Patch,
        changes: &[Change],
        dest: &Path,
    ) -> Result<Self, LayerError> {
        let touched = Baseline {
            manifest: Arc::new(side(changes, |change| change.before)?),
            ..baseline.clone()
        };
        let copy = WorkingCopy::make(&touched, dest)?;
        apply_patch(git_dir, &patch.path, &copy)?;
        verify_tree(&copy, &side(changes, |change| change.after)?)??;
        let found = copy.manifest_now()?;
        let given: Vec<Change> = changes
            .iter()
            .map(|change| Change {
                path: change.path.clone(),
                before: change.before,
                after: found.get(change.path.as_bytes()).copied(),
            })
            .collect();
        let manifest = baseline.manifest.with_changes(&given)?;
        for path in hidden(&manifest, &given) {
            let hide = || {
                for directory in directories_of(std::iter::once(&path)) {
                    match beneath::make_directory(copy.as_fd(), &directory) {
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        made => made?,
                    }
                }
                platform::make_whiteout(copy.as_fd(), &path)
            };
            if let Err(source) = hide() {
                return Err(LayerError::Hide { path, source });
            }
        }
        Ok(Self {
            path: dest.to_owned(),
            tree_id: manifest.tree_id(),
            manifest: Arc::new(manifest),
        })
    }
}

fn side(
    changes: &[Change],
    of: impl Fn(&Change) -> Option<Entry>,
) -> Result<Manifest, ManifestError> {
    let entries = changes
        .iter()
        .filter_map(|change| Some((change.path.clone(), of(change)?)));
    Manifest::from_entries(entries.collect())
}

/// The topmost paths of the baseline that must not show through. A directory goes with its last file, as git has it;
/// what became a file hides what was below it by itself.
fn hidden(after: &Manifest, changes: &[Change]) -> Vec<TreePath> {
    let directories = directories_of(after.iter().map(|(path, _)| path));
    let is_directory = |path: &[u8]| {
        directories
            .binary_search_by(|d| d.as_bytes().cmp(path))
            .is_ok()
    };
    let mut out: Vec<TreePath> = changes
        .iter()
        .filter(|change| change.after.is_none())
        .filter_map(|change| {
            let mut top = change.path.as_bytes();
            loop {
                if after.get(top).is_some() || is_directory(top) {
                    return None;
                }
                let above = parent_of(top);
                if above.is_empty() || is_directory(above) {
                    return Some(TreePath::from(top));
                }
                top = above;
            }
        })
        .collect();
    out.dedup();
    out
}
