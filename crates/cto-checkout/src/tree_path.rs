//! Paths inside a tree: relative, separated by `/`, any bytes but NUL.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A path relative to the root of a tree, as bytes. Ordered by bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Box<[u8]>);

impl TreePath {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Returns the text when the path is UTF-8; a path that is not matches no rule.
    pub fn to_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The root of the tree itself.
    pub(crate) fn root() -> Self {
        Self(Box::default())
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn join(&self, name: &[u8]) -> Self {
        Self::joined(&self.0, name)
    }

    /// Puts a name below a directory; the empty path is the root.
    pub(crate) fn joined(directory: &[u8], name: &[u8]) -> Self {
        if directory.is_empty() {
            return Self(name.into());
        }
        let mut joined = Vec::with_capacity(directory.len() + 1 + name.len());
        joined.extend_from_slice(directory);
        joined.push(b'/');
        joined.extend_from_slice(name);
        Self(joined.into())
    }

    pub(crate) fn depth(&self) -> usize {
        if self.is_root() {
            0
        } else {
            self.components().count()
        }
    }

    pub(crate) fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/')
    }

    /// Returns the directory that holds this path; empty for the root.
    pub(crate) fn parent(&self) -> &[u8] {
        parent_of(&self.0)
    }

    pub(crate) fn name(&self) -> &[u8] {
        name_of(&self.0)
    }

    /// Tells whether every component could be an entry of a git tree.
    pub(crate) fn is_well_formed(&self) -> bool {
        !self.is_root()
            && self
                .components()
                .all(|name| !matches!(name, b"" | b"." | b"..") && !name.contains(&0))
    }

    pub(crate) fn has_git_component(&self) -> bool {
        self.components().any(is_git_name)
    }
}

impl From<Vec<u8>> for TreePath {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&[u8]> for TreePath {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<&str> for TreePath {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

/// Lets a map of paths be asked with plain bytes; both order and hash by bytes.
impl std::borrow::Borrow<[u8]> for TreePath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// Shows the path with everything but printable ASCII escaped: names come from strangers and reach terminals.
impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        match self.to_str() {
            Some(text) => text.chars().try_for_each(|c| {
                if c == ' ' || c.is_alphanumeric() || c.is_ascii_graphic() {
                    fmt::Write::write_char(f, c)
                } else {
                    write!(f, "{}", c.escape_unicode())
                }
            }),
            None => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

pub(crate) fn parent_of(path: &[u8]) -> &[u8] {
    path.iter()
        .rposition(|&byte| byte == b'/')
        .map_or(&[], |slash| &path[..slash])
}

/// Returns what comes after the last `/`.
pub(crate) fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Tells whether a file system that folds names would take this one for `.git`.
///
/// NTFS folds case, drops trailing dots and spaces, ends a name at `:` (a stream), knows `git~1` as its short name and
/// takes `\` for a separator; HFS+ drops some invisible code points. Git refuses these everywhere, and so do we: a tree
/// that is harmless here must be harmless where it is checked out next.
pub(crate) fn is_git_name(name: &[u8]) -> bool {
    may_fold_to_git(name) && folded_pieces(name).any(|piece| piece == ".git" || piece == "git~1")
}

/// Tells whether a folding file system would take this name for `.gitmodules`, which git refuses as a link.
pub(crate) fn is_gitmodules_name(name: &[u8]) -> bool {
    // `gi7eba~1` is the short name that NTFS derives when `gitmod~1` to `gitmod~4` are taken.
    folded_pieces(name).any(|piece| {
        piece == ".gitmodules"
            || piece.starts_with("gi7eba~")
            || piece
                .strip_prefix("gitmod~")
                .is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Tells whether a folding file system would take this name for `.gitattributes`.
pub(crate) fn is_gitattributes_name(name: &[u8]) -> bool {
    may_fold_to_git(name)
        && folded_pieces(name).any(|piece| {
            piece == ".gitattributes"
                || piece
                    .strip_prefix("gitatt~")
                    .is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()))
        })
}

/// Clears ordinary names without an allocation: a walk asks this of every entry.
fn may_fold_to_git(name: &[u8]) -> bool {
    !name.is_ascii()
        || name
            .windows(3)
            .any(|piece| piece.eq_ignore_ascii_case(b"git"))
}

fn folded_pieces(name: &[u8]) -> impl Iterator<Item = String> {
    let visible: String = String::from_utf8_lossy(name)
        .chars()
        .filter(|c| !is_hfs_ignorable(*c))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    visible
        .split('\\')
        .map(|piece| piece.split(':').next().unwrap_or_default())
        .map(|piece| piece.trim_end_matches(['.', ' ']).to_owned())
        .collect::<Vec<_>>()
        .into_iter()
}

fn is_hfs_ignorable(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_dot_git_is_known() {
        for name in [
            ".git",
            ".GIT",
            ".gIt",
            "git~1",
            "GIT~1",
            ".git.",
            ".git ",
            ".git . .",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".gi\u{206f}T",
            "x\\.git",
            "x\\git~1 \\y",
        ] {
            assert!(is_git_name(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn names_that_only_resemble_dot_git_are_left_alone() {
        for name in [
            ".gitignore",
            ".github",
            "git",
            "git~2",
            "agit~1",
            "..git",
            ".git_",
            "x.git",
            ".gitmodules",
            "",
        ] {
            assert!(!is_git_name(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn a_name_of_control_characters_is_shown_escaped() {
        assert_eq!(
            TreePath::from("a\n\u{1b}[31m\u{202e}b ü").to_string(),
            "a\\u{a}\\u{1b}[31m\\u{202e}b ü"
        );
        assert_eq!(TreePath::from(&b"a\xff\n"[..]).to_string(), "a\\xff\\n");
    }
}
