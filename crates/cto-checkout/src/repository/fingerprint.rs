//! What must not change in the owner's repository during a run, and how it changed if it did.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;

use sha2::{Digest as _, Sha256};

use crate::beneath;
use crate::oid::Oid;
use crate::repository::error::RepositoryError;
use crate::repository::refs::Head;
use crate::repository::work_tree::{DirtyPath, Earlier, WorkTree};
use crate::repository::{CONFIG_BYTES_MAX, Repository};
use crate::stamp::Stamp;
use crate::tree_path::TreePath;
use crate::walk::{Closed, FoundKind, WalkCaps, walk};

const DIFFERENCES_MAX: usize = 100;
const HOOK_BYTES_MAX: u64 = 64 << 20;
const HOOKS: WalkCaps = WalkCaps {
    entries: 10_000,
    depth: 16,
    path_bytes: 1_024,
};

/// The state of a repository: `HEAD`, references, configuration and hooks by content; tracked and untracked paths by
/// what the kernel says about them. Ignored paths and the rest of `.git` are not part of it.
#[derive(Clone, Debug)]
pub struct SourceFingerprint {
    pub head: Head,
    /// Nothing is staged, changed or untracked.
    pub clean: bool,
    /// The paths that are not clean.
    pub dirty: Vec<DirtyPath>,
    refs: BTreeMap<TreePath, Vec<u8>>,
    /// Configuration and hooks, by path in the git directory.
    files: BTreeMap<TreePath, (u32, Oid)>,
    paths: Vec<(TreePath, Option<Stamp>)>,
    ignored: Vec<TreePath>,
}

impl Repository {
    /// Takes the fingerprint of the repository as it is now.
    pub fn fingerprint(&self) -> Result<SourceFingerprint, RepositoryError> {
        self.fingerprint_with(None)
    }

    /// Takes it again to compare with an earlier one: what was ignored then still is, whatever the rules say now.
    pub fn fingerprint_after(
        &self,
        before: &SourceFingerprint,
    ) -> Result<SourceFingerprint, RepositoryError> {
        self.fingerprint_with(Some(&Earlier {
            paths: &before.paths,
            ignored: &before.ignored,
        }))
    }

    fn fingerprint_with(
        &self,
        earlier: Option<&Earlier<'_>>,
    ) -> Result<SourceFingerprint, RepositoryError> {
        let looked = match self.work_tree() {
            Some(work_tree) => self.look(work_tree, earlier)?,
            None => WorkTree {
                paths: Vec::new(),
                dirty: Vec::new(),
                ignored: Vec::new(),
            },
        };
        Ok(SourceFingerprint {
            head: self.head()?,
            clean: looked.dirty.is_empty(),
            dirty: looked.dirty,
            refs: self.place.references()?,
            files: self.settings_and_hooks()?,
            paths: looked.paths,
            // The rules of the first look stay in force for a third one too.
            ignored: earlier.map_or(looked.ignored, |earlier| earlier.ignored.to_vec()),
        })
    }

    fn settings_and_hooks(&self) -> Result<BTreeMap<TreePath, (u32, Oid)>, RepositoryError> {
        let mut files = BTreeMap::new();
        for (place, name) in [
            (&self.place.common_dir, "config"),
            (&self.place.git_dir, "config.worktree"),
        ] {
            if let Some(file) = place.read(&name.into(), CONFIG_BYTES_MAX)? {
                let noted = (file.stamp.mode, Oid::of_blob(&file.bytes));
                files.insert(name.into(), noted);
            }
        }
        let place = &self.place.common_dir;
        // Often a link to hooks that a team shares, and those are no part of this repository.
        if let Ok(target) = beneath::read_link(place.root(), &"hooks".into()) {
            files.insert("hooks".into(), (0, Oid::of_blob(&target)));
            return Ok(files);
        }
        let Some(hooks) = place.directory(&"hooks".into())? else {
            return Ok(files);
        };
        let found = walk(hooks.as_fd(), HOOKS, Closed::Refuse)
            .map_err(RepositoryError::walk(&place.path().join("hooks")))?;
        for entry in found {
            let path = TreePath::from("hooks").join(entry.path.as_bytes());
            let content = match entry.kind {
                FoundKind::Regular => {
                    let file = place.read(&path, HOOK_BYTES_MAX)?;
                    file.map(|file| file.bytes).unwrap_or_default()
                }
                FoundKind::Symlink => beneath::read_link(place.root(), &path)
                    .map_err(RepositoryError::read(place.path().join(path.as_path())))?,
                FoundKind::Directory { .. }
                | FoundKind::Fifo
                | FoundKind::Socket
                | FoundKind::CharDevice
                | FoundKind::BlockDevice
                | FoundKind::GitNamed
                | FoundKind::Unknown => Vec::new(),
            };
            files.insert(path, (entry.stamp.mode, Oid::of_blob(&content)));
        }
        Ok(files)
    }
}

