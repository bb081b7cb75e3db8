//! `git status` of the owner's work tree, with a git directory of ours that starts nothing.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{Timespec, Timestamps, futimens};

use crate::git::{Call, GitError};
use crate::git_dir::GitDir;
use crate::repository::config::Config;
use crate::repository::error::RepositoryError;
use crate::repository::git_files::{GitFile, special_file};
use crate::repository::{OBJECT_SETTINGS, Repository, alternates};
use crate::tree_path::TreePath;

pub(crate) const INDEX_BYTES_MAX: u64 = 1 << 30;
const RULES_BYTES_MAX: u64 = 1 << 20;
/// What git opens by its name in a work tree.
const RULE_FILES: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];
const TRAP_ENTRIES_MAX: usize = 5_000_000;
const STATUS_WALL: Duration = Duration::from_secs(300);
const STATUS_BYTES_MAX: u64 = 1 << 30;
const SHARED_INDEXES_MAX: usize = 8;

/// Filters are programs of the owner's choice, and an encoding that is unknown would stop git.
const ATTRIBUTES: &[u8] = b"\n* -filter -working-tree-encoding -diff -merge\n";

const USUAL: &[&str] = &[
    "--porcelain=v1",
    "-z",
    "--no-renames",
    "--no-ahead-behind",
    // Git would look into one by starting itself there, with the settings that lie there.
    "--ignore-submodules=all",
];

/// Whether paths that git does not know are searched for.
#[derive(Clone, Copy)]
pub(crate) enum Untracked {
    Listed,
    LeftOut,
}

impl Untracked {
    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Listed => &["--untracked-files=all", "--ignored=matching"],
            Self::LeftOut => &["--untracked-files=no"],
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) changed: Vec<TreePath>,
    pub(crate) untracked: Vec<TreePath>,
    pub(crate) ignored: Vec<TreePath>,
}

impl Repository {
    /// Makes a git directory that differs from the owner's in nothing that decides what is clean.
    pub(crate) fn status_dir(&self, place: &Path) -> Result<GitDir, RepositoryError> {
        let git_dir = GitDir::create(place)?;
        let objects = self.git_dir.path().join("objects");
        git_dir.replace(
            "objects/info/alternates",
            &alternates::encode([objects.as_path()]),
        )?;
        if let Some(id) = self.head()?.id() {
            git_dir.replace("HEAD", format!("{id}\n").as_bytes())?;
        }
        git_dir.replace("config", settings_file(&self.config).as_bytes())?;
        let rules = |name| self.place.common_dir.bytes(name, RULES_BYTES_MAX);
        if let Some(exclude) = rules("info/exclude")? {
            git_dir.replace("info/exclude", &exclude)?;
        }
        let mut attributes = rules("info/attributes")?.unwrap_or_default();
        attributes.extend_from_slice(ATTRIBUTES);
        git_dir.replace("info/attributes", &attributes)?;
        Ok(git_dir)
    }

