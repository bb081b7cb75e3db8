//! New files wait in slots for their places in a work tree, and old ones end there.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, RenameFlags, mkdirat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::tree_diff::{self, PathChange, TreeEntryId};
use super::{LandingError, Prepared};
use crate::beneath;
use crate::git_dir::GitDir;
use crate::manifest::EntryMode;
use crate::oid::{BlobHasher, Oid};
use crate::remove::remove_tree;
use crate::repository::RepositoryError;
use crate::repository::batch::{Event, Kind, NoAnswer, Sink};
use crate::tree_path::{TreePath, parent_of};

/// Below the work tree's git directory, on the same file system as the work tree.
const STAGING: &str = "cto-landing";

/// What stands in the place of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Before,
    After,
    Other,
}

/// New files wait here for their places, and old ones end here.
pub(super) struct Staging {
    pub(super) path: PathBuf,
    slots: OwnedFd,
    root: OwnedFd,
}

impl Staging {
    pub(super) fn new(git_dir: &Path, work_tree: &Path) -> Result<Self, LandingError> {
        let path = git_dir.join(STAGING);
        if path.symlink_metadata().is_ok() {
            remove_tree(&path)?;
        }
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(LandingError::write(&path))?;
        let slots = beneath::open_root(&path).map_err(LandingError::write(&path))?;
        let root = beneath::open_root(work_tree).map_err(LandingError::write(work_tree))?;
        Ok(Self { path, slots, root })
    }

    pub(super) fn clear(self) -> Result<(), LandingError> {
        Ok(remove_tree(&self.path)?)
    }

    pub(super) fn state_of_all(&self, changes: &[PathChange]) -> Result<Vec<State>, LandingError> {
        let state = |change: &PathChange| {
            let found = look(self.root.as_fd(), &change.path);
            let found = found.map_err(LandingError::write(change.path.as_path()))?;
            Ok(match found {
                Found::Entry(entry) if entry == change.after => State::After,
                Found::Entry(entry) if entry == change.before => State::Before,
                Found::Entry(_) | Found::Odd => State::Other,
            })
        };
        changes.iter().map(state).collect()
    }

    /// Writes what the paths are to be into slots, by number.
    pub(super) fn stage(
        &self,
        git_dir: &GitDir,
        changes: &[PathChange],
        found: &[State],
    ) -> Result<(), LandingError> {
        let wanted: Vec<(usize, TreeEntryId)> = (0..changes.len())
            .filter(|number| found[*number] == State::Before)
            .filter_map(|number| Some((number, changes[number].after?)))
            .collect();
        let mut writer = SlotWriter {
            slots: self.slots.as_fd(),
            wanted: &wanted,
            next: 0,
            file: None,
            link: Vec::new(),
        };
        writer.read_all(git_dir)
    }

    /// Puts back what an earlier landing that was killed had put in place.
    pub(super) fn restore(&self, prepared: &Prepared, found: &[State]) -> Result<(), LandingError> {
        let back: Vec<PathChange> = prepared.changes.iter().map(PathChange::turned).collect();
        let turned = |state: &State| match state {
            State::Before => State::After,
            State::After => State::Before,
            State::Other => State::Other,
        };
        let found: Vec<State> = found.iter().map(turned).collect();
        self.stage(&prepared.git_dir, &back, &found)?;
        self.exchange(&back, &found).map(drop)
    }

    /// Puts every path that is as it was before into its new state; on any trouble all are put back.
    pub(super) fn exchange(
        &self,
        changes: &[PathChange],
        found: &[State],
    ) -> Result<Vec<usize>, LandingError> {
        let mut done = Vec::new();
        let numbers = (0..changes.len()).filter(|number| found[*number] == State::Before);
        let (removed, added): (Vec<_>, Vec<_>) =
            numbers.partition(|number| changes[*number].after.is_none());
        for number in removed.into_iter().chain(added) {
            let change = &changes[number];
            let slot = number.to_string();
            match self.put(change, &slot) {
                Ok(true) => done.push(number),
                Ok(false) => {
                    self.undo(changes, &done)?;
                    let path = change.path.clone();
                    return Err(LandingError::Dirty { path });
                }
                Err(error) => {
                    self.undo(changes, &done)?;
                    return Err(LandingError::write(change.path.as_path())(error));
                }
            }
        }
        Ok(done)
    }

