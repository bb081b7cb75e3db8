//! Takes in a tree that a stranger made: copied beneath one descriptor, refused by name at the first thing that is not
//! a plain file, a directory or a link inside the tree.

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::links::{self, BadLink};
use crate::manifest::{Entry, EntryMode, Manifest, ManifestError, directories_of};
use crate::oid::{BlobHasher, Oid};
use crate::scan::read_exactly;
use crate::tree_path::TreePath;
use crate::walk::{Closed, Found, FoundKind, WalkCaps, WalkError, walk};
use crate::{beneath, parallel, tree_writer};

/// Bounds on a tree that is taken in.
#[derive(Clone, Copy, Debug)]
pub struct ImportCaps {
    /// Files, links and directories together.
    pub entries: u64,
    pub depth: usize,
    pub path_bytes: usize,
    pub file_bytes: u64,
    pub total_bytes: u64,
}

impl Default for ImportCaps {
    fn default() -> Self {
        Self {
            entries: 200_000,
            depth: 64,
            path_bytes: 1_024,
            file_bytes: 256 << 20,
            total_bytes: 2 << 30,
        }
    }
}

/// Why a tree was not taken in. Every refusal names the path.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("could not open the tree `{path}`")]
    Open { path: PathBuf, source: io::Error },
    #[error("could not make the directory `{path}`")]
    Destination { path: PathBuf, source: io::Error },
    #[error("could not read `{path}`")]
    Read { path: TreePath, source: io::Error },
    #[error("could not write `{path}`")]
    Write { path: TreePath, source: io::Error },
    #[error("`{path}` changed while it was read")]
    ChangedWhileRead { path: TreePath },
    #[error("`{path}` is a fifo")]
    Fifo { path: TreePath },
    #[error("`{path}` is a socket")]
    Socket { path: TreePath },
    #[error("`{path}` is a device")]
    Device { path: TreePath },
    #[error("`{path}` is neither file, directory nor link")]
    UnknownType { path: TreePath },
    #[error("`{path}` has a component that is `.git` on some file system")]
    GitName { path: TreePath },
    #[error("`{path}` is a symbolic link with an absolute target")]
    AbsoluteLink { path: TreePath },
    #[error("`{path}` is a symbolic link that leaves the tree")]
    LinkLeavesTree { path: TreePath },
    #[error("`{path}` is a symbolic link into `.git`")]
    LinkIntoGit { path: TreePath },
    #[error("`{path}` is a symbolic link in the place of `.gitmodules`")]
    GitmodulesLink { path: TreePath },
    #[error("`{path}` is a symbolic link with an unusable target")]
    UnusableLink { path: TreePath },
    #[error("the tree has more than {max} entries; `{path}` is one too many")]
    TooManyEntries { path: TreePath, max: u64 },
    #[error("`{path}` lies deeper than {max} directories")]
    TooDeep { path: TreePath, max: usize },
    #[error("the path `{path}` is longer than {max} bytes")]
    PathTooLong { path: TreePath, max: usize },
    #[error("`{path}` has {size} bytes, more than the {max} a file may have")]
    FileTooLarge { path: TreePath, size: u64, max: u64 },
    #[error("the tree has more than {max} bytes; `{path}` goes over")]
    TooManyBytes { path: TreePath, max: u64 },
    #[error("the entries form no tree")]
    NotATree(#[from] ManifestError),
}

impl From<WalkError> for ImportError {
    fn from(error: WalkError) -> Self {
        match error {
            WalkError::Read { path, source } => Self::Read { path, source },
            WalkError::TooManyEntries { path, max } => Self::TooManyEntries { path, max },
            WalkError::TooDeep { path, max } => Self::TooDeep { path, max },
            WalkError::PathTooLong { path, max } => Self::PathTooLong { path, max },
        }
    }
}

/// An entry that is in memory: embedded in the binary, or generated.
#[derive(Clone, Copy, Debug)]
pub struct TreeEntry<'a> {
    pub path: &'a [u8],
    pub mode: EntryMode,
    /// The content, or a link's target.
    pub content: &'a [u8],
}

/// Copies the tree at `source` to `dest`, which must be absent or empty. On an error `dest` holds nothing of use.
pub fn import(source: &Path, dest: &Path, caps: &ImportCaps) -> Result<Manifest, ImportError> {
    let target = open_destination(dest)?;
    take_in(source, Destination::At(target.as_fd()), caps)
}

/// Checks a tree as [`import`] does, but for the content of its files, and writes nothing.
pub fn check_tree(source: &Path, caps: &ImportCaps) -> Result<(), ImportError> {
    let opened = open_source(source)?;
    let found = walk(opened.as_fd(), walk_caps(caps), Closed::Refuse)?;
    let (_, symlinks) = sort_out(found, caps)?;
    read_targets(opened.as_fd(), symlinks).map(drop)
}

