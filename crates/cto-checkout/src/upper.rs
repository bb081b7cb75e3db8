//! What a process left in the upper directory of an overlay, read against the tree below.
//!
//! The upper directory lists candidates: it also holds copies that nobody changed, so every file in it is read and
//! compared. Absence is told by marks that nobody inside can make: whiteouts and opaque directories. The overlay must
//! have been mounted with `userxattr`, which excludes redirected directories and files without their content.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, OFlags, fgetxattr};
use rustix::io::Errno;

use crate::baseline::Baseline;
use crate::changes::{Changes, Oddity, UpperEntry};
use crate::manifest::{Entry, EntryMode, Manifest, directories_of};
use crate::scan::{self, Known, ScanCaps, ScanError};
use crate::tree_path::{TreePath, parent_of};
use crate::walk::{Found, FoundKind};
use crate::{beneath, parallel, platform};

const OPAQUE: [&str; 2] = ["user.overlay.opaque", "trusted.overlay.opaque"];
const WHITEOUT: [&str; 2] = ["user.overlay.whiteout", "trusted.overlay.whiteout"];

/// Returns what an overlay's upper directory says against the lower tree's manifest. Nothing may be running in the
/// overlay any more.
///
/// Links of the lower tree that are not in the upper directory are not judged again, since a manifest does not hold
/// their targets: where a directory became a link, an old link through it may lead out of the tree. Use
/// [`Baseline::upper_changes`] where the lower tree is a baseline.
pub fn upper_changes(
    upper: &Path,
    lower: &Manifest,
    caps: &ScanCaps,
) -> Result<Changes, ScanError> {
    Merged::read(upper, lower, caps).map(|merged| merged.changes)
}

impl Baseline {
    /// Returns what an overlay over this baseline made of it, as a working copy would: all of its links are judged.
    pub fn upper_changes(&self, upper: &Path, caps: &ScanCaps) -> Result<Changes, ScanError> {
        let merged = Merged::read(upper, &self.manifest, caps)?;
        let root = beneath::open_root(&self.root).map_err(failed(&TreePath::root()))?;
        let bad = merged.bad_lower_links(root.as_fd())?;
        let mut changes = merged.changes;
        changes.oddities.extend(bad);
        changes.oddities.sort();
        Ok(changes)
    }
}

/// The tree as it was seen inside.
struct Merged<'a> {
    manifest: Manifest,
    changes: Changes,
    /// Entries that only the lower tree holds.
    left: Vec<&'a (TreePath, Entry)>,
}

impl<'a> Merged<'a> {
    fn read(upper: &Path, lower: &'a Manifest, caps: &ScanCaps) -> Result<Self, ScanError> {
        let root = open_upper(upper).map_err(failed(&TreePath::root()))?;
        let root = root.as_fd();
        let found = scan::list(root, caps)?;
        let marks = parallel::map(&found, |_, found| is_whiteout(root, found))?;
        let left = left_over(lower, &found, &hiding(root, lower, &found, &marks)?);
        let listed = found
            .iter()
            .zip(&marks)
            .map(|(found, &whiteout)| UpperEntry {
                path: found.path.clone(),
                kind: if whiteout { "whiteout" } else { kind_of(found) },
            });
        let listed = listed.collect();

        let mut kept: Vec<Found> = found
            .into_iter()
            .zip(marks)
            .filter_map(|(found, whiteout)| (!whiteout).then_some(found))
            .collect();
        mark_empty(&mut kept, &left);
        let links: HashSet<&[u8]> = left
            .iter()
            .filter(|(_, entry)| entry.mode == EntryMode::Symlink)
            .map(|(path, _)| path.as_bytes())
            .collect();
        // Nothing vouches for a file that was copied up: all of them are read.
        let known = Known {
            manifest: &Manifest::default(),
            stamps: &[],
        };
        let read = scan::read(root, kept, &known, caps, |at| links.contains(at))?;

        let both = read.manifest.entries().iter().chain(left.iter().copied());
        let manifest = Manifest::from_entries(both.cloned().collect())?;
        let changes = Changes {
            changes: lower.difference(&manifest),
            oddities: read.oddities,
            has_scratch_git: read.has_scratch_git,
            files_hashed: read.files_hashed,
            upper: Some(listed),
        };
        Ok(Self {
            manifest,
            changes,
            left,
        })
    }

    fn bad_lower_links(&self, lower_root: BorrowedFd<'_>) -> Result<Vec<Oddity>, ScanError> {
        let links: Vec<_> = self
            .left
            .iter()
            .filter(|(_, entry)| entry.mode == EntryMode::Symlink)
            .collect();
        let judged = parallel::map(&links, |_, (path, entry)| {
            let target = scan::read_entry(lower_root, path, entry)?;
            let is_link = |at: &[u8]| self.manifest.is_symlink(at);
            Ok::<_, ScanError>(scan::odd_link(path, &target, is_link))
        })?;
        Ok(judged.into_iter().flatten().collect())
    }
}

