//! Rust text as the fences see it: comments and literals blanked, tests told apart from the rest.
//!
//! This is a lexer, not a parser: it knows just enough to never mistake a word in a string for code.

use std::ops::Range;

/// Returns the text with comments and the insides of literals as spaces; every byte keeps its line and column.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'\'' => match char_end(text, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            byte if is_word(byte) => {
                let end = word_end(bytes, at);
                match raw_string_end(bytes, at, end) {
                    Some(raw_end) => raw_end,
                    None => {
                        at = end;
                        continue;
                    }
                }
            }
            _ => {
                at += 1;
                continue;
            }
        };
        for byte in &mut code[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    // Only whole characters were blanked, each byte by one space.
    String::from_utf8_lossy(&code).into_owned()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn word_end(bytes: &[u8], start: usize) -> usize {
    bytes[start..]
        .iter()
        .position(|byte| !is_word(*byte))
        .map_or(bytes.len(), |length| start + length)
}

fn line_end(bytes: &[u8], start: usize) -> usize {
    bytes[start..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(bytes.len(), |length| start + length)
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the end of the literal whose prefix is the word `start..end`, if it is a raw string's prefix.
fn raw_string_end(bytes: &[u8], start: usize, end: usize) -> Option<usize> {
    if !matches!(&bytes[start..end], b"r" | b"br" | b"cr") {
        return None;
    }
    let hashes = bytes[end..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    let open = end + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let inside = open + 1;
    let length = bytes[inside..]
        .windows(close.len())
        .position(|window| window == close);
    Some(length.map_or(bytes.len(), |length| inside + length + close.len()))
}

/// Returns the end of the character literal at `start`, or nothing for a lifetime.
fn char_end(text: &str, start: usize) -> Option<usize> {
    let mut rest = text[start + 1..].char_indices();
    let (_, first) = rest.next()?;
    if first == '\\' {
        rest.next()?;
        return rest
            .find(|(_, next)| *next == '\'')
            .map(|(offset, _)| start + 1 + offset + 1);
    }
    let (offset, second) = rest.next()?;
    (second == '\'').then_some(start + 1 + offset + 1)
}

/// Returns where the items under `#[cfg(test)]` stand in text that went through [`code_only`].
pub(crate) fn test_ranges(code: &str) -> Vec<Range<usize>> {
    const MARK: &str = "#[cfg(test)]";
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (start, _) in code.match_indices(MARK) {
        if ranges.last().is_some_and(|range| range.contains(&start)) {
            continue;
        }
        let body = start + MARK.len();
        let end = match code[body..].find(['{', ';']) {
            Some(offset) if code[body + offset..].starts_with('{') => {
                block_end(code, body + offset)
            }
            Some(offset) => body + offset + 1,
            None => code.len(),
        };
        ranges.push(start..end);
    }
    ranges
}

fn block_end(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code[open..].bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return open + offset + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Returns where `needle` stands as a whole word or path: `File::` is in `fs::File::open`, not in `RawFile::open`.
pub(crate) fn find_words<'a>(code: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    let opens = needle.bytes().next().is_some_and(is_word);
    let closes = needle.bytes().last().is_some_and(is_word);
    code.match_indices(needle)
        .map(|(at, _)| at)
        .filter(move |at| {
            let before = at.checked_sub(1).map(|before| bytes[before]);
            let after = bytes.get(at + needle.len()).copied();
            !(opens && before.is_some_and(is_word) || closes && after.is_some_and(is_word))
        })
}

/// Returns the line, counted from 1, that holds the byte `at`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &str) {
        let seen = code_only(text);
        assert_eq!(seen.len(), text.len(), "every byte keeps its place: {text}");
        let words: Vec<&str> = seen.split_whitespace().collect();
        assert_eq!(words.join(" "), code, "{text}");
    }

    #[test]
    fn comments_and_literals_are_blank() {
        check("a // b\nc", "a c");
        check("a /* b /* c */ d */ e", "a e");
        check(r#"f("a \" b", 'c', '\'', b'd')"#, "f( , , , b )");
        check(r##"r#"a " b"# + br"c\" + r#type"##, "+ + r#type");
        check(
            "fn f<'a>(x: &'a str, y: char) { 'é' }",
            "fn f<'a>(x: &'a str, y: char) { }",
        );
        check("\"é\" bar", "bar");
        check("'\\u{1F600}' x", "x");
    }

    #[test]
    fn an_open_literal_at_the_end_is_no_panic() {
        for text in [
            "\"", "\"\\", "'", "'\\", "r#\"", "/*", "/* /*", "b'", "r#", "é'", "'é",
        ] {
            assert_eq!(code_only(text).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn test_items_end_where_their_block_ends() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { {} } }\nfn c() {}\n#[cfg(test)]\nmod d;\nfn e() {}";
        let inside: Vec<&str> = test_ranges(code)
            .into_iter()
            .map(|range| &code[range])
            .collect();
        assert_eq!(
            inside,
            [
                "#[cfg(test)]\nmod tests { fn b() { {} } }",
                "#[cfg(test)]\nmod d;"
            ]
        );
    }

    #[test]
    fn words_are_whole() {
        let count = |code: &str, needle: &str| find_words(code, needle).count();
        assert_eq!(count("unsafe { }", "unsafe"), 1);
        assert_eq!(count("#![deny(unsafe_code)]", "unsafe"), 0);
        assert_eq!(count("fs::File::open", "File::"), 1);
        assert_eq!(count("RawFile::open", "File::"), 0);
        assert_eq!(count("env::vars()", "env::var"), 0);
    }
}
