//! One landing at a time in a repository: a lock that a dead process does not keep.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, OFlags, flock};

use super::LandingError;
use crate::repository::Repository;

const NAME: &str = "cto.lock";

/// Held until it is released or the process ends.
#[derive(Debug)]
pub(super) struct LandingLock {
    path: PathBuf,
    file: File,
}

impl LandingLock {
    pub(super) fn take(target: &Repository) -> Result<Self, LandingError> {
        let path = target.git_directory().join(NAME);
        let locked = || LandingError::Locked { path: path.clone() };
        let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        loop {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .custom_flags(no_link)
                .open(&path)
                .map_err(LandingError::write(&path))?;
            flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| locked())?;
            // Whoever held it before may have removed the name meanwhile: a lock without a name keeps nobody out.
            let named = std::fs::symlink_metadata(&path).ok();
            let own = file.metadata().map_err(LandingError::write(&path))?;
            if named.is_some_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())) {
                return Ok(Self { path, file });
            }
        }
    }

    pub(super) fn release(self) {
        // What stays behind keeps nobody out.
        drop(std::fs::remove_file(&self.path));
        drop(self.file);
    }
}
