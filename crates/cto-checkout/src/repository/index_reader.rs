//! Reads the paths of git's index, and marks those in a copy of it that need no second look.

use crate::stamp::Instant;
use crate::tree_path::TreePath;

/// From the start of an entry to its flags.
const STAT_BYTES: usize = 40;
const ID_BYTES: usize = 20;
const FLAGS_BYTES: usize = 2;
const EXTENDED: u16 = 0x4000;
const STAGE: u16 = 0x3000;
/// The first byte of the flags: git takes the file for unchanged without looking.
const ASSUME_VALID: u8 = 0x80;

/// What the index says about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Indexed {
    pub(crate) path: TreePath,
    pub(crate) stat: IndexStat,
    /// Part of an unfinished merge.
    pub(crate) unmerged: bool,
    flags_at: usize,
}

/// The stat data git recorded when it last compared the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexStat {
    pub(crate) ctime: Instant,
    pub(crate) mtime: Instant,
    pub(crate) ino: u32,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u32,
}

/// Returns the entries in order; `None` for anything but a plain index, which only git can read then.
pub(crate) fn parse(bytes: &[u8]) -> Option<Vec<Indexed>> {
    let body = bytes.get(..bytes.len().checked_sub(ID_BYTES)?)?;
    let mut reader = Reader { bytes: body, at: 0 };
    if reader.take(4)? != b"DIRC" {
        return None;
    }
    let version = reader.number()?;
    if !matches!(version, 2..=4) {
        return None;
    }
    let count = usize::try_from(reader.number()?).ok()?;
    // An entry has more bytes than that, so a count that lies costs no memory.
    let mut entries: Vec<Indexed> = Vec::with_capacity(count.min(body.len() / STAT_BYTES));
    for _ in 0..count {
        let last = entries
            .last()
            .map_or(&b""[..], |entry| entry.path.as_bytes());
        let entry = reader.entry(version, last)?;
        if entry.stat.mode & 0o170_000 == 0o040_000 {
            return None;
        }
        entries.push(entry);
    }
    reader.extensions_are_plain().then_some(entries)
}

/// Makes git take this entry of a copied index for unchanged.
pub(crate) fn assume_valid(bytes: &mut [u8], entry: &Indexed) {
    if let Some(flags) = bytes.get_mut(entry.flags_at) {
        *flags |= ASSUME_VALID;
    }
}

/// Takes the checksum away, which git knows to mean that there is none.
pub(crate) fn clear_checksum(bytes: &mut [u8]) {
    if let Some(start) = bytes.len().checked_sub(ID_BYTES) {
        bytes[start..].fill(0);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn time(&mut self) -> Option<Instant> {
        Some(Instant(self.number()?.into(), self.number()?))
    }

    fn entry(&mut self, version: u32, last: &[u8]) -> Option<Indexed> {
        let start = self.at;
        let (ctime, mtime) = (self.time()?, self.time()?);
        let _device = self.number()?;
        let stat = IndexStat {
            ctime,
            mtime,
            ino: self.number()?,
            mode: self.number()?,
            uid: self.number()?,
            gid: self.number()?,
            size: self.number()?,
        };
        self.take(ID_BYTES)?;
        let flags_at = self.at;
        let flags = self.short()?;
        if flags & EXTENDED != 0 {
            self.take(FLAGS_BYTES)?;
        }
        let path = if version == 4 {
            let kept = last.len().checked_sub(self.varint()?)?;
            [&last[..kept], self.until_nul()?].concat()
        } else {
            let path = self.until_nul()?.to_vec();
            // The NUL that ended the path is the first of those that fill the entry up.
            let length = self.at - 1 - start;
            self.at = start;
            self.take((length / 8 + 1) * 8)?;
            path
        };
        Some(Indexed {
            path: path.into(),
            stat,
            unmerged: flags & STAGE != 0,
            flags_at,
        })
    }

    fn until_nul(&mut self) -> Option<&'a [u8]> {
        let length = self
            .bytes
            .get(self.at..)?
            .iter()
            .position(|&byte| byte == 0)?;
        let taken = self.take(length)?;
        self.at += 1;
        Some(taken)
    }

    /// Git's own variable width: each further byte adds one before it is put behind.
    fn varint(&mut self) -> Option<usize> {
        let mut byte = self.take(1)?[0];
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.take(1)?[0];
            value = value.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7f);
        }
        Some(value)
    }

    /// A name that starts in lower case changes what the entries mean: a split or a sparse index.
    fn extensions_are_plain(&mut self) -> bool {
        while self.at < self.bytes.len() {
            let mut extension = || {
                let name = self.take(4)?;
                let size = usize::try_from(self.number()?).ok()?;
                self.take(size)?;
                name[0].is_ascii_uppercase().then_some(())
            };
            if extension().is_none() {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Entry, EntryMode, Manifest};
    use crate::oid::Oid;
    use crate::repository::index_file::{self, Owner};
    use crate::stamp::Stamp;
    use proptest::prelude::*;

    fn tree() -> impl Strategy<Value = (Manifest, Vec<Stamp>)> {
        let path = proptest::collection::vec("[a-c]{1,3}", 1..4).prop_map(|parts| parts.join("/"));
        proptest::collection::vec((path, any::<u32>()), 0..20).prop_map(|rows| {
            let (mut entries, mut stamps) = (Vec::new(), Vec::new());
            for (path, number) in rows {
                let entry = Entry {
                    mode: EntryMode::Regular,
                    oid: Oid::of_blob(path.as_bytes()),
                    size: number.into(),
                };
                let mut more = entries.clone();
                more.push((TreePath::from(path.as_str()), entry));
                if Manifest::from_entries(more.clone()).is_ok() {
                    entries = more;
                    stamps.push(Stamp {
                        dev: 1,
                        ino: number.into(),
                        size: number.into(),
                        mode: 0o100_644,
                        mtime: Instant(i64::from(number), number),
                        ctime: Instant(1, 2),
                    });
                }
            }
            (Manifest::from_entries(entries).unwrap(), stamps)
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back((manifest, stamps) in tree()) {
            let bytes = index_file::encode(&manifest, &stamps, Owner { uid: 3, gid: 4 }, &manifest.trees());
            let read = parse(&bytes).unwrap();
            prop_assert_eq!(read.len(), manifest.len());
            for ((entry, (path, _)), stamp) in read.iter().zip(manifest.iter()).zip(&stamps) {
                prop_assert_eq!(&entry.path, path);
                prop_assert_eq!(entry.stat.mtime, stamp.mtime);
                prop_assert_eq!(u64::from(entry.stat.ino), stamp.ino);
                prop_assert_eq!((entry.stat.uid, entry.stat.gid), (3, 4));
                prop_assert!(!entry.unmerged);
            }
        }

        #[test]
        fn a_cut_or_changed_index_never_panics(
            (manifest, stamps) in tree(),
            cut in any::<prop::sample::Index>(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut bytes = index_file::encode(&manifest, &stamps, Owner { uid: 0, gid: 0 }, &manifest.trees());
            drop(parse(&bytes[..cut.index(bytes.len())]));
            let at = at.index(bytes.len());
            bytes[at] = byte;
            drop(parse(&bytes));
            bytes[7] = 4;
            drop(parse(&bytes));
        }
    }
}
