//! `WITHHELD`: which sealed files a copy leaves out on purpose, in one spelling.
//!
//! The list is not signed: whoever hands a pack on may withhold, and can thereby only lower what it proves. What
//! carries the verdict (report, log, contract, decision, list of digests, attestation) can't be withheld.

use std::collections::BTreeSet;

use cto_contract::artifact::{BACKEND_DIR, PATCH, TEST_LOG};

use crate::pack::is_pack_path;

/// Name of the list. No sealed pack holds it, only a copy that withholds.
pub const WITHHELD: &str = "WITHHELD";

/// A list that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WithheldError {
    /// A copy that withholds nothing has no list.
    #[error("names no file")]
    Empty,
    #[error("line {line}: {message}")]
    Line {
        /// From 1.
        line: usize,
        message: &'static str,
    },
}

/// Whether a copy may leave this file out.
pub fn may_be_withheld(path: &str) -> bool {
    let is_below_backend = path
        .strip_prefix(BACKEND_DIR)
        .is_some_and(|rest| rest.starts_with('/'));
    is_pack_path(path) && (path == PATCH || path == TEST_LOG || is_below_backend)
}

/// Writes the list: `<path>\n`, sorted by the bytes of the path.
pub fn write_withheld(paths: &BTreeSet<String>) -> Vec<u8> {
    // The order of a BTreeSet of strings is the order of their bytes.
    paths
        .iter()
        .flat_map(|path| [path.as_bytes(), b"\n"])
        .flatten()
        .copied()
        .collect()
}

/// Reads the list and refuses every spelling that [`write_withheld`] would not give, and paths that must be there.
pub fn read_withheld(bytes: &[u8]) -> Result<BTreeSet<String>, WithheldError> {
    let mut out = BTreeSet::new();
    for (at, raw) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let fail = |message| WithheldError::Line {
            line: at + 1,
            message,
        };
        let raw = raw
            .strip_suffix(b"\n")
            .ok_or_else(|| fail("does not end with a newline"))?;
        let path = std::str::from_utf8(raw).map_err(|_| fail("is not UTF-8"))?;
        if !may_be_withheld(path) {
            return Err(fail("names a path that may not be withheld"));
        }
        if out
            .last()
            .is_some_and(|last: &String| last.as_str() >= path)
        {
            return Err(fail(
                "is out of order: paths ascend by their bytes, each once",
            ));
        }
        out.insert(path.to_owned());
    }
    if out.is_empty() {
        return Err(WithheldError::Empty);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_in_another_form_are_refused() {
        let check = |text: &str| {
            read_withheld(text.as_bytes())
                .map_or_else(|e| e.to_string(), |paths| format!("{} files", paths.len()))
        };
        assert_eq!(check("backend/a b\npatch.diff\ntest.log\n"), "3 files");
        assert_eq!(check(""), "names no file");
        assert_eq!(check("patch.diff"), "line 1: does not end with a newline");
        assert_eq!(
            check("test.log\npatch.diff\n"),
            "line 2: is out of order: paths ascend by their bytes, each once"
        );
        assert_eq!(
            check("patch.diff\npatch.diff\n"),
            "line 2: is out of order: paths ascend by their bytes, each once"
        );
        for bad in [
            "",
            "report.json",
            "report.md",
            "events.normalized.jsonl",
            "trace.jsonl",
            "task-contract.json",
            "eligibility.json",
            "SHA256SUMS",
            "attestation.dsse.json",
            "WITHHELD",
            "backend",
            "backend/",
            "backendx/a",
            "backend/../report.json",
            "./patch.diff",
            "patch.diff\r",
            " patch.diff",
            "Patch.diff",
            "x/test.log",
        ] {
            assert_eq!(
                check(&format!("{bad}\n")),
                "line 1: names a path that may not be withheld",
                "{bad}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(names in proptest::collection::btree_set("backend/[a-z .é]{1,8}|patch.diff|test.log", 1..12)) {
            let paths: BTreeSet<String> = names.into_iter().filter(|n| may_be_withheld(n)).collect();
            if !paths.is_empty() {
                prop_assert_eq!(read_withheld(&write_withheld(&paths)).unwrap(), paths);
            }
        }

        #[test]
        fn an_accepted_list_has_one_spelling(text in "(backend/[ab]{1,2}\n|patch.diff\n|test.log\n){0,3}") {
            if let Ok(paths) = read_withheld(text.as_bytes()) {
                prop_assert_eq!(write_withheld(&paths), text.into_bytes());
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _result = read_withheld(&bytes);
        }
    }
}
