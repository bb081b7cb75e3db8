//! Tells whether a cached tree is still what was written, without reading a file.
//!
//! An equal stamp of a file means equal content ([`Stamp`] says why). An equal stamp of a directory means equal names:
//! whoever adds, removes, replaces or renames an entry moves the directory's change time, which no unprivileged process
//! can set back. So on file systems that keep honest times no directory has to be listed, and what is compared is no less
//! than a listing would show. Elsewhere every directory is listed as well.
//!
//! Which file has which stamp matters to nobody as long as all are as they were, so one digest of them is kept.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, fstat, statat};
use sha2::{Digest as _, Sha256};

use crate::platform::keeps_honest_times;
use crate::stamp::{self, Stamp};
use crate::tree_path::{name_of, parent_of};
use crate::walk::{Closed, FoundKind, WalkCaps, walk};
use crate::{beneath, parallel};

/// How the files and directories of a tree look, in short.
pub(crate) struct Look {
    /// Of all stamps.
    pub(crate) digest: String,
    /// One for each file, in parts.
    sizes: Vec<Vec<u64>>,
    /// Every directory at least once.
    directories: Vec<Stamp>,
}

impl Look {
    /// Looks at these files and every directory above them; where the stamps of the files are known, at directories alone.
    fn at(root: BorrowedFd<'_>, paths: &[&[u8]], known: Option<&[Stamp]>) -> io::Result<Self> {
        let visited = parallel::map(&visits(paths), |_, visit| {
            let directory = beneath::open_handle(root, &visit.directory.into())?;
            let mut sha = Sha256::new();
            let mut sizes = Vec::with_capacity(visit.files.len());
            for number in visit.files.clone() {
                let stamp = match known {
                    Some(stamps) => stamps[number],
                    None => stamp_of(&directory, paths[number])?,
                };
                sha.update(stamp.bytes());
                sizes.push(stamp.size);
            }
            // Last, so that a name which changed hands meanwhile is seen here.
            let own = Stamp::of(&fstat(&directory)?);
            sha.update(own.bytes());
            Ok::<_, io::Error>((sha.finalize(), sizes, own))
        })?;
        let mut sha = Sha256::new();
        let (mut sizes, mut directories) = (Vec::new(), Vec::new());
        for (digest, files, own) in visited {
            sha.update(digest);
            sizes.push(files);
            directories.push(own);
        }
        Ok(Self {
            digest: stamp::in_hex(sha),
            sizes,
            directories,
        })
    }

    /// One for each file.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.sizes.iter().flatten().copied()
    }
}

/// Notes how a tree that was just written looks, once no later change can share its times.
pub(crate) fn record(root: BorrowedFd<'_>, paths: &[&[u8]], stamps: &[Stamp]) -> io::Result<Look> {
    let look = Look::at(root, paths, Some(stamps))?;
    // Only waits for the clock to move on, so that a later write cannot share a stamp's time.
    let all = look.directories.iter().chain(stamps);
    stamp::settle(root, all.copied().collect());
    Ok(look)
}

/// Returns the stamp of each of these files.
pub(crate) fn stamps_of(root: BorrowedFd<'_>, paths: &[&[u8]]) -> io::Result<Vec<Stamp>> {
    let stamps = parallel::map(&visits(paths), |_, visit| {
        let directory = beneath::open_handle(root, &visit.directory.into())?;
        let files = paths[visit.files.clone()].iter();
        files
            .map(|path| stamp_of(&directory, path))
            .collect::<io::Result<Vec<Stamp>>>()
    })?;
    Ok(stamps.concat())
}

/// Returns how the tree looks, if every file and directory looks as it did, and none is there beside them.
///
/// Says nothing about the list of files itself, whose paths may be anything: who asks this also compares the tree's id.
pub(crate) fn unchanged(root: BorrowedFd<'_>, paths: &[&[u8]], noted: &str) -> Option<Look> {
    let look = Look::at(root, paths, None).ok()?;
    let holds = look.digest == noted && (keeps_honest_times(root) || listing_holds(root, paths));
    holds.then_some(look)
}

