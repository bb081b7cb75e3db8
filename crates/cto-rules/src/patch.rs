//! Reads what `git diff --binary --full-index --no-renames` writes, and nothing else.
//!
//! A verifier judges a change by its patch alone, so whatever is not understood is an error: a line that was skipped
//! could be a file that was overlooked. Lines of content are counted by their hunk's header and never looked at for
//! structure. A change of type, which git writes as a deletion and an addition of one path, becomes one entry.

mod body;
mod lines;
mod names;

use std::collections::HashSet;

use cto_contract::event::{ChangeKind, ChangedPath};
use cto_contract::text;

use body::Body;
use lines::Lines;

/// Mode of a plain file.
pub const MODE_FILE: u32 = 0o100_644;
/// Mode of an executable file.
pub const MODE_EXECUTABLE: u32 = 0o100_755;
/// Mode of a symbolic link.
pub const MODE_SYMLINK: u32 = 0o120_000;
/// Mode of a link to another repository.
pub const MODE_GITLINK: u32 = 0o160_000;

const EMPTY_BLOB_SHA1: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
const EMPTY_BLOB_SHA256: &str = "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813";

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchEntry {
    pub path: Vec<u8>,
    pub change: ChangeKind,
    /// None when the path was not there.
    pub before_mode: Option<u32>,
    /// None when the path is gone.
    pub after_mode: Option<u32>,
    /// None when the path was not there, or only its mode changed.
    pub before_oid: Option<String>,
    pub after_oid: Option<String>,
    /// Where the link leads. None for anything else, and for a link whose whole target the patch does not show.
    pub symlink_target: Option<Vec<u8>>,
}

/// A patch that git did not write this way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("patch line {line}: {message}")]
pub struct PatchError {
    /// From 1.
    pub line: usize,
    pub message: String,
}

/// Reads a whole patch.
pub fn parse(patch: &[u8]) -> Result<Vec<PatchEntry>, PatchError> {
    walk(patch, &mut |_, _| {})
}

/// What a log tells of each path of a patch.
pub fn changed_paths(entries: &[PatchEntry]) -> Vec<ChangedPath> {
    let mode = |mode: Option<u32>| mode.map(|mode| format!("{mode:06o}"));
    let told = entries.iter().map(|entry| ChangedPath {
        path: text::path_text(&entry.path),
        change: entry.change,
        before_mode: mode(entry.before_mode),
        after_mode: mode(entry.after_mode),
    });
    told.collect()
}

