//! Why a repository cannot be a source, each reason by name.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::baseline::BaselineError;
use crate::git::GitError;
use crate::git_dir::GitDirError;
use crate::oid::Oid;
use crate::remove::RemoveError;
use crate::tree_path::TreePath;
use crate::walk::WalkError;

/// What kind of repository, or of content, is not taken. Closed: each has a test and a name that reports show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnsupportedKind {
    /// Object ids are SHA-256.
    Sha256Objects,
    /// References are kept in tables and not in files.
    Reftable,
    /// A format version or extension that is not known here.
    UnknownExtension,
    /// `core.worktree` names another directory than the one that holds `.git`.
    SeparateWorkTree,
    /// A part of the git directory is a symbolic link.
    LinkInGitDirectory,
    /// A pipe, a device or a socket stands where git would read a file, and wait for ever.
    SpecialFile,
    /// `HEAD` names a branch without a commit.
    NoCommits,
    /// The tree holds a gitlink.
    Submodules,
    /// Objects of the tree or of its history are not there, as in a partial clone.
    MissingObjects,
    /// A tree that git reads but would not write, so that its id cannot be checked.
    IrregularTree,
    /// A name that git itself refuses to check out.
    NameRefusedByGit,
    LinkIsAbsolute,
    LinkLeavesRepository,
    LinkIntoGit,
    /// A link in the place of `.gitmodules`, or with a target that no file system takes.
    LinkUnusable,
    FileTooLarge,
    TreeTooLarge,
    TooManyFiles,
    PathTooLong,
    /// The history was asked for and is cut off.
    HistoryIsShallow,
    /// The history was asked for and would show what is withheld from the tree.
    HistoryShowsWithheld,
}

impl UnsupportedKind {
    pub const ALL: [Self; 21] = [
        Self::Sha256Objects,
        Self::Reftable,
        Self::UnknownExtension,
        Self::SeparateWorkTree,
        Self::LinkInGitDirectory,
        Self::SpecialFile,
        Self::NoCommits,
        Self::Submodules,
        Self::MissingObjects,
        Self::IrregularTree,
        Self::NameRefusedByGit,
        Self::LinkIsAbsolute,
        Self::LinkLeavesRepository,
        Self::LinkIntoGit,
        Self::LinkUnusable,
        Self::FileTooLarge,
        Self::TreeTooLarge,
        Self::TooManyFiles,
        Self::PathTooLong,
        Self::HistoryIsShallow,
        Self::HistoryShowsWithheld,
    ];

    /// Returns the name that reports and tests use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sha256Objects => "sha256_objects",
            Self::Reftable => "reftable",
            Self::UnknownExtension => "unknown_extension",
            Self::SeparateWorkTree => "separate_work_tree",
            Self::LinkInGitDirectory => "link_in_git_directory",
            Self::SpecialFile => "special_file",
            Self::NoCommits => "no_commits",
            Self::Submodules => "submodules",
            Self::MissingObjects => "missing_objects",
            Self::IrregularTree => "irregular_tree",
            Self::NameRefusedByGit => "name_refused_by_git",
            Self::LinkIsAbsolute => "link_is_absolute",
            Self::LinkLeavesRepository => "link_leaves_repository",
            Self::LinkIntoGit => "link_into_git",
            Self::LinkUnusable => "link_unusable",
            Self::FileTooLarge => "file_too_large",
            Self::TreeTooLarge => "tree_too_large",
            Self::TooManyFiles => "too_many_files",
            Self::PathTooLong => "path_too_long",
            Self::HistoryIsShallow => "history_is_shallow",
            Self::HistoryShowsWithheld => "history_shows_withheld",
        }
    }
}

impl fmt::Display for UnsupportedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a repository could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    #[error("there is no git repository at `{path}` or above it")]
    NotFound { path: PathBuf },
    #[error("`{path}` belongs to user {owner} and not to the user who runs this")]
    NotOwned { path: PathBuf, owner: u32 },
    #[error("the repository is not supported ({kind}): {detail}")]
    Unsupported {
        kind: UnsupportedKind,
        detail: String,
    },
    #[error("`{rev}` names no commit of the repository")]
    NoSuchRevision { rev: String },
    #[error("`{rev}` fits more than one object of the repository")]
    AmbiguousRevision { rev: String },
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("`{path}` is not what git writes: {detail}")]
    Malformed { path: PathBuf, detail: String },
    #[error("the object {oid} of `{path}` does not hold what its id says")]
    Corrupt { path: TreePath, oid: Oid },
    #[error("`git {verb}` gave an answer that is none")]
    Answer { verb: &'static str },
    #[error("could not write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("could not make a git directory of our own")]
    GitDir(#[from] GitDirError),
    #[error("the repository's objects could not be read")]
    Git(#[from] GitError),
    #[error("the tree could not be kept as a baseline")]
    Baseline(#[from] BaselineError),
    #[error("could not clean up")]
    Remove(#[from] RemoveError),
}

impl RepositoryError {
    pub(crate) fn unsupported(kind: UnsupportedKind, detail: impl fmt::Display) -> Self {
        let detail = detail.to_string();
        Self::Unsupported { kind, detail }
    }

    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Read { path, source }
    }

    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Write { path, source }
    }

    /// A walk through a part of the git directory at `root`.
    pub(crate) fn walk(root: &std::path::Path) -> impl FnOnce(WalkError) -> Self {
        let root = root.to_owned();
        move |error| {
            let (path, detail) = match error {
                WalkError::Read { path, source } => {
                    let path = root.join(path.as_path());
                    return Self::Read { path, source };
                }
                WalkError::TooManyEntries { path, max } => (path, format!("over {max} entries")),
                WalkError::TooDeep { path, max } => (path, format!("deeper than {max} levels")),
                WalkError::PathTooLong { path, max } => (path, format!("longer than {max} bytes")),
            };
            let path = root.join(path.as_path());
            Self::Malformed { path, detail }
        }
    }

    /// Returns why the repository is not supported, if that is what this says.
    pub const fn unsupported_kind(&self) -> Option<UnsupportedKind> {
        match self {
            Self::Unsupported { kind, .. } => Some(*kind),
            Self::NotFound { .. }
            | Self::NotOwned { .. }
            | Self::NoSuchRevision { .. }
            | Self::AmbiguousRevision { .. }
            | Self::Read { .. }
            | Self::Malformed { .. }
            | Self::Corrupt { .. }
            | Self::Answer { .. }
            | Self::Write { .. }
            | Self::GitDir(_)
            | Self::Git(_)
            | Self::Baseline(_)
            | Self::Remove(_) => None,
        }
    }
}
