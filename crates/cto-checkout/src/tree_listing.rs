//! A tree as `git ls-tree -r -z` lists it: names, modes and ids, one after the other.

use std::ffi::CStr;

use crate::manifest::{EntryMode, Manifest};
use crate::oid::Oid;

const MODE_BYTES: usize = 6;
const ROW_BYTES_USUAL: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) oid: Oid,
    /// `None` is a gitlink.
    pub(crate) mode: Option<EntryMode>,
}

/// Writes a tree as git would list it.
pub(crate) fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut text = Vec::with_capacity(manifest.len() * ROW_BYTES_USUAL);
    for (path, entry) in manifest.iter() {
        push(
            &mut text,
            entry.mode.as_octal(),
            "blob",
            &entry.oid,
            path.as_bytes(),
        );
    }
    text
}

fn push(text: &mut Vec<u8>, mode: &str, kind: &str, oid: &Oid, path: &[u8]) {
    for (field, mark) in [
        (mode.as_bytes(), b' '),
        (kind.as_bytes(), b' '),
        (&oid.to_hex(), b'\t'),
    ] {
        text.extend_from_slice(field);
        text.push(mark);
    }
    text.extend_from_slice(path);
    text.push(0);
}

/// Reads `<mode> <type> <id>\t<path>` up to each NUL; `None` for anything else.
pub(crate) fn parse(mut text: &[u8]) -> Option<Vec<Listed<'_>>> {
    let mut rows = Vec::with_capacity(text.len() / ROW_BYTES_USUAL);
    while !text.is_empty() {
        // It looks for the end by words, not by bytes.
        let row = CStr::from_bytes_until_nul(text).ok()?.to_bytes();
        text = text.get(row.len() + 1..)?;
        rows.push(parse_row(row)?);
    }
    Some(rows)
}

fn parse_row(row: &[u8]) -> Option<Listed<'_>> {
    let (mode, rest) = row.split_at_checked(MODE_BYTES)?;
    let (mode, rest) = match rest.strip_prefix(b" blob ") {
        Some(rest) => (Some(EntryMode::from_octal(mode)?), rest),
        None if mode == b"160000" => (None, rest.strip_prefix(b" commit ")?),
        None => return None,
    };
    let (oid, rest) = rest.split_first_chunk()?;
    let oid = Oid::from_hex(oid)?;
    let path = rest.strip_prefix(b"\t")?;
    (!path.is_empty()).then_some(Listed { path, oid, mode })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text_of(listed: &[Listed]) -> Vec<u8> {
        let mut text = Vec::new();
        for Listed { path, oid, mode } in listed {
            let kind = if mode.is_some() { "blob" } else { "commit" };
            let mode = mode.map_or("160000", EntryMode::as_octal);
            push(&mut text, mode, kind, oid, path);
        }
        text
    }

    /// A row whose path belongs to somebody.
    type Owned = (Vec<u8>, [u8; 20], Option<EntryMode>);

    fn owned() -> impl Strategy<Value = Owned> {
        let mode = prop_oneof![
            Just(None),
            Just(Some(EntryMode::Regular)),
            Just(Some(EntryMode::Executable)),
            Just(Some(EntryMode::Symlink)),
        ];
        let path = proptest::collection::vec(1_u8.., 1..20);
        (path, any::<[u8; 20]>(), mode)
    }

    fn listed(rows: &[Owned]) -> Vec<Listed<'_>> {
        let listed = rows.iter().map(|(path, oid, mode)| Listed {
            path,
            oid: Oid::from_bytes(*oid),
            mode: *mode,
        });
        listed.collect()
    }

    proptest! {
        #[test]
        fn what_is_listed_is_read_back(rows in proptest::collection::vec(owned(), 0..12)) {
            let listed = listed(&rows);
            let text = text_of(&listed);
            prop_assert_eq!(parse(&text), Some(listed));
        }

        #[test]
        fn half_a_list_is_none(rows in proptest::collection::vec(owned(), 1..4), cut in any::<prop::sample::Index>()) {
            let text = text_of(&listed(&rows));
            let cut = cut.index(text.len());
            let whole = cut == 0 || text[cut - 1] == 0;
            prop_assert_eq!(parse(&text[..cut]).is_some(), whole);
        }

        #[test]
        fn any_bytes_can_be_offered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(parse(&bytes));
        }

        #[test]
        fn any_row_can_hold_anything(rows in proptest::collection::vec(owned(), 1..4), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut text = text_of(&listed(&rows));
            let at = at.index(text.len());
            text[at] = byte;
            drop(parse(&text));
        }
    }
}
