//! What a backend does while it works, in its own words: for a person who watches, never evidence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::shorten;

wire_enum! {
    /// What a backend says it does.
    pub enum ActivityKind {
        /// Words for a person.
        Says = "says",
        /// A command.
        Runs = "runs",
        /// A file that it writes.
        Edits = "edits",
        /// Something goes wrong, and it goes on.
        Struggles = "struggles",
        /// A line of plain output.
        Prints = "prints",
    }
}

/// One thing that a backend does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendActivity {
    pub kind: ActivityKind,
    /// One line, cut.
    pub text: String,
}

impl BackendActivity {
    /// Longest text that is kept.
    pub const TEXT_CHARS: usize = 240;
    /// Most of them that a log keeps; what comes after is in the raw output only.
    pub const EVENTS_MAX: u64 = 1_000;

    /// Makes one of whatever text there is; none of a text without words.
    pub fn new(kind: ActivityKind, text: &str) -> Option<Self> {
        let text = shorten(text.trim(), Self::TEXT_CHARS);
        (!text.is_empty()).then_some(Self { kind, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activity_is_one_short_line_and_never_empty() {
        let text = |text: &str| BackendActivity::new(ActivityKind::Says, text).map(|a| a.text);
        assert_eq!(text(" \n\t "), None);
        assert_eq!(text(" two\nlines "), Some("two\\nlines".to_owned()));
        let long = text(&"x".repeat(100_000)).unwrap();
        assert!(long.chars().count() <= BackendActivity::TEXT_CHARS + 1);
    }
}
