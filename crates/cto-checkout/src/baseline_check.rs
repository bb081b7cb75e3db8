//! Tells whether a cached tree is still what was written, without reading a file.
//!
//! An equal stamp of a file means equal content ([`Stamp`] says why). An equal stamp of a directory means equal names:
//! whoever adds, removes, replaces or renames an entry moves the directory's change time, which no unprivileged process
//! can set back. So on file systems that keep honest times no directory has to be listed, and what is compared is no less
//! than a listing would show. Elsewhere every directory is listed as well.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rayon::prelude::*;
use rustix::fs::{AtFlags, fstat, statat};

use crate::baseline::Written;
use crate::baseline_record::{BaselineRecord, Rows};
use crate::manifest::Manifest;
use crate::platform::keeps_honest_times;
use crate::stamp::{self, Stamp};
use crate::tree_path::{TreePath, parent_of};
use crate::walk::{Closed, FoundKind, WalkCaps, walk};
use crate::{beneath, parallel};

/// So many directories are looked at by one thread before another may take over.
const DIRECTORIES_AT_ONCE: usize = 16;

/// Notes how a tree that was just written looks, once no later change can share its times.
pub(crate) fn record(root: BorrowedFd<'_>, written: Written) -> io::Result<BaselineRecord> {
    let Written { manifest, stamps } = written;
    // Elsewhere a file may be given other times when it is closed, or later.
    let stamps = match stamps.filter(|_| keeps_honest_times(root)) {
        Some(stamps) => stamps,
        None => stamps_of(root, &manifest)?,
    };
    let mut paths = vec![TreePath::root()];
    paths.append(&mut manifest.directories());
    let directories = parallel::map(&paths, |_, path| {
        let stat = fstat(open(root, path.as_bytes())?)?;
        Ok::<_, io::Error>((path.clone(), Stamp::of(&stat)))
    })?;
    // Only waits for the clock to move on, so that a later write cannot share a stamp's time.
    let above = directories.iter().map(|(_, stamp)| stamp);
    stamp::settle(root, above.chain(&stamps).copied().collect());
    Ok(BaselineRecord {
        manifest,
        stamps,
        directories,
    })
}

fn stamps_of(root: BorrowedFd<'_>, manifest: &Manifest) -> io::Result<Vec<Stamp>> {
    let groups: Vec<_> = manifest
        .entries()
        .chunk_by(|left, right| left.0.parent() == right.0.parent())
        .collect();
    let stamps = parallel::map(&groups, |_, group| {
        let parent = group.first().map_or(&b""[..], |(path, _)| path.parent());
        let directory = open(root, parent)?;
        let stamps = group
            .iter()
            .map(|(path, _)| stamp_of(&directory, path.name()));
        stamps.collect::<io::Result<Vec<Stamp>>>()
    })?;
    Ok(stamps.concat())
}

/// Tells whether every file and directory of the record looks as it did, and none is there beside them.
///
/// Says nothing about the record itself: who asks this also asks [`Rows::manifest`].
pub(crate) fn is_true(root: BorrowedFd<'_>, rows: &Rows<'_>) -> bool {
    stamps_hold(root, rows) && (keeps_honest_times(root) || listing_holds(root, rows))
}

/// A directory and rows that follow each other of files in it.
struct Visit {
    directory: usize,
    files: Range<usize>,
}

fn stamps_hold(root: BorrowedFd<'_>, rows: &Rows<'_>) -> bool {
    visits(rows).is_some_and(|visits| {
        visits
            .par_iter()
            .with_min_len(DIRECTORIES_AT_ONCE)
            .all(|visit| is_as_noted(root, rows, visit).is_ok_and(|same| same == Some(true)))
    })
}

/// Compares a directory and files of it; `None` if the record has no such rows.
fn is_as_noted(root: BorrowedFd<'_>, rows: &Rows<'_>, visit: &Visit) -> io::Result<Option<bool>> {
    let Some((path, then)) = rows.directory(visit.directory) else {
        return Ok(None);
    };
    let directory = open(root, path)?;
    for number in visit.files.clone() {
        let Some(file) = rows.file(number) else {
            return Ok(None);
        };
        if !stamp_of(&directory, file.name)?.same_but_device(&file.stamp()) {
            return Ok(Some(false));
        }
    }
    // Last, so that a name which changed hands meanwhile is seen here.
    let now = Stamp::of(&fstat(&directory)?);
    Ok(Some(now.same_but_device(&then)))
}

