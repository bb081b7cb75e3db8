//! What differs between a tree and what it came from, and what no tree can hold.

use std::fmt;

use crate::manifest::Entry;
use crate::tree_path::TreePath;

/// One path whose bytes, mode or link target differ. `None` is absence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: TreePath,
    pub before: Option<Entry>,
    pub after: Option<Entry>,
}

impl Change {
    /// Tells whether the path was absent before; only such a path can be residue.
    pub const fn is_new(&self) -> bool {
        self.before.is_none()
    }
}

/// Everything found in a working tree, sorted by path.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub changes: Vec<Change>,
    pub oddities: Vec<Oddity>,
    /// The top-level `.git` is scratch: neither read nor compared, only seen.
    pub has_scratch_git: bool,
    /// How many files had to be read, for the trace.
    pub files_hashed: usize,
    /// What lies in the upper directory, changed or not; `None` when the tree is no overlay.
    pub upper: Option<Vec<UpperEntry>>,
}

/// One entry of an overlay's upper directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpperEntry {
    pub path: TreePath,
    pub kind: &'static str,
}

impl Changes {
    /// Tells that the tree is exactly what it came from.
    pub fn is_clean(&self) -> bool {
        self.changes.is_empty()
            && !self
                .oddities
                .iter()
                .any(|oddity| oddity.kind.is_violation())
    }
}

/// Something that git cannot represent or that must never be in a tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Oddity {
    pub path: TreePath,
    pub kind: OddityKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OddityKind {
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
    UnknownType,
    /// A component that is `.git` on some file system, below the top: a nested repository. Not looked into.
    NestedGit,
    AbsoluteLink,
    LinkLeavesTree,
    LinkIntoGit,
    GitmodulesLink,
    /// Permission bits beyond what git keeps: set-id, writable by all, closed to its owner.
    Permissions {
        mode: u32,
    },
    /// A regular file that has a further name outside of the tree (or in scratch).
    HardLinkOutside {
        links: u64,
    },
    /// Absent from every patch; harmless.
    EmptyDirectory,
}

impl OddityKind {
    /// Tells what a policy must refuse from what is only worth a line in the report.
    pub const fn is_violation(self) -> bool {
        match self {
            Self::Fifo
            | Self::Socket
            | Self::CharDevice
            | Self::BlockDevice
            | Self::UnknownType
            | Self::NestedGit
            | Self::AbsoluteLink
            | Self::LinkLeavesTree
            | Self::LinkIntoGit
            | Self::GitmodulesLink => true,
            Self::Permissions { .. } | Self::HardLinkOutside { .. } | Self::EmptyDirectory => false,
        }
    }
}

impl fmt::Display for OddityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo => f.write_str("a fifo"),
            Self::Socket => f.write_str("a socket"),
            Self::CharDevice => f.write_str("a character device"),
            Self::BlockDevice => f.write_str("a block device"),
            Self::UnknownType => f.write_str("an entry of unknown type"),
            Self::NestedGit => f.write_str("a nested `.git`"),
            Self::AbsoluteLink => f.write_str("a symbolic link with an absolute target"),
            Self::LinkLeavesTree => f.write_str("a symbolic link that leaves the tree"),
            Self::LinkIntoGit => f.write_str("a symbolic link into `.git`"),
            Self::GitmodulesLink => f.write_str("a `.gitmodules` that is a symbolic link"),
            Self::Permissions { mode } => write!(f, "permissions {mode:04o}"),
            Self::HardLinkOutside { links } => {
                write!(f, "a file with {links} names, not all of them in the tree")
            }
            Self::EmptyDirectory => f.write_str("an empty directory"),
        }
    }
}
