//! The cache of baseline trees: written once for each tree id, checked each time it is used.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

use crate::baseline_check::Look;
use crate::import::{self, ImportCaps, ImportError, TreeEntry};
use crate::manifest::{Entry, Manifest};
use crate::oid::TreeId;
use crate::platform::keeps_honest_times;
use crate::remove::{RemoveError, remove_tree};
use crate::stamp::Stamp;
use crate::{baseline_check, beneath, tree_listing};

const MANIFEST: &str = "manifest";
const STAMPS: &str = "stamps";

/// How a baseline came to be there, for the freshness of the evidence that rests on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Written by this call.
    Written,
    /// There before, and found to be what it was when it was written.
    Checked,
}

/// A harness-owned materialisation of a tree. Nobody but the cache writes in it.
#[derive(Clone, Debug)]
pub struct Baseline {
    pub tree_id: TreeId,
    pub root: PathBuf,
    pub manifest: Arc<Manifest>,
    pub freshness: Freshness,
}

/// Why a baseline could not be had.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    #[error("the tree was not taken in")]
    Import(#[from] ImportError),
    #[error("`{source_path}` changed while it was taken in")]
    SourceChanged { source_path: PathBuf },
    #[error("could not use the baseline cache at `{path}`")]
    Cache { path: PathBuf, source: io::Error },
    #[error("could not remove a stale baseline")]
    Stale(#[from] RemoveError),
}

/// A tree that was just written.
pub(crate) struct Written {
    pub(crate) manifest: Manifest,
    /// The stamp that each file had when its last byte was written; without them the files are looked at again.
    pub(crate) stamps: Option<Vec<Stamp>>,
}

impl From<Manifest> for Written {
    fn from(manifest: Manifest) -> Self {
        let stamps = None;
        Self { manifest, stamps }
    }
}

/// `<dir>/<tree-id>/tree/`, and beside it `manifest`, the tree as git lists it, and `stamps`, a digest of how its files and
/// directories looked when they were written.
#[derive(Clone, Debug)]
pub struct BaselineCache {
    dir: PathBuf,
}

impl BaselineCache {
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Returns the baseline for a directory. Its content is read every time, because nothing less tells which tree it
    /// is; it is written only when that tree is not there yet.
    pub fn ensure_dir(&self, source: &Path, caps: &ImportCaps) -> Result<Baseline, BaselineError> {
        let manifest = import::survey(source, caps)?;
        self.ensure(&manifest.tree_id(), source, |dest| {
            Ok::<_, BaselineError>(import::import(source, dest, caps)?.into())
        })
    }

    /// Returns the baseline for entries that are in memory.
    pub fn ensure_entries(
        &self,
        entries: &[TreeEntry<'_>],
        caps: &ImportCaps,
    ) -> Result<Baseline, BaselineError> {
        let manifest = import::survey_entries(entries, caps)?;
        self.ensure(&manifest.tree_id(), Path::new("entries"), |dest| {
            Ok::<_, BaselineError>(import::write_entries(dest, entries, caps)?.into())
        })
    }

    /// Returns the baseline of this id if it is there and intact.
    pub fn get(&self, tree_id: &TreeId) -> Option<Baseline> {
        let manifest = self.intact(tree_id)?;
        Some(self.baseline(*tree_id, manifest, Freshness::Checked))
    }

    /// Returns the baseline of this id, which `write` makes in the place it is told when it is not there yet.
    pub(crate) fn ensure<E: From<BaselineError>>(
        &self,
        tree_id: &TreeId,
        source_path: &Path,
        write: impl FnOnce(&Path) -> Result<Written, E>,
    ) -> Result<Baseline, E> {
        if let Some(baseline) = self.get(tree_id) {
            return Ok(baseline);
        }
        // Held until this function returns: who comes second waits here and then finds the work done.
        let _lock = self.lock(tree_id)?;
        if let Some(baseline) = self.get(tree_id) {
            return Ok(baseline);
        }
        self.write(tree_id, source_path, write)
            .map(|(baseline, _)| baseline)
    }

    /// Writes a baseline that is not there or not intact, and returns it with the stamps of its files. Who calls this
    /// holds the lock of its tree.
    pub(crate) fn write<E: From<BaselineError>>(
        &self,
        tree_id: &TreeId,
        source_path: &Path,
        write: impl FnOnce(&Path) -> Result<Written, E>,
    ) -> Result<(Baseline, Vec<Stamp>), E> {
        let failed = |source| self.failed(source);
        let place = self.place(tree_id);
        remove_tree(&place).map_err(BaselineError::Stale)?;
        let fresh = self.fresh(tree_id.oid())?;
        let made = || {
            let written = write(&fresh.join("tree"))?;
            // Equal ids mean equal names, modes and content, and so equal sizes.
            if written.manifest.tree_id() != *tree_id {
                let source_path = source_path.to_owned();
                return Err(BaselineError::SourceChanged { source_path }.into());
            }
            let stamps = note_written(&fresh, &written).map_err(failed)?;
            renameat_with(CWD, &fresh, CWD, &place, RenameFlags::NOREPLACE)
                .map_err(|errno| failed(errno.into()))?;
            Ok((written.manifest, stamps))
        };
        match made() {
            Ok((manifest, stamps)) => Ok((
                self.baseline(*tree_id, manifest, Freshness::Written),
                stamps,
            )),
            Err(error) => {
                // Half a tree is of no use, and on a full disk its space is.
                remove_tree(&fresh).map_err(BaselineError::Stale)?;
                Err(error)
            }
        }
    }

    /// Makes an empty directory in the cache to build something in. Who calls this holds the lock of its tree.
    pub(crate) fn fresh(&self, name: impl std::fmt::Display) -> Result<PathBuf, BaselineError> {
        let fresh = self.dir.join(format!(".new-{name}"));
        remove_tree(&fresh)?;
        DirBuilder::new()
            .mode(0o700)
            .create(&fresh)
            .map_err(|source| self.failed(source))?;
        Ok(fresh)
    }

    /// Reads a file that lies in the cache beside the trees.
    pub(crate) fn note(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.dir.join(name)).ok()
    }

    /// Writes such a file whole or not at all.
    pub(crate) fn put_note(&self, name: &str, content: &[u8]) -> Result<(), BaselineError> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NOTES: AtomicU64 = AtomicU64::new(0);
        let number = NOTES.fetch_add(1, Ordering::Relaxed);
        let put = || {
            self.make_dir()?;
            let fresh = self
                .dir
                .join(format!(".new{name}-{}-{number}", std::process::id()));
            crate::git_dir::create(&fresh)?.write_all(content)?;
            std::fs::rename(&fresh, self.dir.join(name))
        };
        put().map_err(|source| self.failed(source))
    }

    fn make_dir(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
    }

    fn failed(&self, source: io::Error) -> BaselineError {
        BaselineError::Cache {
            path: self.dir.clone(),
            source,
        }
    }

    fn baseline(&self, tree_id: TreeId, manifest: Manifest, freshness: Freshness) -> Baseline {
        Baseline {
            tree_id,
            root: self.place(&tree_id).join("tree"),
            manifest: Arc::new(manifest),
            freshness,
        }
    }

    /// Where a tree and all that belongs to it lie.
    pub(crate) fn place(&self, tree_id: &TreeId) -> PathBuf {
        self.dir.join(tree_id.to_string())
    }

    /// Keeps others from writing what belongs to a tree until the file is dropped.
    pub(crate) fn lock(&self, tree_id: &TreeId) -> Result<File, BaselineError> {
        let lock = || {
            self.make_dir()?;
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(self.dir.join(format!(".lock-{tree_id}")))?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        };
        lock().map_err(|source| self.failed(source))
    }

    /// Returns the stamps of a tree's files, if all are still what they were when it was written.
    pub(crate) fn stamps(&self, baseline: &Baseline) -> Option<Vec<Stamp>> {
        let paths = paths_of(&baseline.manifest);
        let root = beneath::open_root(&baseline.root).ok()?;
        let stamps = baseline_check::stamps_of(root.as_fd(), &paths).ok()?;
        self.unchanged(&baseline.tree_id, &paths).map(|_| stamps)
    }

    /// Returns the tree of the cache that holds exactly what it held when it was written.
    fn intact(&self, tree_id: &TreeId) -> Option<Manifest> {
        let text = std::fs::read(self.place(tree_id).join(MANIFEST)).ok()?;
        let rows = tree_listing::parse(&text)?;
        let paths: Vec<&[u8]> = rows.iter().map(|row| row.path).collect();
        let mut look = None;
        // The tree is put together on this thread meanwhile: what it allocates outlives the workers' turn.
        let manifest = rayon::in_place_scope(|scope| {
            scope.spawn(|_| look = self.unchanged(tree_id, &paths));
            let mut entries = Vec::with_capacity(rows.len());
            for row in &rows {
                let (mode, oid, size) = (row.mode?, row.oid, 0);
                entries.push((row.path.into(), Entry { mode, oid, size }));
            }
            let manifest = Manifest::from_sorted(entries).ok()?;
            (manifest.tree_id() == *tree_id).then_some(manifest)
        });
        Some(manifest?.with_sizes(look?.sizes()))
    }

    fn unchanged(&self, tree_id: &TreeId, paths: &[&[u8]]) -> Option<Look> {
        let place = self.place(tree_id);
        let noted = std::fs::read_to_string(place.join(STAMPS)).ok()?;
        let root = beneath::open_root(&place.join("tree")).ok()?;
        baseline_check::unchanged(root.as_fd(), paths, &noted)
    }
}

/// Notes beside a tree that was just written what it holds and how it looks, and returns the stamps of its files.
fn note_written(place: &Path, written: &Written) -> io::Result<Vec<Stamp>> {
    let root = beneath::open_root(&place.join("tree"))?;
    let paths = paths_of(&written.manifest);
    let stamps = match &written.stamps {
        Some(stamps) if keeps_honest_times(root.as_fd()) => stamps.clone(),
        // Elsewhere a file may be given other times when it is closed, or later.
        Some(_) | None => baseline_check::stamps_of(root.as_fd(), &paths)?,
    };
    let look = baseline_check::record(root.as_fd(), &paths, &stamps)?;
    let note = |name, content: &[u8]| crate::git_dir::create(&place.join(name))?.write_all(content);
    note(MANIFEST, &tree_listing::encode(&written.manifest))?;
    note(STAMPS, look.digest.as_bytes())?;
    Ok(stamps)
}

fn paths_of(manifest: &Manifest) -> Vec<&[u8]> {
    manifest.iter().map(|(path, _)| path.as_bytes()).collect()
}