fn kind_of(found: &Found) -> &'static str {
    match found.kind {
        FoundKind::Regular => "file",
        FoundKind::Symlink => "link",
        FoundKind::Directory { .. } => "directory",
        FoundKind::Fifo => "fifo",
        FoundKind::Socket => "socket",
        FoundKind::CharDevice | FoundKind::BlockDevice => "device",
        FoundKind::GitNamed => "git",
        FoundKind::Unknown => "unknown",
    }
}

/// Opens the upper directory, also when it was closed from inside: the root of the overlay has its permissions.
fn open_upper(upper: &Path) -> io::Result<OwnedFd> {
    let handle = platform::open_unlocked(CWD, upper, OFlags::DIRECTORY | OFlags::CLOEXEC)?;
    beneath::open_directory(handle.as_fd(), &TreePath::root())
}

/// Tells the mark of a deletion: a character device 0:0, or an empty file with an attribute.
fn is_whiteout(root: BorrowedFd<'_>, found: &Found) -> Result<bool, ScanError> {
    // By the type and not by the kind, which does not tell the type of what is called `.git`.
    let file_type = FileType::from_raw_mode(platform::raw_mode(found.stamp.mode));
    if file_type == FileType::CharacterDevice {
        return Ok(found.device == 0);
    }
    if file_type != FileType::RegularFile || found.stamp.size != 0 {
        return Ok(false);
    }
    let (_, file) = scan::open_owned(root, found).map_err(failed(&found.path))?;
    any_attribute(&file, WHITEOUT, |_| true).map_err(failed(&found.path))
}

fn is_opaque(root: BorrowedFd<'_>, directory: &TreePath) -> Result<bool, ScanError> {
    beneath::open_directory(root, directory)
        .and_then(|handle| any_attribute(&handle, OPAQUE, |value| value == b"y"))
        .map_err(failed(directory))
}

fn any_attribute(
    file: &impl AsFd,
    names: [&str; 2],
    holds: impl Fn(&[u8]) -> bool,
) -> io::Result<bool> {
    for name in names {
        let mut value = [0; 8]; // the kernel writes one letter
        match fgetxattr(file, name, &mut value) {
            Ok(length) if holds(&value[..length]) => return Ok(true),
            Ok(_) | Err(platform::NO_ATTRIBUTE | Errno::NOTSUP | Errno::RANGE) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

/// Returns the paths below which nothing of the lower tree shows through.
fn hiding<'f>(
    root: BorrowedFd<'_>,
    lower: &Manifest,
    found: &'f [Found],
    whiteouts: &[bool],
) -> Result<HashSet<&'f [u8]>, ScanError> {
    let lower_directories: HashSet<TreePath> = lower.directories().into_iter().collect();
    // Whatever is new hides nothing.
    let over_directory: Vec<(&Found, bool)> = found
        .iter()
        .zip(whiteouts.iter().copied())
        .filter(|(found, _)| lower_directories.contains(found.path.as_bytes()))
        .collect();
    let hides = parallel::map(&over_directory, |_, (found, whiteout)| {
        let is_directory = matches!(found.kind, FoundKind::Directory { .. });
        Ok::<_, ScanError>(*whiteout || !is_directory || is_opaque(root, &found.path)?)
    })?;
    Ok(over_directory
        .iter()
        .zip(hides)
        .filter_map(|((found, _), hides)| hides.then_some(found.path.as_bytes()))
        .collect())
}

/// Returns the entries of the lower tree that nothing in the upper directory replaces or hides.
fn left_over<'a>(
    lower: &'a Manifest,
    found: &[Found],
    hiding: &HashSet<&[u8]>,
) -> Vec<&'a (TreePath, Entry)> {
    let replaced: HashSet<&[u8]> = found.iter().map(|found| found.path.as_bytes()).collect();
    // Entries of one directory come mostly one after the other.
    let mut last: (&[u8], bool) = (b"", false);
    lower
        .entries()
        .iter()
        .filter(|(path, _)| {
            let parent = path.parent();
            if last.0 != parent {
                last = (parent, is_below(parent, hiding));
            }
            !last.1 && !replaced.contains(path.as_bytes())
        })
        .collect()
}

/// Tells whether a directory or one above it is among those given.
fn is_below(mut directory: &[u8], hiding: &HashSet<&[u8]>) -> bool {
    while !directory.is_empty() {
        if hiding.contains(directory) {
            return true;
        }
        directory = parent_of(directory);
    }
    false
}

/// A directory of the upper is empty inside if it holds nothing but whiteouts and nothing shows through from below.
fn mark_empty(kept: &mut [Found], left: &[&(TreePath, Entry)]) {
    let mut filled: HashSet<TreePath> = directories_of(left.iter().map(|(path, _)| path))
        .into_iter()
        .collect();
    filled.extend(kept.iter().map(|found| found.path.parent().into()));
    for found in kept {
        if let FoundKind::Directory { empty } = &mut found.kind {
            *empty = !filled.contains(found.path.as_bytes());
        }
    }
}

fn failed(path: &TreePath) -> impl FnOnce(io::Error) -> ScanError {
    move |source| ScanError::Read {
        path: path.clone(),
        source,
    }
}