impl SourceFingerprint {
    /// Returns the SHA-256 of all that is part of it, in hexadecimal digits.
    pub fn digest(&self) -> String {
        let mut sha = Sha256::new();
        let mut add = |part: &[u8]| {
            sha.update((part.len() as u64).to_be_bytes());
            sha.update(part);
        };
        add(b"cto.source-fingerprint/v1");
        add(format!("{:?}", self.head).as_bytes());
        for (name, value) in &self.refs {
            add(name.as_bytes());
            add(value);
        }
        add(b"");
        for (name, (mode, oid)) in &self.files {
            add(name.as_bytes());
            add(&mode.to_be_bytes());
            add(oid.as_bytes());
        }
        add(b"");
        let mut line = Vec::new();
        for (path, stamp) in &self.paths {
            add(path.as_bytes());
            line.clear();
            if let Some(stamp) = stamp {
                line.extend_from_slice(&stamp.mode.to_be_bytes());
                for number in [stamp.size, stamp.ino] {
                    line.extend_from_slice(&number.to_be_bytes());
                }
                for time in [stamp.ctime, stamp.mtime] {
                    line.extend_from_slice(&time.0.to_be_bytes());
                    line.extend_from_slice(&time.1.to_be_bytes());
                }
            }
            add(&line);
        }
        let digits = sha.finalize();
        digits.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns how many paths of the work tree are part of it.
    pub fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// Says what a later one shows differently: a line for each, with a bound. Empty means that nothing changed.
    pub fn differences(&self, after: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.head != after.head {
            lines.push("HEAD: changed".to_owned());
        }
        compare(&mut lines, "reference", self.refs.iter(), after.refs.iter());
        compare(
            &mut lines,
            "git file",
            self.files.iter(),
            after.files.iter(),
        );
        let present = |fingerprint: &'_ Self| -> Vec<(TreePath, Stamp)> {
            let paths = fingerprint.paths.iter();
            paths
                .filter_map(|(path, stamp)| {
                    Some((
                        path.clone(),
                        Stamp {
                            dev: 0,
                            ..(*stamp)?
                        },
                    ))
                })
                .collect()
        };
        let (old, new) = (present(self), present(after));
        let pairs = |(path, stamp): &'_ (TreePath, Stamp)| (path.clone(), *stamp);
        compare(
            &mut lines,
            "path",
            old.iter().map(pairs),
            new.iter().map(pairs),
        );
        if lines.len() > DIFFERENCES_MAX {
            let more = lines.len() - DIFFERENCES_MAX;
            lines.truncate(DIFFERENCES_MAX);
            lines.push(format!("and {more} more"));
        }
        lines
    }
}

/// Adds a line for each name that only one side has, or that has another value. Both sides are sorted by name.
fn compare<N: Ord + std::fmt::Display, V: PartialEq>(
    lines: &mut Vec<String>,
    what: &str,
    before: impl Iterator<Item = (N, V)>,
    after: impl Iterator<Item = (N, V)>,
) {
    let (mut before, mut after) = (before.peekable(), after.peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let old = if order.is_le() { before.next() } else { None };
        let new = if order.is_ge() { after.next() } else { None };
        let line = match (old, new) {
            (Some((_, old)), Some((_, new))) if old == new => continue,
            (Some((name, _)), Some(_)) => format!("{what} `{name}`: changed"),
            (Some((name, _)), None) => format!("{what} `{name}`: gone"),
            (None, Some((name, _))) => format!("{what} `{name}`: new"),
            (None, None) => return,
        };
        lines.push(line);
    }
}
