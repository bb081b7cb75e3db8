//! Trees as an index of ours holds them, and how two of them differ.

use std::io::{self, Seek as _, Write as _};
use std::process::Stdio;

use super::{ANSWER_BYTES_MAX, LandingError, NO_ID, WALL};
use crate::git::{Call, GitError};
use crate::git_dir::GitDir;
use crate::manifest::EntryMode;
use crate::oid::{Oid, TreeId};
use crate::platform::memory_file;
use crate::repository::RepositoryError;
use crate::tree_path::TreePath;

const DIFF_BYTES_MAX: u64 = 1 << 30;

/// What a path is in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeEntryId {
    pub mode: EntryMode,
    pub oid: Oid,
}

/// What a path was and is; none where it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    pub path: TreePath,
    pub before: Option<TreeEntryId>,
    pub after: Option<TreeEntryId>,
}

impl PathChange {
    /// The same the other way round.
    pub(super) fn turned(&self) -> Self {
        Self {
            path: self.path.clone(),
            before: self.after,
            after: self.before,
        }
    }
}

pub(super) fn call<'a>(verb: &'static str, arguments: &[&str], git_dir: &'a GitDir) -> Call<'a> {
    Call {
        verb,
        arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
        git_dir: git_dir.path(),
        work_tree: None,
        wall: WALL,
        output_bytes_max: ANSWER_BYTES_MAX,
    }
}

/// Fills the index of our git directory with a tree.
pub(super) fn read_tree(git_dir: &GitDir, tree: TreeId) -> Result<(), LandingError> {
    let call = call("read-tree", &[&tree.to_string()], git_dir);
    let finished = call.run(Stdio::null(), &mut io::sink())?;
    Ok(call.expect_success(finished, &[])?)
}

/// Writes the tree of the index of our git directory.
pub(super) fn write_tree(git_dir: &GitDir) -> Result<TreeId, LandingError> {
    let call = call("write-tree", &[], git_dir);
    let mut answer = Vec::new();
    let finished = call.run(Stdio::null(), &mut answer)?;
    call.expect_success(finished, &[])?;
    let id = std::str::from_utf8(answer.trim_ascii_end()).ok();
    let id = id.and_then(|id| id.parse().ok());
    Ok(id.ok_or(RepositoryError::Answer { verb: "write-tree" })?)
}

/// Puts what the paths are to be into an index, the removed ones first.
pub(super) fn put_into_index(git_dir: &GitDir, changes: &[PathChange]) -> Result<(), LandingError> {
    let call = call(
        "update-index",
        &["--replace", "-z", "--index-info"],
        git_dir,
    );
    let mut lines = Vec::new();
    let (added, removed): (Vec<_>, Vec<_>) = changes.iter().partition(|c| c.after.is_some());
    for change in removed.into_iter().chain(added) {
        let line = match change.after {
            None => format!("0 {NO_ID}\t"),
            Some(entry) => format!("{} {}\t", entry.mode.as_octal(), entry.oid),
        };
        lines.extend_from_slice(line.as_bytes());
        lines.extend_from_slice(change.path.as_bytes());
        lines.push(0);
    }
    let input = input(&call, &lines)?;
    let finished = call.run(input, &mut io::sink())?;
    Ok(call.expect_success(finished, &[])?)
}

/// Something for git to read.
pub(super) fn input(call: &Call<'_>, bytes: &[u8]) -> Result<Stdio, GitError> {
    let write = || {
        let mut file = memory_file()?;
        file.write_all(bytes)?;
        file.rewind()?;
        Ok(file)
    };
    let file = write().map_err(|source| call.talk(source))?;
    Ok(file.into())
}

/// How two trees differ, by path.
pub(super) fn between(
    git_dir: &GitDir,
    before: TreeId,
    after: TreeId,
) -> Result<Vec<PathChange>, LandingError> {
    let mut call = call(
        "diff-tree",
        &[
            "-r",
            "-z",
            "--raw",
            "--no-abbrev",
            "--no-renames",
            &before.to_string(),
            &after.to_string(),
        ],
        git_dir,
    );
    call.output_bytes_max = DIFF_BYTES_MAX;
    let mut answer = Vec::new();
    let finished = call.run(Stdio::null(), &mut answer)?;
    call.expect_success(finished, &[])?;
    Ok(parse_raw(&answer).ok_or(RepositoryError::Answer { verb: "diff-tree" })?)
}

/// Reads `:mode mode id id letter NUL path NUL` records.
fn parse_raw(answer: &[u8]) -> Option<Vec<PathChange>> {
    let mut changes = Vec::new();
    let mut fields = answer.split(|byte| *byte == 0);
    loop {
        let head = fields.next()?;
        if head.is_empty() {
            return fields.next().is_none().then_some(changes);
        }
        let path = fields.next()?;
        let words: Vec<&[u8]> = head.strip_prefix(b":")?.split(|b| *b == b' ').collect();
        let [old_mode, new_mode, old_id, new_id, _] = words[..] else {
            return None;
        };
        changes.push(PathChange {
            path: TreePath::from(path),
            before: entry(old_mode, old_id)?,
            after: entry(new_mode, new_id)?,
        });
    }
}

/// The outer none is no answer; the inner one is no entry.
fn entry(mode: &[u8], id: &[u8]) -> Option<Option<TreeEntryId>> {
    if mode == b"000000" {
        return Some(None);
    }
    let oid = std::str::from_utf8(id).ok()?.parse().ok()?;
    let mode = EntryMode::from_octal(mode)?;
    Some(Some(TreeEntryId { mode, oid }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_raw_difference_is_read() {
        let one = "1".repeat(40);
        let text =
            format!(":000000 100644 {NO_ID} {one} A\0a b\0:100755 000000 {one} {NO_ID} D\0c\nd\0");
        let changes = parse_raw(text.as_bytes()).unwrap();
        assert_eq!(changes.len(), 2);
        assert_eq!(changes[0].before, None);
        assert_eq!(changes[1].after, None);
        assert_eq!(changes[1].path.as_bytes(), b"c\nd");
        assert_eq!(parse_raw(b""), Some(Vec::new()));
        for bad in ["x\0", ":100644 160000 a b M\0p\0", ":1\0"] {
            assert_eq!(parse_raw(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_offered(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            drop(parse_raw(&bytes));
        }
    }
}