    /// Puts one path into its new state. False: something else was there, and it is there again.
    fn put(&self, change: &PathChange, slot: &str) -> io::Result<bool> {
        let root = self.root.as_fd();
        let slots = self.slots.as_fd();
        if change.after.is_some() && change.before.is_none() {
            make_parents(root, &change.path)?;
        }
        let flags = match (change.before, change.after) {
            (Some(_), Some(_)) => RenameFlags::EXCHANGE,
            (None, _) | (_, None) => RenameFlags::NOREPLACE,
        };
        let moved = beneath::with_parent(root, &change.path, |parent, name| match change.after {
            None => renameat_with(parent, name, slots, slot, flags),
            Some(_) => renameat_with(slots, slot, parent, name, flags),
        });
        match moved.as_ref().map_err(Errno::from_io_error) {
            Ok(()) => {}
            // Somebody put something there, or took it away, since it was looked at.
            Err(Some(Errno::EXIST | Errno::NOENT | Errno::NOTDIR)) => return Ok(false),
            Err(_) => moved?,
        }
        if change.before.is_some() {
            let old = look(slots, &slot.into())?;
            if !matches!(old, Found::Entry(entry) if entry == change.before) {
                self.put_back(change, slot)?;
                return Ok(false);
            }
        }
        if change.after.is_none() {
            remove_empty_parents(root, &change.path);
        }
        Ok(true)
    }

    fn put_back(&self, change: &PathChange, slot: &str) -> io::Result<()> {
        let root = self.root.as_fd();
        let slots = self.slots.as_fd();
        if change.after.is_none() {
            make_parents(root, &change.path)?;
        }
        beneath::with_parent(root, &change.path, |parent, name| {
            match (change.before, change.after) {
                (Some(_), Some(_)) => {
                    renameat_with(slots, slot, parent, name, RenameFlags::EXCHANGE)
                }
                (Some(_), None) => renameat_with(slots, slot, parent, name, RenameFlags::NOREPLACE),
                (None, _) => renameat_with(parent, name, slots, slot, RenameFlags::NOREPLACE),
            }
        })?;
        if change.before.is_none() {
            remove_empty_parents(root, &change.path);
        }
        Ok(())
    }

    pub(super) fn undo(&self, changes: &[PathChange], done: &[usize]) -> Result<(), LandingError> {
        for number in done.iter().rev() {
            let change = &changes[*number];
            let back = self.put_back(change, &number.to_string());
            back.map_err(LandingError::write(change.path.as_path()))?;
        }
        Ok(())
    }
}

enum Found {
    /// What git would call it; none where nothing is.
    Entry(Option<TreeEntryId>),
    Odd,
}

/// What a path is, by its bytes.
fn look(root: BorrowedFd<'_>, path: &TreePath) -> io::Result<Found> {
    if let Ok(link) = beneath::read_link(root, path) {
        let oid = Oid::of_blob(&link);
        let mode = EntryMode::Symlink;
        return Ok(Found::Entry(Some(TreeEntryId { mode, oid })));
    }
    let mut file = match beneath::open_file(root, path) {
        Ok(file) => file,
        Err(error) => {
            return match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::NOTDIR) => Ok(Found::Entry(None)),
                Some(Errno::LOOP | Errno::NXIO | Errno::XDEV) => Ok(Found::Odd),
                _ => Err(error),
            };
        }
    };
    let meta = file.metadata()?;
    if meta.is_dir() {
        // Git knows no directories: one that is still there when a file is to be put stands in its way then.
        return Ok(Found::Entry(None));
    }
    if !meta.is_file() {
        return Ok(Found::Odd);
    }
    let mut hasher = BlobHasher::new(meta.len());
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    let mode = match meta.permissions().mode() & 0o100 {
        0 => EntryMode::Regular,
        _ => EntryMode::Executable,
    };
    let oid = hasher.finish();
    Ok(Found::Entry(Some(TreeEntryId { mode, oid })))
}

