//! What there is in the owner's work tree: asked of the kernel and of git at the same time.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::fs::Stat;

use crate::beneath;
use crate::git_dir::GitDir;
use crate::platform::mode_bits;
use crate::remove::remove_tree;
use crate::repository::Repository;
use crate::repository::error::RepositoryError;
use crate::repository::git_files::GitFile;
use crate::repository::index_reader::{self, IndexStat, Indexed};
use crate::repository::stat_pass::stat_all;
use crate::repository::status::{INDEX_BYTES_MAX, Status, Untracked, ls_files, put_index};
use crate::stamp::Stamp;
use crate::tree_path::TreePath;

/// A path that is not what the commit and the index say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirtyPath {
    pub path: TreePath,
    pub kind: DirtyKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DirtyKind {
    /// Staged, or different on disk.
    Changed,
    /// Not known to git, and not ignored.
    Untracked,
}

/// What there is in a work tree, and how it differs from the commit.
pub(crate) struct WorkTree {
    /// Tracked and untracked paths, sorted; `None` where a tracked path has no file.
    pub(crate) paths: Vec<(TreePath, Option<Stamp>)>,
    pub(crate) dirty: Vec<DirtyPath>,
    /// Ignored paths; one that ends in `/` stands for everything below it.
    pub(crate) ignored: Vec<TreePath>,
}

/// What an earlier look found: its ignore rules stay in force, so that both looks are at the same paths.
pub(crate) struct Earlier<'a> {
    pub(crate) paths: &'a [(TreePath, Option<Stamp>)],
    pub(crate) ignored: &'a [TreePath],
}

type Stamped = (TreePath, Option<Stamp>);

impl Repository {
    pub(crate) fn look(
        &self,
        work_tree: &Path,
        earlier: Option<&Earlier<'_>>,
    ) -> Result<WorkTree, RepositoryError> {
        let number = self.statuses.fetch_add(1, Ordering::Relaxed);
        let place = self.scratch.join(format!("status-{number}.git"));
        let git_dir = self.status_dir(&place)?;
        let looked = self.look_with(&git_dir, work_tree, earlier);
        remove_tree(&place)?;
        looked
    }

    fn look_with(
        &self,
        git_dir: &GitDir,
        work_tree: &Path,
        earlier: Option<&Earlier<'_>>,
    ) -> Result<WorkTree, RepositoryError> {
        let index = self.place.git_dir.read(&"index".into(), INDEX_BYTES_MAX)?;
        let entries = index
            .as_ref()
            .and_then(|index| index_reader::parse(&index.bytes));
        let (mut paths, mut status) = match (index, entries) {
            (None, _) => (
                Vec::new(),
                self.status(git_dir, work_tree, Untracked::Listed)?,
            ),
            (Some(index), Some(entries)) => {
                self.look_at_once(git_dir, work_tree, index, entries)?
            }
            (Some(index), None) => {
                self.copy_shared_indexes(git_dir)?;
                put_index(git_dir, &index)?;
                let listed = ls_files(git_dir, work_tree)?;
                let found = stats(work_tree, &listed.iter().collect::<Vec<_>>())?;
                let paths = stamped(listed.into_iter(), &found);
                (paths, self.status(git_dir, work_tree, Untracked::Listed)?)
            }
        };
        paths.dedup_by(|left, right| left.0 == right.0);
        if let Some(earlier) = earlier {
            let now_seen = |path: &TreePath| !is_covered(path, earlier.ignored);
            status.untracked.retain(now_seen);
        }
        self.add_others(work_tree, &mut paths, &status, earlier)?;
        let dirty = |kind| move |path| DirtyPath { path, kind };
        let changed = status.changed.into_iter().map(dirty(DirtyKind::Changed));
        let untracked = status.untracked.into_iter();
        let mut all: Vec<DirtyPath> = changed
            .chain(untracked.map(dirty(DirtyKind::Untracked)))
            .collect();
        all.sort_unstable();
        all.dedup();
        Ok(WorkTree {
            paths,
            dirty: all,
            ignored: status.ignored,
        })
    }

    /// Lets git search for untracked files and staged changes while this asks the kernel about the tracked ones; then
    /// git looks once more at those that are not as it last saw them, of which there are few.
    fn look_at_once(
        &self,
        git_dir: &GitDir,
        work_tree: &Path,
        original: GitFile,
        entries: Vec<Indexed>,
    ) -> Result<(Vec<Stamped>, Status), RepositoryError> {
        let mut trusting = original.bytes.clone();
        for entry in entries.iter().filter(|entry| !entry.unmerged) {
            index_reader::assume_valid(&mut trusting, entry);
        }
        index_reader::clear_checksum(&mut trusting);
        let stamp = original.stamp;
        let bytes = trusting;
        put_index(git_dir, &GitFile { bytes, stamp })?;
        let (status, found) = std::thread::scope(|scope| {
            let status = scope.spawn(|| self.status(git_dir, work_tree, Untracked::Listed));
            let listed: Vec<&TreePath> = entries.iter().map(|entry| &entry.path).collect();
            let found = stats(work_tree, &listed);
            let lost = |_| Err(RepositoryError::Answer { verb: "status" });
            (status.join().unwrap_or_else(lost), found)
        });
        let (mut status, found) = (status?, found?);
        let mut doubting = original;
        if vouch(&mut doubting, &entries, &found) == Vouched::ForSome {
            put_index(git_dir, &doubting)?;
            let more = self.status(git_dir, work_tree, Untracked::LeftOut)?;
            status.changed.extend(more.changed);
        }
        let paths = stamped(entries.into_iter().map(|entry| entry.path), &found);
        Ok((paths, status))
    }

