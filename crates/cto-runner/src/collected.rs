//! Files of a lane's own that are kept in the pack after every end, also a kill.
//!
//! The agent made them: they are read by directory descriptor, no link is followed, secrets are taken out, and there is a
//! bound on how many and how much.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use cto_agent::{CollectFrom, Collection};
use cto_contract::artifact::FreshnessSource;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use crate::open_run::{OpenRun, StepError};
use crate::redacted_file::RedactedFile;
use crate::room::Room;

/// Most files of one collection, and how deep they may lie.
const FILES_MAX: usize = 1_000;
const DEPTH_MAX: usize = 16;
const CHUNK_BYTES: usize = 64 << 10;

/// What is left of a collection's bounds.
struct Bounds {
    bytes: u64,
    files: usize,
    left_out: u64,
}

/// Copies what was asked for into the pack, and notes how many files were left out.
pub(crate) fn collect(
    run: &mut OpenRun<'_>,
    wanted: &Collection,
    room: &Room,
) -> Result<(), StepError> {
    let scratch = room.own_scratch();
    let top = match wanted.from {
        CollectFrom::Workspace => room.written(),
        CollectFrom::Scratch => Some(scratch.as_path()),
    };
    let to = format!("backend/{}", wanted.to);
    let Some(top) = top else { return Ok(()) };
    // What is not there, or is a link, is nothing to collect.
    let Ok(found) = open_below(top, &wanted.path) else {
        return Ok(());
    };
    let mut bounds = Bounds {
        bytes: wanted.bytes_max,
        files: FILES_MAX,
        left_out: 0,
    };
    let mut waiting = vec![(found, to.clone(), 0)];
    while let Some((handle, name, depth)) = waiting.pop() {
        let Ok(stat) = rustix::fs::fstat(&handle) else {
            bounds.left_out += 1;
            continue;
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind.is_dir() && depth < DEPTH_MAX {
            for (entry, child) in children(&handle).unwrap_or_default() {
                waiting.push((child, format!("{name}/{entry}"), depth + 1));
            }
        } else if kind.is_file() && bounds.files > 0 && bounds.bytes > 0 {
            bounds.files -= 1;
            bounds.bytes -= keep(run, File::from(handle), &name, bounds.bytes)?;
        } else {
            bounds.left_out += 1;
        }
    }
    if bounds.left_out > 0 {
        let text = format!("{} entries were left out\n", bounds.left_out);
        run.artifact(&format!("{to}.left-out.txt"), text.as_bytes())?;
    }
    Ok(())
}

/// Opens a path below a directory, no part of it through a link.
pub(crate) fn open_below(top: &Path, path: &str) -> io::Result<OwnedFd> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(top, directory, Mode::empty())?;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        at = open_entry(&at, part)?;
    }
    Ok(at)
}

pub(crate) fn open_entry(at: &impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if name == ".." {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let stat = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !(kind.is_dir() || kind.is_file()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
}

/// The entries of a directory that can be opened, in the order of their names. A name that is no plain text is left out.
fn children(directory: &OwnedFd) -> io::Result<Vec<(String, OwnedFd)>> {
    let mut names: Vec<String> = Dir::read_from(directory)?
        .take(FILES_MAX)
        .filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned))
        .filter(|name| !matches!(name.as_str(), "." | "..") && !name.contains(['\n', '\\']))
        .collect();
    names.sort_unstable_by(|a, b| b.cmp(a));
    let opened = names.into_iter().filter_map(|name| {
        let handle = open_entry(directory, &name).ok()?;
        Some((name, handle))
    });
    Ok(opened.collect())
}

/// Copies one file up to a bound, and returns how much was read.
fn keep(run: &mut OpenRun<'_>, file: File, name: &str, bytes_max: u64) -> Result<u64, StepError> {
    let failed = |e: io::Error| StepError::not_written(name, &e);
    let mut out = RedactedFile::new(run.create_artifact(name)?, &run.secrets, &run.places);
    let mut source = file.take(bytes_max);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut read = 0;
    loop {
        match source.read(&mut chunk).map_err(failed)? {
            0 => break,
            length => {
                out.push(&chunk[..length]);
                read += length as u64;
            }
        }
    }
    out.finish().map_err(failed)?;
    run.times.note(name, FreshnessSource::Written);
    Ok(read)
}