/// Makes the directories above a path, as the umask says.
fn make_parents(root: BorrowedFd<'_>, path: &TreePath) -> io::Result<()> {
    let mut above: Vec<&[u8]> = Vec::new();
    let mut parent = path.parent();
    while !parent.is_empty() {
        above.push(parent);
        parent = parent_of(parent);
    }
    for directory in above.into_iter().rev() {
        let directory = TreePath::from(directory);
        let made = beneath::with_parent(root, &directory, |parent, name| {
            mkdirat(parent, name, Mode::from_raw_mode(0o777))
        });
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    Ok(())
}

/// Removes directories that hold nothing any more, as git does.
fn remove_empty_parents(root: BorrowedFd<'_>, path: &TreePath) {
    let mut parent = path.parent();
    while !parent.is_empty() {
        let removed = beneath::with_parent(root, &TreePath::from(parent), |above, name| {
            unlinkat(above, name, AtFlags::REMOVEDIR)
        });
        if removed.is_err() {
            return;
        }
        parent = parent_of(parent);
    }
}

/// Writes blobs into slots as they come.
struct SlotWriter<'a> {
    slots: BorrowedFd<'a>,
    wanted: &'a [(usize, TreeEntryId)],
    next: usize,
    file: Option<File>,
    link: Vec<u8>,
}

impl SlotWriter<'_> {
    fn read_all(&mut self, git_dir: &GitDir) -> Result<(), LandingError> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        let mut call = tree_diff::call("cat-file", &["--batch", "--buffer"], git_dir);
        call.output_bytes_max = u64::MAX;
        let lines: String = self
            .wanted
            .iter()
            .map(|(_, entry)| format!("{}\n", entry.oid))
            .collect();
        let input = tree_diff::input(&call, lines.as_bytes())?;
        let count = self.wanted.len();
        let mut sink = Sink::new(|event| self.take(&event));
        let finished = call.run(input, &mut sink);
        if let Some(error) = sink.into_error() {
            return Err(error.into());
        }
        call.expect_success(finished?, &[])?;
        match self.next == count {
            true => Ok(()),
            false => Err(RepositoryError::from(NoAnswer).into()),
        }
    }

    fn take(&mut self, event: &Event<'_>) -> Result<(), RepositoryError> {
        let (number, entry) = *self.wanted.get(self.next).ok_or(NoAnswer)?;
        let name = number.to_string();
        let done = match event {
            Event::Begin { id, kind, .. } => {
                if *id != entry.oid || *kind != Kind::Blob {
                    return Err(NoAnswer.into());
                }
                self.begin(&name, entry.mode)
            }
            Event::Piece(bytes) => match &mut self.file {
                Some(file) => file.write_all(bytes),
                None => {
                    self.link.extend_from_slice(bytes);
                    Ok(())
                }
            },
            Event::End => {
                self.next += 1;
                match self.file.take() {
                    Some(file) => file.sync_data(),
                    None => {
                        let target = std::mem::take(&mut self.link);
                        beneath::make_link(self.slots, &name.as_str().into(), &target)
                    }
                }
            }
            Event::Absent(_) => return Err(NoAnswer.into()),
        };
        done.map_err(RepositoryError::write(Path::new(STAGING).join(name)))
    }

    fn begin(&mut self, name: &str, mode: EntryMode) -> io::Result<()> {
        let permissions = match mode {
            EntryMode::Symlink => return Ok(()),
            EntryMode::Regular => 0o666,
            EntryMode::Executable => 0o777,
        };
        self.file = Some(beneath::create_in(
            self.slots,
            name.as_bytes(),
            permissions,
        )?);
        Ok(())
    }
}
