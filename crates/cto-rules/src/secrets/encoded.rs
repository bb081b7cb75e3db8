//! Tokens that somebody wrote in base64, percent-encoded or in UTF-16: the text is decoded, and looked at as it then reads.
//!
//! Twice at most: a token in base64 of base64 is found, one that was encoded three times is not. Compressed bytes are
//! opened by whoever has them.

use super::Which;
use super::shapes::{self, Hit};

/// Shortest run of base64 digits that can hold a token.
const RUN_DIGITS_MIN: usize = 24;
/// A line of so many digits goes on in the next one: that is how mail and PEM break base64.
const LINE_DIGITS_MIN: usize = 56;

/// Shortest run of characters in UTF-16 that can hold a token.
const WIDE_CHARS_MIN: usize = 16;

pub(super) fn find(bytes: &[u8]) -> Vec<Hit> {
    let mut hits = in_base64(bytes, Depth::First);
    hits.extend(in_percent(bytes));
    hits.extend(in_utf16(bytes));
    hits
}

/// How often a text was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    First,
    Second,
}

/// What stands in decoded bytes: as they are, in UTF-16, percent-encoded, and once more in base64.
fn find_decoded(bytes: &[u8], depth: Depth) -> Vec<Hit> {
    let mut hits = shapes::find(bytes, Which::Certain);
    hits.extend(in_utf16(bytes));
    if depth == Depth::First {
        hits.extend(in_percent(bytes));
        hits.extend(in_base64(bytes, Depth::Second));
    }
    hits
}

/// Reads every run of plain characters with a zero byte behind (little endian) or before (big endian) each.
fn in_utf16(bytes: &[u8]) -> Vec<Hit> {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte);
    let mut hits = Vec::new();
    let mut at = 0;
    while at + 1 < bytes.len() {
        let low = match bytes[at..] {
            [low, 0, ..] if is_plain(low) => 0,
            [0, low, ..] if is_plain(low) => 1,
            _ => {
                at += 1;
                continue;
            }
        };
        let pairs = bytes[at..].chunks_exact(2);
        let text: Vec<u8> = pairs
            .map(|pair| (pair[low], pair[1 - low]))
            .take_while(|(char, zero)| is_plain(*char) && *zero == 0)
            .map(|(char, _)| char)
            .collect();
        let end = at + 2 * text.len();
        if text.len() >= WIDE_CHARS_MIN {
            let found = shapes::find(&text, Which::Certain);
            hits.extend(found.into_iter().map(|hit| Hit {
                rule: hit.rule,
                start: at + 2 * hit.start,
                end: at + 2 * hit.end,
            }));
        }
        at = end;
    }
    hits
}

fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

/// Decodes every run of base64 digits. The whole run is the finding: part of it would still tell the rest.
fn in_base64(bytes: &[u8], depth: Depth) -> Vec<Hit> {
    let mut hits = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if digit(bytes[at]).is_none() {
            at += 1;
            continue;
        }
        let (end, digits) = run(bytes, at);
        if digits.len() >= RUN_DIGITS_MIN {
            let found = find_decoded(&decode(&digits), depth);
            hits.extend(found.into_iter().take(1).map(|hit| Hit {
                rule: hit.rule,
                start: at,
                end,
            }));
        }
        at = end;
    }
    hits
}

/// The digits from `start` on, over the ends of long lines, and where they end.
fn run(bytes: &[u8], start: usize) -> (usize, Vec<u8>) {
    let mut digits = Vec::new();
    let (mut at, mut in_line) = (start, 0);
    loop {
        let rest = &bytes[at..];
        let line_end = match rest {
            [b'\r', b'\n', ..] => 2,
            [b'\n', ..] => 1,
            _ => 0,
        };
        match rest.first().and_then(|byte| digit(*byte)) {
            Some(value) => {
                digits.push(value);
                in_line += 1;
                at += 1;
            }
            None if line_end > 0
                && in_line >= LINE_DIGITS_MIN
                && rest.get(line_end).is_some_and(|b| digit(*b).is_some()) =>
            {
                at += line_end;
                in_line = 0;
            }
            None => return (at, digits),
        }
    }
}

fn decode(digits: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let bits = (0..4).fold(0_u32, |n, i| {
            n << 6 | u32::from(group.get(i).copied().unwrap_or(0))
        });
        let all = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
        out.extend_from_slice(&all[..group.len().saturating_sub(1).min(3)]);
    }
    out
}

/// Reads the bytes as if every `%XX` were the byte that it names.
fn in_percent(bytes: &[u8]) -> Vec<Hit> {
    if !bytes.contains(&b'%') {
        return Vec::new();
    }
    let mut plain = Vec::with_capacity(bytes.len());
    // Where each byte of the plain text began.
    let mut from = Vec::with_capacity(bytes.len() + 1);
    let mut at = 0;
    while at < bytes.len() {
        let named = match bytes[at..] {
            [b'%', high, low, ..] => hex(high).zip(hex(low)).map(|(h, l)| h << 4 | l),
            _ => None,
        };
        from.push(at);
        plain.push(named.unwrap_or(bytes[at]));
        at += if named.is_some() { 3 } else { 1 };
    }
    from.push(bytes.len());
    let is_encoded = |hit: &Hit| from[hit.end] - from[hit.start] > hit.end - hit.start;
    let found = shapes::find(&plain, Which::Certain).into_iter();
    found
        .filter(is_encoded)
        .map(|hit| Hit {
            rule: hit.rule,
            start: from[hit.start],
            end: from[hit.end],
        })
        .collect()
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|d| u8::try_from(d).ok())
}
