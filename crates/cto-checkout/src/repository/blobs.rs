//! Writes the files of a tree from a repository's objects: streamed from git, checked by hash, no filter in between.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::baseline::Written;
use crate::git::Call;
use crate::import::ImportCaps;
use crate::links::{self, BadLink};
use crate::manifest::{Entry, EntryMode, Manifest};
use crate::oid::{BlobHasher, Oid};
use crate::platform::memory_file;
use crate::repository::batch::{Event, Kind, NoAnswer, Sink};
use crate::repository::error::{RepositoryError, UnsupportedKind};
use crate::stamp::Stamp;
use crate::tree_path::TreePath;
use crate::tree_writer::{self, Spot};

const BLOBS_WALL: Duration = Duration::from_secs(1_800);
/// A line before each object, and the line feed behind it.
const FRAME_BYTES: u64 = 128;
const LINK_BYTES_MAX: u64 = 4_095;
/// Below this many files, a second git costs more than it gains.
const FILES_PER_GIT: usize = 512;
const GITS_MAX: usize = 4;

impl From<NoAnswer> for RepositoryError {
    fn from(NoAnswer: NoAnswer) -> Self {
        Self::Answer { verb: "cat-file" }
    }
}

/// Where a tree is written, and from which objects.
pub(crate) struct Checkout<'a> {
    pub(crate) git_dir: &'a Path,
    pub(crate) caps: &'a ImportCaps,
}

type Row = (TreePath, Entry);

impl Checkout<'_> {
    /// Writes every entry of a listed tree to `dest` and returns the tree with the sizes it turned out to have.
    pub(crate) fn write(&self, listed: &Manifest, dest: &Path) -> Result<Written, RepositoryError> {
        let (symlinks, files): (Vec<Row>, Vec<Row>) = listed
            .entries()
            .iter()
            .cloned()
            .partition(|(_, entry)| entry.mode == EntryMode::Symlink);
        // Judged before anything is written: they are few, and most trees that are refused are refused for them.
        let targets = self.targets(&symlinks)?;
        let root = tree_writer::make_root(dest).map_err(RepositoryError::write(dest))?;
        let total = AtomicU64::new(0);
        let mut written = self.files(&files, root.as_fd(), dest, &total)?;
        let mut spot = Spot::new(root.as_fd());
        for ((path, entry), target) in symlinks.into_iter().zip(targets) {
            let stamp = spot
                .link(&path, &target)
                .map_err(RepositoryError::write(dest.join(path.as_path())))?;
            let size = target.len() as u64;
            written.push(((path, Entry { size, ..entry }), stamp));
        }
        written.sort_unstable_by(|((left, _), _), ((right, _), _)| left.cmp(right));
        let (entries, stamps) = written.into_iter().unzip();
        let manifest = Manifest::from_sorted(entries)
            .map_err(|error| RepositoryError::unsupported(UnsupportedKind::IrregularTree, error))?;
        let stamps = Some(stamps);
        Ok(Written { manifest, stamps })
    }

    fn files(
        &self,
        files: &[Row],
        root: BorrowedFd<'_>,
        dest: &Path,
        total: &AtomicU64,
    ) -> Result<Vec<(Row, Stamp)>, RepositoryError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let gits = (files.len() / FILES_PER_GIT).clamp(1, cores.min(GITS_MAX));
        let share = files.len().div_ceil(gits).max(1);
        let written: Vec<Result<Vec<_>, RepositoryError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = files
                .chunks(share)
                .map(|rows| scope.spawn(move || self.share_of_files(rows, root, dest, total)))
                .collect();
            let joined = threads.into_iter().map(|thread| {
                let lost = |_| Err(RepositoryError::Answer { verb: "cat-file" });
                thread.join().unwrap_or_else(lost)
            });
            joined.collect()
        });
        let mut all = Vec::with_capacity(files.len());
        for rows in written {
            all.extend(rows?);
        }
        Ok(all)
    }

    fn share_of_files(
        &self,
        rows: &[Row],
        root: BorrowedFd<'_>,
        dest: &Path,
        total: &AtomicU64,
    ) -> Result<Vec<(Row, Stamp)>, RepositoryError> {
        let mut written = Vec::with_capacity(rows.len());
        let mut spot = Spot::new(root);
        let mut current: Option<(File, BlobHasher, u64)> = None;
        self.read(rows, |(path, entry), event| {
            let failed = || RepositoryError::write(dest.join(path.as_path()));
            match event {
                BlobEvent::Begin(size) => {
                    self.check_size(path, size, total.fetch_add(size, Ordering::Relaxed) + size)?;
                    let file = spot.create(path, entry.mode).map_err(failed())?;
                    current = Some((file, BlobHasher::new(size), size));
                }
                BlobEvent::Piece(piece) => {
                    if let Some((file, hasher, _)) = &mut current {
                        hasher.update(piece);
                        file.write_all(piece).map_err(failed())?;
                    }
                }
                BlobEvent::End => {
                    if let Some((file, hasher, size)) = current.take() {
                        check_id(path, &entry.oid, &hasher.finish())?;
                        let stamp = tree_writer::finish(&file, entry.mode).map_err(failed())?;
                        written.push(((path.clone(), Entry { size, ..*entry }), stamp));
                    }
                }
            }
            Ok(())
        })?;
        Ok(written)
    }

    /// Reads the targets of links and judges all of them.
    fn targets(&self, symlinks: &[Row]) -> Result<Vec<Vec<u8>>, RepositoryError> {
        let mut targets: Vec<Vec<u8>> = Vec::with_capacity(symlinks.len());
        self.read(symlinks, |(path, entry), event| {
            match event {
                BlobEvent::Begin(size) if size == 0 || size > LINK_BYTES_MAX => {
                    return Err(unusable(path));
                }
                BlobEvent::Begin(_) => targets.push(Vec::new()),
                BlobEvent::Piece(piece) => {
                    if let Some(target) = targets.last_mut() {
                        target.extend_from_slice(piece);
                    }
                }
                BlobEvent::End => {
                    let target = targets.last().map(Vec::as_slice).unwrap_or_default();
                    check_id(path, &entry.oid, &Oid::of_blob(target))?;
                }
            }
            Ok(())
        })?;
        let paths: HashSet<&[u8]> = symlinks.iter().map(|(path, _)| path.as_bytes()).collect();
        for ((path, _), target) in symlinks.iter().zip(&targets) {
            judge(path, target, &paths)?;
        }
        Ok(targets)
    }

    /// Asks git for these blobs and hands them on in this order; each comes whole or the call fails.
    fn read(
        &self,
        rows: &[Row],
        mut take: impl FnMut(&Row, BlobEvent<'_>) -> Result<(), RepositoryError>,
    ) -> Result<(), RepositoryError> {
        if rows.is_empty() {
            return Ok(());
        }
        let call = Call {
            verb: "cat-file",
            arguments: vec!["--batch".into(), "--buffer".into()],
            git_dir: self.git_dir,
            work_tree: None,
            wall: BLOBS_WALL,
            output_bytes_max: self.caps.total_bytes.saturating_add(self.caps.file_bytes)
                + rows.len() as u64 * FRAME_BYTES,
        };
        let input = questions(rows.iter().map(|(_, entry)| &entry.oid))
            .map_err(|source| call.talk(source))?;
        let mut done = 0;
        let mut sink = Sink::new(|event| {
            let row = rows.get(done).ok_or(NoAnswer)?;
            let (path, entry) = row;
            match event {
                Event::Begin {
                    id,
                    kind: Kind::Blob,
                    size,
                } if id == entry.oid => take(row, BlobEvent::Begin(size)),
                Event::Begin { .. } => Err(NoAnswer.into()),
                Event::Piece(piece) => take(row, BlobEvent::Piece(piece)),
                Event::End => {
                    done += 1;
                    take(row, BlobEvent::End)
                }
                Event::Absent(_) => Err(RepositoryError::unsupported(
                    UnsupportedKind::MissingObjects,
                    format_args!("the content of `{path}` is not there"),
                )),
            }
        });
        let finished = call.run(input.into(), &mut sink);
        if let Some(error) = sink.into_error() {
            return Err(error);
        }
        call.expect_success(finished?, &[])?;
        if done == rows.len() {
            Ok(())
        } else {
            Err(NoAnswer.into())
        }
    }

    fn check_size(&self, path: &TreePath, size: u64, total: u64) -> Result<(), RepositoryError> {
        let (kind, detail) = if size > self.caps.file_bytes {
            let max = self.caps.file_bytes;
            let detail = format!("`{path}` has {size} bytes, more than {max}");
            (UnsupportedKind::FileTooLarge, detail)
        } else if total > self.caps.total_bytes {
            let max = self.caps.total_bytes;
            let detail = format!("the tree has more than {max} bytes; `{path}` goes over");
            (UnsupportedKind::TreeTooLarge, detail)
        } else {
            return Ok(());
        };
        Err(RepositoryError::unsupported(kind, detail))
    }
}

