//! New objects go into the target through a directory that git's own upkeep clears: they have no name there until all of
//! them are written.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::LandingError;
use crate::git_dir::GitDir;
use crate::remove::remove_tree;
use crate::repository::Repository;

/// Git's own name for such directories begins so, and `git gc` removes old ones.
const QUARANTINE: &str = "tmp_objdir-cto";

/// Moves every object of our git directory into the target; those that are there already stay.
pub(super) fn move_in(own: &GitDir, target: &Repository) -> Result<(), LandingError> {
    let to = target.git_directory().join("objects");
    let quarantine = to.join(format!("{QUARANTINE}-{}", std::process::id()));
    if quarantine.exists() {
        remove_tree(&quarantine)?;
    }
    let moved = copy_and_move(&own.path().join("objects"), &quarantine, &to);
    if quarantine.exists() {
        remove_tree(&quarantine)?;
    }
    moved
}

fn copy_and_move(from: &Path, quarantine: &Path, to: &Path) -> Result<(), LandingError> {
    let names = loose(from).map_err(LandingError::write(from))?;
    let mode = std::fs::metadata(to)
        .map_err(LandingError::write(to))?
        .permissions()
        .mode()
        & 0o7777;
    let make = |path: &Path| match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(LandingError::write(path)),
    };
    make(quarantine)?;
    for name in &names {
        let path = quarantine.join(name);
        make(path.parent().unwrap_or(quarantine))?;
        copy(&from.join(name), &path).map_err(LandingError::write(&path))?;
    }
    for name in &names {
        let path = to.join(name);
        make(path.parent().unwrap_or(to))?;
        // An object with this name holds this content: whoever was first.
        if !path.exists() {
            std::fs::rename(quarantine.join(name), &path).map_err(LandingError::write(&path))?;
        }
    }
    // Their names must be there before the reference is.
    sync_directories(to, &names).map_err(LandingError::write(to))
}

/// The loose objects of a directory, as `ab/cdef…`.
fn loose(objects: &Path) -> io::Result<Vec<PathBuf>> {
    let is_hex = |name: &str, length: usize| {
        name.len() == length && name.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let mut found = Vec::new();
    for fan in std::fs::read_dir(objects)? {
        let fan = fan?;
        let Some(first) = fan.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        if !is_hex(&first, 2) {
            continue;
        }
        for object in std::fs::read_dir(fan.path())? {
            let name = object?.file_name();
            if name.to_str().is_some_and(|name| is_hex(name, 38)) {
                found.push(Path::new(&first).join(name));
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut content = File::open(from)?;
    let mut copy = crate::git_dir::create(to)?;
    io::copy(&mut content, &mut copy)?;
    copy.set_permissions(std::fs::Permissions::from_mode(0o444))?;
    copy.sync_data()
}

fn sync_directories(objects: &Path, names: &[PathBuf]) -> io::Result<()> {
    let mut synced: Vec<&Path> = names.iter().filter_map(|name| name.parent()).collect();
    synced.dedup();
    for directory in synced {
        File::open(objects.join(directory))?.sync_all()?;
    }
    File::open(objects)?.sync_all()
}
