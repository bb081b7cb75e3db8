//! What lies outside the repository's tree and its tests need: installed packages, a registry, a toolchain.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::text;

wire_enum! {
    /// How an input reaches the workspace.
    pub enum InputMode { ReadOnly = "read-only", Copy = "copy" }
}

/// Something outside the repository that its tests need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub from: InputPath,
    pub mode: InputMode,
}

/// Where an input lies, and so where it is seen inside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum InputPath {
    /// Below the repository's top: seen at the same place in the workspace.
    Repository(String),
    /// Below the operator's home: seen at the same place below the home of the run.
    Home(String),
    /// Seen at the same path.
    Absolute(String),
}

/// Why a text names no input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` can't be an input: {why}")]
pub struct BadInput {
    shown: String,
    why: &'static str,
}

impl TryFrom<String> for InputPath {
    type Error = BadInput;
    fn try_from(text: String) -> Result<Self, BadInput> {
        let bad = |why| BadInput {
            shown: text::shorten(&text, 80),
            why,
        };
        let (rest, make): (&str, fn(String) -> Self) = match text.as_bytes() {
            [b'~', b'/', ..] => (&text[2..], Self::Home),
            [b'/', ..] => (&text[1..], Self::Absolute),
            [b'~', ..] => return Err(bad("only `~/` is known, not another user's home")),
            _ => (&text, Self::Repository),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.is_empty() {
            return Err(bad("it names everything"));
        }
        if rest.chars().any(char::is_control) {
            return Err(bad("it holds a control character"));
        }
        for component in rest.split('/') {
            if component.is_empty() || component == "." || component == ".." {
                return Err(bad("a component is empty, `.` or `..`"));
            }
            if component.eq_ignore_ascii_case(".git") {
                return Err(bad("a `.git` is never an input"));
            }
        }
        Ok(make(rest.to_owned()))
    }
}

impl fmt::Display for InputPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repository(path) => f.write_str(path),
            Self::Home(path) => write!(f, "~/{path}"),
            Self::Absolute(path) => write!(f, "/{path}"),
        }
    }
}

impl From<InputPath> for String {
    fn from(path: InputPath) -> Self {
        path.to_string()
    }
}

impl JsonSchema for InputPath {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "InputPath".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 1,
            "description": "A path below the repository, `~/…` below the operator's home, or an absolute path"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> String {
        match InputPath::try_from(text.to_owned()) {
            Ok(path) => format!("{path:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_input_is_named_by_its_place() {
        assert_eq!(read("node_modules/"), r#"Repository("node_modules")"#);
        assert_eq!(read("~/.cargo/registry"), r#"Home(".cargo/registry")"#);
        assert_eq!(read("/opt/tool"), r#"Absolute("opt/tool")"#);
        assert_eq!(read("/"), "`/` can't be an input: it names everything");
        assert_eq!(read("~/"), "`~/` can't be an input: it names everything");
        assert_eq!(
            read("~root/.ssh"),
            "`~root/.ssh` can't be an input: only `~/` is known, not another user's home"
        );
        assert_eq!(
            read("a/../../b"),
            "`a/../../b` can't be an input: a component is empty, `.` or `..`"
        );
        assert_eq!(
            read(".git/hooks"),
            "`.git/hooks` can't be an input: a `.git` is never an input"
        );
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same(text in ".{0,24}") {
            if let Ok(path) = InputPath::try_from(text) {
                prop_assert_eq!(InputPath::try_from(path.to_string()).unwrap(), path);
            }
        }
    }
}
