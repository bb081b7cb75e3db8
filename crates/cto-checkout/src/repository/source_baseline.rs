//! The tree of a commit in the cache of baselines.

use std::os::fd::AsFd as _;

use crate::baseline::{Baseline, BaselineCache};
use crate::beneath;
use crate::manifest::{EntryMode, Manifest};
use crate::oid::TreeId;
use crate::repository::blobs::Checkout;
use crate::repository::error::{RepositoryError, UnsupportedKind};
use crate::repository::{CommitInfo, Repository, listing};
use crate::scan::read_entry;
use crate::stamp::Stamp;
use crate::tree_path::TreePath;

/// A pointer of Git LFS is a small text; this is how it begins.
const LFS_START: &[u8] = b"version https://git-lfs.github.com/spec/";
const LFS_BYTES: std::ops::RangeInclusive<u64> = 64..=1_024;
const ATTRIBUTES_BYTES_MAX: u64 = 1 << 20;

/// A baseline and the commit it was made of.
#[derive(Clone, Debug)]
pub struct SourceBaseline {
    pub baseline: Baseline,
    pub commit: CommitInfo,
    /// Paths of the commit's tree that are not in the baseline; its tree id is another one if there are any.
    pub withheld: Vec<TreePath>,
}

/// The part of a commit's tree that is shown.
pub(crate) struct Kept {
    pub(crate) tree_id: TreeId,
    /// Without sizes: nobody has looked yet.
    pub(crate) manifest: Manifest,
    pub(crate) withheld: Vec<TreePath>,
}

impl Kept {
    pub(crate) fn into_source(self, baseline: Baseline, commit: &CommitInfo) -> SourceBaseline {
        SourceBaseline {
            baseline,
            commit: *commit,
            withheld: self.withheld,
        }
    }
}

pub(crate) enum Chosen {
    Cached(SourceBaseline),
    Absent(Kept),
}

impl Repository {
    /// Returns the tree of a commit as a baseline, without the paths that are withheld. Content is read only when that
    /// tree is not in the cache.
    pub fn baseline(
        &self,
        commit: &CommitInfo,
        cache: &BaselineCache,
        withheld: &dyn Fn(&TreePath) -> bool,
    ) -> Result<SourceBaseline, RepositoryError> {
        let kept = match self.choose(commit, cache, withheld)? {
            Chosen::Cached(source) => return Ok(source),
            Chosen::Absent(kept) => kept,
        };
        let _lock = cache.lock(&kept.tree_id)?;
        let baseline = match cache.get(&kept.tree_id) {
            Some(baseline) => baseline,
            None => self.write_kept(&kept, cache)?.0,
        };
        Ok(kept.into_source(baseline, commit))
    }

    /// Says which tree is wanted, and whether it is in the cache.
    pub(crate) fn choose(
        &self,
        commit: &CommitInfo,
        cache: &BaselineCache,
        withheld: &dyn Fn(&TreePath) -> bool,
    ) -> Result<Chosen, RepositoryError> {
        let source = |baseline, withheld| {
            Chosen::Cached(SourceBaseline {
                baseline,
                commit: *commit,
                withheld,
            })
        };
        // The whole tree may be there already, and then it says itself what is in it.
        let listed = match cache.get(&commit.tree) {
            Some(whole) if !whole.manifest.iter().any(|(path, _)| withheld(path)) => {
                return Ok(source(whole, Vec::new()));
            }
            Some(whole) => Manifest::clone(&whole.manifest),
            None => listing::list(self.git_dir.path(), &commit.tree, &self.caps, cache)?,
        };
        let (manifest, withheld) = without(listed, withheld)?;
        let tree_id = if withheld.is_empty() {
            commit.tree
        } else {
            manifest.tree_id()
        };
        let cached = match withheld.as_slice() {
            // It was asked for above.
            [] => None,
            _ => cache.get(&tree_id),
        };
        Ok(match cached {
            Some(baseline) => source(baseline, withheld),
            None => Chosen::Absent(Kept {
                tree_id,
                manifest,
                withheld,
            }),
        })
    }

    /// Writes a tree from the repository's objects. Who calls this holds the lock of its tree.
    pub(crate) fn write_kept(
        &self,
        kept: &Kept,
        cache: &BaselineCache,
    ) -> Result<(Baseline, Vec<Stamp>), RepositoryError> {
        let checkout = Checkout {
            git_dir: self.git_dir.path(),
            caps: &self.caps,
        };
        let source = self.place.common_dir.path();
        cache.write(&kept.tree_id, source, |dest| {
            checkout.write(&kept.manifest, dest)
        })
    }
}

fn without(
    listed: Manifest,
    withheld: &dyn Fn(&TreePath) -> bool,
) -> Result<(Manifest, Vec<TreePath>), RepositoryError> {
    let left_out: Vec<TreePath> = listed
        .iter()
        .map(|(path, _)| path)
        .filter(|path| withheld(path))
        .cloned()
        .collect();
    if left_out.is_empty() {
        return Ok((listed, left_out));
    }
    let kept = listed
        .entries()
        .iter()
        .filter(|(path, _)| left_out.binary_search(path).is_err());
    let kept = Manifest::from_entries(kept.cloned().collect())
        .map_err(|error| RepositoryError::unsupported(UnsupportedKind::IrregularTree, error))?;
    Ok((kept, left_out))
}

impl SourceBaseline {
    pub const fn tree_id(&self) -> TreeId {
        self.baseline.tree_id
    }

    /// Lists the files that stand for content kept elsewhere by Git LFS. They stay what they are in the tree: pointers.
    pub fn lfs_pointers(&self) -> Result<Vec<TreePath>, RepositoryError> {
        let failed = |source| RepositoryError::Read {
            path: self.baseline.root.clone(),
            source,
        };
        let root = beneath::open_root(&self.baseline.root).map_err(failed)?;
        let content = |path: &TreePath, entry| {
            read_entry(root.as_fd(), path, entry)
                .map_err(|error| failed(std::io::Error::other(error)))
        };
        let files = || {
            let entries = self.baseline.manifest.iter();
            entries.filter(|(_, entry)| entry.mode != EntryMode::Symlink)
        };
        // Without an attribute that names it, nothing is kept by LFS; so only such repositories are searched.
        let mut used = false;
        for (path, entry) in files() {
            if path.name() == b".gitattributes" && entry.size <= ATTRIBUTES_BYTES_MAX {
                let text = content(path, entry)?;
                used |= text.windows(10).any(|word| word == b"filter=lfs");
            }
        }
        let mut pointers = Vec::new();
        if used {
            for (path, entry) in files().filter(|(_, entry)| LFS_BYTES.contains(&entry.size)) {
                if content(path, entry)?.starts_with(LFS_START) {
                    pointers.push(path.clone());
                }
            }
        }
        Ok(pointers)
    }
}
