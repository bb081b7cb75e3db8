//! The file beside a cached tree: its manifest, and the stamp each file and directory had when it was written.
//!
//! It is read before every run, so its rows have one size and are compared where they lie: a record of 50,000 files has
//! half a million numbers.

use crate::manifest::{Entry, EntryMode, Manifest};
use crate::oid::Oid;
use crate::stamp::{Instant, Stamp};
use crate::tree_path::TreePath;

const HEADER: &[u8] = b"cto.baseline/v2\n";
const STAMP_BYTES: usize = 52;
const NUMBER_BYTES: usize = 4;
const FILE_BYTES: usize = 1 + 20 + 8 + STAMP_BYTES + 2 * NUMBER_BYTES;
const DIRECTORY_BYTES: usize = STAMP_BYTES + NUMBER_BYTES;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BaselineRecord {
    pub(crate) manifest: Manifest,
    /// One for each entry of the manifest.
    pub(crate) stamps: Vec<Stamp>,
    /// The root and every directory above an entry, sorted by path.
    pub(crate) directories: Vec<(TreePath, Stamp)>,
}

impl BaselineRecord {
    /// Rows for files, then for directories, then names and paths one after the other; `None` if an entry lies in no
    /// directory of the record.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let rows = self.manifest.len() * FILE_BYTES + self.directories.len() * DIRECTORY_BYTES;
        let mut bytes = Vec::with_capacity(HEADER.len() + rows * 3 / 2);
        let (mut names, mut paths) = (Vec::new(), Vec::new());
        bytes.extend_from_slice(HEADER);
        push(&mut bytes, self.manifest.len())?;
        push(&mut bytes, self.directories.len())?;
        for ((path, entry), stamp) in self.manifest.iter().zip(&self.stamps) {
            bytes.push(match entry.mode {
                EntryMode::Regular => 0,
                EntryMode::Executable => 1,
                EntryMode::Symlink => 2,
            });
            bytes.extend_from_slice(entry.oid.as_bytes());
            bytes.extend_from_slice(&entry.size.to_le_bytes());
            push_stamp(&mut bytes, stamp);
            let parent = path.parent();
            let found = self
                .directories
                .binary_search_by(|(known, _)| known.as_bytes().cmp(parent));
            push(&mut bytes, found.ok()?)?;
            names.extend_from_slice(path.name());
            push(&mut bytes, names.len())?;
        }
        for (path, stamp) in &self.directories {
            push_stamp(&mut bytes, stamp);
            paths.extend_from_slice(path.as_bytes());
            push(&mut bytes, paths.len())?;
        }
        bytes.append(&mut names);
        bytes.append(&mut paths);
        Some(bytes)
    }

    /// Returns `None` for anything that [`Self::encode`] does not write; the cache is then built anew.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let rows = Rows::of(bytes)?;
        Some(Self {
            manifest: rows.manifest()?,
            stamps: (0..rows.files)
                .map_while(|n| rows.file(n))
                .map(|f| f.stamp())
                .collect(),
            directories: (0..rows.directories)
                .map_while(|n| rows.directory(n))
                .map(|(path, stamp)| (path.into(), stamp))
                .collect(),
        })
    }
}

/// A record as it lies in its file. Numbers in it may be anything until [`Self::manifest`] has been through all of them,
/// so every access is checked.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) files: usize,
    pub(crate) directories: usize,
    file_rows: &'a [u8],
    directory_rows: &'a [u8],
    names: &'a [u8],
    paths: &'a [u8],
}

/// What was noted about a file.
pub(crate) struct FileRow<'a> {
    /// The number of the directory it lies in.
    pub(crate) directory: usize,
    pub(crate) name: &'a [u8],
    fields: &'a [u8],
}

impl<'a> Rows<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(bytes.strip_prefix(HEADER)?);
        let (files, directories) = (fields.number()?, fields.number()?);
        let file_rows = fields.take(files.checked_mul(FILE_BYTES)?)?;
        let directory_rows = fields.take(directories.checked_mul(DIRECTORY_BYTES)?)?;
        let names_end = file_rows.last_chunk().map_or(0, number);
        let names = fields.take(names_end)?;
        Some(Self {
            files,
            directories,
            file_rows,
            directory_rows,
            names,
            paths: fields.0,
        })
    }

    pub(crate) fn file(&self, number: usize) -> Option<FileRow<'a>> {
        let (row, begin) = row(self.file_rows, FILE_BYTES, number)?;
        let mut fields = Fields(row.get(FILE_BYTES - 2 * NUMBER_BYTES..)?);
        let directory = fields.number()?;
        let name = self.names.get(begin..fields.number()?)?;
        Some(FileRow {
            directory,
            name,
            fields: row,
        })
    }

    pub(crate) fn directory(&self, number: usize) -> Option<(&'a [u8], Stamp)> {
        let (row, begin) = row(self.directory_rows, DIRECTORY_BYTES, number)?;
        let mut fields = Fields(row);
        let stamp = fields.stamp()?;
        Some((self.paths.get(begin..fields.number()?)?, stamp))
    }

    /// Returns the tree, if all of this is what [`BaselineRecord::encode`] writes.
    pub(crate) fn manifest(&self) -> Option<Manifest> {
        let mut directories = Vec::with_capacity(self.directories);
        for number in 0..self.directories {
            let (path, _) = self.directory(number)?;
            directories.push(path);
        }
        let paths: usize = directories.iter().map(|path| path.len()).sum();
        if paths != self.paths.len() || !directories.is_sorted_by(|left, right| left < right) {
            return None;
        }
        let mut entries = Vec::with_capacity(self.files);
        for number in 0..self.files {
            let file = self.file(number)?;
            if file.name.contains(&b'/') {
                return None;
            }
            let path = TreePath::joined(directories.get(file.directory)?, file.name);
            entries.push((path, file.entry()?));
        }
        Manifest::from_sorted(entries).ok()
    }
}

