//! Untrusted text made safe to show, and byte paths made writable as text.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Replaces control characters, ANSI escapes and bidirectional overrides by visible stand-ins.
///
/// Everything that came from a contract, a path, an agent or a repository passes through here before a person
/// sees it: a terminal must not be steered, and a sentence must read as it is stored. Newlines and tabs stay.
pub fn neutralise(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            // Writing to a String cannot fail.
            let _ok = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// The same for one line: newlines and tabs become visible too.
pub fn one_line(text: &str) -> String {
    neutralise(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// The same for JSON that is written already: it says what it said, by its own escapes. Inside of strings is the only
/// place where such a character can stand.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_unsafe(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ok = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn is_unsafe(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Cuts text for a message, marking the cut.
pub fn shorten(text: &str, max_chars: usize) -> String {
    let safe = one_line(text);
    if safe.chars().count() <= max_chars {
        return safe;
    }
    let mut cut: String = safe.chars().take(max_chars).collect();
    cut.push('…');
    cut
}

/// Writes a path for JSON: itself when it is UTF-8, else git's C-quoted form.
///
/// A UTF-8 path that begins with a quote is quoted too, so the two forms never collide.
pub fn path_text(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) if !text.starts_with('"') => text.to_owned(),
        _ => quote_path(path),
    }
}

fn quote_path(path: &[u8]) -> String {
    let mut out = String::from("\"");
    for &b in path {
        match b {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            0x20..=0x7e => out.push(char::from(b)),
            _ => {
                let _ok = write!(out, "\\{b:03o}");
            }
        }
    }
    out.push('"');
    out
}

/// Reads git's C-quoted form, with its quotes. Returns the bytes and what follows the closing quote.
pub fn unquote_path(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut out = Vec::new();
    loop {
        let (&b, tail) = rest.split_first()?;
        rest = tail;
        match b {
            b'"' => return Some((out, rest)),
            b'\\' => {
                let (&e, tail) = rest.split_first()?;
                rest = tail;
                out.push(match e {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => e,
                    b'0'..=b'3' => {
                        let (digits, tail) = rest.split_at_checked(2)?;
                        rest = tail;
                        let octal = |d: u8| (b'0'..=b'7').contains(&d).then(|| d - b'0');
                        (e - b'0') * 64 + octal(digits[0])? * 8 + octal(digits[1])?
                    }
                    _ => return None,
                });
            }
            _ => out.push(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_and_bidi_become_visible() {
        assert_eq!(neutralise("a\u{1b}[31mred"), "a\\u{1b}[31mred");
        assert_eq!(neutralise("safe\u{202e}txt"), "safe\\u{202e}txt");
        assert_eq!(one_line("a\nb"), "a\\nb");
        assert_eq!(neutralise("plain ünïcode\n"), "plain ünïcode\n");
    }

    proptest! {
        #[test]
        fn a_quoted_path_reads_back(path in proptest::collection::vec(any::<u8>(), 0..40)) {
            let quoted = quote_path(&path);
            let (back, rest) = unquote_path(quoted.as_bytes()).unwrap();
            prop_assert_eq!(back, path);
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn neutral_text_holds_nothing_unsafe(text in any::<String>()) {
            prop_assert!(!neutralise(&text).chars().any(is_unsafe));
        }

        #[test]
        fn escaped_json_says_the_same_and_holds_nothing_unsafe(text in any::<String>(), odd in "[\u{7f}-\u{9f}\u{202e}\u{2066}\u{e0041}]{0,5}") {
            let value = serde_json::json!({ text.as_str(): [odd] });
            let written = serde_json::to_string_pretty(&value).unwrap();
            let safe = escape_json(&written);
            prop_assert!(!safe.chars().any(is_unsafe));
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
        }

        #[test]
        fn unquoting_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _out = unquote_path(&bytes);
        }
    }
}
