//! Landing on the branch that is checked out: its files and its index follow the reference.
//!
//! Files are exchanged, never overwritten: what was in their place is looked at afterwards, and put back if it is not what
//! the base commit holds. `index.lock` keeps git out from the first file to the last, also after a kill, until the landing
//! is done again.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::staging::{Staging, State};
use super::{BranchName, Landed, LandingError, Prepared, borrowing, branches, objects, tree_diff};
use crate::git::Call;
use crate::git_dir::GitDir;
use crate::oid::Oid;
use crate::repository::{Head, PlainIndex, Repository};
use crate::tree_path::TreePath;

const LOCK_BYTES_MAX: u64 = 1024;

pub(super) fn land(prepared: &Prepared, target: &Repository) -> Result<Landed, LandingError> {
    let work_tree = check_head(target, &prepared.branch)?;
    let git_dir = target.own_git_directory().to_owned();
    let users = branches::users(target, &prepared.branch)?;
    if let Some(place) = users.into_iter().find(|place| *place != git_dir) {
        let branch = prepared.branch.as_str().to_owned();
        return Err(LandingError::InUse { branch, place });
    }
    let lock = IndexLock::take(&git_dir, prepared.commit)?;
    let staging = Staging::new(&git_dir, work_tree);
    let landed = staging.and_then(|staging| {
        let landed = lay_out(prepared, target, work_tree, &staging, lock.is_adopted);
        let cleared = staging.clear();
        landed.and_then(|landed| cleared.map(|()| landed))
    });
    lock.release();
    landed
}

/// The work tree in which the branch is checked out.
pub(super) fn check_head<'a>(
    target: &'a Repository,
    branch: &BranchName,
) -> Result<&'a Path, LandingError> {
    let not_checked_out = || LandingError::NotCheckedOut {
        branch: branch.as_str().to_owned(),
    };
    let work_tree = target.work_tree().ok_or_else(not_checked_out)?;
    match target.head()? {
        Head::Branch { name, .. } if name.as_bytes() == branch.as_str().as_bytes() => Ok(work_tree),
        Head::Branch { .. } | Head::Detached { .. } => Err(not_checked_out()),
    }
}

fn lay_out(
    prepared: &Prepared,
    target: &Repository,
    work_tree: &Path,
    staging: &Staging,
    is_adopted: bool,
) -> Result<Landed, LandingError> {
    let paths = &prepared.changes;
    let found = staging.state_of_all(paths)?;
    let was_there = match may_go_on(prepared, target, &found, is_adopted) {
        Ok(was_there) => was_there,
        Err(error) => {
            if is_adopted {
                staging.restore(prepared, &found)?;
            }
            return Err(error);
        }
    };
    if was_there && !is_adopted {
        return Ok(prepared.landed(true));
    }
    objects::move_in(&prepared.git_dir, target)?;
    let index = new_index(prepared, target, staging)?;
    staging.stage(&prepared.git_dir, paths, &found)?;
    let done = staging.exchange(paths, &found)?;
    if !was_there && let Err(error) = prepared.move_branch(target) {
        staging.undo(paths, &done)?;
        return Err(error);
    }
    let finish = || {
        refresh(&index, work_tree)?;
        let from = index.path().join("index");
        install_index(&from, &target.own_git_directory().join("index"), staging)
    };
    finish().map_err(|source| LandingError::Unfinished {
        commit: prepared.commit,
        source: Box::new(source),
    })?;
    Ok(prepared.landed(was_there))
}

