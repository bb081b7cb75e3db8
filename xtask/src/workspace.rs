//! What a chore may know about the workspace: its root, its crates, and the files that belong to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use cargo_metadata::{Metadata, MetadataCommand};

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) metadata: Metadata,
}

/// One file of the project, by its path from the root with forward slashes.
#[derive(Debug)]
pub(crate) struct ProjectFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Workspace {
    /// Reads the manifests only, so it works without a network and before anything was built.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let metadata = MetadataCommand::new()
            .manifest_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml"))
            .no_deps()
            .other_options(["--offline".to_owned()])
            .exec()
            .context("could not read the workspace's manifests")?;
        Ok(Self {
            root: metadata.workspace_root.clone().into(),
            target: metadata.target_directory.clone().into(),
            metadata,
        })
    }

    /// Where tools that tests and checks need are installed; thrown away with the target directory.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("test-tools")
    }

    /// Returns every tracked or not yet tracked, but never an ignored, regular file.
    pub(crate) fn files(&self) -> anyhow::Result<Vec<ProjectFile>> {
        let listing = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .output()
            .context("could not start `git ls-files`")?;
        ensure!(
            listing.status.success(),
            "`git ls-files` failed: {}",
            String::from_utf8_lossy(&listing.stderr).trim()
        );
        let mut files = Vec::new();
        for name in listing
            .stdout
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
        {
            let path = String::from_utf8_lossy(name).into_owned();
            let full = self.root.join(bytes_as_path(name));
            // A link's target and a file that was deleted but is still in the index are not ours to read.
            if !full.symlink_metadata().is_ok_and(|data| data.is_file()) {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| format!("could not read {path}"))?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            files.push(ProjectFile { path, text });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(files)
    }
}

fn bytes_as_path(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}