    /// Adds what is there beside the tracked paths: untracked ones, and those that an earlier look had found.
    fn add_others(
        &self,
        work_tree: &Path,
        paths: &mut Vec<Stamped>,
        status: &Status,
        earlier: Option<&Earlier<'_>>,
    ) -> Result<(), RepositoryError> {
        let mut others: Vec<&TreePath> = status.untracked.iter().collect();
        // Perhaps ignored since: still to be looked at.
        let known = earlier.map_or(&[][..], |earlier| earlier.paths);
        let mut tracked = paths.iter().map(|(path, _)| path).peekable();
        for (path, _) in known {
            while tracked.next_if(|tracked| *tracked < path).is_some() {}
            if tracked.peek() != Some(&path) {
                others.push(path);
            }
        }
        if others.is_empty() {
            return Ok(());
        }
        others.sort_unstable();
        others.dedup();
        let found = stats(work_tree, &others)?;
        let mut present = stamped(others.into_iter().cloned(), &found);
        present.retain(|(_, stamp)| stamp.is_some());
        paths.append(&mut present);
        paths.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        Ok(())
    }
}

fn stats(work_tree: &Path, paths: &[&TreePath]) -> Result<Vec<Option<Stat>>, RepositoryError> {
    let root = beneath::open_root(work_tree).map_err(RepositoryError::read(work_tree))?;
    stat_all(root.as_fd(), paths).map_err(|(path, source)| RepositoryError::Read {
        path: work_tree.join(path.as_path()),
        source,
    })
}

fn stamped(paths: impl Iterator<Item = TreePath>, found: &[Option<Stat>]) -> Vec<Stamped> {
    let stamps = found.iter().map(|stat| stat.as_ref().map(Stamp::of));
    paths.zip(stamps).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Vouched {
    ForAll,
    ForSome,
}

/// Marks in the copy of the index what the kernel says is as git last saw it, so that git need not ask again.
///
/// Stricter than git: every field has to agree, and a file as young as the index itself is left to git to read.
fn vouch(index: &mut GitFile, entries: &[Indexed], found: &[Option<Stat>]) -> Vouched {
    let written = index.stamp.mtime;
    let mut vouched = Vouched::ForAll;
    for (entry, stat) in entries.iter().zip(found) {
        let same = stat.is_some_and(|stat| is_same(&entry.stat, &stat));
        if same && !entry.unmerged && entry.stat.mtime.0 < written.0 {
            index_reader::assume_valid(&mut index.bytes, entry);
        } else {
            vouched = Vouched::ForSome;
        }
    }
    index_reader::clear_checksum(&mut index.bytes);
    vouched
}

fn is_same(known: &IndexStat, stat: &Stat) -> bool {
    let now = Stamp::of(stat);
    let mode = match now.mode & 0o170_000 {
        0o100_000 if now.mode & 0o100 != 0 => 0o100_755,
        0o100_000 => 0o100_644,
        kind => kind,
    };
    let seen = IndexStat {
        ctime: now.ctime,
        mtime: now.mtime,
        ino: now.ino as u32,
        mode,
        uid: mode_bits(stat.st_uid),
        gid: mode_bits(stat.st_gid),
        size: now.size as u32,
    };
    seen == *known
}

/// Tells whether a path is in a sorted list of ignored ones, or below a directory in it.
fn is_covered(path: &TreePath, ignored: &[TreePath]) -> bool {
    let is_listed = |bytes: &[u8]| {
        ignored
            .binary_search_by(|known| known.as_bytes().cmp(bytes))
            .is_ok()
    };
    let bytes = path.as_bytes();
    let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    is_listed(bytes) || slashes.into_iter().any(|(at, _)| is_listed(&bytes[..=at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_directory_covers_what_is_below_it() {
        let ignored = ["a.log", "target/", "x/y/"].map(TreePath::from);
        for (path, covered) in [
            ("a.log", true),
            ("target/debug/x", true),
            ("x/y/z", true),
            ("target", false),
            ("x/z", false),
            ("targets/x", false),
        ] {
            assert_eq!(is_covered(&path.into(), &ignored), covered, "{path}");
        }
    }
}
