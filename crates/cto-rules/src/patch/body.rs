//! The content of one file's change: hunks of text, a binary block, or nothing.

use super::PatchError;
use super::lines::Lines;
use super::names;

/// Longest link target that is kept; a longer one is no path on any system.
const TARGET_BYTES_MAX: usize = 4096;

const NO_NEWLINE: &[u8] = b"\\ No newline at end of file";

pub(super) enum Body {
    None,
    Text { target: Option<Vec<u8>> },
    Binary,
}

/// What is known of the file before its content is read.
pub(super) struct Sides<'p> {
    pub(super) path: &'p [u8],
    pub(super) has_before: bool,
    pub(super) has_after: bool,
    pub(super) wants_target: bool,
}

pub(super) fn read<'a>(
    lines: &mut Lines<'a>,
    sides: &Sides<'_>,
    added: &mut dyn FnMut(usize, &'a [u8]),
) -> Result<Body, PatchError> {
    if let Some(label) = lines.take_after(b"--- ")? {
        if !is_label(label, b"a/", sides.path, sides.has_before) {
            return Err(lines.error("the `---` line does not name the file of `diff --git`"));
        }
        let Some(label) = lines.take_after(b"+++ ")? else {
            return Err(lines.error("`---` without `+++`"));
        };
        if !is_label(label, b"b/", sides.path, sides.has_after) {
            return Err(lines.error("the `+++` line does not name the file of `diff --git`"));
        }
        return Ok(Body::Text {
            target: hunks(lines, sides, added)?,
        });
    }
    if lines.peek()? == Some(b"GIT binary patch") {
        lines.next()?;
        // First the way forward, then the way back: git always writes both.
        binary_block(lines)?;
        binary_block(lines)?;
        return Ok(Body::Binary);
    }
    Ok(Body::None)
}

fn is_label(label: &[u8], prefix: &[u8], path: &[u8], exists: bool) -> bool {
    if exists {
        names::label_is(label, prefix, path)
    } else {
        label == b"/dev/null"
    }
}

struct Hunk {
    before_count: u64,
    after_start: u64,
    after_count: u64,
}

/// Reads hunks by the counts in their headers, so that no line of content can pass for structure.
fn hunks<'a>(
    lines: &mut Lines<'a>,
    sides: &Sides<'_>,
    added: &mut dyn FnMut(usize, &'a [u8]),
) -> Result<Option<Vec<u8>>, PatchError> {
    let mut count = 0_u32;
    let mut target = sides.wants_target.then(Vec::new);
    let mut ended = Ended {
        before: false,
        after: false,
    };
    while let Some(rest) = lines.take_after(b"@@ -")? {
        let hunk = hunk_header(rest).ok_or_else(|| lines.error("broken `@@` line"))?;
        if (!sides.has_before && hunk.before_count > 0)
            || (!sides.has_after && hunk.after_count > 0)
        {
            return Err(lines.error("a hunk has lines on the side where there is no file"));
        }
        count += 1;
        // The whole target is shown only by one hunk that begins at its beginning; its end is checked below.
        if count > 1 || hunk.after_start != 1 {
            target = None;
        }
        hunk_lines(lines, &hunk, &mut ended, &mut target, added)?;
    }
    if count == 0 {
        return Err(lines.error("a file with `---` and `+++` has no hunk"));
    }
    Ok(target.filter(|_| ended.after))
}

/// Whether the last line of a side, the one without a newline, has been seen.
struct Ended {
    before: bool,
    after: bool,
}

fn hunk_lines<'a>(
    lines: &mut Lines<'a>,
    hunk: &Hunk,
    ended: &mut Ended,
    target: &mut Option<Vec<u8>>,
    added: &mut dyn FnMut(usize, &'a [u8]),
) -> Result<(), PatchError> {
    let (mut before_left, mut after_left) = (hunk.before_count, hunk.after_count);
    let mut changes = false;
    while before_left > 0 || after_left > 0 {
        let Some(line) = lines.next()? else {
            return Err(lines.ended("a line of the hunk"));
        };
        let (in_before, in_after, content) = match line {
            [b' ', content @ ..] => (true, true, content),
            [b'-', content @ ..] => (true, false, content),
            [b'+', content @ ..] => (false, true, content),
            _ => return Err(lines.unexpected(line, "a line of the hunk")),
        };
        if (in_before && before_left == 0) || (in_after && after_left == 0) {
            return Err(lines.error("the hunk has more lines than its header says"));
        }
        if (in_before && ended.before) || (in_after && ended.after) {
            return Err(lines.error("a line follows the last line of its file"));
        }
        before_left -= u64::from(in_before);
        after_left -= u64::from(in_after);
        changes |= in_before != in_after;
        if in_after && !in_before {
            added(lines.number(), content);
        }
        let is_last = lines.peek()? == Some(NO_NEWLINE);
        if is_last {
            lines.next()?;
            ended.before |= in_before;
            ended.after |= in_after;
        }
        if in_after && let Some(kept) = target {
            kept.extend_from_slice(content);
            if !is_last {
                kept.push(b'\n');
            }
            if kept.len() > TARGET_BYTES_MAX {
                *target = None;
            }
        }
    }
    if changes {
        Ok(())
    } else {
        Err(lines.error("a hunk changes nothing"))
    }
}

/// Reads `<start>[,<count>] +<start>[,<count>] @@[ section]`, after `@@ -`.
fn hunk_header(rest: &[u8]) -> Option<Hunk> {
    let (_, before_count, rest) = range(rest)?;
    let (after_start, after_count, rest) = range(rest.strip_prefix(b" +")?)?;
    let section = rest.strip_prefix(b" @@")?;
    (section.is_empty() || section.starts_with(b" ")).then_some(Hunk {
        before_count,
        after_start,
        after_count,
    })
}

fn range(text: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = number(text)?;
    match rest.strip_prefix(b",") {
        Some(rest) => number(rest).map(|(count, rest)| (start, count, rest)),
        None => Some((start, 1, rest)),
    }
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if !(1..=15).contains(&digits) {
        return None;
    }
    let (number, rest) = text.split_at(digits);
    Some((
        number.iter().fold(0, |n, d| n * 10 + u64::from(d - b'0')),
        rest,
    ))
}

/// Reads `literal <n>` or `delta <n>` and its base85 lines up to the blank one.
fn binary_block(lines: &mut Lines<'_>) -> Result<(), PatchError> {
    let Some(first) = lines.next()? else {
        return Err(lines.ended("a binary block"));
    };
    let size = first
        .strip_prefix(b"literal ")
        .or_else(|| first.strip_prefix(b"delta "));
    if !size
        .and_then(number)
        .is_some_and(|(_, rest)| rest.is_empty())
    {
        return Err(lines.unexpected(first, "`literal` or `delta` with a size"));
    }
    let mut count = 0_u64;
    loop {
        let Some(line) = lines.next()? else {
            return Err(lines.ended("the blank line after a binary block"));
        };
        match line {
            [] if count > 0 => return Ok(()),
            [length, data @ ..] if is_base85(*length, data) => count += 1,
            _ => return Err(lines.unexpected(line, "base85 data")),
        }
    }
}

fn is_base85(length: u8, data: &[u8]) -> bool {
    let bytes = match length {
        b'A'..=b'Z' => usize::from(length - b'A') + 1,
        b'a'..=b'z' => usize::from(length - b'a') + 27,
        _ => return false,
    };
    data.len() == bytes.div_ceil(4) * 5
        && data
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&()*+-;<=>?@^_`{|}~".contains(b))
}
