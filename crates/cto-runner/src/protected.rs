//! The protected roots of the configuration: directories that no run may change, looked at before and after a backend.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cto_contract::event::RootsCheck;
use cto_contract::text::path_text;

/// Bounds on one look at all roots together.
const ENTRIES_MAX: usize = 1_000_000;
const DEPTH_MAX: usize = 256;
/// How many changed paths are named.
const NAMED_MAX: usize = 5;

/// What the kernel says about one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    mode: u32,
    size: u64,
    inode: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

/// The roots as they were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProtectedRoots(BTreeMap<PathBuf, Mark>);

impl ProtectedRoots {
    /// Looks at every root. One that is not there yet must not be there afterwards.
    pub(crate) fn look(roots: &[String]) -> io::Result<Self> {
        let mut marks = BTreeMap::new();
        for root in roots {
            walk(Path::new(root), 0, &mut marks)?;
        }
        Ok(Self(marks))
    }

    /// Looks again and says what differs; none when nothing is protected.
    pub(crate) fn check_again(&self, roots: &[String]) -> Option<RootsCheck> {
        if roots.is_empty() {
            return None;
        }
        let after = match Self::look(roots) {
            Ok(after) => after,
            Err(error) => {
                return Some(RootsCheck {
                    changed: 0,
                    names: Vec::new(),
                    unreadable: Some(error.to_string()),
                });
            }
        };
        let differs = |(path, mark): (&PathBuf, &Mark)| {
            (self.0.get(path) != Some(mark)).then(|| path.clone())
        };
        let gone = self.0.keys().filter(|path| !after.0.contains_key(*path));
        let changed: Vec<PathBuf> = after
            .0
            .iter()
            .filter_map(differs)
            .chain(gone.cloned())
            .collect();
        let name =
            |path: &PathBuf| path_text(path.file_name().unwrap_or_default().as_encoded_bytes());
        Some(RootsCheck {
            changed: changed.len() as u64,
            names: changed.iter().take(NAMED_MAX).map(name).collect(),
            unreadable: None,
        })
    }
}

fn walk(path: &Path, depth: usize, marks: &mut BTreeMap<PathBuf, Mark>) -> io::Result<()> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        meta => meta?,
    };
    if marks.len() >= ENTRIES_MAX || depth > DEPTH_MAX {
        return Err(io::Error::other(format!(
            "the protected roots hold more than {ENTRIES_MAX} entries or lie too deep"
        )));
    }
    let mark = Mark {
        mode: meta.mode(),
        size: meta.len(),
        inode: meta.ino(),
        changed: (meta.ctime(), meta.ctime_nsec()),
        modified: (meta.mtime(), meta.mtime_nsec()),
    };
    marks.insert(path.to_owned(), mark);
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            walk(&entry?.path(), depth + 1, marks)?;
        }
    }
    Ok(())
}
