//! What the files of a made `.git` looked like when they were written.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use crate::baseline_record::BaselineRecord;
use crate::beneath;
use crate::manifest::{Entry, EntryMode, Manifest};
use crate::oid::Oid;
use crate::repository::error::RepositoryError;
use crate::stamp::Stamp;
use crate::tree_path::TreePath;
use crate::walk::{Closed, FoundKind, WalkCaps, walk};

const LAYER_FILES: WalkCaps = WalkCaps {
    entries: 10_000,
    depth: 16,
    path_bytes: 1_024,
};

pub(super) fn files_of(
    root: BorrowedFd<'_>,
    shown: &Path,
) -> Result<Vec<TreePath>, RepositoryError> {
    let found = walk(root, LAYER_FILES, Closed::Refuse).map_err(RepositoryError::walk(shown))?;
    let files = found
        .into_iter()
        .filter(|entry| entry.kind == FoundKind::Regular);
    Ok(files.map(|entry| entry.path).collect())
}

/// Notes what each file looked like when it was written, for [`is_intact`].
pub(super) fn write_record(layer: &Path, out: &Path) -> Result<(), RepositoryError> {
    let bytes = describe(layer)?.encode();
    let write = || -> io::Result<()> {
        let bytes = bytes.ok_or_else(|| io::Error::other("it holds too much for a record"))?;
        match std::fs::remove_file(out) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        crate::git_dir::create(out)?.write_all(&bytes)
    };
    write().map_err(RepositoryError::write(out))
}

/// The record of a baseline serves here too; ids and sizes are not needed, since the stamps say enough.
fn describe(layer: &Path) -> Result<BaselineRecord, RepositoryError> {
    let git = layer.join(".git");
    let root: OwnedFd = beneath::open_root(&git).map_err(RepositoryError::read(&git))?;
    let found =
        walk(root.as_fd(), LAYER_FILES, Closed::Refuse).map_err(RepositoryError::walk(&git))?;
    let (mut entries, mut stamps) = (Vec::new(), Vec::new());
    let mut directories = vec![(TreePath::root(), Stamp::default())];
    for entry in found {
        match entry.kind {
            FoundKind::Directory { .. } => {
                directories.push((entry.path, entry.stamp));
                continue;
            }
            FoundKind::Regular => stamps.push(entry.stamp),
            FoundKind::Symlink
            | FoundKind::Fifo
            | FoundKind::Socket
            | FoundKind::CharDevice
            | FoundKind::BlockDevice
            | FoundKind::GitNamed
            | FoundKind::Unknown => {
                return Err(RepositoryError::Malformed {
                    path: git.join(entry.path.as_path()),
                    detail: "it is no plain file".to_owned(),
                });
            }
        }
        let noted = Entry {
            mode: EntryMode::Regular,
            oid: Oid::of_blob(b""),
            size: entry.stamp.size,
        };
        entries.push((entry.path, noted));
    }
    let manifest = Manifest::from_entries(entries)
        .map_err(|error| RepositoryError::read(&git)(io::Error::other(error)))?;
    Ok(BaselineRecord {
        manifest,
        stamps,
        directories,
    })
}

/// Tells whether a layer is there and nobody touched its files since.
pub(super) fn is_intact(place: &Path, name: &str) -> bool {
    let noted = std::fs::read(place.join(format!("{name}.files"))).ok();
    let Some(noted) = noted.and_then(|bytes| BaselineRecord::decode(&bytes)) else {
        return false;
    };
    let Ok(now) = describe(&place.join(name)) else {
        return false;
    };
    let same = |(now, then): (&Stamp, &Stamp)| now.same_but_device(then);
    noted.manifest == now.manifest && now.stamps.iter().zip(&noted.stamps).all(same)
}