    /// A split index needs the file it was split from.
    pub(crate) fn copy_shared_indexes(&self, git_dir: &GitDir) -> Result<(), RepositoryError> {
        let files = &self.place.git_dir;
        let names = std::fs::read_dir(files.path()).map_err(RepositoryError::read(files.path()))?;
        let mut copied = 0;
        for name in names.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
            if name.starts_with("sharedindex.") && copied < SHARED_INDEXES_MAX {
                copied += 1;
                if let Some(bytes) = files.bytes(&name, INDEX_BYTES_MAX)? {
                    git_dir.replace(&name, &bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Asks git; what is untracked and ignored only if that is asked for.
    pub(crate) fn status(
        &self,
        git_dir: &GitDir,
        work_tree: &Path,
        untracked: Untracked,
    ) -> Result<Status, RepositoryError> {
        let call = Call {
            verb: "status",
            arguments: [USUAL, untracked.arguments()]
                .concat()
                .into_iter()
                .map(str::to_owned)
                .collect(),
            git_dir: git_dir.path(),
            work_tree: Some(work_tree),
            wall: STATUS_WALL,
            output_bytes_max: STATUS_BYTES_MAX,
        };
        let conversion = match self.config.text("core.autocrlf") {
            Some("input") => "core.autocrlf=input",
            _ if self.config.is_true("core.autocrlf") => "core.autocrlf=true",
            _ => "core.autocrlf=false",
        };
        // What was vouched for is not looked at again, and reading ahead would do just that.
        let settings = [OBJECT_SETTINGS, &[conversion, "core.preloadIndex=false"]].concat();
        let mut answer = Vec::new();
        let trap = || trap_below(work_tree);
        let finished = call.run_watched(&settings, Stdio::null(), &mut answer, &trap);
        let finished = finished.map_err(|error| match error {
            GitError::Waits { path, .. } => special_file(&path),
            other @ (GitError::Start { .. }
            | GitError::Talk { .. }
            | GitError::TimedOut { .. }
            | GitError::TooMuchOutput { .. }
            | GitError::Failed { .. }) => other.into(),
        })?;
        call.expect_success(finished, &[])?;
        parse_status(&answer).ok_or(RepositoryError::Answer { verb: "status" })
    }
}

/// Finds a pipe or the like by the name of a file that git reads in every directory it enters.
fn trap_below(work_tree: &Path) -> Option<PathBuf> {
    let mut left = vec![work_tree.to_owned()];
    let mut looked_at = 0;
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > TRAP_ENTRIES_MAX {
                return None;
            }
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let is_plain = kind.is_file() || kind.is_symlink();
            if kind.is_dir() {
                left.push(entry.path());
            } else if !is_plain && RULE_FILES.iter().any(|name| entry.file_name() == *name) {
                return Some(entry.path());
            }
        }
    }
    None
}

/// Takes over the few settings that say how the owner's file system behaves, each from a closed list.
fn settings_file(config: &Config) -> String {
    let word = |key: &str, default: bool| match config.get(key) {
        None => default,
        Some(_) => config.is_true(key),
    };
    let minimal = config.text("core.checkstat") == Some("minimal");
    let eol = match config.text("core.eol") {
        Some("lf") => "lf",
        Some("crlf") => "crlf",
        _ => "native",
    };
    format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfilemode = {}\n\tsymlinks = {}\n\tignorecase = {}\n\ttrustctime = {}\n\tcheckStat = {}\n\teol = {eol}\n",
        word("core.filemode", true),
        word("core.symlinks", true),
        word("core.ignorecase", false),
        word("core.trustctime", true),
        if minimal { "minimal" } else { "default" },
    )
}

/// Writes the copy with the time of the original: by it git tells which files may have changed in the same moment.
pub(crate) fn put_index(git_dir: &GitDir, index: &GitFile) -> Result<(), RepositoryError> {
    let path = git_dir.path().join("index");
    let put = || {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        let mut file = crate::git_dir::create(&path)?;
        file.write_all(&index.bytes)?;
        let time = Timespec {
            tv_sec: index.stamp.mtime.0,
            tv_nsec: index.stamp.mtime.1.into(),
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        Ok(futimens(&file, &times)?)
    };
    put().map_err(RepositoryError::write(&path))
}

pub(crate) fn ls_files(
    git_dir: &GitDir,
    work_tree: &Path,
) -> Result<Vec<TreePath>, RepositoryError> {
    let call = Call {
        verb: "ls-files",
        arguments: vec!["-z".into(), "--deduplicate".into()],
        git_dir: git_dir.path(),
        work_tree: Some(work_tree),
        wall: STATUS_WALL,
        output_bytes_max: STATUS_BYTES_MAX,
    };
    let mut answer = Vec::new();
    let finished = call.run(Stdio::null(), &mut answer)?;
    call.expect_success(finished, &[])?;
    let paths = answer.split(|&byte| byte == 0);
    Ok(paths
        .filter(|path| !path.is_empty())
        .map(TreePath::from)
        .collect())
}

/// Reads two letters, a blank and a path up to each NUL; `None` for anything else.
fn parse_status(answer: &[u8]) -> Option<Status> {
    let mut status = Status::default();
    for record in answer.split_inclusive(|&byte| byte == 0) {
        let (mark, path) = record.strip_suffix(b"\0")?.split_at_checked(3)?;
        if path.is_empty() || mark[2] != b' ' {
            return None;
        }
        match &mark[..2] {
            // A repository in the work tree is listed as a directory and not looked into.
            b"??" => status
                .untracked
                .push(path.strip_suffix(b"/").unwrap_or(path).into()),
            b"!!" => status.ignored.push(path.into()),
            _ => status.changed.push(path.into()),
        }
    }
    status.ignored.sort_unstable();
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_status_is_sorted_out() {
        let status = parse_status(b" M a b\0?? new/\0?? x\ny\0!! target/\0UU c\0").unwrap();
        let shown = |paths: &[TreePath]| paths.iter().map(TreePath::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&status.changed), ["a b", "c"]);
        assert_eq!(shown(&status.untracked), ["new", "x\\u{a}y"]);
        assert_eq!(shown(&status.ignored), ["target/"]);
        for bad in [&b" M a"[..], b"M a\0", b" M \0", b"\0"] {
            assert_eq!(parse_status(bad), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_offered(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            drop(parse_status(&bytes));
        }
    }
}