enum BlobEvent<'a> {
    Begin(u64),
    Piece(&'a [u8]),
    End,
}

/// Puts one id on each line of a file without a name.
pub(crate) fn questions<'a>(ids: impl Iterator<Item = &'a Oid>) -> io::Result<File> {
    let mut text = Vec::new();
    for id in ids {
        text.extend_from_slice(&id.to_hex());
        text.push(b'\n');
    }
    let mut file = memory_file()?;
    file.write_all(&text)?;
    file.rewind()?;
    Ok(file)
}

fn check_id(path: &TreePath, expected: &Oid, found: &Oid) -> Result<(), RepositoryError> {
    if expected == found {
        return Ok(());
    }
    Err(RepositoryError::Corrupt {
        path: path.clone(),
        oid: *expected,
    })
}

fn judge(path: &TreePath, target: &[u8], links: &HashSet<&[u8]>) -> Result<(), RepositoryError> {
    if target.contains(&0) {
        return Err(unusable(path));
    }
    links::judge(path, target, |at| links.contains(at)).map_err(|bad| {
        let (kind, what) = match bad {
            BadLink::Absolute => (UnsupportedKind::LinkIsAbsolute, "has an absolute target"),
            BadLink::Leaves => (
                UnsupportedKind::LinkLeavesRepository,
                "leads out of the repository",
            ),
            BadLink::IntoGit => (UnsupportedKind::LinkIntoGit, "leads into `.git`"),
            BadLink::Gitmodules => return unusable(path),
        };
        RepositoryError::unsupported(kind, format_args!("the link `{path}` {what}"))
    })
}

fn unusable(path: &TreePath) -> RepositoryError {
    RepositoryError::unsupported(
        UnsupportedKind::LinkUnusable,
        format_args!("the link `{path}` has a target or a place that git refuses"),
    )
}
