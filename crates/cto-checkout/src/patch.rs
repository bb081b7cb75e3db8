//! The change as a patch: taken from a working copy, applied to a fresh one, and checked to give the same tree.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::baseline::Baseline;
use crate::beneath;
use crate::changes::{Change, Oddity};
use crate::git::{Call, GitError};
use crate::git_dir::{GitDir, GitDirError, ObjectKind, create};
use crate::manifest::{Entry, EntryMode, Manifest, ManifestError, Trees};
use crate::oid::TreeId;
use crate::platform::raw_mode;
use crate::scan::{ScanError, read_entry};
use crate::tree_path::TreePath;
use crate::working_copy::WorkingCopy;

/// Bounds on taking a patch.
#[derive(Clone, Copy, Debug)]
pub struct PatchCaps {
    /// Git applies nothing from 1 GiB on.
    pub patch_bytes: u64,
    /// The largest file whose change is put in a patch; git holds both sides in memory.
    pub file_bytes: u64,
    pub wall: Duration,
}

impl Default for PatchCaps {
    fn default() -> Self {
        Self {
            patch_bytes: 512 << 20,
            file_bytes: 256 << 20,
            wall: Duration::from_secs(300),
        }
    }
}

const APPLY_WALL: Duration = Duration::from_secs(300);

/// A patch on disk and the trees on both sides of it.
#[derive(Clone, Debug)]
pub struct Patch {
    pub path: PathBuf,
    pub bytes: u64,
    pub base_tree_id: TreeId,
    pub tree_id: TreeId,
    /// What a fresh copy must hold once the patch is applied.
    pub manifest: Manifest,
}

