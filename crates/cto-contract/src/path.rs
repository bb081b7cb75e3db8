//! Path patterns of contracts: text checked once, matched elsewhere.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::text;

/// A pattern under `allowed_paths`, `forbidden_paths` or `frozen_paths`.
///
/// Relative, `/`-separated, byte-exact. Without a metacharacter it is exactly that file; a trailing `/` means
/// everything below; else a glob in which `*`, `?` and `[…]` stay within a component and `**` does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct PathPattern(String);

/// A pattern that can't be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    #[error("a path pattern is empty")]
    Empty,
    #[error("path `{0}` is absolute; patterns are relative to the repository")]
    Absolute(String),
    #[error("path `{0}` leaves the repository or has an empty or `.` component")]
    Escapes(String),
    #[error("path `{0}` names git's own directory, which no contract can allow")]
    GitDir(String),
    #[error("path `{0}` holds a control character")]
    Control(String),
    #[error("path `{0}` has a `[` without its `]`, or a trailing `\\`")]
    BadGlob(String),
    #[error("path pattern is longer than 4096 bytes")]
    TooLong,
}

impl PathPattern {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True when the pattern names exactly one file.
    pub fn is_literal(&self) -> bool {
        !self.0.ends_with('/') && !self.0.contains(['*', '?', '[', '\\'])
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for PathPattern {
    type Err = BadPattern;

    fn from_str(pattern: &str) -> Result<Self, BadPattern> {
        let shown = || text::shorten(pattern, 120);
        if pattern.is_empty() {
            return Err(BadPattern::Empty);
        }
        if pattern.len() > 4096 {
            return Err(BadPattern::TooLong);
        }
        if pattern.starts_with('/') {
            return Err(BadPattern::Absolute(shown()));
        }
        if pattern.chars().any(char::is_control) {
            return Err(BadPattern::Control(shown()));
        }
        let body = pattern.strip_suffix('/').unwrap_or(pattern);
        if body
            .split('/')
            .any(|c| c.is_empty() || c == "." || c == "..")
        {
            return Err(BadPattern::Escapes(shown()));
        }
        if body.split('/').any(|c| c.eq_ignore_ascii_case(".git")) {
            return Err(BadPattern::GitDir(shown()));
        }
        if !is_glob_closed(pattern) {
            return Err(BadPattern::BadGlob(shown()));
        }
        Ok(Self(pattern.to_owned()))
    }
}

/// Every `[` has its `]`, and no `\` stands at the end.
fn is_glob_closed(pattern: &str) -> bool {
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next().is_none() => return false,
            '[' => {
                let mut first = true;
                let mut negated = false;
                loop {
                    match chars.next() {
                        None | Some('/') => return false,
                        Some('!' | '^') if first && !negated => negated = true,
                        Some(']') if !first => break,
                        Some('\\') => {
                            if chars.next().is_none() {
                                return false;
                            }
                            first = false;
                        }
                        Some(_) => first = false,
                    }
                }
            }
            _ => {}
        }
    }
    true
}

impl<'de> Deserialize<'de> for PathPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_leave_the_repository_are_refused_by_name() {
        let check = |p: &str| {
            p.parse::<PathPattern>()
                .map_or_else(|e| e.to_string(), |_| "ok".to_owned())
        };
        assert_eq!(check("src/"), "ok");
        assert_eq!(check("a/**/b?.[ch]"), "ok");
        assert_eq!(check("we\\*ird"), "ok");
        assert_eq!(check("[!a]x"), "ok");
        assert_eq!(check(""), "a path pattern is empty");
        assert_eq!(
            check("/etc/passwd"),
            "path `/etc/passwd` is absolute; patterns are relative to the repository"
        );
        for bad in ["..", "../x", "a/../b", "a//b", "./a", "/"] {
            assert!(bad.parse::<PathPattern>().is_err(), "{bad}");
        }
        assert!(check("x/.GIT/config").contains("git's own directory"));
        assert!(check("a[b").contains("without its"));
        assert!(check("a\\").contains("trailing"));
        assert!(check("a\u{7}b").contains("control"));
    }
}
