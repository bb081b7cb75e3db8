//! What a tree holds: path, mode, blob id and size of every entry, and the git tree id that follows from it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::oid::{Oid, TreeId};
use crate::tree_path::{TreePath, parent_of};

/// The three kinds of entry a tree may hold. Gitlinks are absent on purpose: nothing here can carry one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryMode {
    Regular,
    Executable,
    Symlink,
}

impl EntryMode {
    /// Returns the mode as git writes it.
    pub const fn as_octal(self) -> &'static str {
        match self {
            Self::Regular => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
        }
    }

    pub(crate) fn from_octal(text: &[u8]) -> Option<Self> {
        match text {
            b"100644" => Some(Self::Regular),
            b"100755" => Some(Self::Executable),
            b"120000" => Some(Self::Symlink),
            _ => None,
        }
    }

    /// Returns the permission bits a harness-made file of this mode has.
    pub(crate) const fn permissions(self) -> u32 {
        match self {
            Self::Regular => 0o644,
            Self::Executable => 0o755,
            Self::Symlink => 0o777,
        }
    }
}

/// One file or link. For a link, `oid` and `size` are those of its target text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub mode: EntryMode,
    pub oid: Oid,
    pub size: u64,
}

/// Why a list of entries is no tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("`{path}` is there twice")]
    Duplicate { path: TreePath },
    #[error("`{path}` is a file and a directory at once")]
    FileAndDirectory { path: TreePath },
    #[error("`{path}` cannot be the path of a tree entry")]
    BadPath { path: TreePath },
}

/// Every entry of a tree, sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    entries: Vec<(TreePath, Entry)>,
}

impl Manifest {
    /// Sorts the entries and checks that they form a tree.
    pub fn from_entries(mut entries: Vec<(TreePath, Entry)>) -> Result<Self, ManifestError> {
        entries.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        Self::from_sorted(entries)
    }

    /// The same for entries that should be sorted already; those that are not are as good as two of one path.
    pub(crate) fn from_sorted(entries: Vec<(TreePath, Entry)>) -> Result<Self, ManifestError> {
        if let Some((path, _)) = entries.iter().find(|(path, _)| !path.is_well_formed()) {
            return Err(ManifestError::BadPath { path: path.clone() });
        }
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            let path = pair[0].0.clone();
            return Err(ManifestError::Duplicate { path });
        }
        let manifest = Self { entries };
        manifest.no_file_is_a_directory()?;
        Ok(manifest)
    }

    fn no_file_is_a_directory(&self) -> Result<(), ManifestError> {
        let mut checked: &[u8] = b"";
        for (path, _) in &self.entries {
            let mut directory = path.parent();
            if directory == checked {
                continue;
            }
            // What lies above the last directory was looked up with it.
            let known = std::mem::replace(&mut checked, directory);
            let is_known = |directory: &[u8]| {
                known.starts_with(directory)
                    && matches!(known.get(directory.len()), None | Some(b'/'))
            };
            while !directory.is_empty() && !is_known(directory) {
                if self.get(directory).is_some() {
                    let path = directory.into();
                    return Err(ManifestError::FileAndDirectory { path });
                }
                directory = parent_of(directory);
            }
        }
        Ok(())
    }

    /// Returns the same tree with these sizes.
    pub(crate) fn with_sizes(mut self, sizes: impl Iterator<Item = u64>) -> Self {
        for ((_, entry), size) in self.entries.iter_mut().zip(sizes) {
            entry.size = size;
        }
        self
    }

    pub fn get(&self, path: &[u8]) -> Option<&Entry> {
        self.index_of(path).map(|index| &self.entries[index].1)
    }

    /// Tells whether a path is an entry, or a directory above one.
    pub fn holds(&self, path: &[u8]) -> bool {
        let below = self
            .entries
            .partition_point(|(known, _)| known.as_bytes() < path);
        self.entries[below..]
            .iter()
            .take_while(|(known, _)| known.as_bytes().starts_with(path))
            .any(|(known, _)| matches!(known.as_bytes().get(path.len()), None | Some(b'/')))
    }

    pub(crate) fn index_of(&self, path: &[u8]) -> Option<usize> {
        self.entries
            .binary_search_by(|(known, _)| known.as_bytes().cmp(path))
            .ok()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&TreePath, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path, entry))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the sum of all sizes.
    pub fn total_bytes(&self) -> u64 {
        self.entries.iter().map(|(_, entry)| entry.size).sum()
    }

    pub(crate) fn entries(&self) -> &[(TreePath, Entry)] {
        &self.entries
    }

    pub(crate) fn is_symlink(&self, path: &[u8]) -> bool {
        self.get(path)
            .is_some_and(|entry| entry.mode == EntryMode::Symlink)
    }

    /// Returns the directories that hold an entry, parents first.
    pub(crate) fn directories(&self) -> Vec<TreePath> {
        directories_of(self.entries.iter().map(|(path, _)| path))
    }

    /// Returns the id git would give this tree.
    pub fn tree_id(&self) -> TreeId {
        TreeId::new(tree_of(&self.entries, 0, &mut |_, _| {}).oid)
    }

    pub(crate) fn trees(&self) -> Trees {
        let mut trees = BTreeMap::new();
        let root = tree_of(&self.entries, 0, &mut |directory, tree| {
            trees.insert(TreePath::from(directory), tree);
        });
        trees.insert(TreePath::root(), root);
        trees
    }

    /// Returns what differs, sorted by path.
    pub(crate) fn difference(&self, after: &Self) -> Vec<crate::changes::Change> {
        let mut changes = Vec::new();
        let (mut old, mut new) = (
            self.entries.iter().peekable(),
            after.entries.iter().peekable(),
        );
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return changes,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old_path, _)), Some((new_path, _))) => old_path.cmp(new_path),
            };
            let before = if order.is_le() { old.next() } else { None };
            let after = if order.is_ge() { new.next() } else { None };
            let Some((path, _)) = before.or(after) else {
                return changes;
            };
            let (before, after) = (
                before.map(|(_, entry)| *entry),
                after.map(|(_, entry)| *entry),
            );
            if before != after {
                let path = path.clone();
                changes.push(crate::changes::Change {
                    path,
                    before,
                    after,
                });
            }
        }
    }

    /// Returns the tree after these changes, which must have been taken against this one.
    pub fn with_changes(&self, changes: &[crate::changes::Change]) -> Result<Self, ManifestError> {
        let mut entries: BTreeMap<&TreePath, Entry> =
            self.iter().map(|(path, entry)| (path, *entry)).collect();
        for change in changes {
            match change.after {
                Some(entry) => entries.insert(&change.path, entry),
                None => entries.remove(&change.path),
            };
        }
        Self::from_entries(
            entries
                .into_iter()
                .map(|(path, entry)| (path.clone(), entry))
                .collect(),
        )
    }
}

