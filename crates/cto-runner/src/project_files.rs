//! A project's files, looked at for advice: by directory descriptor, no link followed, with caps.
//!
//! What is listed is what lies in the directory, less what is ignored almost everywhere. Nothing here decides about a
//! run: that reads the tree of a commit.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use cto_rules::project::{KEY_FILE_BYTES_MAX, KEY_FILES, Place, ProjectFacts, ProjectTree};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

/// A directory that can't be looked at.
#[derive(Debug, thiserror::Error)]
#[error("`{path}` can't be read as a directory")]
pub struct ProjectError {
    path: PathBuf,
    source: std::io::Error,
}

impl ProjectError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        "directory_unreadable"
    }
}

/// Most entries that are listed.
const ENTRIES_MAX: usize = 200_000;
/// Deepest directory that is entered; one descriptor is open for each level.
const DEPTH_MAX: usize = 64;

/// Directories that hold what tools made, not what people wrote.
const SKIPPED: &[&str] = &[
    ".cache",
    ".cto-sandbox",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".ruff_cache",
    ".sandcastle",
    ".tox",
    ".venv",
    "__pycache__",
    "node_modules",
    "target",
    "venv",
];

/// Lists a directory and reads its key files.
pub(crate) fn tree(directory: &Path) -> Result<ProjectTree, ProjectError> {
    let root = open_root(directory)?;
    let mut facts = ProjectTree {
        complete: true,
        ..ProjectTree::default()
    };
    let mut seen = 0;
    list(root.as_fd(), "", 0, &mut seen, &mut facts);
    for name in KEY_FILES {
        if facts.has(name)
            && let Some(text) = read_text(root.as_fd(), name)
        {
            facts.texts.insert((*name).to_owned(), text);
        }
    }
    Ok(facts)
}

/// The same, with the directory's name and the places beside the tree. `home` is the operator's.
pub fn project_facts(directory: &Path, home: Option<&str>) -> Result<ProjectFacts, ProjectError> {
    let tree = tree(directory)?;
    let whole = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let is_there = |place: &Place| {
        let path = match (place.as_str().strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => Path::new(home).join(rest),
            (Some(_), None) => return false,
            (None, _) => directory.join(place.as_str().trim_end_matches('/')),
        };
        // A run judges by where it really lies.
        path.is_dir()
    };
    Ok(ProjectFacts {
        name: whole
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default(),
        tree,
        present: Place::ALL.iter().copied().filter(is_there).collect(),
    })
}

/// True when the directory is the top of a repository.
pub fn is_repository(directory: &Path) -> bool {
    directory.join(".git").symlink_metadata().is_ok()
}

fn open_root(directory: &Path) -> Result<OwnedFd, ProjectError> {
    rustix::fs::open(
        directory,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|errno| ProjectError {
        path: directory.to_owned(),
        source: errno.into(),
    })
}

fn open_beneath(directory: BorrowedFd<'_>, name: &str, flags: OFlags) -> Option<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty()).ok()
}

/// Adds what lies below a directory. What can't be read leaves the listing incomplete.
fn list(
    directory: BorrowedFd<'_>,
    prefix: &str,
    depth: usize,
    seen: &mut usize,
    facts: &mut ProjectTree,
) {
    let Ok(entries) = Dir::read_from(directory) else {
        facts.complete = false;
        return;
    };
    for entry in entries {
        *seen += 1;
        let Ok(entry) = entry else {
            facts.complete = false;
            return;
        };
        if *seen > ENTRIES_MAX {
            facts.complete = false;
            return;
        }
        // A name that is not UTF-8 matches no pattern, so no advice is about it.
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        if matches!(name, "." | ".." | ".git") {
            continue;
        }
        let path = format!("{prefix}{name}");
        match kind(directory, &entry) {
            Some(FileType::Directory) if SKIPPED.contains(&name) => {}
            Some(FileType::Directory) => match open_beneath(directory, name, OFlags::DIRECTORY) {
                Some(inner) if depth < DEPTH_MAX => {
                    list(inner.as_fd(), &format!("{path}/"), depth + 1, seen, facts);
                }
                Some(_) | None => facts.complete = false,
            },
            Some(FileType::RegularFile | FileType::Symlink) => {
                facts.paths.insert(path);
            }
            Some(
                FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown,
            )
            | None => {}
        }
    }
}

/// Some file systems leave the kind out of the listing.
fn kind(directory: BorrowedFd<'_>, entry: &rustix::fs::DirEntry) -> Option<FileType> {
    match entry.file_type() {
        FileType::Unknown => statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            .ok()
            .map(|stat| FileType::from_raw_mode(stat.st_mode)),
        known @ (FileType::RegularFile
        | FileType::Directory
        | FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice) => Some(known),
    }
}

/// The text of a small regular file; none for anything else.
fn read_text(root: BorrowedFd<'_>, path: &str) -> Option<String> {
    let mut held: Option<OwnedFd> = None;
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    for component in above.split('/').filter(|c| !c.is_empty()) {
        let at = held.as_ref().map_or(root, AsFd::as_fd);
        held = Some(open_beneath(at, component, OFlags::DIRECTORY)?);
    }
    let at = held.as_ref().map_or(root, AsFd::as_fd);
    // Without waiting: a fifo in its place must not block us.
    let file = File::from(open_beneath(at, name, OFlags::NONBLOCK)?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(KEY_FILE_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)
        .ok()?;
    (text.len() <= KEY_FILE_BYTES_MAX).then_some(text)
}
