//! Where a repository lies: its work tree, its git directory, and the directory it shares with other work trees.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::repository::error::{RepositoryError, UnsupportedKind};
use crate::repository::git_files::{GitFiles, check_owner};

const POINTER_BYTES_MAX: u64 = 16 * 1024;

#[derive(Debug)]
pub(crate) struct Place {
    /// `None` for a bare repository.
    pub(crate) work_tree: Option<PathBuf>,
    /// Holds `HEAD` and the index.
    pub(crate) git_dir: GitFiles,
    /// Holds objects, references and configuration; the same directory except for a linked work tree.
    pub(crate) common_dir: GitFiles,
}

impl Place {
    /// Finds the repository at a directory or above it, but in no directory of another user.
    ///
    /// A bare repository is taken only where it was asked for: one that lies in a tree could be part of its content.
    pub(crate) fn find(start: &Path) -> Result<Self, RepositoryError> {
        let not_found = || RepositoryError::NotFound {
            path: start.to_owned(),
        };
        let mut at = std::fs::canonicalize(start).map_err(RepositoryError::read(start))?;
        if at.file_name() == Some(OsStr::new(".git")) && is_git_directory(&at) {
            at.pop();
        }
        check_owner(&at, metadata(&at)?.ok_or_else(not_found)?.uid())?;
        if metadata(&at.join(".git"))?.is_none() && is_git_directory(&at) {
            return Self::with_git_dir(None, &at);
        }
        loop {
            let entry = at.join(".git");
            if let Some(found) = metadata(&entry)? {
                let git_dir = match found.file_type() {
                    kind if kind.is_dir() => entry,
                    kind if kind.is_file() => pointer(&at)?,
                    _ => {
                        return Err(RepositoryError::unsupported(
                            UnsupportedKind::LinkInGitDirectory,
                            format_args!("`{}` is a symbolic link", entry.display()),
                        ));
                    }
                };
                return Self::with_git_dir(Some(at), &git_dir);
            }
            if !at.pop() || metadata(&at)?.is_none_or(|above| above.uid() != geteuid().as_raw()) {
                return Err(not_found());
            }
        }
    }

    fn with_git_dir(work_tree: Option<PathBuf>, git_dir: &Path) -> Result<Self, RepositoryError> {
        if let Some(work_tree) = &work_tree {
            drop(GitFiles::open(work_tree)?);
        }
        let git_dir = GitFiles::open(git_dir)?;
        let common_dir = match git_dir.bytes("commondir", POINTER_BYTES_MAX)? {
            None => git_dir.path().to_owned(),
            Some(text) => resolve(git_dir.path(), &text)?,
        };
        if !is_git_directory(&common_dir) {
            return Err(RepositoryError::Malformed {
                path: common_dir,
                detail: "it lacks `HEAD`, `objects` or `refs`".to_owned(),
            });
        }
        let common_dir = GitFiles::open(&common_dir)?;
        Ok(Self {
            work_tree,
            git_dir,
            common_dir,
        })
    }
}

/// Reads the `.git` file of a linked work tree or a submodule.
fn pointer(work_tree: &Path) -> Result<PathBuf, RepositoryError> {
    let malformed = |detail: &str| RepositoryError::Malformed {
        path: work_tree.join(".git"),
        detail: detail.to_owned(),
    };
    let text = GitFiles::open(work_tree)?.bytes(".git", POINTER_BYTES_MAX)?;
    let text = text.ok_or_else(|| malformed("it went away"))?;
    let text = text.strip_prefix(b"gitdir: ");
    resolve(
        work_tree,
        text.ok_or_else(|| malformed("it does not start with `gitdir: `"))?,
    )
}

fn resolve(base: &Path, text: &[u8]) -> Result<PathBuf, RepositoryError> {
    let end = text.iter().rposition(|byte| !b"\r\n".contains(byte));
    let named = &text[..end.map_or(0, |end| end + 1)];
    let path = base.join(OsStr::from_bytes(named));
    std::fs::canonicalize(&path).map_err(RepositoryError::read(path))
}

/// Looks at what is there without following a link.
pub(crate) fn metadata(path: &Path) -> Result<Option<Metadata>, RepositoryError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(RepositoryError::read(path)(error)),
    }
}

fn is_git_directory(path: &Path) -> bool {
    let is = |name: &str, wanted: fn(&Metadata) -> bool| {
        std::fs::metadata(path.join(name)).is_ok_and(|found| wanted(&found))
    };
    is("HEAD", Metadata::is_file) && is("objects", Metadata::is_dir) && is("refs", Metadata::is_dir)
}
