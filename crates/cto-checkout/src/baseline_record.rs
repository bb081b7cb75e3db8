//! The file beside a cached tree: its manifest, and the stamp each file had when it was written.

use crate::manifest::{Entry, EntryMode, Manifest};
use crate::oid::Oid;
use crate::stamp::{Instant, Stamp};
use crate::tree_path::TreePath;

const HEADER: &[u8] = b"cto.baseline/v1\n";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BaselineRecord {
    pub(crate) manifest: Manifest,
    /// One for each entry of the manifest.
    pub(crate) stamps: Vec<Stamp>,
}

impl BaselineRecord {
    /// One record ended by NUL for each entry; the path comes last, so that it may hold any byte.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.manifest.len() * 160 + HEADER.len());
        bytes.extend_from_slice(HEADER);
        for ((path, entry), stamp) in self.manifest.iter().zip(&self.stamps) {
            let fields = format!(
                "{} {} {} {} {} {} {} {} {} {} {} ",
                entry.mode.as_octal(),
                entry.oid,
                entry.size,
                stamp.dev,
                stamp.ino,
                stamp.size,
                stamp.mode,
                stamp.mtime.0,
                stamp.mtime.1,
                stamp.ctime.0,
                stamp.ctime.1,
            );
            bytes.extend_from_slice(fields.as_bytes());
            bytes.extend_from_slice(path.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    /// Returns `None` for anything that [`Self::encode`] does not write; the cache is then built anew.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes.strip_prefix(HEADER)?);
        let (mut entries, mut stamps) = (Vec::new(), Vec::new());
        while !fields.0.is_empty() {
            let mode = EntryMode::from_octal(fields.take(b' ')?)?;
            let oid: Oid = std::str::from_utf8(fields.take(b' ')?).ok()?.parse().ok()?;
            let size = fields.number()?;
            stamps.push(Stamp {
                dev: fields.number()?,
                ino: fields.number()?,
                size: fields.number()?,
                mode: fields.number()?,
                mtime: Instant(fields.number()?, fields.number()?),
                ctime: Instant(fields.number()?, fields.number()?),
            });
            let path = TreePath::from(fields.take(0)?);
            entries.push((path, Entry { mode, oid, size }));
        }
        if !entries.is_sorted_by(|left, right| left.0 < right.0) {
            return None;
        }
        let manifest = Manifest::from_entries(entries).ok()?;
        Some(Self { manifest, stamps })
    }
}

/// What is left to read. By hand and in one pass, since a record of 50,000 files has half a million numbers and is read
/// before every run.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, end: u8) -> Option<&'a [u8]> {
        let length = self.0.iter().position(|&byte| byte == end)?;
        let (field, rest) = self.0.split_at(length);
        self.0 = &rest[1..];
        Some(field)
    }

    /// Reads digits up to a blank.
    fn number<T: TryFrom<i128>>(&mut self) -> Option<T> {
        let negative = self.0.first() == Some(&b'-');
        let digits = &self.0[usize::from(negative)..];
        let mut value: u64 = 0;
        for (read, &byte) in digits.iter().enumerate() {
            if byte == b' ' && read > 0 {
                self.0 = &digits[read + 1..];
                let value = i128::from(value);
                return T::try_from(if negative { -value } else { value }).ok();
            }
            let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
            value = value.checked_mul(10)?.checked_add(digit.into())?;
        }
        None
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
            BaselineRecord { manifest, stamps }
        })
    }

    proptest! {
        #[test]
        fn a_record_survives_being_written_and_read(record in record()) {
            prop_assert_eq!(BaselineRecord::decode(&record.encode()), Some(record));
        }

        #[test]
        fn a_cut_record_is_no_record_or_a_shorter_one(record in record(), cut in any::<prop::sample::Index>()) {
            let bytes = record.encode();
            let cut = cut.index(bytes.len());
            if let Some(shorter) = BaselineRecord::decode(&bytes[..cut]) {
                prop_assert!(shorter.manifest.len() < record.manifest.len());
            }
        }

        #[test]
        fn any_bytes_can_be_offered_as_a_record(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(BaselineRecord::decode(&[HEADER, &bytes].concat()));
        }
    }
}
