//! Reads the present state of a working tree, hashing only what its stamp does not vouch for.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use crate::beneath;
use crate::changes::{Oddity, OddityKind};
use crate::links::{self, BadLink};
use crate::manifest::{Entry, EntryMode, Manifest, ManifestError};
use crate::oid::{BlobHasher, Oid};
use crate::parallel;
use crate::stamp::Stamp;
use crate::tree_path::TreePath;
use crate::walk::{Closed, Found, FoundKind, WalkCaps, WalkError, walk};

/// Bounds on what is read of a tree that an agent made.
#[derive(Clone, Copy, Debug)]
pub struct ScanCaps {
    pub entries: u64,
    pub depth: usize,
    pub path_bytes: usize,
    /// Bytes of all files that have to be read together.
    pub hash_bytes: u64,
}

impl Default for ScanCaps {
    fn default() -> Self {
        Self {
            entries: 2_000_000,
            depth: 256,
            path_bytes: 4_000, // the kernel takes 4,095
            hash_bytes: 8 << 30,
        }
    }
}

/// Why the state of a tree could not be told.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    #[error("could not read `{path}`")]
    Read { path: TreePath, source: io::Error },
    #[error("`{path}` changed while it was read")]
    ChangedWhileRead { path: TreePath },
    #[error("the tree has more than {max} entries; `{path}` is one too many")]
    TooManyEntries { path: TreePath, max: u64 },
    #[error("`{path}` lies deeper than {max} directories")]
    TooDeep { path: TreePath, max: usize },
    #[error("the path `{path}` is longer than {max} bytes")]
    PathTooLong { path: TreePath, max: usize },
    #[error("more than {max} bytes would have to be read; `{path}` goes over")]
    TooManyBytes { path: TreePath, max: u64 },
    #[error("the working copy at `{root}` was replaced by something else")]
    RootReplaced { root: std::path::PathBuf },
    #[error("what was found is no tree")]
    NotATree(#[from] ManifestError),
}

impl ScanError {
    /// Tells a bound that was hit from a failure.
    pub const fn is_limit(&self) -> bool {
        match self {
            Self::TooManyEntries { .. }
            | Self::TooDeep { .. }
            | Self::PathTooLong { .. }
            | Self::TooManyBytes { .. } => true,
            Self::Read { .. }
            | Self::ChangedWhileRead { .. }
            | Self::RootReplaced { .. }
            | Self::NotATree(_) => false,
        }
    }
}

impl From<WalkError> for ScanError {
    fn from(error: WalkError) -> Self {
        match error {
            WalkError::Read { path, source } => Self::Read { path, source },
            WalkError::TooManyEntries { path, max } => Self::TooManyEntries { path, max },
            WalkError::TooDeep { path, max } => Self::TooDeep { path, max },
            WalkError::PathTooLong { path, max } => Self::PathTooLong { path, max },
        }
    }
}

/// What is known of a tree from before. `None` for a stamp means that the file must be read.
pub(crate) struct Known<'a> {
    pub(crate) manifest: &'a Manifest,
    pub(crate) stamps: &'a [Option<Stamp>],
}

pub(crate) struct Scan {
    pub(crate) manifest: Manifest,
    /// One for each entry of the manifest.
    pub(crate) stamps: Vec<Stamp>,
    pub(crate) oddities: Vec<Oddity>,
    pub(crate) has_scratch_git: bool,
    pub(crate) files_hashed: usize,
}

/// Walks the tree and returns its entries; the oddities are listed apart and are no entries, save for bad links.
pub(crate) fn scan(
    root: BorrowedFd<'_>,
    known: &Known<'_>,
    caps: &ScanCaps,
) -> Result<Scan, ScanError> {
    read(root, list(root, caps)?, known, caps, |_| false)
}

