//! A writable copy of a baseline, for an agent or for verification, that can tell what became of it.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, fchmod, fstat, statat};

use crate::baseline::Baseline;
use crate::beneath::Nearby;
use crate::changes::Changes;
use crate::manifest::{Entry, EntryMode, Manifest};
use crate::oid::TreeId;
use crate::scan::{Known, Scan, ScanCaps, ScanError, read_exactly, scan};
use crate::stamp::{self, Stamp};
use crate::tree_path::TreePath;
use crate::tree_writer::Spot;
use crate::{beneath, parallel, platform, tree_writer};

/// Sharing blocks costs two more system calls; for small files copying the bytes is faster.
const CLONE_BYTES_MIN: u64 = 64 * 1024;

/// Why no copy could be made.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("could not open the baseline `{path}`")]
    Baseline { path: PathBuf, source: io::Error },
    #[error("could not make the copy `{path}`")]
    Destination { path: PathBuf, source: io::Error },
    #[error("could not read `{path}` of the baseline")]
    Read { path: TreePath, source: io::Error },
    #[error("could not write `{path}` of the copy")]
    Write { path: TreePath, source: io::Error },
    #[error("`{path}` of the baseline is not what was recorded")]
    BaselineChanged { path: TreePath },
}

/// A copy of a baseline. It keeps the directory open: what is read later is what was made, whatever its path says.
#[derive(Debug)]
pub struct WorkingCopy {
    path: PathBuf,
    root: OwnedFd,
    base: Arc<Manifest>,
    /// The state at the last stamping: at first the baseline, after [`Self::restamp`] what was found then.
    known: Arc<Manifest>,
    stamps: Vec<Option<Stamp>>,
    caps: ScanCaps,
}

impl WorkingCopy {
    /// Copies a baseline to `dest`, which must be absent or empty.
    pub fn make(baseline: &Baseline, dest: &Path) -> Result<Self, CopyError> {
        let source = beneath::open_root(&baseline.root).map_err(|source| CopyError::Baseline {
            path: baseline.root.clone(),
            source,
        })?;
        let root = tree_writer::make_root(dest).map_err(|source| CopyError::Destination {
            path: dest.to_owned(),
            source,
        })?;
        let clones = AtomicBool::new(true);
        let copying = || Copying {
            source: Nearby::new(source.as_fd()),
            dest: Spot::new(root.as_fd()),
            buffer: Vec::new(),
            clones: &clones,
        };
        let entries = baseline.manifest.entries();
        let stamps = parallel::map_with(entries, copying, |copying, (path, entry)| {
            copying.entry(path, entry)
        })?;
        let stamps = stamp::settle(root.as_fd(), stamps);
        Ok(Self {
            path: dest.to_owned(),
            root,
            base: Arc::clone(&baseline.manifest),
            known: Arc::clone(&baseline.manifest),
            stamps,
            caps: ScanCaps::default(),
        })
    }

