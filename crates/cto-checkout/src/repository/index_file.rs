//! Writes git's index for a tree whose files are on disk, so that a first `git status` there reads none of them.

use sha1::{Digest as _, Sha1};

use crate::manifest::{Entry, Manifest, Trees};
use crate::stamp::Stamp;
use crate::tree_path::TreePath;

const VERSION: u32 = 2;
/// What a path's length is cut to in an entry; git then looks for the end of the path itself.
const LENGTH_MAX: usize = 0xfff;

/// Who owns the files, as git compares it.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Returns the bytes of an index that holds every entry of the tree with the stamp of its file.
pub(crate) fn encode(
    manifest: &Manifest,
    stamps: &[Stamp],
    owner: Owner,
    trees: &Trees,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(manifest.len() * 112 + 64);
    bytes.extend_from_slice(b"DIRC");
    push(&mut bytes, u64::from(VERSION));
    push(&mut bytes, manifest.len() as u64);
    for ((path, entry), stamp) in manifest.iter().zip(stamps) {
        push_entry(&mut bytes, path, entry, stamp, owner);
    }
    let mut cached = Vec::new();
    push_tree(&mut cached, b"", manifest.entries(), 0, trees);
    bytes.extend_from_slice(b"TREE");
    push(&mut bytes, cached.len() as u64);
    bytes.extend_from_slice(&cached);
    let sum = Sha1::digest(&bytes);
    bytes.extend_from_slice(&sum);
    bytes
}

/// Numbers have 32 bits; of wider ones git keeps the low part.
fn push(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&(number as u32).to_be_bytes());
}

fn push_entry(bytes: &mut Vec<u8>, path: &TreePath, entry: &Entry, stamp: &Stamp, owner: Owner) {
    let start = bytes.len();
    for time in [stamp.ctime, stamp.mtime] {
        push(bytes, time.0.cast_unsigned());
        push(bytes, time.1.into());
    }
    push(bytes, stamp.dev);
    push(bytes, stamp.ino);
    let mode = u64::from_str_radix(entry.mode.as_octal(), 8).unwrap_or_default();
    push(bytes, mode);
    push(bytes, owner.uid.into());
    push(bytes, owner.gid.into());
    push(bytes, stamp.size);
    bytes.extend_from_slice(entry.oid.as_bytes());
    let length = path.as_bytes().len().min(LENGTH_MAX);
    bytes.extend_from_slice(&u16::try_from(length).unwrap_or_default().to_be_bytes());
    bytes.extend_from_slice(path.as_bytes());
    // At least one NUL ends the path, and the entry has a multiple of eight bytes.
    let length = bytes.len() - start;
    bytes.resize(start + (length / 8 + 1) * 8, 0);
}

/// Adds the tree of a directory: how many entries it covers and its id, then those below it. With these git knows at
/// once that the index is what `HEAD` holds.
fn push_tree(
    bytes: &mut Vec<u8>,
    name: &[u8],
    entries: &[(TreePath, Entry)],
    prefix: usize,
    trees: &Trees,
) {
    let mut directories = Vec::new();
    let mut rest = entries;
    while let Some((path, _)) = rest.first() {
        let below = &path.as_bytes()[prefix..];
        let Some(slash) = below.iter().position(|&byte| byte == b'/') else {
            rest = &rest[1..];
            continue;
        };
        let start = &path.as_bytes()[..=prefix + slash];
        let count = rest.partition_point(|(path, _)| path.as_bytes().starts_with(start));
        directories.push((&below[..slash], &rest[..count], start.len()));
        rest = &rest[count..];
    }
    let path = entries.first().map_or(&b""[..], |(path, _)| {
        &path.as_bytes()[..prefix.saturating_sub(1)]
    });
    let Some(tree) = trees.get(path) else { return };
    bytes.extend_from_slice(name);
    bytes.push(0);
    bytes.extend_from_slice(format!("{} {}\n", entries.len(), directories.len()).as_bytes());
    bytes.extend_from_slice(tree.oid.as_bytes());
    for (name, entries, prefix) in directories {
        push_tree(bytes, name, entries, prefix, trees);
    }
}
