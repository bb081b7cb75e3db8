//! The tree of a commit as `git ls-tree` lists it: names, modes and ids, before any content is read.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rayon::prelude::*;

use crate::baseline::BaselineCache;
use crate::git::{Call, GitError};
use crate::import::ImportCaps;
use crate::manifest::{Entry, EntryMode, Manifest};
use crate::oid::{Oid, TreeId};
use crate::repository::error::{RepositoryError, UnsupportedKind};
use crate::tree_path::TreePath;

const LIST_WALL: Duration = Duration::from_secs(120);
/// Mode, type, id and the marks between them, for each entry beside its path.
const ENTRY_BYTES: u64 = 64;
/// So many rows are read by one thread before another may take over.
const ROWS_AT_ONCE: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) path: TreePath,
    pub(crate) oid: Oid,
    /// `None` is a gitlink.
    pub(crate) mode: Option<EntryMode>,
}

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
        let listed = parse(&known).and_then(|listed| read(listed, tree, caps).ok());
        if let Some(manifest) = listed {
            return Ok(manifest);
        }
    }
    let answer = ask(git_dir, tree, caps)?;
    let listed = parse(&answer).ok_or(RepositoryError::Answer { verb: "ls-tree" })?;
    let manifest = read(listed, tree, caps)?;
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
            | GitError::TooMuchOutput { .. }) => error.into(),
        })?;
    Ok(answer)
}

fn read(
    listed: Vec<Listed>,
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

fn check(listed: Vec<Listed>, caps: &ImportCaps) -> Result<Manifest, RepositoryError> {
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
        .into_par_iter()
        .with_min_len(ROWS_AT_ONCE)
        .map(|row| entry_of(row, caps))
        .collect();
    // The first in order is the one that is told, however the cores took turns.
    let entries = judged.into_iter().collect::<Result<_, _>>()?;
    Manifest::from_entries(entries)
        .map_err(|error| RepositoryError::unsupported(UnsupportedKind::IrregularTree, error))
}

fn entry_of(row: Listed, caps: &ImportCaps) -> Result<(TreePath, Entry), RepositoryError> {
    let Listed { path, oid, mode } = row;
    let Some(mode) = mode else {
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

/// Reads `<mode> <type> <id>\t<path>` up to each NUL; `None` for anything else.
fn parse(answer: &[u8]) -> Option<Vec<Listed>> {
    let records: Vec<&[u8]> = answer.split_inclusive(|&byte| byte == 0).collect();
    records
        .par_iter()
        .with_min_len(ROWS_AT_ONCE)
        .map(|record| parse_record(record.strip_suffix(b"\0")?))
        .collect()
}

fn parse_record(record: &[u8]) -> Option<Listed> {
    let tab = record.iter().position(|&byte| byte == b'\t')?;
    let mut fields = record[..tab].split(|&byte| byte == b' ');
    let (mode, kind) = (fields.next()?, fields.next()?);
    let oid = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let mode = match kind {
        b"commit" if mode == b"160000" => None,
        b"blob" => Some(EntryMode::from_octal(mode)?),
        _ => return None,
    };
    let path = TreePath::from(&record[tab + 1..]);
    (fields.next().is_none() && !path.is_root()).then_some(Listed { path, oid, mode })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(listed: &[Listed]) -> Vec<u8> {
        let mut text = Vec::new();
        for Listed { path, oid, mode } in listed {
            let kind = if mode.is_some() { "blob" } else { "commit" };
            let mode = mode.map_or("160000", EntryMode::as_octal);
            text.extend_from_slice(format!("{mode} {kind} {oid}\t").as_bytes());
            text.extend_from_slice(path.as_bytes());
            text.push(0);
        }
        text
    }

    fn listed() -> impl Strategy<Value = Listed> {
        let mode = prop_oneof![
            Just(None),
            Just(Some(EntryMode::Regular)),
            Just(Some(EntryMode::Executable)),
            Just(Some(EntryMode::Symlink)),
        ];
        let path = proptest::collection::vec(1_u8.., 1..20);
        (path, any::<[u8; 20]>(), mode).prop_map(|(path, oid, mode)| Listed {
            path: path.into(),
            oid: Oid::from_bytes(oid),
            mode,
        })
    }

    proptest! {
        #[test]
        fn what_is_listed_is_read_back(listed in proptest::collection::vec(listed(), 0..12)) {
            prop_assert_eq!(parse(&encode(&listed)), Some(listed));
        }

        #[test]
        fn half_a_list_is_none(listed in proptest::collection::vec(listed(), 1..4), cut in any::<prop::sample::Index>()) {
            let text = encode(&listed);
            let cut = cut.index(text.len());
            let whole = cut == 0 || text[cut - 1] == 0;
            prop_assert_eq!(parse(&text[..cut]).is_some(), whole);
        }

        #[test]
        fn any_bytes_can_be_offered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(parse(&bytes));
        }
    }
}
