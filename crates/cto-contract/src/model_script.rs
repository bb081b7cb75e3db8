//! What the scripted model does: a small script that people write, so that any lane can be tried without an account.

use serde::{Deserialize, Serialize};

wire_const! {
    /// The format of a script.
    pub struct ScriptSchema: &str = "cto.model-script/v1"
}

/// What the model says and does, step by step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelScript {
    pub schema: ScriptSchema,
    pub steps: Vec<ScriptStep>,
    /// Other steps for some requests; the first scene that fits is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenes: Vec<ScriptScene>,
}

/// Steps of their own for requests whose opening holds a text: an agent with several roles opens each in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptScene {
    /// Looked for in everything that comes before the model's own first answer.
    pub when: String,
    pub steps: Vec<ScriptStep>,
}

/// One step. `say` goes with the step behind it; whatever follows a `finish` is never reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ScriptStep {
    /// Says something.
    Say(String),
    /// Changes a file.
    Edit(ScriptEdit),
    /// Runs a shell command.
    Run(String),
    /// Ends the work with these words.
    Finish(String),
}

/// A change of one file: its whole content, or one piece of text for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "WrittenEdit", into = "WrittenEdit")]
pub struct ScriptEdit {
    /// Relative to the working directory of the agent, or absolute.
    pub path: String,
    pub change: ScriptChange,
}

/// What becomes of the file.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema)]
pub enum ScriptChange {
    Content(String),
    Replace { find: String, with: String },
}

/// An edit as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenEdit {
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    find: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replace: Option<String>,
}

/// An edit that says neither or both of its two ways.
#[derive(Debug, thiserror::Error)]
#[error("an edit of `{path}` needs either `content`, or `find` and `replace`")]
pub struct UnclearEdit {
    path: String,
}

impl TryFrom<WrittenEdit> for ScriptEdit {
    type Error = UnclearEdit;

    fn try_from(written: WrittenEdit) -> Result<Self, Self::Error> {
        let change = match (written.content, written.find, written.replace) {
            (Some(content), None, None) => ScriptChange::Content(content),
            (None, Some(find), Some(with)) if !find.is_empty() => {
                ScriptChange::Replace { find, with }
            }
            _ => return Err(UnclearEdit { path: written.path }),
        };
        Ok(Self {
            path: written.path,
            change,
        })
    }
}

impl From<ScriptEdit> for WrittenEdit {
    fn from(edit: ScriptEdit) -> Self {
        let (content, find, replace) = match edit.change {
            ScriptChange::Content(content) => (Some(content), None, None),
            ScriptChange::Replace { find, with } => (None, Some(find), Some(with)),
        };
        Self {
            path: edit.path,
            content,
            find,
            replace,
        }
    }
}

wire_enum! {
    /// What the scripted model does wrong, chosen by the first part of the path or for all requests.
    pub enum ModelFault {
        Ok = "ok",
        /// Takes the request and never answers.
        Hang = "hang",
        /// Sends the head of an answer and then nothing.
        Stall = "stall",
        /// Breaks the connection in the middle of the answer.
        Cut = "cut",
        /// Ends the answer early, by the rules of HTTP.
        CleanCut = "clean-cut",
        ReasoningOnly = "reasoning-only",
        Refusal = "refusal",
        Unauthorized = "401",
        Forbidden = "403",
        TooManyRequests = "429",
        ServerError = "500",
        /// Another model than the one that was asked answers.
        AnotherModel = "another-model",
        Garbage = "garbage",
        /// Answers a few bytes at a time.
        Drip = "drip",
        Huge = "huge",
        /// The answer ends with the connection.
        CloseDelimited = "close-delimited",
        /// The same as an answer of HTTP/1.0.
        Http10 = "http10",
    }
}

wire_enum! {
    /// Which requests a fault meets.
    pub enum FaultScope {
        Every = "every",
        /// Those that offer tools: an agent at work. A small question before its start is answered well.
        AtWork = "at-work",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;

    fn read(steps: &str) -> String {
        let text = format!("schema: cto.model-script/v1\nsteps:\n{steps}");
        match document::read::<ModelScript>("script.yaml", text.as_bytes()) {
            Ok(script) if script.scenes.is_empty() => format!("{:?}", script.steps),
            Ok(script) => format!("{:?} {:?}", script.steps, script.scenes),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_script_says_edits_runs_and_finishes() {
        insta::assert_snapshot!(
            read("  - say: hello\n  - edit: {path: a.txt, find: x, replace: y}\n  - edit: {path: b, content: ''}\n  - run: make\n  - finish: done\n"),
            @r#"[Say("hello"), Edit(ScriptEdit { path: "a.txt", change: Replace { find: "x", with: "y" } }), Edit(ScriptEdit { path: "b", change: Content("") }), Run("make"), Finish("done")]"#
        );
    }

    #[test]
    fn a_scene_has_steps_of_its_own() {
        insta::assert_snapshot!(
            read("  - finish: done\nscenes:\n  - when: the reviewer\n    steps: [finish: fine]\n"),
            @r#"[Finish("done")] [ScriptScene { when: "the reviewer", steps: [Finish("fine")] }]"#
        );
    }

    #[test]
    fn a_script_that_is_unclear_is_refused_at_its_place() {
        insta::assert_snapshot!(read("  - edit: {path: a, content: b, find: c}\n"), @"script.yaml:3:11: an edit of `a` needs either `content`, or `find` and `replace`");
        insta::assert_snapshot!(read("  - edit: {path: a, find: '', replace: c}\n"), @"script.yaml:3:11: an edit of `a` needs either `content`, or `find` and `replace`");
        insta::assert_snapshot!(read("  - push: main\n"), @"script.yaml:3:5: unknown variant `push`, expected one of say, edit, run, finish");
        insta::assert_snapshot!(read("  - say: [1]\n"), @"script.yaml:3:10: expected string scalar");
    }
}
