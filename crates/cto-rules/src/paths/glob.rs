//! One path pattern, compiled.
//!
//! A pattern without metacharacters never meets a regular expression. The others become an automaton that runs in
//! linear time, so no pattern and no path can make the match explode.
//!
//! `globset` reads another language: its `?` and `[…]` match a byte where ours match a character, its `[!a]` matches
//! `/`, its `**` stays within a component unless it stands alone, and `{a,b}` means two names.

use cto_contract::path::PathPattern;
use regex::bytes::{Regex, RegexBuilder};

/// Largest automaton a pattern of 4096 bytes may need, with room to spare.
const AUTOMATON_BYTES_MAX: usize = 64 << 20;

/// What a pattern does that cannot be compiled: each list must then refuse rather than permit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Broken {
    MatchesNothing,
    MatchesEverything,
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct Glob {
    text: String,
    matcher: Matcher,
    /// Everything below a directory is meant, so a link put in that directory's place is meant too.
    subtree: bool,
}

#[derive(Debug, Clone)]
enum Matcher {
    Exact(Vec<u8>),
    /// The directory with its trailing slash.
    Below(Vec<u8>),
    Automaton(Box<Regex>),
    Broken(Broken),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`
    One,
    /// `*`
    Star,
    /// `**` and longer runs
    DeepStar,
    /// `[…]`; inclusive ranges
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Glob {
    pub(super) fn new(pattern: &PathPattern, broken: Broken) -> Self {
        let text = pattern.as_str().to_owned();
        let Some(mut tokens) = tokens(&text) else {
            return Self {
                text,
                matcher: Matcher::Broken(broken),
                subtree: false,
            };
        };
        let is_directory = tokens.last() == Some(&Token::Char('/'));
        if is_directory {
            tokens.pop();
        }
        let literal: Option<String> = tokens.iter().map(Token::as_char).collect();
        let matcher = match literal {
            Some(name) if is_directory => Matcher::Below(format!("{name}/").into_bytes()),
            Some(name) => Matcher::Exact(name.into_bytes()),
            None => automaton(&tokens, is_directory)
                .map_or(Matcher::Broken(broken), |r| Matcher::Automaton(Box::new(r))),
        };
        let ends_deep = tokens.last() == Some(&Token::DeepStar)
            && tokens
                .len()
                .checked_sub(2)
                .is_none_or(|i| tokens[i] == Token::Char('/'));
        Self {
            text,
            matcher,
            subtree: is_directory || ends_deep,
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// True when the pattern names one file and nothing else, escapes included.
    pub(super) fn names(&self, path: &[u8]) -> bool {
        match &self.matcher {
            Matcher::Exact(name) => name == path,
            Matcher::Below(_) | Matcher::Automaton(_) | Matcher::Broken(_) => false,
        }
    }

    pub(super) fn matches(&self, path: &[u8]) -> bool {
        match &self.matcher {
            Matcher::Exact(name) => name == path,
            Matcher::Below(prefix) => path.len() > prefix.len() && path.starts_with(prefix),
            Matcher::Automaton(regex) => regex.is_match(path),
            Matcher::Broken(Broken::MatchesNothing) => false,
            Matcher::Broken(Broken::MatchesEverything) => true,
        }
    }

    /// True when the pattern means everything below `path`, were `path` a directory.
    pub(super) fn covers_directory(&self, path: &[u8]) -> bool {
        self.subtree && self.matches(&[path, b"/x"].concat())
    }
}

impl Token {
    fn as_char(&self) -> Option<char> {
        match self {
            Self::Char(c) => Some(*c),
            Self::One | Self::Star | Self::DeepStar | Self::Set { .. } => None,
        }
    }
}

/// Splits a pattern; none when a `[` or `\` is left open, which a checked pattern never has.
fn tokens(pattern: &str) -> Option<Vec<Token>> {
    let mut out = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => Token::Char(chars.next()?),
            '?' => Token::One,
            '*' => {
                let mut stars = 1;
                while chars.next_if_eq(&'*').is_some() {
                    stars += 1;
                }
                if stars > 1 {
                    Token::DeepStar
                } else {
                    Token::Star
                }
            }
            '[' => set(&mut chars)?,
            _ => Token::Char(c),
        });
    }
    Some(out)
}

/// Reads a set after its `[`. A `]` right at the beginning stands for itself.
fn set(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Token> {
    let negated = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    let mut first = true;
    loop {
        let low = match chars.next()? {
            ']' if !first => return Some(Token::Set { negated, ranges }),
            '\\' => chars.next()?,
            c => c,
        };
        first = false;
        // A `-` at the end stands for itself, so look one further before taking it.
        let mut ahead = chars.clone();
        let is_range = ahead.next() == Some('-') && !matches!(ahead.next(), None | Some(']'));
        let high = if is_range {
            chars.next();
            match chars.next()? {
                '\\' => chars.next()?,
                c => c,
            }
        } else {
            low
        };
        // A range that runs backwards holds nothing.
        if low <= high {
            ranges.push((low, high));
        }
    }
}

fn automaton(tokens: &[Token], is_directory: bool) -> Option<Regex> {
    let mut regex = String::from(r"\A");
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let opens = at == 0 || tokens[at - 1] == Token::Char('/');
        match token {
            Token::Char(c) => regex.push_str(&format!("\\x{{{:x}}}", u32::from(*c))),
            // Paths are UTF-8 when they get here, so one character is a leading byte and its continuation bytes.
            Token::One => regex.push_str(r"(?-u:[^/\x80-\xbf][\x80-\xbf]*)"),
            Token::Star => regex.push_str("(?-u:[^/]*)"),
            Token::DeepStar if opens && tokens.get(at + 1) == Some(&Token::Char('/')) => {
                regex.push_str("(?-u:(?:[^/]+/)*)");
                at += 1;
                // A run of `**/` means the same as one; folding it keeps the automaton small.
                while tokens.get(at + 1) == Some(&Token::DeepStar)
                    && tokens.get(at + 2) == Some(&Token::Char('/'))
                {
                    at += 2;
                }
            }
            Token::DeepStar if opens && at + 1 == tokens.len() => regex.push_str("(?s-u:.+)"),
            Token::DeepStar => regex.push_str("(?s-u:.*)"),
            Token::Set { negated, ranges } => regex.push_str(&class(*negated, ranges)),
        }
        at += 1;
    }
    regex.push_str(if is_directory { r"/(?s-u:.+)\z" } else { r"\z" });
    RegexBuilder::new(&regex)
        .unicode(true)
        .size_limit(AUTOMATON_BYTES_MAX)
        .build()
        .ok()
}

/// A set as a class. It never holds `/`, negated or not.
fn class(negated: bool, ranges: &[(char, char)]) -> String {
    let body: String = ranges
        .iter()
        .map(|(low, high)| format!("\\x{{{:x}}}-\\x{{{:x}}}", u32::from(*low), u32::from(*high)))
        .collect();
    match (negated, body.is_empty()) {
        (false, true) => r"[^\x{0}-\x{10ffff}]".to_owned(),
        (true, true) => "[^/]".to_owned(),
        (false, false) => format!("[[{body}]&&[^/]]"),
        (true, false) => format!("[^{body}/]"),
    }
}
