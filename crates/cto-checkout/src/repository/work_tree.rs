//! What git says about the owner's work tree, asked with a git directory of ours and a copy of the index.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::{Stat, Timespec, Timestamps, futimens};

use crate::beneath;
use crate::git::Call;
use crate::git_dir::GitDir;
use crate::platform::{mode_bits, wide};
use crate::remove::remove_tree;
use crate::repository::config::Config;
use crate::repository::error::RepositoryError;
use crate::repository::git_files::GitFile;
use crate::repository::index_reader::{self, IndexStat, Indexed};
use crate::repository::stat_pass::stat_all;
use crate::repository::{OBJECT_SETTINGS, Repository, alternates};
use crate::stamp::Stamp;
use crate::tree_path::TreePath;

const INDEX_BYTES_MAX: u64 = 1 << 30;
const RULES_BYTES_MAX: u64 = 1 << 20;
const STATUS_WALL: Duration = Duration::from_secs(300);
const STATUS_BYTES_MAX: u64 = 1 << 30;
const SHARED_INDEXES_MAX: usize = 8;

/// Filters are programs of the owner's choice, and an encoding that is unknown would stop git.
const ATTRIBUTES: &[u8] = b"\n* -filter -working-tree-encoding -diff -merge\n";

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

    /// Makes a git directory that differs from the owner's in nothing that decides what is clean.
    fn status_dir(&self, place: &Path) -> Result<GitDir, RepositoryError> {
        let git_dir = GitDir::create(place)?;
        let objects = self.git_dir.path().join("objects");
        git_dir.replace(
            "objects/info/alternates",
            &alternates::encode([objects.as_path()]),
        )?;
        if let Some(id) = self.head()?.id() {
            git_dir.replace("HEAD", format!("{id}\n").as_bytes())?;
        }
        git_dir.replace("config", settings_file(&self.config).as_bytes())?;
        let rules = |name| self.place.common_dir.bytes(name, RULES_BYTES_MAX);
        if let Some(exclude) = rules("info/exclude")? {
            git_dir.replace("info/exclude", &exclude)?;
        }
        let mut attributes = rules("info/attributes")?.unwrap_or_default();
        attributes.extend_from_slice(ATTRIBUTES);
        git_dir.replace("info/attributes", &attributes)?;
        Ok(git_dir)
    }

    fn look_with(
        &self,
        git_dir: &GitDir,
        work_tree: &Path,
        earlier: Option<&Earlier<'_>>,
    ) -> Result<WorkTree, RepositoryError> {
        let root = beneath::open_root(work_tree).map_err(RepositoryError::read(work_tree))?;
        let stats = |paths: &[&TreePath]| {
            stat_all(root.as_fd(), paths).map_err(|(path, source)| RepositoryError::Read {
                path: work_tree.join(path.as_path()),
                source,
            })
        };
        let index = self.place.git_dir.read(&"index".into(), INDEX_BYTES_MAX)?;
        let entries = index
            .as_ref()
            .map_or(Some(Vec::new()), |index| index_reader::parse(&index.bytes));
        let mut paths: Vec<(TreePath, Option<Stamp>)>;
        match (index, entries) {
            (Some(mut index), Some(entries)) => {
                let listed: Vec<&TreePath> = entries.iter().map(|entry| &entry.path).collect();
                let found = stats(&listed)?;
                vouch(&mut index, &entries, &found);
                put_index(git_dir, &index)?;
                let stamps = found.iter().map(|stat| stat.as_ref().map(Stamp::of));
                paths = entries
                    .into_iter()
                    .map(|entry| entry.path)
                    .zip(stamps)
                    .collect();
            }
            (Some(index), None) => {
                self.copy_shared_indexes(git_dir)?;
                put_index(git_dir, &index)?;
                let listed = ls_files(git_dir, work_tree)?;
                let found = stats(&listed.iter().collect::<Vec<_>>())?;
                let stamps = found.iter().map(|stat| stat.as_ref().map(Stamp::of));
                paths = listed.into_iter().zip(stamps).collect();
            }
            (None, _) => paths = Vec::new(),
        }
        let mut status = self.status(git_dir, work_tree)?;
        if let Some(earlier) = earlier {
            status
                .untracked
                .retain(|path| !is_covered(path, earlier.ignored));
        }
        let mut further: Vec<&TreePath> = status.untracked.iter().collect();
        if let Some(earlier) = earlier {
            // Seen before, and perhaps ignored since: still to be looked at.
            further.extend(earlier.paths.iter().map(|(path, _)| path));
        }
        paths.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        paths.dedup_by(|left, right| left.0 == right.0);
        further.sort_unstable();
        further.dedup();
        further.retain(|path| {
            paths
                .binary_search_by(|(known, _)| known.cmp(path))
                .is_err()
        });
        let found = stats(&further)?;
        let mut others: Vec<(TreePath, Option<Stamp>)> = further
            .into_iter()
            .zip(&found)
            .filter_map(|(path, stat)| Some((path.clone(), Some(Stamp::of(stat.as_ref()?)))))
            .collect();
        if !others.is_empty() {
            paths.append(&mut others);
            paths.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        }
        let dirty = |kind| move |path| DirtyPath { path, kind };
        let mut all: Vec<DirtyPath> = status
            .changed
            .into_iter()
            .map(dirty(DirtyKind::Changed))
            .collect();
        all.extend(
            status
                .untracked
                .into_iter()
                .map(dirty(DirtyKind::Untracked)),
        );
        all.sort_unstable();
        Ok(WorkTree {
            paths,
            dirty: all,
            ignored: status.ignored,
        })
    }

    /// A split index needs the file it was split from.
    fn copy_shared_indexes(&self, git_dir: &GitDir) -> Result<(), RepositoryError> {
        let files = &self.place.git_dir;
        let names = std::fs::read_dir(files.path()).map_err(RepositoryError::read(files.path()))?;
        let mut copied = 0;
        for name in names.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
            if name.starts_with("sharedindex.") && copied < SHARED_INDEXES_MAX {
                copied += 1;
                if let Some(bytes) = files.bytes(&name, INDEX_BYTES_MAX)? {
                    git_dir.replace(&name, &bytes)?;
                }
            }
        }
        Ok(())
    }

    fn status(&self, git_dir: &GitDir, work_tree: &Path) -> Result<Status, RepositoryError> {
        let call = Call {
            verb: "status",
            arguments: [
                "--porcelain=v1",
                "-z",
                "--no-renames",
                "--no-ahead-behind",
                "--untracked-files=all",
                "--ignored=matching",
                // Git would look into one by starting itself there, with the settings that lie there.
                "--ignore-submodules=all",
            ]
            .map(str::to_owned)
            .into(),
            git_dir: git_dir.path(),
            work_tree: Some(work_tree),
            wall: STATUS_WALL,
            output_bytes_max: STATUS_BYTES_MAX,
        };
        let conversion = match self.config.text("core.autocrlf") {
            Some("input") => "core.autocrlf=input",
            _ if self.config.is_true("core.autocrlf") => "core.autocrlf=true",
            _ => "core.autocrlf=false",
        };
        // What was vouched for is not looked at again, and reading ahead would do just that.
        let settings = [OBJECT_SETTINGS, &[conversion, "core.preloadIndex=false"]].concat();
        let mut answer = Vec::new();
        let finished = call.run_with(&settings, Stdio::null(), &mut answer)?;
        call.expect_success(finished, &[])?;
        parse_status(&answer).ok_or(RepositoryError::Answer { verb: "status" })
    }
}

