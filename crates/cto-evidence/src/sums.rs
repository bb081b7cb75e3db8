//! `SHA256SUMS`: one spelling of the list of files, checkable with `sha256sum -c`.

use std::collections::BTreeMap;

use cto_contract::artifact::{ATTESTATION, SHA256SUMS};
use cto_contract::ids::Digest;

use crate::pack::is_pack_path;
use crate::withheld::WITHHELD;

/// A list that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct SumsError {
    /// From 1.
    pub line: usize,
    pub message: &'static str,
}

/// Writes the list: `<hex>  <path>\n`, sorted by the bytes of the path.
pub fn write_sums(digests: &BTreeMap<String, Digest>) -> Vec<u8> {
    let mut out = Vec::new();
    // The order of a BTreeMap over strings is the order of their bytes.
    for (path, digest) in digests {
        out.extend_from_slice(digest.as_str().as_bytes());
        out.extend_from_slice(b"  ");
        out.extend_from_slice(path.as_bytes());
        out.push(b'\n');
    }
    out
}

/// Reads the list and refuses every spelling that [`write_sums`] would not give.
pub fn read_sums(bytes: &[u8]) -> Result<BTreeMap<String, Digest>, SumsError> {
    let mut out = BTreeMap::new();
    let mut last: Option<&str> = None;
    for (at, raw) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let fail = |message| SumsError {
            line: at + 1,
            message,
        };
        let raw = raw
            .strip_suffix(b"\n")
            .ok_or_else(|| fail("does not end with a newline"))?;
        let line = std::str::from_utf8(raw).map_err(|_| fail("is not UTF-8"))?;
        let (hex, path) = line
            .split_once("  ")
            .ok_or_else(|| fail("is not `<digest>  <path>`"))?;
        let digest: Digest = hex
            .parse()
            .map_err(|_| fail("does not begin with a SHA-256 in lower-case hex"))?;
        if !is_pack_path(path) {
            return Err(fail("names a path that no pack may hold"));
        }
        if [SHA256SUMS, ATTESTATION, WITHHELD].contains(&path) {
            return Err(fail("names a file that cannot be in the list"));
        }
        if last.is_some_and(|l| l.as_bytes() >= path.as_bytes()) {
            return Err(fail(
                "is out of order: paths ascend by their bytes, each once",
            ));
        }
        last = Some(path);
        out.insert(path.to_owned(), digest);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::sha256;
    use proptest::prelude::*;

    #[test]
    fn lines_in_another_form_are_refused() {
        let d = sha256(b"");
        let check = |t: String| {
            read_sums(t.as_bytes()).map_or_else(|e| e.to_string(), |m| format!("{} files", m.len()))
        };
        assert_eq!(check(format!("{d}  a\n{d}  b/c\n")), "2 files");
        assert_eq!(
            check(format!("{d}  a")),
            "line 1: does not end with a newline"
        );
        assert_eq!(
            check(format!("{d} *a\n")),
            "line 1: is not `<digest>  <path>`"
        );
        assert_eq!(
            check(format!("{d}  b\n{d}  a\n")),
            "line 2: is out of order: paths ascend by their bytes, each once"
        );
        assert_eq!(
            check(format!("{d}  a\n{d}  a\n")),
            "line 2: is out of order: paths ascend by their bytes, each once"
        );
        for own in ["SHA256SUMS", "attestation.dsse.json", "WITHHELD"] {
            assert_eq!(
                check(format!("{d}  {own}\n")),
                "line 1: names a file that cannot be in the list"
            );
        }
        assert_eq!(
            check(format!("{}  a\n", d.as_str().to_uppercase())),
            "line 1: does not begin with a SHA-256 in lower-case hex"
        );
        for bad in ["../a", "/a", "a//b", "a/", "./a", "a\\b", "a\rb", ""] {
            assert_eq!(
                check(format!("{d}  {bad}\n")),
                "line 1: names a path that no pack may hold",
                "{bad}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_and_nothing_else_has_that_meaning(
            names in proptest::collection::btree_set("[a-z .é]{1,8}(/[a-z]{1,4}){0,3}", 0..12),
        ) {
            let digests: BTreeMap<String, Digest> =
                names.into_iter().filter(|n| is_pack_path(n)).map(|n| (n.clone(), sha256(n.as_bytes()))).collect();
            let bytes = write_sums(&digests);
            prop_assert_eq!(read_sums(&bytes).unwrap(), digests);
        }

        #[test]
        fn an_accepted_list_has_one_spelling(bytes in "([0-9a-f]{64}  [a-c]{1,2}\n){0,3}") {
            if let Ok(digests) = read_sums(bytes.as_bytes()) {
                prop_assert_eq!(write_sums(&digests), bytes.into_bytes());
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _result = read_sums(&bytes);
        }
    }
}
