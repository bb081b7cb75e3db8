//! `HEAD` and references, read as files: loose ones first, then the packed list.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;

use crate::oid::Oid;
use crate::repository::error::RepositoryError;
use crate::repository::git_files::GitFiles;
use crate::repository::place::Place;
use crate::tree_path::TreePath;
use crate::walk::{Closed, FoundKind, WalkCaps, walk};
use crate::{beneath, parallel};

const REF_BYTES_MAX: u64 = 4 * 1024;
const PACKED_BYTES_MAX: u64 = 256 << 20;
const REF_NAME_BYTES_MAX: usize = 1024;
/// As many steps from one reference to the next as git itself takes.
const STEPS_MAX: usize = 5;
const LOOSE: WalkCaps = WalkCaps {
    entries: 1_000_000,
    depth: 64,
    path_bytes: 2_048,
};

/// Where a repository stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// On a branch, which has no commit yet if there is no id.
    Branch {
        name: TreePath,
        id: Option<Oid>,
    },
    Detached {
        id: Oid,
    },
}

impl Head {
    pub const fn id(&self) -> Option<Oid> {
        match self {
            Self::Branch { id, .. } => *id,
            Self::Detached { id } => Some(*id),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RefValue {
    Id(Oid),
    Symbolic(Vec<u8>),
}

impl Place {
    pub(crate) fn head(&self) -> Result<Head, RepositoryError> {
        match self.loose(b"HEAD")? {
            None => Err(RepositoryError::Malformed {
                path: self.git_dir.path().join("HEAD"),
                detail: "it is not there".to_owned(),
            }),
            Some(RefValue::Id(id)) => Ok(Head::Detached { id }),
            Some(RefValue::Symbolic(name)) => Ok(Head::Branch {
                id: self.reference(&name)?,
                name: name.into(),
            }),
        }
    }

    /// Finds what a short name stands for, in git's order.
    pub(crate) fn named(&self, name: &str) -> Result<Option<Oid>, RepositoryError> {
        if name == "HEAD" {
            return Ok(self.head()?.id());
        }
        for prefix in ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"] {
            let full = format!("{prefix}{name}");
            if !full.starts_with("refs/") {
                continue;
            }
            if let Some(id) = self.reference(full.as_bytes())? {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Follows a full name to an object id.
    pub(super) fn reference(&self, name: &[u8]) -> Result<Option<Oid>, RepositoryError> {
        let mut name = name.to_vec();
        for _ in 0..STEPS_MAX {
            if !is_ref_name(&name) {
                return Ok(None);
            }
            match self.loose(&name)? {
                Some(RefValue::Id(id)) => return Ok(Some(id)),
                Some(RefValue::Symbolic(next)) => name = next,
                None => return Ok(self.packed()?.remove(name.as_slice())),
            }
        }
        Ok(None)
    }

    pub(super) fn loose(&self, name: &[u8]) -> Result<Option<RefValue>, RepositoryError> {
        let own = name == b"HEAD" || is_of_one_work_tree(name);
        let place = if own { &self.git_dir } else { &self.common_dir };
        let Some(file) = place.read(&name.into(), REF_BYTES_MAX)? else {
            return Ok(None);
        };
        let value = parse_ref(&file.bytes).ok_or_else(|| RepositoryError::Malformed {
            path: place.path().join(TreePath::from(name).as_path()),
            detail: "it is no reference".to_owned(),
        });
        value.map(Some)
    }

    fn packed(&self) -> Result<BTreeMap<TreePath, Oid>, RepositoryError> {
        let Some(text) = self.common_dir.bytes("packed-refs", PACKED_BYTES_MAX)? else {
            return Ok(BTreeMap::new());
        };
        parse_packed(&text).map_err(|line| RepositoryError::Malformed {
            path: self.common_dir.path().join("packed-refs"),
            detail: format!("line {line}"),
        })
    }

    /// Returns every reference with its content, whether it is packed or not.
    pub(crate) fn references(&self) -> Result<BTreeMap<TreePath, Vec<u8>>, RepositoryError> {
        let mut found: BTreeMap<TreePath, Vec<u8>> = self
            .packed()?
            .into_iter()
            .map(|(name, id)| (name, id.to_string().into_bytes()))
            .collect();
        found.extend(loose_below(&self.common_dir)?);
        if self.git_dir.path() != self.common_dir.path() {
            found.extend(loose_below(&self.git_dir)?);
        }
        Ok(found)
    }
}

fn loose_below(place: &GitFiles) -> Result<Vec<(TreePath, Vec<u8>)>, RepositoryError> {
    let Some(refs) = place.directory(&"refs".into())? else {
        return Ok(Vec::new());
    };
    let found = walk(refs.as_fd(), LOOSE, Closed::Refuse)
        .map_err(RepositoryError::walk(&place.path().join("refs")))?;
    let entries: Vec<(TreePath, FoundKind)> = found
        .into_iter()
        .filter(|entry| !entry.path.name().ends_with(b".lock"))
        .map(|entry| {
            let name = TreePath::from("refs").join(entry.path.as_bytes());
            (name, entry.kind)
        })
        .collect();
    let read = parallel::map(&entries, |_, (name, kind)| {
        let content = match kind {
            FoundKind::Regular => place.read(name, REF_BYTES_MAX)?.map(|file| file.bytes),
            // An old way to name another reference; it is noted and not followed.
            FoundKind::Symlink => beneath::read_link(place.root(), name).ok(),
            FoundKind::Directory { .. }
            | FoundKind::Fifo
            | FoundKind::Socket
            | FoundKind::CharDevice
            | FoundKind::BlockDevice
            | FoundKind::GitNamed
            | FoundKind::Unknown => None,
        };
        let noted = content.map(|content| (name.clone(), content.trim_ascii().to_vec()));
        Ok::<_, RepositoryError>(noted)
    })?;
    Ok(read.into_iter().flatten().collect())
}

fn is_of_one_work_tree(name: &[u8]) -> bool {
    [&b"refs/bisect/"[..], b"refs/worktree/", b"refs/rewritten/"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

fn parse_ref(text: &[u8]) -> Option<RefValue> {
    if let Some(name) = text.strip_prefix(b"ref:") {
        let name = name.trim_ascii();
        return is_ref_name(name).then(|| RefValue::Symbolic(name.to_vec()));
    }
    parse_id(text.trim_ascii_end()).map(RefValue::Id)
}

fn parse_id(text: &[u8]) -> Option<Oid> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Returns the references of a packed list, or the number of the line that is none.
fn parse_packed(text: &[u8]) -> Result<BTreeMap<TreePath, Oid>, usize> {
    let mut refs = BTreeMap::new();
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        match line.first() {
            // The header, what an annotated tag leads to, and the end of the last line.
            None | Some(b'#' | b'^') => continue,
            Some(_) => {}
        }
        let (name, id) = packed_line(line).ok_or(number + 1)?;
        refs.insert(name, id);
    }
    Ok(refs)
}

fn packed_line(line: &[u8]) -> Option<(TreePath, Oid)> {
    let (id, name) = line.split_at_checked(41)?;
    let id = parse_id(id.strip_suffix(b" ")?)?;
    is_ref_name(name).then(|| (name.into(), id))
}

/// The part of git's rules that keeps a name inside `refs/` and apart from what a terminal or a revision obeys.
pub(crate) fn is_ref_name(name: &[u8]) -> bool {
    name.starts_with(b"refs/")
        && name.len() <= REF_NAME_BYTES_MAX
        && TreePath::from(name).is_well_formed()
        && !name.windows(2).any(|pair| pair == b".." || pair == b"@{")
        && name
            .split(|&byte| byte == b'/')
            .all(|part| !part.starts_with(b".") && !part.ends_with(b".lock"))
        && !name
            .iter()
            .any(|byte| byte.is_ascii_control() || b" ~^:?*[\\".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "0123456789012345678901234567890123456789";

    #[test]
    fn a_reference_is_an_id_or_a_name() {
        let id: Oid = ID.parse().unwrap();
        let named = |name: &str| Some(RefValue::Symbolic(name.into()));
        for (text, expected) in [
            (format!("{ID}\n"), Some(RefValue::Id(id))),
            ("ref: refs/heads/a/b\n".to_owned(), named("refs/heads/a/b")),
            ("ref:refs/heads/x".to_owned(), named("refs/heads/x")),
            ("ref: ../../etc/passwd\n".to_owned(), None),
            ("ref: refs/../config\n".to_owned(), None),
            ("ref: HEAD\n".to_owned(), None),
            (format!("{ID}0\n"), None),
            (String::new(), None),
        ] {
            assert_eq!(parse_ref(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_packed_list_is_read_without_its_notes() {
        let text =
            format!("# pack-refs with: peeled\n{ID} refs/heads/a\n{ID} refs/tags/b\n^{ID}\n");
        let names: Vec<String> = parse_packed(text.as_bytes())
            .unwrap()
            .keys()
            .map(TreePath::to_string)
            .collect();
        assert_eq!(names, ["refs/heads/a", "refs/tags/b"]);
        for bad in ["x\n", &format!("{ID} refs/../x\n"), &format!("{ID}\n")] {
            assert_eq!(parse_packed(bad.as_bytes()), Err(1), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_is_read_back(
            refs in proptest::collection::btree_map("refs/heads/[a-zA-Z0-9_-]{1,9}", any::<[u8; 20]>(), 0..9)
        ) {
            let mut text = String::from("# pack-refs with: peeled fully-peeled sorted \n");
            for (name, id) in &refs {
                text += &format!("{} {name}\n", Oid::from_bytes(*id));
            }
            let read = parse_packed(text.as_bytes()).unwrap();
            let expected: BTreeMap<TreePath, Oid> = refs
                .iter()
                .map(|(name, id)| (TreePath::from(name.as_str()), Oid::from_bytes(*id)))
                .collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn any_bytes_can_be_offered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(parse_packed(&bytes));
            drop(parse_ref(&bytes));
            drop(parse_ref(&[b"ref: ", bytes.as_slice()].concat()));
        }
    }
}