/// Returns a row and where the text of the one before it ends.
fn row(rows: &[u8], size: usize, number: usize) -> Option<(&[u8], usize)> {
    let start = number.checked_mul(size)?;
    let row = rows.get(start..start.checked_add(size)?)?;
    Some((row, rows[..start].last_chunk().map_or(0, self::number)))
}

impl FileRow<'_> {
    pub(crate) fn stamp(&self) -> Stamp {
        let mut fields = Fields(self.fields.get(1 + 20 + 8..).unwrap_or_default());
        fields.stamp().unwrap_or_default()
    }

    fn entry(&self) -> Option<Entry> {
        let mut fields = Fields(self.fields);
        let mode = match fields.bytes()? {
            [0] => EntryMode::Regular,
            [1] => EntryMode::Executable,
            [2] => EntryMode::Symlink,
            _ => return None,
        };
        Some(Entry {
            mode,
            oid: Oid::from_bytes(fields.bytes()?),
            size: u64::from_le_bytes(fields.bytes()?),
        })
    }
}

fn push(bytes: &mut Vec<u8>, number: usize) -> Option<()> {
    bytes.extend_from_slice(&u32::try_from(number).ok()?.to_le_bytes());
    Some(())
}

fn number(bytes: &[u8; NUMBER_BYTES]) -> usize {
    usize::try_from(u32::from_le_bytes(*bytes)).unwrap_or(usize::MAX)
}

fn push_stamp(bytes: &mut Vec<u8>, stamp: &Stamp) {
    for number in [stamp.dev, stamp.ino, stamp.size] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&stamp.mode.to_le_bytes());
    for Instant(seconds, nanoseconds) in [stamp.mtime, stamp.ctime] {
        bytes.extend_from_slice(&seconds.to_le_bytes());
        bytes.extend_from_slice(&nanoseconds.to_le_bytes());
    }
}

/// What is left to read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<usize> {
        self.bytes().map(|bytes| number(&bytes))
    }

    fn instant(&mut self) -> Option<Instant> {
        let seconds = i64::from_le_bytes(self.bytes()?);
        Some(Instant(seconds, u32::from_le_bytes(self.bytes()?)))
    }

    fn stamp(&mut self) -> Option<Stamp> {
        Some(Stamp {
            dev: u64::from_le_bytes(self.bytes()?),
            ino: u64::from_le_bytes(self.bytes()?),
            size: u64::from_le_bytes(self.bytes()?),
            mode: u32::from_le_bytes(self.bytes()?),
            mtime: self.instant()?,
            ctime: self.instant()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = BaselineRecord> {
        let entry = (
            proptest::collection::vec(1_u8.., 1..12),
            any::<[u8; 20]>(),
            any::<u64>(),
            any::<i64>(),
            any::<u32>(),
        );
        proptest::collection::vec(entry, 0..20).prop_map(|rows| {
            let (mut entries, mut stamps) = (std::collections::BTreeMap::new(), Vec::new());
            for (name, oid, size, seconds, mode) in rows {
                let name: Vec<u8> = name
                    .into_iter()
                    .filter(|byte| !b"/.".contains(byte))
                    .chain([b'x'])
                    .collect();
                let entry = Entry {
                    mode: [
                        EntryMode::Regular,
                        EntryMode::Executable,
                        EntryMode::Symlink,
                    ][mode as usize % 3],
                    oid: Oid::from_bytes(oid),
                    size,
                };
                if entries.insert(TreePath::from(name), entry).is_none() {
                    stamps.push(Stamp {
                        dev: size,
                        ino: 1,
                        size,
                        mode,
                        mtime: Instant(seconds, mode),
                        ctime: Instant(-1, 0),
                    });
                }
            }
            let manifest = Manifest::from_entries(entries.into_iter().collect()).unwrap();
            let above = manifest.directories().into_iter();
            let directories = std::iter::once(TreePath::root())
                .chain(above)
                .map(|path| (path, Stamp::default()))
                .collect();
            BaselineRecord {
                manifest,
                stamps,
                directories,
            }
        })
    }

    proptest! {
        #[test]
        fn a_record_survives_being_written_and_read(record in record()) {
            prop_assert_eq!(BaselineRecord::decode(&record.encode().unwrap()), Some(record));
        }

        #[test]
        fn a_cut_record_is_no_record(record in record(), cut in any::<prop::sample::Index>()) {
            let bytes = record.encode().unwrap();
            prop_assert_eq!(BaselineRecord::decode(&bytes[..cut.index(bytes.len())]), None);
            prop_assert_eq!(BaselineRecord::decode(&[&bytes[..], b"x"].concat()), None);
        }

        #[test]
        fn any_bytes_can_be_offered_as_a_record(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(BaselineRecord::decode(&[HEADER, &bytes].concat()));
        }
    }
}
