//! What the files of a made `.git` looked like when they were written.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use crate::beneath;
use crate::repository::error::RepositoryError;
use crate::stamp;
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
    let text = describe(layer)?;
    let write = || -> io::Result<()> {
        match std::fs::remove_file(out) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        crate::git_dir::create(out)?.write_all(&text)
    };
    write().map_err(RepositoryError::write(out))
}

/// The paths of all files, and a digest of their stamps.
fn describe(layer: &Path) -> Result<Vec<u8>, RepositoryError> {
    let git = layer.join(".git");
    let root: OwnedFd = beneath::open_root(&git).map_err(RepositoryError::read(&git))?;
    let found =
        walk(root.as_fd(), LAYER_FILES, Closed::Refuse).map_err(RepositoryError::walk(&git))?;
    let (mut text, mut stamps) = (Vec::new(), Vec::new());
    for entry in found {
        match entry.kind {
            FoundKind::Directory { .. } => continue,
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
        text.extend_from_slice(entry.path.as_bytes());
        text.push(b'\n');
    }
    text.extend_from_slice(stamp::digest(&stamps).as_bytes());
    Ok(text)
}

/// Tells whether a layer is there and nobody touched its files since.
pub(super) fn is_intact(place: &Path, name: &str) -> bool {
    let noted = std::fs::read(place.join(format!("{name}.files")));
    noted.is_ok_and(|noted| describe(&place.join(name)).is_ok_and(|now| now == noted))
}
