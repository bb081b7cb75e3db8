//! Trees on disk: takes them in, keeps them, copies them, and says what an agent changed.
//!
//! Invariants:
//! - Everything an agent or a stranger made is read beneath one directory descriptor, with no link followed and with
//!   caps on count, depth, length and bytes.
//! - Paths are bytes. Nothing here needs a name to be UTF-8.
//! - The working tree decides what the change is: final bytes, modes and link targets. The agent's `.git`, index,
//!   attributes and ignore files are never consulted.
//! - This crate is the only home of `git`, which runs only with a git directory made here and an environment built
//!   from nothing; hashing and tree ids are computed without it.
//! - Synchronous and without a clock of its own; callers bring deadlines and places.

mod agent_head;
mod attributes;
mod baseline;
mod baseline_check;
mod beneath;
mod changes;
mod git;
mod git_dir;
mod import;
mod landing;
mod layered;
mod links;
mod manifest;
mod oid;
mod parallel;
mod patch;
mod platform;
mod remove;
mod repository;
mod scan;
mod stamp;
mod tree_listing;
mod tree_path;
mod tree_writer;
mod upper;
mod walk;
mod working_copy;

pub use agent_head::{AgentHead, agent_head};
pub use attributes::{AlteredAttribute, AttributesError, CloneLook, look_at_clone};
pub use baseline::{Baseline, BaselineCache, BaselineError, Freshness};
pub use changes::{Change, Changes, Oddity, OddityKind, UpperEntry};
pub use git::{GitError, git_version, ignored};
pub use git_dir::{GitDir, GitDirError};
pub use import::{ImportCaps, ImportError, TreeEntry, check_tree, import, write_entries};
pub use landing::{
    AppliedPatch, ApplyRequest, BranchName, CommitText, Landed, LandingError, LandingRequest,
    PathChange, Person, PersonError, Prepared, RollbackRequest, TreeEntryId, apply_to_work_tree,
    foresee, prepare, prepare_rollback,
};
pub use layered::{LayerError, OverlaidTree, PatchedLayer, Workspace};
pub use manifest::{Entry, EntryMode, Manifest, ManifestError};
pub use oid::{Oid, TreeId};
pub use patch::{
    ApplyError, Patch, PatchCaps, PatchError, TreeMismatch, apply_patch, take_patch, verify_tree,
};
pub use remove::{RemoveError, remove_tree};
pub use repository::{
    CommitInfo, CommitRecord, DirtyKind, DirtyPath, GitLayer, Head, History, Repository,
    RepositoryError, RepositoryTraits, SourceBaseline, SourceFingerprint, UnsupportedKind,
};
pub use scan::{ScanCaps, ScanError};
pub use tree_path::TreePath;
pub use upper::upper_changes;
pub use working_copy::{CopyError, WorkingCopy};