/// Lists a tree of the harness's own, opening what was closed.
pub(crate) fn list(root: BorrowedFd<'_>, caps: &ScanCaps) -> Result<Vec<Found>, ScanError> {
    let walk_caps = WalkCaps {
        entries: caps.entries,
        depth: caps.depth,
        path_bytes: caps.path_bytes,
    };
    Ok(walk(root, walk_caps, Closed::Unlock)?)
}

/// Reads what was listed. `is_other_link` knows the links of the tree that are not in the list.
pub(crate) fn read(
    root: BorrowedFd<'_>,
    found: Vec<Found>,
    known: &Known<'_>,
    caps: &ScanCaps,
    is_other_link: impl Fn(&[u8]) -> bool + Sync,
) -> Result<Scan, ScanError> {
    let mut oddities = Vec::new();
    let mut has_scratch_git = false;
    let mut files = Vec::with_capacity(found.len());
    for entry in found {
        if entry.kind == FoundKind::GitNamed && entry.path.as_bytes() == b".git" {
            has_scratch_git = true;
            continue;
        }
        let kinds = oddities_of(&entry);
        oddities.extend(kinds.into_iter().map(|kind| Oddity {
            path: entry.path.clone(),
            kind,
        }));
        if matches!(entry.kind, FoundKind::Regular | FoundKind::Symlink) {
            files.push(entry);
        }
    }
    let vouched = vouched_for(&files, known);
    check_bytes(&files, &vouched, caps)?;
    let indexes: Vec<usize> = (0..files.len())
        .filter(|&index| vouched[index].is_none())
        .collect();
    let hashed = parallel::map(&indexes, |buffer, &index| hash(root, &files[index], buffer))?;
    let files_hashed = hashed.len();

    let mut entries: Vec<Option<(Entry, Stamp)>> = vouched
        .into_iter()
        .zip(&files)
        .map(|(entry, file)| entry.map(|entry| (entry, file.stamp)))
        .collect();
    for (index, result) in indexes.into_iter().zip(hashed) {
        entries[index] = Some(result);
    }
    oddities.extend(bad_links(root, &files, is_other_link)?);
    oddities.extend(outside_links(&files));
    oddities.sort();
    let (mut listed, mut stamps) = (
        Vec::with_capacity(files.len()),
        Vec::with_capacity(files.len()),
    );
    for (file, (entry, stamp)) in files.into_iter().zip(entries.into_iter().flatten()) {
        listed.push((file.path, entry));
        stamps.push(stamp);
    }
    Ok(Scan {
        // The walk sorted them already, so the stamps stay beside their entries.
        manifest: Manifest::from_entries(listed)?,
        stamps,
        oddities,
        has_scratch_git,
        files_hashed,
    })
}

/// Returns the known entry for every file whose stamp is unchanged. Both sides are sorted by path.
fn vouched_for(files: &[Found], known: &Known<'_>) -> Vec<Option<Entry>> {
    let mut entries = known.manifest.entries().iter().zip(known.stamps).peekable();
    files
        .iter()
        .map(|file| {
            while entries
                .next_if(|((path, _), _)| *path < file.path)
                .is_some()
            {}
            let ((_, entry), stamp) = entries.next_if(|((path, _), _)| *path == file.path)?;
            (*stamp == Some(file.stamp)).then_some(*entry)
        })
        .collect()
}

fn check_bytes(
    files: &[Found],
    vouched: &[Option<Entry>],
    caps: &ScanCaps,
) -> Result<(), ScanError> {
    let mut total: u64 = 0;
    for (file, vouched) in files.iter().zip(vouched) {
        if vouched.is_none() {
            total = total.saturating_add(file.stamp.size);
            if total > caps.hash_bytes {
                return Err(ScanError::TooManyBytes {
                    path: file.path.clone(),
                    max: caps.hash_bytes,
                });
            }
        }
    }
    Ok(())
}

