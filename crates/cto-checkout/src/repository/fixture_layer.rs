//! The `.git` of a tree that comes from no repository: a case's.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use flate2::{Compression, write::ZlibEncoder};

use super::git_layer::{Design, GitLayer, finish_layer, make_above, make_git, write, write_heads};
use super::layer_record::is_intact;
use crate::baseline::{Baseline, BaselineCache, Freshness};
use crate::beneath;
use crate::git_dir::ObjectKind;
use crate::manifest::{Entry, EntryMode, Trees};
use crate::oid::Oid;
use crate::remove::remove_tree;
use crate::repository::error::RepositoryError;
use crate::tree_path::TreePath;

impl GitLayer {
    /// Returns the `.git` for a baseline, with one commit that holds it, made once and kept beside it in the cache.
    pub fn of_baseline(
        baseline: &Baseline,
        cache: &BaselineCache,
    ) -> Result<Self, RepositoryError> {
        let design = Design::without_history(baseline.tree_id);
        let place = cache.place(&baseline.tree_id);
        let manifest = &baseline.manifest;
        if is_intact(&place, &design.name) {
            return Ok(design.layer(&place, manifest, Freshness::Checked));
        }
        let _lock = cache.lock(&baseline.tree_id)?;
        if is_intact(&place, &design.name) {
            return Ok(design.layer(&place, manifest, Freshness::Checked));
        }
        let stamps = cache.stamps(baseline);
        let stamps = stamps.ok_or_else(|| RepositoryError::Read {
            path: baseline.root.clone(),
            source: io::Error::other("the baseline is no longer what it was"),
        })?;
        let trees = manifest.trees();
        let fresh = cache.fresh(format_args!("{}-{}", design.tree_id, design.name))?;
        if let Err(error) = begin(&fresh, &design, baseline, &trees) {
            remove_tree(&fresh)?;
            return Err(error);
        }
        finish_layer(&design, &(fresh, trees), manifest, &stamps, cache)?;
        Ok(design.layer(&place, manifest, Freshness::Written))
    }
}

/// Makes all of a layer but its index.
fn begin(
    layer: &Path,
    design: &Design,
    baseline: &Baseline,
    trees: &Trees,
) -> Result<(), RepositoryError> {
    rustix::fs::chmod(layer, rustix::fs::Mode::from_raw_mode(0o755))
        .map_err(|errno| RepositoryError::write(layer)(errno.into()))?;
    let git = layer.join(".git");
    make_git(&git)?;
    write_heads(&git, design.head)?;
    let put = |kind: ObjectKind, oid: &Oid, content: &[u8]| write_object(&git, kind, oid, content);
    put(ObjectKind::Commit, &design.head, &design.commit)?;
    for tree in trees.values() {
        put(ObjectKind::Tree, &tree.oid, &tree.content)?;
    }
    let root = beneath::open_root(&baseline.root).map_err(RepositoryError::read(&baseline.root))?;
    for (path, entry) in baseline.manifest.iter() {
        let content = content(root.as_fd(), path, entry);
        let content = content.map_err(RepositoryError::read(baseline.root.join(path.as_path())))?;
        put(ObjectKind::Blob, &entry.oid, &content)?;
    }
    Ok(())
}

/// The bytes of an entry, which must be those that the tree was made of.
fn content(root: BorrowedFd<'_>, path: &TreePath, entry: &Entry) -> io::Result<Vec<u8>> {
    let content = match entry.mode {
        EntryMode::Symlink => beneath::read_link(root, path)?,
        EntryMode::Regular | EntryMode::Executable => {
            let mut bytes = Vec::new();
            let file = beneath::open_file(root, path)?;
            file.take(entry.size.saturating_add(1))
                .read_to_end(&mut bytes)?;
            bytes
        }
    };
    match Oid::of_blob(&content) == entry.oid {
        true => Ok(content),
        false => Err(io::Error::other("it is no longer what it was")),
    }
}

/// Writes a loose object that whoever works there can read; one that is there already is left.
fn write_object(
    git: &Path,
    kind: ObjectKind,
    oid: &Oid,
    content: &[u8],
) -> Result<(), RepositoryError> {
    let name = oid.to_string();
    let (directory, file) = name.split_at(2);
    let name = format!("objects/{directory}/{file}");
    let packed = || -> io::Result<Vec<u8>> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        write!(encoder, "{} {}\0", kind.name(), content.len())?;
        encoder.write_all(content)?;
        encoder.finish()
    };
    if git.join(&name).exists() {
        return Ok(());
    }
    let root = beneath::open_root(git).map_err(RepositoryError::write(git))?;
    make_above(root.as_fd(), &name.as_str().into())
        .map_err(RepositoryError::write(git.join(&name)))?;
    let packed = packed().map_err(RepositoryError::write(git.join(&name)))?;
    write(git, &[(&name, &packed)])
}
