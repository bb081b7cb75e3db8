//! What of a repository must be known before something is put into it.

use std::path::Path;

use crate::git_dir::GitDir;
use crate::oid::Oid;
use crate::repository::error::RepositoryError;
use crate::repository::git_files::GitFiles;
use crate::repository::refs::RefValue;
use crate::repository::status::{INDEX_BYTES_MAX, put_index};
use crate::repository::{Repository, index_reader};

/// Most work trees of one repository that are looked at.
const WORK_TREES_MAX: usize = 10_000;

/// What a reference is, without following it.
pub(crate) enum RefAt {
    None,
    Id(Oid),
    Symbolic,
}

/// Whether the index could be taken over.
pub(crate) enum PlainIndex {
    Copied,
    Absent,
    /// Split, sparse or unknown.
    Other,
}

impl Repository {
    /// The git directory of this work tree, which holds its `HEAD` and its index.
    pub(crate) fn own_git_directory(&self) -> &Path {
        self.place.git_dir.path()
    }

    /// Looks at a reference by its full name.
    pub(crate) fn reference_at(&self, name: &str) -> Result<RefAt, RepositoryError> {
        if let Some(RefValue::Symbolic(_)) = self.place.loose(name.as_bytes())? {
            return Ok(RefAt::Symbolic);
        }
        let id = self.place.reference(name.as_bytes())?;
        Ok(id.map_or(RefAt::None, RefAt::Id))
    }

    /// The git directories of all work trees: the main one unless the repository is bare, and the linked ones.
    pub(crate) fn work_tree_git_dirs(&self) -> Result<Vec<GitFiles>, RepositoryError> {
        let common = &self.place.common_dir;
        let mut found = Vec::new();
        if !self.config.is_true("core.bare") {
            found.push(GitFiles::open(common.path())?);
        }
        if common.directory(&"worktrees".into())?.is_none() {
            return Ok(found);
        }
        let linked = common.path().join("worktrees");
        let entries = std::fs::read_dir(&linked).map_err(RepositoryError::read(&linked))?;
        for entry in entries.take(WORK_TREES_MAX) {
            let entry = entry.map_err(RepositoryError::read(&linked))?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push(GitFiles::open(&entry.path())?);
            }
        }
        Ok(found)
    }

    /// Copies the index of this work tree into a git directory of ours, if nothing about it is special.
    pub(crate) fn copy_plain_index(&self, git_dir: &GitDir) -> Result<PlainIndex, RepositoryError> {
        let index = self.place.git_dir.read(&"index".into(), INDEX_BYTES_MAX)?;
        let Some(index) = index else {
            return Ok(PlainIndex::Absent);
        };
        if index_reader::parse(&index.bytes).is_none() {
            return Ok(PlainIndex::Other);
        }
        put_index(git_dir, &index)?;
        Ok(PlainIndex::Copied)
    }
}