/// A directory and files of it that follow each other.
struct Visit<'a> {
    directory: &'a [u8],
    files: Range<usize>,
}

/// Returns every directory above these sorted paths at least once and every file exactly once.
fn visits<'a>(paths: &[&'a [u8]]) -> Vec<Visit<'a>> {
    let mut visits = vec![Visit {
        directory: b"",
        files: 0..0,
    }];
    for (number, path) in paths.iter().enumerate() {
        let directory = parent_of(path);
        let last = match visits.last_mut() {
            Some(last) if last.directory == directory => {
                last.files.end = number + 1;
                continue;
            }
            last => last.map_or(&b""[..], |last| last.directory),
        };
        let is_above_last = |above: &[u8]| {
            above.is_empty()
                || last.starts_with(above) && matches!(last.get(above.len()), None | Some(b'/'))
        };
        // Directories with nothing in them but directories.
        let mut above = parent_of(directory);
        while !is_above_last(above) {
            visits.push(Visit {
                directory: above,
                files: number..number,
            });
            above = parent_of(above);
        }
        visits.push(Visit {
            directory,
            files: number..number + 1,
        });
    }
    visits
}

fn stamp_of(directory: &OwnedFd, path: &[u8]) -> io::Result<Stamp> {
    let stat = statat(directory.as_fd(), name_of(path), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(Stamp::of(&stat))
}

/// Tells whether exactly the listed files are there.
fn listing_holds(root: BorrowedFd<'_>, paths: &[&[u8]]) -> bool {
    let caps = WalkCaps {
        entries: u64::MAX,
        depth: usize::MAX,
        path_bytes: usize::MAX,
    };
    walk(root, caps, Closed::Refuse).is_ok_and(|found| {
        found
            .iter()
            .filter(|entry| !matches!(entry.kind, FoundKind::Directory { .. }))
            .map(|file| file.path.as_bytes())
            .eq(paths.iter().copied())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::{self, File};
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::manifest::directories_of;
    use crate::tree_path::TreePath;

    const PATHS: [&[u8]; 3] = [b"a", b"d/b", b"d/e/f"];

    struct Noted {
        dir: tempfile::TempDir,
        root: OwnedFd,
        digest: String,
    }

    impl Noted {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("d/e")).unwrap();
            for path in PATHS {
                File::create(dir.path().join(TreePath::from(path).as_path())).unwrap();
            }
            let root = beneath::open_root(dir.path()).unwrap();
            let stamps = stamps_of(root.as_fd(), &PATHS).unwrap();
            let digest = record(root.as_fd(), &PATHS, &stamps).unwrap().digest;
            Self { dir, root, digest }
        }

        fn stamps_hold(&self) -> bool {
            let look = Look::at(self.root.as_fd(), &PATHS, None);
            look.is_ok_and(|look| look.digest == self.digest)
        }

        fn listing_holds(&self) -> bool {
            listing_holds(self.root.as_fd(), &PATHS)
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
            assert!(noted.stamps_hold() && noted.listing_holds());
            change(noted.dir.path());
            assert!(!noted.stamps_hold() && !noted.listing_holds());
        }
    }

    proptest! {
        #[test]
        fn every_directory_is_visited_and_every_file_once(
            paths in proptest::collection::btree_set("((a|b|c.)/){0,4}[f-h]", 0..12),
        ) {
            let paths: Vec<&[u8]> = paths.iter().map(String::as_bytes).collect();
            let visits = visits(&paths);
            let files: Vec<_> = visits.iter().flat_map(|visit| visit.files.clone()).collect();
            prop_assert_eq!(files, (0..paths.len()).collect::<Vec<_>>());
            let seen: BTreeSet<_> = visits.iter().map(|visit| visit.directory.into()).collect();
            let owned: Vec<_> = paths.iter().map(|&path| TreePath::from(path)).collect();
            let mut wanted: BTreeSet<_> = directories_of(owned.iter()).into_iter().collect();
            wanted.insert(TreePath::root());
            prop_assert_eq!(seen, wanted);
            for visit in &visits {
                prop_assert!(visit.files.clone().all(|n| parent_of(paths[n]) == visit.directory));
            }
        }
    }
}