/// Reads a whole patch and hands out each added line with its number in the patch, without its `+` and newline.
///
/// Lines of one run come with consecutive numbers.
pub fn walk<'a>(
    patch: &'a [u8],
    added: &mut dyn FnMut(usize, &'a [u8]),
) -> Result<Vec<PatchEntry>, PatchError> {
    let mut lines = Lines::new(patch);
    let mut entries: Vec<PatchEntry> = Vec::new();
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    while let Some(header) = lines.next()? {
        let at = lines.number();
        let entry = file(header, &mut lines, added)?;
        if let Some(last) = entries
            .last_mut()
            .filter(|last| is_type_change(last, &entry))
        {
            last.change = ChangeKind::TypeChanged;
            last.after_mode = entry.after_mode;
            last.after_oid = entry.after_oid;
            last.symlink_target = entry.symlink_target;
            continue;
        }
        if !seen.insert(entry.path.clone()) {
            let shown = text::shorten(&text::path_text(&entry.path), 120);
            return Err(PatchError {
                line: at,
                message: format!("`{shown}` occurs a second time"),
            });
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn is_type_change(before: &PatchEntry, after: &PatchEntry) -> bool {
    let kind = |mode: Option<u32>| mode.map(|m| m & 0o170_000);
    before.path == after.path
        && before.change == ChangeKind::Deleted
        && after.change == ChangeKind::Added
        && kind(before.before_mode) != kind(after.after_mode)
}

/// What the lines between `diff --git` and the content say.
enum Head {
    Added(u32),
    Deleted(u32),
    Mode { before: u32, after: u32 },
    Content,
}

struct Index<'a> {
    before: &'a str,
    after: &'a str,
    mode: Option<u32>,
}

/// Reads one file's part, whose first line was taken already.
fn file<'a>(
    header: &'a [u8],
    lines: &mut Lines<'a>,
    added: &mut dyn FnMut(usize, &'a [u8]),
) -> Result<PatchEntry, PatchError> {
    let Some(both) = header.strip_prefix(b"diff --git ") else {
        return Err(lines.unexpected(header, "`diff --git`"));
    };
    let path = names::header_path(both).ok_or_else(|| {
        lines.error("the two names of `diff --git` are not one path under `a/` and `b/`")
    })?;
    let head = head(lines)?;
    let index = match lines.take_after(b"index ")? {
        Some(rest) => Some(index(rest).ok_or_else(|| {
            lines.error("the `index` line is not two full object ids and a mode")
        })?),
        None => None,
    };
    let (before_mode, after_mode) = modes(&head, index.as_ref())
        .ok_or_else(|| lines.error("the modes of this file do not fit together"))?;
    let sides = body::Sides {
        path: &path,
        has_before: before_mode.is_some(),
        has_after: after_mode.is_some(),
        wants_target: after_mode == Some(MODE_SYMLINK),
    };
    let body = body::read(lines, &sides, added)?;
    if let Some(next) = lines.peek()?
        && !next.starts_with(b"diff --git ")
    {
        return Err(lines.unexpected_next(next, "the next file"));
    }
    let index = match (index, &body) {
        (Some(index), body) => {
            check_ids(&head, &index, body).map_err(|message| lines.error(message))?;
            Some(index)
        }
        (None, Body::None) if matches!(head, Head::Mode { .. }) => None,
        (None, _) => return Err(lines.error("the `index` line is missing")),
    };
    let change = match (&head, &index) {
        (Head::Added(_), _) => ChangeKind::Added,
        (Head::Deleted(_), _) => ChangeKind::Deleted,
        (Head::Mode { .. }, None) => ChangeKind::ModeChanged,
        (Head::Mode { .. }, Some(_)) | (Head::Content, _) => ChangeKind::Modified,
    };
    let oid = |id: &str| (!is_zero(id)).then(|| id.to_owned());
    let symlink_target = match body {
        Body::Text { target } => target,
        Body::None | Body::Binary => None,
    };
    Ok(PatchEntry {
        path,
        change,
        before_mode,
        after_mode,
        before_oid: index.as_ref().and_then(|i| oid(i.before)),
        after_oid: index.as_ref().and_then(|i| oid(i.after)),
        symlink_target,
    })
}

fn head(lines: &mut Lines<'_>) -> Result<Head, PatchError> {
    let bad = |lines: &Lines<'_>| lines.error("unknown file mode");
    if let Some(text) = lines.take_after(b"new file mode ")? {
        return Ok(Head::Added(mode(text).ok_or_else(|| bad(lines))?));
    }
    if let Some(text) = lines.take_after(b"deleted file mode ")? {
        return Ok(Head::Deleted(mode(text).ok_or_else(|| bad(lines))?));
    }
    let Some(text) = lines.take_after(b"old mode ")? else {
        return Ok(Head::Content);
    };
    let before = mode(text).ok_or_else(|| bad(lines))?;
    let Some(text) = lines.take_after(b"new mode ")? else {
        return Err(lines.error("`old mode` without `new mode`"));
    };
    let after = mode(text).ok_or_else(|| bad(lines))?;
    Ok(Head::Mode { before, after })
}

fn mode(text: &[u8]) -> Option<u32> {
    match text {
        b"100644" => Some(MODE_FILE),
        b"100755" => Some(MODE_EXECUTABLE),
        b"120000" => Some(MODE_SYMLINK),
        b"160000" => Some(MODE_GITLINK),
        _ => None,
    }
}

fn modes(head: &Head, index: Option<&Index<'_>>) -> Option<(Option<u32>, Option<u32>)> {
    let on_index = index.and_then(|i| i.mode);
    match (head, on_index) {
        (Head::Added(mode), None) => Some((None, Some(*mode))),
        (Head::Deleted(mode), None) => Some((Some(*mode), None)),
        // A change between file, link and repository is written as a deletion and an addition.
        (Head::Mode { before, after }, None)
            if before != after && before & 0o170_000 == after & 0o170_000 =>
        {
            Some((Some(*before), Some(*after)))
        }
        (Head::Content, Some(mode)) => Some((Some(mode), Some(mode))),
        (Head::Added(_) | Head::Deleted(_) | Head::Mode { .. } | Head::Content, _) => None,
    }
}

fn index(rest: &[u8]) -> Option<Index<'_>> {
    let text = std::str::from_utf8(rest).ok()?;
    let (ids, mode_text) = match text.split_once(' ') {
        Some((ids, mode)) => (ids, Some(mode)),
        None => (text, None),
    };
    let (before, after) = ids.split_once("..")?;
    let is_id = |id: &str| {
        matches!(id.len(), 40 | 64) && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    if !is_id(before) || !is_id(after) || before.len() != after.len() {
        return None;
    }
    let mode = match mode_text {
        Some(text) => Some(mode(text.as_bytes())?),
        None => None,
    };
    Some(Index {
        before,
        after,
        mode,
    })
}

fn is_zero(id: &str) -> bool {
    id.bytes().all(|b| b == b'0')
}

/// Compares the object ids with what the other lines say.
fn check_ids(head: &Head, index: &Index<'_>, body: &Body) -> Result<(), &'static str> {
    let fits = match head {
        Head::Added(_) => is_zero(index.before) && !is_zero(index.after),
        Head::Deleted(_) => !is_zero(index.before) && is_zero(index.after),
        Head::Mode { .. } | Head::Content => {
            !is_zero(index.before) && !is_zero(index.after) && index.before != index.after
        }
    };
    if !fits {
        return Err("the object ids do not fit the kind of change");
    }
    // Only an empty file has nothing to show; anything else without content would hide what changed.
    let shown = match (head, body) {
        (_, Body::Text { .. } | Body::Binary) => true,
        (Head::Added(_), Body::None) => is_empty_blob(index.after),
        (Head::Deleted(_), Body::None) => is_empty_blob(index.before),
        (Head::Mode { .. } | Head::Content, Body::None) => false,
    };
    if shown {
        Ok(())
    } else {
        Err("the content of the change is missing")
    }
}

fn is_empty_blob(id: &str) -> bool {
    id == EMPTY_BLOB_SHA1 || id == EMPTY_BLOB_SHA256
}