    /// Sets other bounds than the usual ones for what is read of this tree.
    #[must_use]
    pub fn with_caps(self, caps: ScanCaps) -> Self {
        Self { caps, ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stamp of a file that held exactly this at the last stamping.
    pub(crate) fn stamp(&self, path: &TreePath, entry: &Entry) -> Option<Stamp> {
        let index = self.known.index_of(path.as_bytes())?;
        let (_, known) = self.known.entries().get(index)?;
        self.stamps.get(index).filter(|_| known == entry).copied()?
    }

    /// Returns what differs from the baseline. Nothing may be running in the copy any more.
    pub fn changes(&self) -> Result<Changes, ScanError> {
        self.scan().map(|scan| changes(&self.base, scan))
    }

    /// Returns what differs from the state at the last [`Self::restamp`].
    pub fn changes_since(&self) -> Result<Changes, ScanError> {
        self.scan().map(|scan| changes(&self.known, scan))
    }

    /// Returns what is there now. Oddities are not in it.
    pub fn manifest_now(&self) -> Result<Manifest, ScanError> {
        self.scan().map(|scan| scan.manifest)
    }

    /// Takes the present state as the one that [`Self::changes_since`] compares with.
    ///
    /// Needed after anything that touches inodes on purpose: applying a patch, changing owners.
    pub fn restamp(&mut self) -> Result<TreeId, ScanError> {
        let scan = self.scan()?;
        self.stamps = stamp::settle(self.root.as_fd(), scan.stamps);
        self.known = Arc::new(scan.manifest);
        Ok(self.known.tree_id())
    }

    pub(crate) fn scan(&self) -> Result<Scan, ScanError> {
        self.is_still_in_place()?;
        let known = Known {
            manifest: &self.known,
            stamps: &self.stamps,
        };
        scan(self.root.as_fd(), &known, &self.caps)
    }

    /// Git and the sandbox go by the path: it must lead to the directory that is held open.
    fn is_still_in_place(&self) -> Result<(), ScanError> {
        let failed = |errno: rustix::io::Errno| ScanError::Read {
            path: TreePath::root(),
            source: errno.into(),
        };
        let held = fstat(&self.root).map_err(failed)?;
        // A root that its agent closed would hide everything below it; it is ours to open again.
        let mode = Mode::from_raw_mode(held.st_mode);
        if !mode.contains(Mode::RWXU) {
            fchmod(&self.root, mode | Mode::RWXU).map_err(failed)?;
        }
        match statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if (stat.st_dev, stat.st_ino) == (held.st_dev, held.st_ino) => Ok(()),
            _ => Err(ScanError::RootReplaced {
                root: self.path.clone(),
            }),
        }
    }
}

impl AsFd for WorkingCopy {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

fn changes(before: &Manifest, scan: Scan) -> Changes {
    Changes {
        changes: before.difference(&scan.manifest),
        oddities: scan.oddities,
        has_scratch_git: scan.has_scratch_git,
        files_hashed: scan.files_hashed,
        upper: None,
    }
}

struct Copying<'a> {
    source: Nearby<'a>,
    dest: Spot<'a>,
    buffer: Vec<u8>,
    /// Cleared at the first refusal, so that it is asked once and not for every file.
    clones: &'a AtomicBool,
}

impl Copying<'_> {
    fn entry(&mut self, path: &TreePath, entry: &Entry) -> Result<Stamp, CopyError> {
        let read_failed = |source| CopyError::Read {
            path: path.clone(),
            source,
        };
        let write_failed = |source| CopyError::Write {
            path: path.clone(),
            source,
        };
        if entry.mode == EntryMode::Symlink {
            let target = beneath::read_link(self.source.root, path).map_err(read_failed)?;
            return self.dest.link(path, &target).map_err(write_failed);
        }
        let content = self.source.open_file(path).map_err(read_failed)?;
        let mut copy = self.dest.create(path, entry.mode).map_err(write_failed)?;
        if !self.clone_blocks(&content, &copy, entry.size) {
            let mut unwritten = None;
            let complete = read_exactly(content, entry.size, &mut self.buffer, |piece| {
                copy.write_all(piece).map_err(|error| {
                    let kind = error.kind();
                    unwritten = Some(error);
                    kind.into()
                })
            });
            if let Some(source) = unwritten {
                return Err(write_failed(source));
            }
            if !complete.map_err(read_failed)? {
                return Err(CopyError::BaselineChanged { path: path.clone() });
            }
        }
        let stamp = tree_writer::finish(&copy, entry.mode).map_err(write_failed)?;
        if stamp.size != entry.size {
            return Err(CopyError::BaselineChanged { path: path.clone() });
        }
        Ok(stamp)
    }

    fn clone_blocks(&self, content: &File, copy: &File, size: u64) -> bool {
        if size < CLONE_BYTES_MIN || !self.clones.load(Ordering::Relaxed) {
            return false;
        }
        let cloned = platform::clone_blocks(content, copy);
        if !cloned {
            self.clones.store(false, Ordering::Relaxed);
        }
        cloned
    }
}
