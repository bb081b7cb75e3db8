//! Names in a patch: plain, or in git's C quotes.

use cto_contract::text;

/// Reads `a/<path> b/<path>`. Without renames both are the same path, so its length follows from the line's.
pub(super) fn header_path(both: &[u8]) -> Option<Vec<u8>> {
    let path = if both.starts_with(b"\"") {
        let (before, rest) = text::unquote_path(both)?;
        let (after, rest) = text::unquote_path(rest.strip_prefix(b" ")?)?;
        let path = before.strip_prefix(b"a/")?;
        (rest.is_empty() && after.strip_prefix(b"b/") == Some(path)).then(|| path.to_vec())?
    } else {
        let length = both.len().checked_sub(1)? / 2;
        let (before, rest) = both.split_at_checked(length)?;
        let path = before.strip_prefix(b"a/")?;
        (rest.strip_prefix(b" b/") == Some(path)).then(|| path.to_vec())?
    };
    is_path(&path).then_some(path)
}

/// True when the rest of a `---` or `+++` line names `path` under `prefix`.
///
/// Git puts a tab behind a name with a space in it, so that other tools see where it ends.
pub(super) fn label_is(label: &[u8], prefix: &[u8], path: &[u8]) -> bool {
    let label = if path.contains(&b' ') {
        match label.strip_suffix(b"\t") {
            Some(label) => label,
            None => return false,
        }
    } else {
        label
    };
    if !label.starts_with(b"\"") {
        return label.strip_prefix(prefix) == Some(path);
    }
    text::unquote_path(label)
        .is_some_and(|(name, rest)| rest.is_empty() && name.strip_prefix(prefix) == Some(path))
}

fn is_path(path: &[u8]) -> bool {
    !path.is_empty() && !path.contains(&0)
}
