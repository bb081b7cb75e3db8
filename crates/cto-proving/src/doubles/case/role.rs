//! One role at work: it asks its model, does what it is told with its tools, and gives a result.

use std::ffi::OsStr;

use serde_json::{Map, Value, json};

use super::envelope::RoleResult;
use super::journal::{Journal, cut, put};
use super::pipeline::{Event, Role};
use super::settings::{RoleModel, Settings};
use super::shell;
use crate::doubles::chat::{self, Heard};

/// Most turns of one role.
const TURNS_MAX: usize = 60;

/// A role with everything that it works with.
pub(super) struct Speaker<'a> {
    pub(super) program: &'a OsStr,
    pub(super) settings: &'a Settings,
    pub(super) role: Role,
    pub(super) revision: usize,
}

impl Speaker<'_> {
    /// Works to the end. An error ends the whole program.
    pub(super) fn work(&self, journal: &mut Journal) -> Result<RoleResult, String> {
        let (base_url, model) = match self.settings.model_of(self.role)? {
            RoleModel::At { base_url, model } => (base_url, model),
            RoleModel::WithoutKey => return Ok(RoleResult::read("")),
        };
        let mut messages = vec![
            json!({"role": "system", "content": format!("You are the {} of Case.", self.role.agent())}),
            json!({"role": "user", "content": self.prompt()}),
        ];
        let mut said = String::new();
        for _ in 0..TURNS_MAX {
            let request = json!({
                "model": model, "messages": messages, "stream": true,
                "stream_options": {"include_usage": true}, "tools": self.tools(),
            });
            // Whatever is wrong with the endpoint, all that is seen of it is that nothing was said.
            let Ok(heard) = chat::ask(&base_url, &request) else {
                break;
            };
            said.push_str(&heard.text);
            if heard.calls.is_empty() {
                break;
            }
            messages.push(assistant(&heard));
            for call in &heard.calls {
                let arguments = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
                let told = self.use_tool(&call.id, &call.name, &arguments, journal)?;
                messages.push(json!({"role": "tool", "tool_call_id": call.id, "content": told}));
            }
        }
        Ok(RoleResult::read(&said))
    }

    fn prompt(&self) -> String {
        let settings = self.settings;
        let revision = match self.revision {
            0 => String::new(),
            cycle => format!("This is revision {cycle}: mend what was found.\n"),
        };
        format!(
            "{revision}name: {}\nTask page: {}\nTask file: {}\nRepository: {}\nTests: {}\nCompare with `git diff main`.\n",
            self.role.agent(),
            settings.page.display(),
            settings.task_file.display(),
            settings.repository.display(),
            settings.test_command,
        )
    }

    fn tools(&self) -> Vec<Value> {
        let tool = |name: &str, parameters: &[&str]| {
            let properties: Map<String, Value> = parameters
                .iter()
                .map(|name| ((*name).to_owned(), json!({"type": "string"})))
                .collect();
            json!({"type": "function", "function": {"name": name, "parameters":
                {"type": "object", "properties": properties, "required": parameters}}})
        };
        let mut tools = vec![tool("read", &["path"])];
        if matches!(self.role, Role::Implement | Role::Retrospective) {
            tools.push(tool("write", &["path", "content"]));
            tools.push(tool("edit", &["path", "oldText", "newText"]));
        }
        tools.push(tool("bash", &["command"]));
        tools
    }

    /// Uses a tool, tells so before and after, and gives what it said.
    fn use_tool(
        &self,
        id: &str,
        name: &str,
        arguments: &Value,
        journal: &mut Journal,
    ) -> Result<String, String> {
        let event = |kind, more| vec![tool_event(kind, self.role, (id, name), more)];
        journal.tell(event(
            "tool_start",
            json!({"args": cut(&arguments.to_string())}),
        ))?;
        let begun = journal.elapsed();
        let (said, is_error) = self.act(name, arguments);
        let result = json!({"content": [{"type": "text", "text": said}]}).to_string();
        let more = json!({
            "durationMs": journal.elapsed().saturating_sub(begun), "isError": is_error, "result": cut(&result),
        });
        journal.tell(event("tool_end", more))?;
        Ok(said)
    }

    fn act(&self, name: &str, arguments: &Value) -> (String, bool) {
        let text = |name: &str| {
            let text = arguments.get(name).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let at = &self.settings.repository;
        let path = at.join(text("path"));
        let done = match name {
            "bash" => shell::run(self.program, &text("command"), at, &self.settings.scratch)
                .map(|ran| (ran.said, ran.is_error)),
            "read" => std::fs::read_to_string(&path).map(|text| (text, false)),
            "write" => {
                put(&path, text("content").as_bytes()).map(|()| ("written".to_owned(), false))
            }
            "edit" => std::fs::read_to_string(&path).and_then(|old| {
                let (find, with) = (text("oldText"), text("newText"));
                match old.matches(&find).count() {
                    1 => put(&path, old.replace(&find, &with).as_bytes())
                        .map(|()| ("replaced".to_owned(), false)),
                    count => Ok((format!("the text stands there {count} times"), true)),
                }
            }),
            _ => Ok((format!("there is no tool {name}"), true)),
        };
        done.unwrap_or_else(|error| (error.to_string(), true))
    }
}

/// What is told about a tool before and after it is used.
pub(super) fn tool_event(kind: &str, role: Role, (id, name): (&str, &str), more: Value) -> Event {
    let mut event = Event::new();
    event.insert("event".to_owned(), json!(kind));
    let same =
        json!({"phase": role.phase(), "agent": role.agent(), "toolCallId": id, "tool": name});
    for fields in [same, more] {
        if let Value::Object(fields) = fields {
            event.extend(fields);
        }
    }
    event
}

fn assistant(heard: &Heard) -> Value {
    let calls: Vec<Value> = heard
        .calls
        .iter()
        .map(|call| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}))
        .collect();
    json!({"role": "assistant", "content": heard.text, "tool_calls": calls})
}