/// Takes over the few settings that say how the owner's file system behaves, each from a closed list.
fn settings_file(config: &Config) -> String {
    let word = |key: &str, default: bool| match config.get(key) {
        None => default,
        Some(_) => config.is_true(key),
    };
    let minimal = config.text("core.checkstat") == Some("minimal");
    let eol = match config.text("core.eol") {
        Some("lf") => "lf",
        Some("crlf") => "crlf",
        _ => "native",
    };
    format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfilemode = {}\n\tsymlinks = {}\n\tignorecase = {}\n\ttrustctime = {}\n\tcheckStat = {}\n\teol = {eol}\n",
        word("core.filemode", true),
        word("core.symlinks", true),
        word("core.ignorecase", false),
        word("core.trustctime", true),
        if minimal { "minimal" } else { "default" },
    )
}

/// Marks in the copy of the index what the kernel says is as git last saw it, so that git need not ask again.
///
/// Stricter than git: every field has to agree, and a file as young as the index itself is left to git to read.
fn vouch(index: &mut GitFile, entries: &[Indexed], found: &[Option<Stat>]) {
    let written = index.stamp.mtime;
    for (entry, stat) in entries.iter().zip(found) {
        let Some(stat) = stat else { continue };
        if !entry.unmerged && entry.stat.mtime.0 < written.0 && is_same(&entry.stat, stat) {
            index_reader::assume_valid(&mut index.bytes, entry);
        }
    }
    index_reader::clear_checksum(&mut index.bytes);
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
        size: wide(now.size) as u32,
    };
    seen == *known
}

