//! What lies around a run, before and after: nothing of it may change.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use cto_contract::ids::Digest;
use cto_evidence::canonical::{hash_reader, sha256};

/// One entry, in all that a write would change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    content: Option<Digest>,
}

/// Everything below a directory, less some names at its top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surroundings(BTreeMap<String, Entry>);

impl Surroundings {
    pub(crate) fn look(root: &Path, without: &[&str]) -> io::Result<Self> {
        let mut found = BTreeMap::new();
        let mut dirs = vec![String::new()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(root.join(&dir))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if dir.is_empty() && without.contains(&name.as_str()) {
                    continue;
                }
                let path = if dir.is_empty() {
                    name
                } else {
                    format!("{dir}/{name}")
                };
                let full = entry.path();
                let meta = fs::symlink_metadata(&full)?;
                let content = if meta.is_file() {
                    Some(digest(&full)?)
                } else if meta.is_symlink() {
                    let target = fs::read_link(&full)?;
                    Some(sha256(target.as_os_str().as_encoded_bytes()))
                } else {
                    None
                };
                if meta.is_dir() {
                    dirs.push(path.clone());
                }
                let seen = Entry {
                    mode: meta.mode(),
                    owner: (meta.uid(), meta.gid()),
                    modified: (meta.mtime(), meta.mtime_nsec()),
                    content,
                };
                found.insert(path, seen);
            }
        }
        Ok(Self(found))
    }

    /// Paths that are new, gone or different.
    pub(crate) fn differences(&self, after: &Self) -> Vec<String> {
        let paths: std::collections::BTreeSet<&String> =
            self.0.keys().chain(after.0.keys()).collect();
        paths
            .into_iter()
            .filter(|path| self.0.get(*path) != after.0.get(*path))
            .cloned()
            .collect()
    }
}

fn digest(path: &Path) -> io::Result<Digest> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    hash_reader(file).map(|(digest, _)| digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_write_leaves_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir(root.join("sub")).unwrap();
        for name in ["a", "b", "sub/c"] {
            File::create(root.join(name)).unwrap();
        }
        let look = || Surroundings::look(root, &["home"]).unwrap();
        let before = look();
        fs::create_dir(root.join("home")).unwrap();
        assert!(before.differences(&look()).is_empty());
        fs::remove_file(root.join("a")).unwrap();
        std::os::unix::fs::symlink("b", root.join("a")).unwrap();
        let mut perms = fs::metadata(root.join("b")).unwrap().permissions();
        perms.set_readonly(true);
        fs::set_permissions(root.join("b"), perms).unwrap();
        io::Write::write_all(&mut File::create(root.join("sub/c")).unwrap(), b"x").unwrap();
        fs::create_dir(root.join("new")).unwrap();
        assert_eq!(before.differences(&look()), ["a", "b", "new", "sub/c"]);
    }
}
