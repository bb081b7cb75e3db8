//! Looks for what others may not read in the places that are to be shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use cto_rules::read_paths::{ClosedPlace, Look, PlaceKind};

/// Most entries that are looked at in one place.
const ENTRIES_MAX: usize = 1_000_000;
const DEPTH_MAX: usize = 64;
/// Closed places beyond this many say nothing new: so many are not masked one by one.
const FOUND_MAX: usize = 1_000;
const WORKERS: usize = 2;

const OTHERS_READ: u32 = 0o004;
const OTHERS_ENTER: u32 = 0o001;

/// Looks at every place. No link is followed.
pub(crate) fn look_at(places: BTreeSet<PathBuf>) -> BTreeMap<PathBuf, Look> {
    let left = Mutex::new(places);
    let next = || left.lock().ok().and_then(|mut left| left.pop_first());
    let work = || {
        let mut looks = Vec::new();
        while let Some(place) = next() {
            let look = look(&place);
            looks.push((place, look));
        }
        looks
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        let looks = workers.into_iter().filter_map(|worker| worker.join().ok());
        looks.flatten().collect()
    })
}

fn look(top: &Path) -> Look {
    let Ok(meta) = fs::symlink_metadata(top) else {
        return Look::Closed(Vec::new());
    };
    let mut found = Vec::new();
    let mut left = Vec::new();
    sort(top.to_owned(), &meta, 0, &mut found, &mut left);
    let mut looked_at = 0;
    while let Some((directory, depth)) = left.pop() {
        // One that this user can't list shows nothing inside either.
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > ENTRIES_MAX || depth >= DEPTH_MAX {
                return Look::TooLarge;
            }
            if found.len() > FOUND_MAX {
                return Look::Closed(found);
            }
            if let Ok(meta) = entry.metadata() {
                sort(entry.path(), &meta, depth + 1, &mut found, &mut left);
            }
        }
    }
    Look::Closed(found)
}

fn sort(
    path: PathBuf,
    meta: &Metadata,
    depth: usize,
    found: &mut Vec<ClosedPlace>,
    left: &mut Vec<(PathBuf, usize)>,
) {
    let (kind, mode) = (meta.file_type(), meta.permissions().mode());
    let closed = |kind| ClosedPlace {
        path: path.clone(),
        kind,
    };
    if kind.is_dir() {
        match mode & OTHERS_ENTER {
            0 => found.push(closed(PlaceKind::Directory)),
            _ => left.push((path, depth)),
        }
    } else if kind.is_socket() || (!kind.is_symlink() && mode & OTHERS_READ == 0) {
        found.push(closed(PlaceKind::File));
    }
}