fn hash(
    root: BorrowedFd<'_>,
    file: &Found,
    buffer: &mut Vec<u8>,
) -> Result<(Entry, Stamp), ScanError> {
    let failed = |source| ScanError::Read {
        path: file.path.clone(),
        source,
    };
    if file.kind == FoundKind::Symlink {
        let target = beneath::read_link(root, &file.path).map_err(failed)?;
        let entry = Entry {
            mode: EntryMode::Symlink,
            oid: Oid::of_blob(&target),
            size: target.len() as u64,
        };
        return Ok((entry, file.stamp));
    }
    let (stamp, content) = open_owned(root, file).map_err(failed)?;
    let changed = || ScanError::ChangedWhileRead {
        path: file.path.clone(),
    };
    if !same_file(&stamp, &file.stamp) {
        return Err(changed());
    }
    let mut hasher = BlobHasher::new(stamp.size);
    if !read_exactly(content, stamp.size, buffer, |piece| {
        hasher.update(piece);
        Ok(())
    })
    .map_err(failed)?
    {
        return Err(changed());
    }
    let executable = file.stamp.mode & 0o100 != 0;
    let entry = Entry {
        mode: if executable {
            EntryMode::Executable
        } else {
            EntryMode::Regular
        },
        oid: hasher.finish(),
        size: stamp.size,
    };
    Ok((entry, stamp))
}

/// Opens a regular file of the harness's own copy, giving its owner the right to read it if he gave it up.
pub(crate) fn open_owned(root: BorrowedFd<'_>, file: &Found) -> io::Result<(Stamp, std::fs::File)> {
    if file.stamp.mode & 0o400 == 0 {
        beneath::unlock(root, &file.path, 0o400)?;
    }
    let content = beneath::open_file(root, &file.path)?;
    let stat = rustix::fs::fstat(content.as_fd())?;
    Ok((Stamp::of(&stat), content))
}

/// The type must be the same too: a fifo in the place of a file has no size and would read as an empty one.
fn same_file(opened: &Stamp, listed: &Stamp) -> bool {
    let file_type = |stamp: &Stamp| stamp.mode & 0o170_000;
    (opened.dev, opened.ino, opened.size, file_type(opened))
        == (listed.dev, listed.ino, listed.size, file_type(listed))
}

/// Files up to this size are read in one piece.
const PIECE_BYTES: u64 = 256 * 1024;