/// Reads and checks a tree as [`import`] does, and writes nothing.
pub(crate) fn survey(source: &Path, caps: &ImportCaps) -> Result<Manifest, ImportError> {
    take_in(source, Destination::Nowhere, caps)
}

/// Writes entries that are in memory, with the checks and the result of [`import`].
pub fn write_entries(
    dest: &Path,
    entries: &[TreeEntry<'_>],
    caps: &ImportCaps,
) -> Result<Manifest, ImportError> {
    let manifest = survey_entries(entries, caps)?;
    let target = open_destination(dest)?;
    make_directories(target.as_fd(), &manifest.directories())?;
    parallel::map(entries, |_, entry| {
        let path = TreePath::from(entry.path);
        tree_writer::write(target.as_fd(), &path, entry.mode, entry.content)
            .map_err(|source| ImportError::Write { path, source })
    })?;
    Ok(manifest)
}

/// Checks entries that are in memory as [`write_entries`] does, and writes nothing.
pub(crate) fn survey_entries(
    entries: &[TreeEntry<'_>],
    caps: &ImportCaps,
) -> Result<Manifest, ImportError> {
    let links: HashSet<&[u8]> = entries
        .iter()
        .filter(|entry| entry.mode == EntryMode::Symlink)
        .map(|entry| entry.path)
        .collect();
    let mut total: u64 = 0;
    for (count, entry) in entries.iter().enumerate() {
        let path = || TreePath::from(entry.path);
        if count as u64 >= caps.entries {
            let max = caps.entries;
            return Err(ImportError::TooManyEntries { path: path(), max });
        }
        if entry.path.len() > caps.path_bytes {
            let max = caps.path_bytes;
            return Err(ImportError::PathTooLong { path: path(), max });
        }
        if path().depth() > caps.depth {
            let max = caps.depth;
            return Err(ImportError::TooDeep { path: path(), max });
        }
        if path().has_git_component() {
            return Err(ImportError::GitName { path: path() });
        }
        let size = entry.content.len() as u64;
        total += size;
        check_size(&path(), size, total, caps)?;
        if entry.mode == EntryMode::Symlink {
            judge_link(&path(), entry.content, &links)?;
        }
    }
    let listed = parallel::map(entries, |_, entry| {
        let listed = Entry {
            mode: entry.mode,
            oid: Oid::of_blob(entry.content),
            size: entry.content.len() as u64,
        };
        Ok::<_, ImportError>((TreePath::from(entry.path), listed))
    })?;
    Ok(Manifest::from_entries(listed)?)
}

#[derive(Clone, Copy)]
enum Destination<'a> {
    Nowhere,
    At(BorrowedFd<'a>),
}

fn open_source(source: &Path) -> Result<OwnedFd, ImportError> {
    beneath::open_root(source).map_err(|error| ImportError::Open {
        path: source.to_owned(),
        source: error,
    })
}

const fn walk_caps(caps: &ImportCaps) -> WalkCaps {
    WalkCaps {
        entries: caps.entries,
        depth: caps.depth,
        path_bytes: caps.path_bytes,
    }
}

fn take_in(
    source: &Path,
    dest: Destination<'_>,
    caps: &ImportCaps,
) -> Result<Manifest, ImportError> {
    let opened = open_source(source)?;
    let root = opened.as_fd();
    let found = walk(root, walk_caps(caps), Closed::Refuse)?;
    let (files, symlinks) = sort_out(found, caps)?;
    let targets = read_targets(root, symlinks)?;
    if let Destination::At(target) = dest {
        let paths = files.iter().map(|file| &file.path);
        make_directories(
            target,
            &directories_of(paths.chain(targets.iter().map(|(path, _)| path))),
        )?;
    }
    let mut listed = parallel::map(&files, |buffer, file| take_file(root, dest, file, buffer))?;
    for (path, target) in targets {
        if let Destination::At(root) = dest {
            tree_writer::write(root, &path, EntryMode::Symlink, &target).map_err(|source| {
                ImportError::Write {
                    path: path.clone(),
                    source,
                }
            })?;
        }
        let entry = Entry {
            mode: EntryMode::Symlink,
            oid: Oid::of_blob(&target),
            size: target.len() as u64,
        };
        listed.push((path, entry));
    }
    Ok(Manifest::from_entries(listed)?)
}

/// Returns files and links apart, or the first thing that is neither. Empty directories are dropped: git has none.
fn sort_out(found: Vec<Found>, caps: &ImportCaps) -> Result<(Vec<Found>, Vec<Found>), ImportError> {
    let (mut files, mut symlinks) = (Vec::with_capacity(found.len()), Vec::new());
    let mut total: u64 = 0;
    for entry in found {
        let path = entry.path.clone();
        match entry.kind {
            FoundKind::Regular => {
                total = total.saturating_add(entry.stamp.size);
                check_size(&path, entry.stamp.size, total, caps)?;
                files.push(entry);
            }
            FoundKind::Symlink => symlinks.push(entry),
            FoundKind::Directory { .. } => {}
            FoundKind::Fifo => return Err(ImportError::Fifo { path }),
            FoundKind::Socket => return Err(ImportError::Socket { path }),
            FoundKind::CharDevice | FoundKind::BlockDevice => {
                return Err(ImportError::Device { path });
            }
            FoundKind::GitNamed => return Err(ImportError::GitName { path }),
            FoundKind::Unknown => return Err(ImportError::UnknownType { path }),
        }
    }
    Ok((files, symlinks))
}

fn check_size(
    path: &TreePath,
    size: u64,
    total: u64,
    caps: &ImportCaps,
) -> Result<(), ImportError> {
    let path = || path.clone();
    if size > caps.file_bytes {
        let max = caps.file_bytes;
        return Err(ImportError::FileTooLarge {
            path: path(),
            size,
            max,
        });
    }
    if total > caps.total_bytes {
        let max = caps.total_bytes;
        return Err(ImportError::TooManyBytes { path: path(), max });
    }
    Ok(())
}

fn read_targets(
    root: BorrowedFd<'_>,
    symlinks: Vec<Found>,
) -> Result<Vec<(TreePath, Vec<u8>)>, ImportError> {
    let paths: HashSet<&[u8]> = symlinks.iter().map(|link| link.path.as_bytes()).collect();
    symlinks
        .iter()
        .map(|link| {
            let target =
                beneath::read_link(root, &link.path).map_err(|source| ImportError::Read {
                    path: link.path.clone(),
                    source,
                })?;
            judge_link(&link.path, &target, &paths)?;
            Ok((link.path.clone(), target))
        })
        .collect()
}

fn judge_link(path: &TreePath, target: &[u8], links: &HashSet<&[u8]>) -> Result<(), ImportError> {
    let path = || path.clone();
    if target.is_empty() || target.contains(&0) || target.len() > 4_095 {
        return Err(ImportError::UnusableLink { path: path() });
    }
    links::judge(&path(), target, |at| links.contains(at)).map_err(|bad| match bad {
        BadLink::Absolute => ImportError::AbsoluteLink { path: path() },
        BadLink::Leaves => ImportError::LinkLeavesTree { path: path() },
        BadLink::IntoGit => ImportError::LinkIntoGit { path: path() },
        BadLink::Gitmodules => ImportError::GitmodulesLink { path: path() },
    })
}

/// Reads one file, hashing it and writing it on the way. Only the owner's x bit of its mode is kept.
fn take_file(
    root: BorrowedFd<'_>,
    dest: Destination<'_>,
    file: &Found,
    buffer: &mut Vec<u8>,
) -> Result<(TreePath, Entry), ImportError> {
    let path = &file.path;
    let read_failed = |source| ImportError::Read {
        path: path.clone(),
        source,
    };
    let write_failed = |source| ImportError::Write {
        path: path.clone(),
        source,
    };
    let content = beneath::open_file(root, path).map_err(read_failed)?;
    let stat = rustix::fs::fstat(content.as_fd()).map_err(|errno| read_failed(errno.into()))?;
    let opened = crate::stamp::Stamp::of(&stat);
    // What is read is what was listed: a swap in between could be a fifo, or larger than was counted.
    if opened != file.stamp {
        return Err(ImportError::ChangedWhileRead { path: path.clone() });
    }
    let mode = if opened.mode & 0o100 == 0 {
        EntryMode::Regular
    } else {
        EntryMode::Executable
    };
    let mut copy = match dest {
        Destination::Nowhere => None,
        Destination::At(root) => {
            Some(beneath::create_file(root, path, mode.permissions()).map_err(write_failed)?)
        }
    };
    let mut hasher = BlobHasher::new(opened.size);
    let mut unwritten = None;
    let complete = read_exactly(content, opened.size, buffer, |piece| {
        hasher.update(piece);
        copy.as_mut()
            .map_or(Ok(()), |copy| copy.write_all(piece))
            .map_err(|error| {
                let kind = error.kind();
                unwritten = Some(error);
                kind.into()
            })
    });
    if let Some(source) = unwritten {
        return Err(write_failed(source));
    }
    if !complete.map_err(read_failed)? {
        return Err(ImportError::ChangedWhileRead { path: path.clone() });
    }
    if let Some(copy) = copy {
        tree_writer::finish(&copy, mode).map_err(write_failed)?;
    }
    let entry = Entry {
        mode,
        oid: hasher.finish(),
        size: opened.size,
    };
    Ok((path.clone(), entry))
}

fn open_destination(dest: &Path) -> Result<std::os::fd::OwnedFd, ImportError> {
    tree_writer::make_root(dest).map_err(|source| ImportError::Destination {
        path: dest.to_owned(),
        source,
    })
}

fn make_directories(root: BorrowedFd<'_>, directories: &[TreePath]) -> Result<(), ImportError> {
    for path in directories {
        beneath::make_directory(root, path).map_err(|source| ImportError::Write {
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}
