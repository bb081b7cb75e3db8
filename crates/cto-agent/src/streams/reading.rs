//! What the events of all such programs come to.

use cto_contract::event::TokenUsage;
use serde_json::Value;

/// What one event says, in words that all these lanes share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamEvent {
    /// It goes on: whatever end it spoke of was none.
    Works,
    /// Text for a person.
    Says(String),
    /// It starts a command, or another tool.
    Runs(String),
    /// It changed files.
    Edits(String),
    /// Tokens of one call of its model.
    Uses(TokenUsage),
    /// Tokens of all calls so far.
    UsedInAll(TokenUsage),
    /// Something went wrong, and it may still mend it.
    Struggles(String),
    /// All is over, one way or the other.
    Ends,
    /// All is over, and it is content.
    Succeeds,
    /// All is over, and it could not do it.
    Fails(String),
}

/// What became of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reading {
    /// An event that is known; one that says nothing here comes to an empty list.
    Known(Vec<StreamEvent>),
    /// An event of a type that is not known.
    Unknown(String),
    /// No event at all.
    Malformed,
}

impl Reading {
    pub(super) fn nothing() -> Self {
        Self::Known(Vec::new())
    }

    pub(super) fn one(event: StreamEvent) -> Self {
        Self::Known(vec![event])
    }
}

/// Text at a path of names; none where it is missing or no text.
pub(super) fn text<'v>(value: &'v Value, path: &[&str]) -> Option<&'v str> {
    path.iter()
        .try_fold(value, |value, name| value.get(name))?
        .as_str()
}

/// The same as a text of its own.
pub(super) fn owned(value: &Value, path: &[&str]) -> String {
    text(value, path).unwrap_or_default().to_owned()
}