/// Hands on exactly `size` bytes piece by piece; `false` if the file has more or fewer.
pub(crate) fn read_exactly(
    mut content: impl io::Read,
    size: u64,
    buffer: &mut Vec<u8>,
    mut piece: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<bool> {
    // One byte more than needed shows in the same call that the end is reached.
    let room = usize::try_from(size.min(PIECE_BYTES)).unwrap_or_default() + 1;
    if buffer.len() < room {
        buffer.resize(room, 0);
    }
    let mut rest = size;
    loop {
        let count = match content.read(&mut buffer[..room]) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if count as u64 > rest {
            return Ok(false);
        }
        piece(&buffer[..count])?;
        rest -= count as u64;
        if count == 0 {
            return Ok(rest == 0);
        }
        // A regular file gives less than asked for only at its end.
        if rest == 0 && count < room {
            return Ok(true);
        }
    }
}

/// Reads a whole entry of a harness-owned tree and checks that it is the one that was recorded.
pub(crate) fn read_entry(
    root: BorrowedFd<'_>,
    path: &TreePath,
    entry: &Entry,
) -> Result<Vec<u8>, ScanError> {
    let failed = |source| ScanError::Read {
        path: path.clone(),
        source,
    };
    let content = match entry.mode {
        EntryMode::Symlink => beneath::read_link(root, path).map_err(failed)?,
        EntryMode::Regular | EntryMode::Executable => {
            let mut content =
                Vec::with_capacity(usize::try_from(entry.size).unwrap_or_default() + 1);
            let file = beneath::open_file(root, path).map_err(failed)?;
            file.take(entry.size + 1)
                .read_to_end(&mut content)
                .map_err(failed)?;
            content
        }
    };
    if content.len() as u64 != entry.size || Oid::of_blob(&content) != entry.oid {
        return Err(ScanError::ChangedWhileRead { path: path.clone() });
    }
    Ok(content)
}

fn oddities_of(found: &Found) -> Vec<OddityKind> {
    let mode = found.stamp.mode & 0o7777;
    let mut kinds = Vec::new();
    match found.kind {
        FoundKind::Regular => {
            let usual = mode & 0o7000 == 0
                && mode & 0o600 == 0o600
                && mode & 0o002 == 0
                && (mode & 0o011 == 0 || mode & 0o100 != 0);
            if !usual {
                kinds.push(OddityKind::Permissions { mode });
            }
        }
        FoundKind::Directory { empty } => {
            // The set-group-id bit is handed down by the directory above and means nothing to git.
            if mode & 0o5002 != 0 || mode & 0o700 != 0o700 {
                kinds.push(OddityKind::Permissions { mode });
            }
            if empty {
                kinds.push(OddityKind::EmptyDirectory);
            }
        }
        FoundKind::Symlink => {}
        FoundKind::Fifo => kinds.push(OddityKind::Fifo),
        FoundKind::Socket => kinds.push(OddityKind::Socket),
        FoundKind::CharDevice => kinds.push(OddityKind::CharDevice),
        FoundKind::BlockDevice => kinds.push(OddityKind::BlockDevice),
        FoundKind::GitNamed => kinds.push(OddityKind::NestedGit),
        FoundKind::Unknown => kinds.push(OddityKind::UnknownType),
    }
    kinds
}

/// Judges every link, also unchanged ones: a new link can turn an old one's target into a way out.
fn bad_links(
    root: BorrowedFd<'_>,
    files: &[Found],
    is_other_link: impl Fn(&[u8]) -> bool + Sync,
) -> Result<Vec<Oddity>, ScanError> {
    let symlinks: Vec<&Found> = files
        .iter()
        .filter(|file| file.kind == FoundKind::Symlink)
        .collect();
    let paths: HashSet<&[u8]> = symlinks.iter().map(|link| link.path.as_bytes()).collect();
    let judged = parallel::map(&symlinks, |_, link| {
        let target = beneath::read_link(root, &link.path).map_err(|source| ScanError::Read {
            path: link.path.clone(),
            source,
        })?;
        let is_link = |at: &[u8]| paths.contains(at) || is_other_link(at);
        Ok::<_, ScanError>(odd_link(&link.path, &target, is_link))
    })?;
    Ok(judged.into_iter().flatten().collect())
}

pub(crate) fn odd_link(
    path: &TreePath,
    target: &[u8],
    is_link: impl Fn(&[u8]) -> bool,
) -> Option<Oddity> {
    let bad = links::judge(path, target, is_link).err()?;
    Some(Oddity {
        path: path.clone(),
        kind: match bad {
            BadLink::Absolute => OddityKind::AbsoluteLink,
            BadLink::Leaves => OddityKind::LinkLeavesTree,
            BadLink::IntoGit => OddityKind::LinkIntoGit,
            BadLink::Gitmodules => OddityKind::GitmodulesLink,
        },
    })
}

fn outside_links(files: &[Found]) -> Vec<Oddity> {
    let linked = |file: &&Found| file.kind == FoundKind::Regular && file.links > 1;
    let mut inside: HashMap<(u64, u64), u64> = HashMap::new();
    for file in files.iter().filter(linked) {
        *inside.entry((file.stamp.dev, file.stamp.ino)).or_default() += 1;
    }
    files
        .iter()
        .filter(linked)
        .filter(|file| inside[&(file.stamp.dev, file.stamp.ino)] < file.links)
        .map(|file| Oddity {
            path: file.path.clone(),
            kind: OddityKind::HardLinkOutside { links: file.links },
        })
        .collect()
}