/// Writes the copy with the time of the original: by it git tells which files may have changed in the same moment.
fn put_index(git_dir: &GitDir, index: &GitFile) -> Result<(), RepositoryError> {
    let path = git_dir.path().join("index");
    let put = || {
        let mut file = crate::git_dir::create(&path)?;
        file.write_all(&index.bytes)?;
        let time = Timespec {
            tv_sec: index.stamp.mtime.0,
            tv_nsec: index.stamp.mtime.1.into(),
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        Ok(futimens(&file, &times)?)
    };
    put().map_err(RepositoryError::write(&path))
}

fn ls_files(git_dir: &GitDir, work_tree: &Path) -> Result<Vec<TreePath>, RepositoryError> {
    let call = Call {
        verb: "ls-files",
        arguments: vec!["-z".into(), "--deduplicate".into()],
        git_dir: git_dir.path(),
        work_tree: Some(work_tree),
        wall: STATUS_WALL,
        output_bytes_max: STATUS_BYTES_MAX,
    };
    let mut answer = Vec::new();
    let finished = call.run(Stdio::null(), &mut answer)?;
    call.expect_success(finished, &[])?;
    let paths = answer.split(|&byte| byte == 0);
    Ok(paths
        .filter(|path| !path.is_empty())
        .map(TreePath::from)
        .collect())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Status {
    changed: Vec<TreePath>,
    untracked: Vec<TreePath>,
    ignored: Vec<TreePath>,
}

/// Reads two letters, a blank and a path up to each NUL; `None` for anything else.
fn parse_status(answer: &[u8]) -> Option<Status> {
    let mut status = Status::default();
    for record in answer.split_inclusive(|&byte| byte == 0) {
        let (mark, path) = record.strip_suffix(b"\0")?.split_at_checked(3)?;
        if path.is_empty() || mark[2] != b' ' {
            return None;
        }
        match &mark[..2] {
            // A repository in the work tree is listed as a directory and not looked into.
            b"??" => status
                .untracked
                .push(path.strip_suffix(b"/").unwrap_or(path).into()),
            b"!!" => status.ignored.push(path.into()),
            _ => status.changed.push(path.into()),
        }
    }
    status.ignored.sort_unstable();
    Some(status)
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
    use proptest::prelude::*;

    #[test]
    fn a_status_is_sorted_out() {
        let status = parse_status(b" M a b\0?? new/\0?? x\ny\0!! target/\0UU c\0").unwrap();
        let shown = |paths: &[TreePath]| paths.iter().map(TreePath::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&status.changed), ["a b", "c"]);
        assert_eq!(shown(&status.untracked), ["new", "x\\u{a}y"]);
        assert_eq!(shown(&status.ignored), ["target/"]);
        for bad in [&b" M a"[..], b"M a\0", b" M \0", b"\0"] {
            assert_eq!(parse_status(bad), None);
        }
    }

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

    proptest! {
        #[test]
        fn any_bytes_can_be_offered(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            drop(parse_status(&bytes));
        }
    }
}