/// Returns every directory at least once and every file exactly once; `None` if a directory above one is not noted.
fn visits(rows: &Rows<'_>) -> Option<Vec<Visit>> {
    let paths: Option<Vec<&[u8]>> = (0..rows.directories)
        .map(|number| rows.directory(number).map(|(path, _)| path))
        .collect();
    let paths = paths?;
    let is_noted = |path: &&[u8]| paths.binary_search(&parent_of(path)).is_ok();
    if paths.is_empty() || !paths.iter().all(is_noted) {
        return None;
    }
    let mut empty = vec![true; paths.len()];
    let mut visits: Vec<Visit> = Vec::with_capacity(paths.len());
    for number in 0..rows.files {
        let directory = rows.file(number)?.directory;
        *empty.get_mut(directory)? = false;
        match visits.last_mut() {
            Some(last) if last.directory == directory => last.files.end = number + 1,
            _ => visits.push(Visit {
                directory,
                files: number..number + 1,
            }),
        }
    }
    let rest = empty.into_iter().enumerate().filter(|(_, empty)| *empty);
    visits.extend(rest.map(|(directory, _)| Visit {
        directory,
        files: 0..0,
    }));
    Some(visits)
}

fn open(root: BorrowedFd<'_>, directory: &[u8]) -> io::Result<OwnedFd> {
    beneath::open_handle(root, &directory.into())
}

fn stamp_of(directory: &OwnedFd, name: &[u8]) -> io::Result<Stamp> {
    let stat = statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(Stamp::of(&stat))
}

/// Tells whether exactly the noted files are there.
fn listing_holds(root: BorrowedFd<'_>, rows: &Rows<'_>) -> bool {
    let caps = WalkCaps {
        entries: u64::MAX,
        depth: usize::MAX,
        path_bytes: usize::MAX,
    };
    let path = |number| {
        let file = rows.file(number)?;
        Some(TreePath::joined(
            rows.directory(file.directory)?.0,
            file.name,
        ))
    };
    walk(root, caps, Closed::Refuse).is_ok_and(|found| {
        found
            .into_iter()
            .filter(|entry| !matches!(entry.kind, FoundKind::Directory { .. }))
            .map(|file| Some(file.path))
            .eq((0..rows.files).map(path))
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use super::*;
    use crate::manifest::{Entry, EntryMode};
    use crate::oid::Oid;

    struct Noted {
        dir: tempfile::TempDir,
        root: OwnedFd,
        record: BaselineRecord,
    }

    impl Noted {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("d/e")).unwrap();
            let entry = Entry {
                mode: EntryMode::Regular,
                oid: Oid::of_blob(b""),
                size: 0,
            };
            let entries = ["a", "d/b", "d/e/f"].map(|path| {
                File::create(dir.path().join(path)).unwrap();
                (TreePath::from(path), entry)
            });
            let manifest = Manifest::from_entries(entries.into()).unwrap();
            let root = beneath::open_root(dir.path()).unwrap();
            let record = record(root.as_fd(), manifest.into()).unwrap();
            Self { dir, root, record }
        }

        fn holds(&self, way: fn(BorrowedFd<'_>, &Rows<'_>) -> bool) -> bool {
            let bytes = self.record.encode().unwrap();
            way(self.root.as_fd(), &Rows::of(&bytes).unwrap())
        }
    }

    #[test]
    fn both_ways_of_comparing_find_a_name_that_is_new_or_gone() {
        let changes: [fn(&Path); 3] = [
            |root| drop(File::create(root.join("d/e/new")).unwrap()),
            |root| fs::remove_file(root.join("d/b")).unwrap(),
            |root| fs::rename(root.join("d/b"), root.join("d/c")).unwrap(),
        ];
        for change in changes {
            let noted = Noted::new();
            assert!(noted.holds(stamps_hold) && noted.holds(listing_holds));
            change(noted.dir.path());
            assert!(!noted.holds(stamps_hold) && !noted.holds(listing_holds));
        }
    }

    #[test]
    fn a_record_without_a_directory_above_an_entry_proves_nothing() {
        let mut noted = Noted::new();
        // Neither of the two holds an entry itself any more.
        noted.record.manifest =
            Manifest::from_entries(noted.record.manifest.entries()[2..].to_vec()).unwrap();
        noted.record.stamps.drain(..2);
        assert!(noted.holds(stamps_hold));
        for missing in [0, 1] {
            let directory = noted.record.directories.remove(missing);
            assert!(!noted.holds(stamps_hold), "{missing}");
            noted.record.directories.insert(missing, directory);
        }
    }
}
