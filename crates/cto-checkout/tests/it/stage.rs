//! A baseline, an agent's copy of it, and a fresh one, in a temporary directory.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cto_checkout::{
    Baseline, BaselineCache, Changes, EntryMode, GitDir, ImportCaps, Patch, PatchCaps,
    PatchedLayer, TreeEntry, WorkingCopy, apply_patch, take_patch, verify_tree,
};
use tempfile::TempDir;

pub(crate) type Row<'a> = (&'a [u8], EntryMode, &'a [u8]);

pub(crate) fn file<'a>(path: &'a str, content: &'a str) -> Row<'a> {
    (path.as_bytes(), EntryMode::Regular, content.as_bytes())
}

pub(crate) fn entries<'a>(rows: &[Row<'a>]) -> Vec<TreeEntry<'a>> {
    let entry = |&(path, mode, content)| TreeEntry {
        path,
        mode,
        content,
    };
    rows.iter().map(entry).collect()
}

pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    pub(crate) baseline: Baseline,
    pub(crate) git_dir: GitDir,
    pub(crate) copy: WorkingCopy,
}

impl Stage {
    pub(crate) fn new(rows: &[Row<'_>]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cache = BaselineCache::at(dir.path().join("baselines"));
        let baseline = cache
            .ensure_entries(&entries(rows), &ImportCaps::default())
            .unwrap();
        let git_dir = GitDir::create(&dir.path().join("git")).unwrap();
        let copy = WorkingCopy::make(&baseline, &dir.path().join("copy")).unwrap();
        Self {
            dir,
            baseline,
            git_dir,
            copy,
        }
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.copy.path().join(path)
    }

    pub(crate) fn at_bytes(&self, path: &[u8]) -> PathBuf {
        self.copy.path().join(std::ffi::OsStr::from_bytes(path))
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        put(&self.at(path), content.as_ref());
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        symlink(target, self.at(path)).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        cto_checkout::remove_tree(&self.at(path)).unwrap();
    }

    /// Lists the changes as lines: `A`, `D` or `M` and the path.
    pub(crate) fn changed(&self) -> String {
        listing(&self.copy.changes().unwrap())
    }

    pub(crate) fn odd(&self) -> String {
        let changes = self.copy.changes().unwrap();
        let lines: Vec<String> = changes
            .oddities
            .iter()
            .map(|oddity| format!("{}: {}", oddity.path, oddity.kind))
            .collect();
        lines.join("\n")
    }

    pub(crate) fn patch(&self) -> Patch {
        let changes = self.copy.changes().unwrap();
        let out = self.dir.path().join("patch.diff");
        take_patch(
            &self.git_dir,
            &self.baseline,
            &self.copy,
            &changes.changes,
            &out,
            &PatchCaps::default(),
        )
        .unwrap()
    }

    /// Takes the patch and applies it to a fresh copy, which must then be what the agent left.
    pub(crate) fn reproduce(&self) -> Patch {
        let patch = self.patch();
        let mut fresh = WorkingCopy::make(&self.baseline, &self.dir.path().join("fresh")).unwrap();
        apply_patch(&self.git_dir, &patch.path, &fresh).unwrap();
        verify_tree(&fresh, &patch.manifest).unwrap().unwrap();
        assert_eq!(
            fresh.manifest_now().unwrap(),
            self.copy.manifest_now().unwrap()
        );
        assert_eq!(fresh.restamp().unwrap(), patch.tree_id);
        assert!(fresh.changes_since().unwrap().is_clean());
        let changes = self.copy.changes().unwrap().changes;
        let dest = self.dir.path().join("layer");
        let layer =
            PatchedLayer::make(&self.git_dir, &self.baseline, &patch, &changes, &dest).unwrap();
        assert_eq!(layer.tree_id, patch.tree_id);
        patch
    }

    /// The same by the git of a stranger, in a repository of his own.
    pub(crate) fn reproduce_with_plain_git(&self, patch: &Patch) {
        if patch.bytes == 0 {
            return;
        }
        let repo = self.dir.path().join("plain");
        WorkingCopy::make(&self.baseline, &repo).unwrap();
        git(&repo, &["init", "-q"]);
        git(&repo, &["add", "-A", "-f"]);
        git(&repo, &["apply", "--index", patch.path.to_str().unwrap()]);
        assert_eq!(
            git(&repo, &["write-tree"]).trim(),
            patch.tree_id.to_string()
        );
    }
}

pub(crate) fn listing(changes: &Changes) -> String {
    let lines: Vec<String> = changes
        .changes
        .iter()
        .map(|change| match (change.before, change.after) {
            (None, _) => format!("A {}", change.path),
            (_, None) => format!("D {}", change.path),
            (Some(_), Some(_)) => format!("M {}", change.path),
        })
        .collect();
    lines.join("\n")
}

pub(crate) fn put(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    File::create(path).unwrap().write_all(content).unwrap();
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = run_git(dir, arguments);
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the tests compare with a git that is not ours"
)]
pub(crate) fn run_git(dir: &Path, arguments: &[&str]) -> Output {
    Command::new("git")
        .args([
            "-c",
            "core.autocrlf=false",
            "-c",
            "init.defaultBranch=main",
            "-c",
            "core.fsync=none",
        ])
        .args(arguments)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap()
}

/// Where a test needs something only root can do, or only others suffer from.
pub(crate) fn has_root() -> bool {
    cto_testkit::has("root", rustix::process::geteuid().is_root())
}

/// Runs a script of the test's own and returns what it prints.
#[expect(
    clippy::disallowed_methods,
    reason = "owners and agents change trees by shells of their own"
)]
pub(crate) fn sh(dir: &Path, script: &str) -> String {
    let output = Command::new("/bin/sh")
        .args(["-c", script])
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
