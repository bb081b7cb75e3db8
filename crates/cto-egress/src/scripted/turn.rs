//! A script as turns of a talk: in each the model says something and has one command run, in the last it only speaks.

use cto_contract::model_script::{ModelScript, ScriptChange, ScriptEdit, ScriptStep};
use serde_json::Value;

use super::heard;

/// What an agent that was asked for nothing else does.
const NOTHING_LEFT: &str = "There is nothing left to do.";

/// What one answer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) text: String,
    /// For the shell of the agent.
    pub(crate) command: Option<String>,
}

/// A script as turns: those of its scenes, and those of every other request.
pub(crate) struct Play {
    scenes: Vec<(String, Vec<Turn>)>,
    turns: Vec<Turn>,
}

impl Play {
    pub(crate) fn of(script: &ModelScript) -> Self {
        let scenes = script.scenes.iter();
        Self {
            scenes: scenes
                .map(|scene| (scene.when.clone(), turns(&scene.steps)))
                .collect(),
            turns: turns(&script.steps),
        }
    }

    /// The turns for a request, by what it begins with.
    pub(crate) fn turns_for(&self, request: &Value) -> &[Turn] {
        if self.scenes.is_empty() {
            return &self.turns;
        }
        let opening = heard::opening(request);
        let mut scenes = self.scenes.iter();
        let scene = scenes.find(|(when, _)| opening.contains(when.as_str()));
        scene.map_or(&self.turns, |(_, turns)| turns)
    }
}

/// Returns the turns of steps. There is always a last one without a command.
fn turns(steps: &[ScriptStep]) -> Vec<Turn> {
    let mut turns = Vec::new();
    let mut said: Vec<&str> = Vec::new();
    for step in steps {
        let command = match step {
            ScriptStep::Say(text) => {
                said.push(text);
                continue;
            }
            ScriptStep::Edit(edit) => Some(shell_of(edit)),
            ScriptStep::Run(command) => Some(command.clone()),
            ScriptStep::Finish(text) => {
                said.push(text);
                None
            }
        };
        let is_last = command.is_none();
        turns.push(Turn {
            text: said.join("\n"),
            command,
        });
        said.clear();
        if is_last {
            return turns;
        }
    }
    if said.is_empty() {
        said.push(NOTHING_LEFT);
    }
    turns.push(Turn {
        text: said.join("\n"),
        command: None,
    });
    turns
}

/// The turn after so many results of commands: who asks again gets the same answer again.
pub(crate) fn turn_after(turns: &[Turn], results: usize) -> Option<&Turn> {
    turns.get(results).or(turns.last())
}

/// An edit as a command: every agent has a shell, but their tools for files differ.
fn shell_of(edit: &ScriptEdit) -> String {
    let path = quoted(&edit.path);
    match &edit.change {
        ScriptChange::Content(content) => format!(
            "mkdir -p \"$(dirname {path})\" && printf %s {} > {path}",
            quoted(content)
        ),
        // The one interpreter that is always there; all three texts are arguments, so nothing in them is code.
        ScriptChange::Replace { find, with } => format!(
            "python3 -c {} {path} {} {}",
            quoted(REPLACE),
            quoted(find),
            quoted(with)
        ),
    }
}

const REPLACE: &str = "import sys
path, find, with_ = sys.argv[1:]
with open(path, newline='') as file: text = file.read()
if text.count(find) != 1: sys.exit(f'{path}: the text to be replaced stands there {text.count(find)} times')
with open(path, 'w', newline='') as file: file.write(text.replace(find, with_))";

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use cto_contract::model_script::{ScriptScene, ScriptSchema};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_gets_the_first_scene_whose_text_it_begins_with() {
        let finish = |text: &str| vec![ScriptStep::Finish(text.to_owned())];
        let scene = |when: &str, text: &str| ScriptScene {
            when: when.to_owned(),
            steps: finish(text),
        };
        let play = Play::of(&ModelScript {
            schema: ScriptSchema,
            steps: finish("else"),
            scenes: vec![scene("the reviewer", "fine"), scene("revision 2", "mended")],
        });
        let said = |request: Value| play.turns_for(&request)[0].text.clone();
        let chat = |first: &str, later: &str| {
            json!({"messages": [{"role": "system", "content": first}, {"role": "assistant", "content": "x"},
                {"role": "tool", "content": later}]})
        };
        assert_eq!(said(chat("You are the reviewer", "")), "fine");
        assert_eq!(said(chat("You are the writer", "the reviewer")), "else");
        let parts = json!({"instructions": "a", "input": [{"role": "user", "content": [{"text": "revision 2"}]},
            {"type": "function_call", "arguments": "the reviewer"}]});
        assert_eq!(said(parts), "mended");
        assert_eq!(
            said(json!({"system": [{"text": "the reviewer"}], "messages": []})),
            "fine"
        );
        assert_eq!(said(json!(null)), "else");
    }

    fn told(steps: Vec<ScriptStep>) -> String {
        let lines = turns(&steps).into_iter().map(|turn| match turn.command {
            Some(command) => format!("[{}] $ {command}", turn.text),
            None => format!("[{}]", turn.text),
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_is_said_goes_with_the_next_command_and_the_end_is_always_there() {
        let say = |text: &str| ScriptStep::Say(text.to_owned());
        let run = |text: &str| ScriptStep::Run(text.to_owned());
        assert_eq!(told(vec![]), "[There is nothing left to do.]");
        assert_eq!(
            told(vec![say("a"), say("b"), run("make"), say("c")]),
            "[a\nb] $ make\n[c]"
        );
        assert_eq!(
            told(vec![ScriptStep::Finish("over".to_owned()), run("never")]),
            "[over]"
        );
    }

    #[test]
    fn who_asks_again_gets_the_same_and_who_asks_too_often_the_end() {
        let all = [
            Turn {
                text: "a".to_owned(),
                command: Some("x".to_owned()),
            },
            Turn {
                text: "b".to_owned(),
                command: None,
            },
        ];
        let text = |results| turn_after(&all, results).map(|turn| turn.text.as_str());
        assert_eq!(
            [text(0), text(0), text(1), text(9)],
            [Some("a"), Some("a"), Some("b"), Some("b")]
        );
    }

    #[test]
    fn an_edit_holds_its_texts_as_they_are() {
        let edit = ScriptEdit {
            path: "it's/a b.py".to_owned(),
            change: ScriptChange::Content("$HOME `id` 'x'\n".to_owned()),
        };
        assert_eq!(
            shell_of(&edit),
            "mkdir -p \"$(dirname 'it'\\''s/a b.py')\" && printf %s '$HOME `id` '\\''x'\\''\n' > 'it'\\''s/a b.py'"
        );
    }
}