/// Whether the commit is on its branch already; an error where branch or work tree are not as they were.
fn may_go_on(
    prepared: &Prepared,
    target: &Repository,
    found: &[State],
    is_adopted: bool,
) -> Result<bool, LandingError> {
    let was_there = prepared.is_landed(target)?;
    if was_there {
        return Ok(true);
    }
    let paths = &prepared.changes;
    let mut others = paths.iter().zip(found);
    if let Some((change, _)) = others.find(|(_, state)| **state == State::Other) {
        let path = change.path.clone();
        return Err(LandingError::Dirty { path });
    }
    // What a killed landing of this very commit left is no dirt; everything else is.
    let ours: BTreeSet<&TreePath> = paths.iter().map(|change| &change.path).collect();
    let mut dirty = target.fingerprint()?.dirty.into_iter();
    let is_left_alone =
        |path: &TreePath| prepared.left_alone.as_ref() == Some(path) && !ours.contains(path);
    let is_own = |path: &TreePath| is_adopted && ours.contains(path);
    let counts = |path: &TreePath| !is_own(path) && !is_left_alone(path);
    match dirty.find(|dirty| counts(&dirty.path)) {
        Some(dirty) => Err(LandingError::Dirty { path: dirty.path }),
        None => Ok(false),
    }
}

/// `index.lock` with a mark of ours, so that a later landing of the same commit knows its own.
struct IndexLock {
    path: PathBuf,
    is_adopted: bool,
}

impl IndexLock {
    fn take(git_dir: &Path, commit: Oid) -> Result<Self, LandingError> {
        let path = git_dir.join("index.lock");
        let mark = format!("cto landing {commit}\n");
        let opened = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&path);
        match opened {
            Ok(mut file) => {
                let written = file
                    .write_all(mark.as_bytes())
                    .and_then(|()| file.sync_data());
                if let Err(error) = written {
                    drop(std::fs::remove_file(&path));
                    return Err(LandingError::write(&path)(error));
                }
                Ok(Self {
                    path,
                    is_adopted: false,
                })
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut found = Vec::new();
                let read = File::open(&path)
                    .and_then(|file| file.take(LOCK_BYTES_MAX).read_to_end(&mut found));
                if read.is_ok() && found == mark.as_bytes() {
                    let is_adopted = true;
                    return Ok(Self { path, is_adopted });
                }
                Err(LandingError::Locked { path })
            }
            Err(error) => Err(LandingError::write(&path)(error)),
        }
    }

    fn release(self) {
        drop(std::fs::remove_file(self.path));
    }
}

/// Makes the index that will follow, from the one that is there.
fn new_index(
    prepared: &Prepared,
    target: &Repository,
    staging: &Staging,
) -> Result<GitDir, LandingError> {
    let git_dir = borrowing(target, &staging.path.join("index.git"))?;
    match target.copy_plain_index(&git_dir)? {
        PlainIndex::Copied => {}
        PlainIndex::Absent => {
            let detail = "there is none";
            return Err(LandingError::Index { detail });
        }
        PlainIndex::Other => {
            let detail = "it is split, sparse or of a version that is not known here";
            return Err(LandingError::Index { detail });
        }
    }
    tree_diff::put_into_index(&git_dir, &prepared.changes)?;
    Ok(git_dir)
}

/// Lets git note the times of the new files, so that its next status reads none of them.
fn refresh(git_dir: &GitDir, work_tree: &Path) -> Result<(), LandingError> {
    let call = Call {
        verb: "update-index",
        arguments: ["-q", "--refresh"].map(str::to_owned).into(),
        git_dir: git_dir.path(),
        work_tree: Some(work_tree),
        wall: super::WALL,
        output_bytes_max: super::ANSWER_BYTES_MAX,
    };
    let finished = call.run(Stdio::null(), &mut io::sink())?;
    // 1 says that a file is not what the index holds: an owner may have begun to edit.
    Ok(call.expect_success(finished, &[1])?)
}

fn install_index(from: &Path, to: &Path, staging: &Staging) -> Result<(), LandingError> {
    let ready = staging.path.join("index");
    let write = || -> io::Result<()> {
        let mode = std::fs::metadata(to)?.permissions();
        std::fs::rename(from, &ready)?;
        std::fs::set_permissions(&ready, mode)?;
        File::open(&ready)?.sync_all()?;
        std::fs::rename(&ready, to)?;
        File::open(to.parent().unwrap_or(Path::new("/")))?.sync_all()
    };
    write().map_err(LandingError::write(to))
}
