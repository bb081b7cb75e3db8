//! The marker of a baseline: touched and held by every run that uses it.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// Beside a baseline's tree.
pub(super) const USED: &str = "used";

/// Touches the marker of a baseline and holds it for as long as the file is open. `root` is the baseline's tree.
pub(crate) fn note_use(root: &Path) -> io::Result<File> {
    let place = root.parent().unwrap_or(root);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(place.join(USED))?;
    flock(&file, FlockOperation::LockShared)?;
    let now = rustix::fs::Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    };
    rustix::fs::futimens(
        &file,
        &rustix::fs::Timestamps {
            last_access: now,
            last_modification: now,
        },
    )?;
    Ok(file)
}

/// Whether a run holds the marker of a baseline. One that can't be asked counts as in use.
pub(super) fn is_in_use(place: &Path) -> bool {
    let marker = match File::options().write(true).open(place.join(USED)) {
        Ok(marker) => marker,
        Err(e) => return e.kind() != io::ErrorKind::NotFound,
    };
    flock(&marker, FlockOperation::NonBlockingLockExclusive).is_err()
}
