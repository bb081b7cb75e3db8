//! Reading what people write: YAML or JSON text in, a typed value out, or an error with line and column.

use serde::de::DeserializeOwned;

use crate::text;

/// Longest document that is read.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// A document that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}:{line}:{column}: {message}")]
pub struct DocumentError {
    /// The file or place it came from.
    pub name: String,
    pub line: u64,
    pub column: u64,
    pub message: String,
}

impl DocumentError {
    /// An error about the document as a whole.
    pub fn whole(name: &str, message: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            line: 1,
            column: 1,
            message: message.into(),
        }
    }
}

/// Reads YAML (and so JSON). Unknown keys, duplicate keys and wrong types are errors at their place.
pub fn read<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, DocumentError> {
    let whole = |message: String| DocumentError::whole(name, message);
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(whole(format!(
            "the document has {} bytes, more than the {DOCUMENT_BYTES_MAX} that are read",
            bytes.len()
        )));
    }
    let source = std::str::from_utf8(bytes).map_err(|e| {
        let before = &bytes[..e.valid_up_to()];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count() as u64;
        let column = 1 + before.iter().rev().take_while(|b| **b != b'\n').count() as u64;
        DocumentError {
            name: name.to_owned(),
            line,
            column,
            message: "the document is not UTF-8 text".to_owned(),
        }
    })?;
    serde_saphyr::from_str(source).map_err(|error| {
        let error = error.without_snippet();
        let (line, column) = error.location().map_or((1, 1), |l| (l.line(), l.column()));
        let full = error.to_string();
        // The location stands in its own fields; the parser repeats it at the end of its sentence.
        let message = full
            .split(&format!(" at line {line}, column {column}"))
            .next()
            .unwrap_or(&full);
        DocumentError {
            name: name.to_owned(),
            line,
            column,
            message: text::shorten(message, 400),
        }
    })
}

/// Where a key of the outermost mapping stands, for an error about its value.
pub fn place_of_key(bytes: &[u8], key: &str) -> Option<(u64, u64)> {
    let source = std::str::from_utf8(bytes).ok()?;
    for (number, line) in (1..).zip(source.lines()) {
        for (at, _) in line.match_indices(key) {
            let before = line[..at].trim_end_matches(['"', '\'']);
            let after = line[at + key.len()..].trim_start_matches(['"', '\'']);
            let is_first = before.trim().is_empty() || before.trim_end().ends_with(['{', ',']);
            if is_first && after.trim_start().starts_with(':') {
                return Some((number, before.chars().count() as u64 + 1));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[expect(dead_code, reason = "only parsed")]
        id: crate::ids::CaseId,
    }

    #[test]
    fn errors_name_the_place() {
        let check = |t: &str| {
            read::<Sample>("case.yaml", t.as_bytes())
                .unwrap_err()
                .to_string()
        };
        insta::assert_snapshot!(check("id: Bad Id\n"), @"case.yaml:1:5: `Bad Id` is not a case id (expected ^[a-z0-9][a-z0-9-]{0,63}$)");
        insta::assert_snapshot!(check("# c\nid: a\nidd: b\n"), @"case.yaml:3:1: unknown field `idd`, expected one of id");
        insta::assert_snapshot!(check("{\"id\": \"a\",\n\"id\": \"b\"}"), @"case.yaml:2:1: duplicate mapping key: id, set DuplicateKeyPolicy in Options if acceptable");
        assert!(check("id: [").starts_with("case.yaml:1:"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _result = read::<Sample>("x", &bytes);
        }
    }
}