/// Why no patch could be taken.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    #[error("the changes do not fit the baseline")]
    NotATree(#[from] ManifestError),
    #[error("the changed files could not be read")]
    Read(#[from] ScanError),
    #[error("could not open the baseline `{path}`")]
    Baseline { path: PathBuf, source: io::Error },
    #[error("`{path}` has {size} bytes, more than the {max} a file in a patch may have")]
    FileTooLarge { path: TreePath, size: u64, max: u64 },
    #[error("the objects of the change could not be stored")]
    Store(#[from] GitDirError),
    #[error("could not write the patch `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("the patch could not be made")]
    Git(#[from] GitError),
}

/// Why a patch was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("could not read the patch `{path}`")]
    Patch { path: PathBuf, source: io::Error },
    #[error("the patch does not apply")]
    Git(#[from] GitError),
    #[error("the copy could not be read after the patch was applied")]
    Scan(#[from] ScanError),
    #[error("could not set the mode of `{path}`")]
    Mode { path: TreePath, source: io::Error },
}

/// How a tree differs from the one it has to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tree is {found} and not {expected}: {} paths differ, {} oddities", differing.len(), oddities.len())]
pub struct TreeMismatch {
    pub expected: TreeId,
    pub found: TreeId,
    pub differing: Vec<Change>,
    pub oddities: Vec<Oddity>,
}

/// Writes the patch for these changes to `out`, which must not exist yet.
///
/// The caller says which changes count: residue is left out by not passing it.
pub fn take_patch(
    git_dir: &GitDir,
    baseline: &Baseline,
    workspace: &impl AsFd,
    changes: &[Change],
    out: &Path,
    caps: &PatchCaps,
) -> Result<Patch, PatchError> {
    let manifest = baseline.manifest.with_changes(changes)?;
    let write_failed = |source| PatchError::Write {
        path: out.to_owned(),
        source,
    };
    let mut file = create(out).map_err(write_failed)?;
    let tree_id = manifest.tree_id();
    if tree_id != baseline.tree_id {
        let before = beneath::open_root(&baseline.root).map_err(|source| PatchError::Baseline {
            path: baseline.root.clone(),
            source,
        })?;
        let before = std::os::fd::AsFd::as_fd(&before);
        store_blobs(
            git_dir,
            before,
            changes.iter().map(|c| (&c.path, c.before)),
            caps,
        )?;
        store_blobs(
            git_dir,
            workspace.as_fd(),
            changes.iter().map(|c| (&c.path, c.after)),
            caps,
        )?;
        store_trees(git_dir, &baseline.manifest, &manifest)?;
        let call = diff_call(git_dir, &baseline.tree_id, &tree_id, caps);
        let finished = call.run(Stdio::null(), &mut file);
        let done = finished.and_then(|finished| call.expect_success(finished, &[]));
        if let Err(error) = done {
            // Half a patch must never be taken for a whole one.
            drop(std::fs::remove_file(out));
            return Err(error.into());
        }
    }
    Ok(Patch {
        path: out.to_owned(),
        bytes: file.metadata().map_err(write_failed)?.len(),
        base_tree_id: baseline.tree_id,
        tree_id,
        manifest,
    })
}

fn store_blobs<'a>(
    git_dir: &GitDir,
    root: BorrowedFd<'_>,
    entries: impl Iterator<Item = (&'a TreePath, Option<Entry>)>,
    caps: &PatchCaps,
) -> Result<(), PatchError> {
    for (path, entry) in entries {
        let Some(entry) = entry else { continue };
        if entry.size > caps.file_bytes {
            return Err(PatchError::FileTooLarge {
                path: path.clone(),
                size: entry.size,
                max: caps.file_bytes,
            });
        }
        let content = read_entry(root, path, &entry)?;
        git_dir.write_object(ObjectKind::Blob, &entry.oid, &content)?;
    }
    Ok(())
}

/// Stores the trees that differ: git never looks into a directory that has one id on both sides.
fn store_trees(git_dir: &GitDir, before: &Manifest, after: &Manifest) -> Result<(), GitDirError> {
    let (before, after) = (before.trees(), after.trees());
    let store_differing = |trees: &Trees, others: &Trees| {
        trees
            .iter()
            .filter(|(path, tree)| others.get(*path).is_none_or(|other| other.oid != tree.oid))
            .try_for_each(|(_, tree)| {
                git_dir.write_object(ObjectKind::Tree, &tree.oid, &tree.content)
            })
    };
    store_differing(&before, &after)?;
    store_differing(&after, &before)
}

fn diff_call<'a>(git_dir: &'a GitDir, base: &TreeId, new: &TreeId, caps: &PatchCaps) -> Call<'a> {
    let mut arguments: Vec<String> = [
        "-p",
        "-r",
        "--binary",
        "--full-index",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--diff-algorithm=myers",
        "--unified=3",
        "--src-prefix=a/",
        "--dst-prefix=b/",
    ]
    .map(str::to_owned)
    .into();
    arguments.extend([base.to_string(), new.to_string()]);
    Call {
        verb: "diff-tree",
        arguments,
        git_dir: git_dir.path(),
        work_tree: None,
        wall: caps.wall,
        output_bytes_max: caps.patch_bytes,
    }
}

/// Applies a patch to a copy that holds nothing but the baseline; an empty patch changes nothing.
pub fn apply_patch(git_dir: &GitDir, patch: &Path, copy: &WorkingCopy) -> Result<(), ApplyError> {
    let read_failed = |source| ApplyError::Patch {
        path: patch.to_owned(),
        source,
    };
    let file = File::open(patch).map_err(read_failed)?;
    if file.metadata().map_err(read_failed)?.len() == 0 {
        return Ok(());
    }
    let call = Call {
        verb: "apply",
        arguments: ["--whitespace=nowarn", "-p1", "-"]
            .map(str::to_owned)
            .into(),
        git_dir: git_dir.path(),
        work_tree: Some(copy.path()),
        wall: APPLY_WALL,
        output_bytes_max: 1 << 20,
    };
    let finished = call.run(file.into(), &mut io::sink())?;
    call.expect_success(finished, &[])?;
    plain_permissions(copy)
}

/// Git made the new files by the umask of this process; a copy has the same permissions everywhere.
fn plain_permissions(copy: &WorkingCopy) -> Result<(), ApplyError> {
    let scan = copy.scan()?;
    for ((path, entry), stamp) in scan.manifest.iter().zip(&scan.stamps) {
        let bits = entry.mode.permissions();
        if entry.mode == EntryMode::Symlink || stamp.mode & 0o7777 == bits {
            continue;
        }
        beneath::open_file(copy.as_fd(), path)
            .and_then(|file| {
                Ok(rustix::fs::fchmod(
                    &file,
                    rustix::fs::Mode::from_raw_mode(raw_mode(bits)),
                )?)
            })
            .map_err(|source| ApplyError::Mode {
                path: path.clone(),
                source,
            })?;
    }
    Ok(())
}

/// Says how a copy differs from what it must hold; no file more is tolerated.
pub fn verify_tree(
    copy: &WorkingCopy,
    expected: &Manifest,
) -> Result<Result<(), TreeMismatch>, ScanError> {
    let scan = copy.scan()?;
    let differing = expected.difference(&scan.manifest);
    let mut oddities = scan.oddities;
    oddities.retain(|oddity| oddity.kind.is_violation());
    if differing.is_empty() && oddities.is_empty() && !scan.has_scratch_git {
        return Ok(Ok(()));
    }
    Ok(Err(TreeMismatch {
        expected: expected.tree_id(),
        found: scan.manifest.tree_id(),
        differing,
        oddities,
    }))
}
