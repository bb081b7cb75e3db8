//! An owner's repository made by a plain git, and a harness that reads it.

use std::cell::Cell;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cto_checkout::{
    BaselineCache, CommitInfo, GitLayer, History, Repository, RepositoryError, SourceBaseline,
    TreePath, UnsupportedKind,
};
use tempfile::TempDir;

use crate::stage::{git, put};

pub(crate) struct Owner {
    pub(crate) dir: TempDir,
    pub(crate) repo: PathBuf,
    pub(crate) cache: BaselineCache,
    opened: Cell<u32>,
}

impl Owner {
    /// Nothing is in it yet, not even a repository.
    pub(crate) fn without_repository() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        fs::create_dir(&repo).unwrap();
        Self {
            repo,
            cache: BaselineCache::at(dir.path().join("home/baselines")),
            opened: Cell::new(0),
            dir,
        }
    }

    pub(crate) fn empty() -> Self {
        let owner = Self::without_repository();
        owner.git(&["init", "-q"]);
        owner
    }

    /// A repository with one commit of these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let owner = Self::empty();
        owner.commit(files);
        owner
    }

    /// The same owner with another repository.
    pub(crate) fn at(self, repo: PathBuf) -> Self {
        Self { repo, ..self }
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.repo, arguments).trim().to_owned()
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        put(&self.repo.join(path), content.as_ref());
    }

    /// Writes files and commits everything; returns the commit's id.
    pub(crate) fn commit(&self, files: &[(&str, &str)]) -> String {
        for (path, content) in files {
            self.put(path, content);
        }
        self.git(&["add", "-A"]);
        self.commit_index()
    }

    pub(crate) fn commit_index(&self) -> String {
        commit_in(&self.repo);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Stores an object whatever it holds, and returns its id.
    pub(crate) fn store(&self, kind: &str, content: &[u8]) -> String {
        store(&self.repo, kind, content)
    }

    /// Commits a tree that is no more than its bytes.
    pub(crate) fn commit_tree(&self, tree: &[u8]) {
        let tree = self.store("tree", tree);
        let commit =
            format!("tree {tree}\nauthor a <a@b> 0 +0000\ncommitter a <a@b> 0 +0000\n\nx\n");
        let commit = self.store("commit", commit.as_bytes());
        put(
            &self.repo.join(".git/refs/heads/main"),
            format!("{commit}\n").as_bytes(),
        );
    }

    pub(crate) fn open_at(&self, path: &Path) -> Result<Repository, RepositoryError> {
        self.opened.set(self.opened.get() + 1);
        let scratch = format!("scratch-{}", self.opened.get());
        Repository::open(path, &self.dir.path().join(scratch))
    }

    pub(crate) fn try_open(&self) -> Result<Repository, RepositoryError> {
        self.open_at(&self.repo)
    }

    pub(crate) fn open(&self) -> Repository {
        self.try_open().unwrap()
    }

    pub(crate) fn try_baseline(&self) -> Result<(Repository, SourceBaseline), RepositoryError> {
        let repository = self.try_open()?;
        let commit = repository.resolve(None)?;
        let baseline = repository.baseline(&commit, &self.cache, &nothing)?;
        Ok((repository, baseline))
    }

    pub(crate) fn baseline(&self) -> (Repository, SourceBaseline) {
        self.try_baseline().unwrap()
    }

    pub(crate) fn layer(&self, history: History) -> Result<GitLayer, RepositoryError> {
        let (repository, baseline) = self.try_baseline()?;
        repository.git_layer(&baseline, history, &self.cache)
    }

    /// The reason by its name, and what it says.
    pub(crate) fn refusal(&self) -> (UnsupportedKind, String) {
        refusal(self.try_baseline().map(drop))
    }
}

pub(crate) fn nothing(_: &TreePath) -> bool {
    false
}

pub(crate) fn resolve(repository: &Repository, rev: &str) -> CommitInfo {
    repository.resolve(Some(rev)).unwrap()
}

pub(crate) fn refusal(result: Result<(), RepositoryError>) -> (UnsupportedKind, String) {
    match result {
        Err(RepositoryError::Unsupported { kind, detail }) => (kind, detail),
        Err(error) => panic!("another error: {error:?}"),
        Ok(()) => panic!("it was taken"),
    }
}

pub(crate) fn commit_in(repo: &Path) {
    let author = ["-c", "user.name=o", "-c", "user.email=o@example.com"];
    let commit = ["commit", "-q", "--allow-empty", "--no-verify", "-m", "x"];
    git(repo, &[&author[..], &commit[..]].concat());
}

#[expect(
    clippy::disallowed_methods,
    reason = "the tests compare with a git that is not ours"
)]
pub(crate) fn store(repo: &Path, kind: &str, content: &[u8]) -> String {
    let mut child = Command::new("git")
        .args(["hash-object", "-w", "--literally", "--stdin", "-t", kind])
        .current_dir(repo)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// One entry of a tree object.
pub(crate) fn tree_entry(mode: &str, name: &str, id: &str) -> Vec<u8> {
    let id: cto_checkout::Oid = id.parse().unwrap();
    [
        mode.as_bytes(),
        b" ",
        name.as_bytes(),
        b"\0",
        &id.as_bytes()[..],
    ]
    .concat()
}
