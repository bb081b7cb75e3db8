//! A file that a backend writes about itself, read as it grows.
//!
//! The agent can write it too: it is opened by directory descriptor, no link is followed, there is a bound on what is read,
//! and a file that is replaced, cut, overwritten or joined by another one is not relied on.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;

use cto_agent::{Act, CollectFrom, Dialogue, FollowedFile};
use cto_contract::event::EventFileFault;
use cto_rules::secrets::{Known, Redactor};
use rustix::fs::Dir;
use sha2::{Digest as _, Sha256};

use crate::collected::{open_below, open_entry};
use crate::room::Room;

const CHUNK_BYTES: usize = 64 << 10;
/// Most that one look reads, so that a look is short.
const LOOK_BYTES_MAX: u64 = 4 << 20;
/// Most names of its directory that are looked at.
const NAMES_MAX: usize = 1_000;

/// The file, wherever it has got to.
pub(crate) struct GrowingFile {
    top: Option<PathBuf>,
    wanted: FollowedFile,
    found: Option<Found>,
    secrets: Redactor,
    places: Redactor,
    clean: Vec<u8>,
    buffer: Vec<u8>,
}

struct Found {
    file: File,
    name: String,
    read: u64,
    /// Of what was read: it must still stand there at the end.
    digest: Sha256,
}

impl GrowingFile {
    pub(crate) fn new(wanted: &FollowedFile, room: &Room, known: &Known, places: &Known) -> Self {
        let top = match wanted.from {
            CollectFrom::Workspace => room.written().map(ToOwned::to_owned),
            CollectFrom::Scratch => Some(room.own_scratch()),
        };
        Self {
            top,
            wanted: wanted.clone(),
            found: None,
            secrets: Redactor::new(known),
            places: Redactor::new(places),
            clean: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Reads what is new, up to a bound, and tells the dialogue.
    pub(crate) fn look(&mut self, dialogue: &mut dyn Dialogue) -> Vec<Act> {
        if self.found.is_none() {
            self.found = self.names().ok().and_then(|names| {
                let name = names.into_iter().next()?;
                let file = self.open(&name).ok()?;
                Some(Found {
                    file,
                    name,
                    read: 0,
                    digest: Sha256::new(),
                })
            });
        }
        let mut acts = Vec::new();
        let Some(found) = &mut self.found else {
            return acts;
        };
        let length = found.file.metadata().map_or(0, |meta| meta.len());
        if length < found.read {
            dialogue.distrust(EventFileFault::Rewritten);
            return acts;
        }
        let end = length.min(self.wanted.bytes_max);
        let end = end.min(found.read + LOOK_BYTES_MAX);
        let mut chunk = vec![0; CHUNK_BYTES];
        while found.read < end {
            let most = usize::try_from(end - found.read).unwrap_or(CHUNK_BYTES);
            let most = most.min(CHUNK_BYTES);
            let Ok(count @ 1..) = found.file.read_at(&mut chunk[..most], found.read) else {
                break;
            };
            found.read += count as u64;
            found.digest.update(&chunk[..count]);
            self.clean.clear();
            self.buffer.clear();
            self.secrets.push(&chunk[..count], &mut self.clean);
            self.places.push(&self.clean, &mut self.buffer);
            acts.extend(dialogue.read(&self.buffer));
        }
        acts
    }

    /// Reads the rest, once nobody is left that could write.
    pub(crate) fn finish(mut self, dialogue: &mut dyn Dialogue) -> Vec<Act> {
        let mut acts = Vec::new();
        loop {
            let before = self.found.as_ref().map_or(0, |found| found.read);
            acts.extend(self.look(dialogue));
            if self.found.as_ref().map_or(0, |found| found.read) == before {
                break;
            }
        }
        self.clean.clear();
        self.buffer.clear();
        self.secrets.finish(&mut self.clean);
        self.places.push(&self.clean, &mut self.buffer);
        self.places.finish(&mut self.buffer);
        acts.extend(dialogue.read(&self.buffer));
        if let Some(fault) = self.fault() {
            dialogue.distrust(fault);
        }
        acts
    }

    /// What is wrong with the file at the end.
    fn fault(&self) -> Option<EventFileFault> {
        let Some(found) = &self.found else {
            return Some(EventFileFault::Missing);
        };
        let names = self.names().unwrap_or_default();
        if names.len() > 1 {
            return Some(EventFileFault::Several);
        }
        let (Ok(held), Ok(there)) = (
            found.file.metadata(),
            self.open(&found.name).and_then(|file| file.metadata()),
        ) else {
            return Some(EventFileFault::Rewritten);
        };
        let is_other = (held.dev(), held.ino()) != (there.dev(), there.ino());
        if is_other || held.len() < found.read || !found.is_as_read() {
            return Some(EventFileFault::Rewritten);
        }
        (held.len() > found.read).then_some(EventFileFault::Unreadable)
    }

    /// Names in its directory that could be its own.
    fn names(&self) -> io::Result<Vec<String>> {
        let directory = self.directory()?;
        let entries = Dir::read_from(&directory)?.take(NAMES_MAX);
        let names = entries.filter_map(|entry| {
            let name = entry.ok()?.file_name().to_str().ok()?.to_owned();
            let is_own =
                name.starts_with(&self.wanted.prefix) && name.ends_with(&self.wanted.suffix);
            is_own.then_some(name)
        });
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        let file = File::from(open_entry(&self.directory()?, name)?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn directory(&self) -> io::Result<std::os::fd::OwnedFd> {
        let top = self.top.as_ref().ok_or(io::ErrorKind::NotFound)?;
        open_below(top, &self.wanted.directory)
    }
}

impl Found {
    /// Whether what was read stands there still. Who only adds changes none of it.
    fn is_as_read(&self) -> bool {
        let mut digest = Sha256::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut at = 0;
        while at < self.read {
            let most = usize::try_from(self.read - at).unwrap_or(CHUNK_BYTES);
            let Ok(count @ 1..) = self.file.read_at(&mut chunk[..most.min(CHUNK_BYTES)], at) else {
                return false;
            };
            digest.update(&chunk[..count]);
            at += count as u64;
        }
        digest.finalize() == self.digest.clone().finalize()
    }
}

#[cfg(test)]
mod tests;
