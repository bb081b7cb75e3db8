//! The tree of a commit as `git ls-tree` lists it: names, modes and ids, before any content is read.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rayon::prelude::*;

use crate::baseline::BaselineCache;
use crate::git::{Call, GitError};
use crate::import::ImportCaps;
use crate::manifest::{Entry, Manifest};
use crate::oid::TreeId;
use crate::repository::error::{RepositoryError, UnsupportedKind};
use crate::tree_listing::{Listed, parse};
use crate::tree_path::TreePath;

const LIST_WALL: Duration = Duration::from_secs(120);
/// Mode, type, id and the marks between them, for each entry beside its path.
const ENTRY_BYTES: u64 = 64;
/// So many rows are judged by one thread before another may take over.
const ROWS_AT_ONCE: usize = 512;

/// Lists a tree and checks that it can be a baseline; the sizes in the result are zero, as nobody has looked yet.
///
/// What git said about a tree is kept in the cache: its id says whether it is still true.
pub(crate) fn list(
    git_dir: &Path,
    tree: &TreeId,
    caps: &ImportCaps,
    cache: &BaselineCache,
) -> Result<Manifest, RepositoryError> {
    if let Some(known) = cache.note(&note_name(tree)) {
        let listed = parse(&known).and_then(|listed| read(&listed, tree, caps).ok());
        if let Some(manifest) = listed {
            return Ok(manifest);
        }
    }
    let answer = ask(git_dir, tree, caps)?;
    let listed = parse(&answer).ok_or(RepositoryError::Answer { verb: "ls-tree" })?;
    let manifest = read(&listed, tree, caps)?;
    cache.put_note(&note_name(tree), &answer)?;
    Ok(manifest)
}

fn note_name(tree: &TreeId) -> String {
    format!(".listing-{tree}")
}

fn ask(git_dir: &Path, tree: &TreeId, caps: &ImportCaps) -> Result<Vec<u8>, RepositoryError> {
    let call = Call {
        verb: "ls-tree",
        arguments: vec![
            "-r".into(),
            "-z".into(),
            "--full-tree".into(),
            tree.to_string(),
        ],
        git_dir,
        work_tree: None,
        wall: LIST_WALL,
        output_bytes_max: (caps.entries + 1) * (ENTRY_BYTES + caps.path_bytes as u64),
    };
    let mut answer = Vec::new();
    let finished = call.run(Stdio::null(), &mut answer)?;
    call.expect_success(finished, &[])
        .map_err(|error| match error {
            // The commit was read, so what is not there is one of its trees.
            GitError::Failed { stderr, .. } => {
                RepositoryError::unsupported(UnsupportedKind::MissingObjects, stderr)
            }
            error @ (GitError::Start { .. }
            | GitError::Talk { .. }
            | GitError::TimedOut { .. }
            | GitError::Waits { .. }
            | GitError::TooMuchOutput { .. }) => error.into(),
        })?;
    Ok(answer)
}

fn read(
    listed: &[Listed<'_>],
    tree: &TreeId,
    caps: &ImportCaps,
) -> Result<Manifest, RepositoryError> {
    let manifest = check(listed, caps)?;
    if manifest.tree_id() != *tree {
        return Err(RepositoryError::unsupported(
            UnsupportedKind::IrregularTree,
            format_args!("the tree {tree} has modes or entries that git no longer writes"),
        ));
    }
    Ok(manifest)
}

fn check(listed: &[Listed<'_>], caps: &ImportCaps) -> Result<Manifest, RepositoryError> {
    if listed.len() as u64 > caps.entries {
        return Err(RepositoryError::unsupported(
            UnsupportedKind::TooManyFiles,
            format_args!(
                "the tree has {} files, more than {}",
                listed.len(),
                caps.entries
            ),
        ));
    }
    let judged: Vec<Result<_, RepositoryError>> = listed
        .par_iter()
        .with_min_len(ROWS_AT_ONCE)
        .map(|row| entry_of(row, caps))
        .collect();
    // The first in order is the one that is told, however the cores took turns.
    let entries = judged.into_iter().collect::<Result<_, _>>()?;
    Manifest::from_entries(entries)
        .map_err(|error| RepositoryError::unsupported(UnsupportedKind::IrregularTree, error))
}

fn entry_of(row: &Listed<'_>, caps: &ImportCaps) -> Result<(TreePath, Entry), RepositoryError> {
    let (path, oid) = (TreePath::from(row.path), row.oid);
    let Some(mode) = row.mode else {
        return Err(RepositoryError::unsupported(
            UnsupportedKind::Submodules,
            format_args!("`{path}` is a submodule"),
        ));
    };
    if path.as_bytes().len() > caps.path_bytes || path.depth() > caps.depth {
        return Err(RepositoryError::unsupported(
            UnsupportedKind::PathTooLong,
            format_args!(
                "`{path}` is longer than {} bytes or deeper than {} directories",
                caps.path_bytes, caps.depth
            ),
        ));
    }
    if path.has_git_component() || !path.is_well_formed() {
        return Err(RepositoryError::unsupported(
            UnsupportedKind::NameRefusedByGit,
            format_args!("`{path}` cannot be checked out everywhere"),
        ));
    }
    let size = 0;
    Ok((path, Entry { mode, oid, size }))
}