pub(crate) struct TreeObject {
    pub(crate) oid: Oid,
    pub(crate) content: Vec<u8>,
}

/// Every tree object by the directory it stands for; the root is the empty path.
pub(crate) type Trees = BTreeMap<TreePath, TreeObject>;

/// Builds the tree of the directory whose paths share their first `prefix` bytes, and hands over those below it.
///
/// Git sorts a tree as if directory names ended in `/`, which is the order of whole paths sorted by bytes: so the
/// entries of one directory are neighbours here and come in git's order already.
fn tree_of(
    entries: &[(TreePath, Entry)],
    prefix: usize,
    below: &mut dyn FnMut(&[u8], TreeObject),
) -> TreeObject {
    let mut content = Vec::new();
    let mut rest = entries;
    while let Some((path, entry)) = rest.first() {
        let name = &path.as_bytes()[prefix..];
        if let Some(slash) = name.iter().position(|&byte| byte == b'/') {
            let directory = &path.as_bytes()[..=prefix + slash];
            let count = rest.partition_point(|(path, _)| path.as_bytes().starts_with(directory));
            let tree = tree_of(&rest[..count], directory.len(), below);
            append(&mut content, "40000", &name[..slash], &tree.oid);
            below(&directory[..directory.len() - 1], tree);
            rest = &rest[count..];
        } else {
            append(&mut content, entry.mode.as_octal(), name, &entry.oid);
            rest = &rest[1..];
        }
    }
    TreeObject {
        oid: Oid::of_tree(&content),
        content,
    }
}

fn append(content: &mut Vec<u8>, mode: &str, name: &[u8], oid: &Oid) {
    content.extend_from_slice(mode.as_bytes());
    content.push(b' ');
    content.extend_from_slice(name);
    content.push(0);
    content.extend_from_slice(oid.as_bytes());
}

/// Returns every directory above these paths once, parents first.
pub(crate) fn directories_of<'a>(paths: impl Iterator<Item = &'a TreePath>) -> Vec<TreePath> {
    let mut directories = std::collections::BTreeSet::new();
    let mut last: &[u8] = b"";
    for path in paths {
        let mut directory = path.parent();
        if directory == last {
            continue;
        }
        last = directory;
        while !directory.is_empty() && directories.insert(directory) {
            directory = parent_of(directory);
        }
    }
    directories.into_iter().map(TreePath::from).collect()
}
