//! Which of the tools that a request offers runs a shell command, wherever in the request they stand.

use serde_json::{Map, Value, json};

/// Names of a parameter that takes a command, as the known agents call it.
const COMMAND_PARAMETERS: [&str; 2] = ["cmd", "command"];
/// Names of parameters that hold the schema of a tool.
const SCHEMAS: [&str; 3] = ["parameters", "input_schema", "inputSchema"];
/// How deep tools are looked for.
const DEPTH_MAX: usize = 12;

/// A tool that runs a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShellTool {
    pub(crate) name: String,
    parameter: String,
    takes_words: bool,
    /// What else it wants, with a value that fits.
    others: Map<String, Value>,
}

impl ShellTool {
    /// Returns the arguments that have it run a command.
    pub(crate) fn arguments(&self, command: &str) -> Value {
        let mut arguments = self.others.clone();
        let command = if self.takes_words {
            json!(["bash", "-c", command])
        } else {
            json!(command)
        };
        arguments.insert(self.parameter.clone(), command);
        Value::Object(arguments)
    }
}

/// Returns the first shell tool of a request.
pub(crate) fn find_shell(request: &Value) -> Option<ShellTool> {
    let mut found = Vec::new();
    look(request, 0, &mut found);
    found.into_iter().next()
}

/// Returns the names of all tools of a request.
pub(crate) fn tool_names(request: &Value) -> Vec<String> {
    let mut names = Vec::new();
    name_all(request, 0, &mut names);
    names
}

fn look(value: &Value, depth: usize, found: &mut Vec<ShellTool>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| look(item, depth + 1, found)),
        Value::Object(object) => {
            found.extend(shell_in(object));
            object
                .values()
                .for_each(|inner| look(inner, depth + 1, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn name_all(value: &Value, depth: usize, names: &mut Vec<String>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Array(items) => items
            .iter()
            .for_each(|item| name_all(item, depth + 1, names)),
        Value::Object(object) => {
            if schema_of(object).is_some()
                && let Some(name) = object.get("name").and_then(Value::as_str)
            {
                names.push(name.to_owned());
                return;
            }
            object
                .values()
                .for_each(|inner| name_all(inner, depth + 1, names));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn schema_of(tool: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let schema = SCHEMAS.iter().find_map(|key| tool.get(*key))?;
    schema.as_object()
}

fn shell_in(tool: &Map<String, Value>) -> Option<ShellTool> {
    let name = tool.get("name")?.as_str()?;
    let schema = schema_of(tool)?;
    let properties = schema.get("properties")?.as_object()?;
    let kind = |key: &str| {
        let kind = properties.get(key)?.get("type")?;
        // Where more than one is allowed, the first will do.
        kind.as_str().or_else(|| kind.as_array()?.first()?.as_str())
    };
    let (parameter, kind_of_command) = COMMAND_PARAMETERS
        .iter()
        .find_map(|key| Some((*key, kind(key)?)))
        .filter(|(_, kind)| matches!(*kind, "string" | "array"))?;
    let required = schema.get("required").and_then(Value::as_array);
    let mut others = Map::new();
    for key in required.into_iter().flatten().filter_map(Value::as_str) {
        if key != parameter {
            others.insert(key.to_owned(), filler(kind(key)));
        }
    }
    Some(ShellTool {
        name: name.to_owned(),
        parameter: parameter.to_owned(),
        takes_words: kind_of_command == "array",
        others,
    })
}

fn filler(kind: Option<&str>) -> Value {
    match kind {
        Some("number" | "integer") => json!(60_000),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("scripted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(request: Value) -> String {
        find_shell(&request).map_or("none".to_owned(), |tool| {
            format!("{} {}", tool.name, tool.arguments("ls"))
        })
    }

    #[test]
    fn the_shell_of_every_known_agent_is_found() {
        let schema = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
        let text = json!({"type": "string"});
        assert_eq!(
            seen(
                json!({"tools": [{"type": "function", "function": {"name": "read", "parameters": schema(json!({"path": text}), json!(["path"]))}},
                {"type": "function", "function": {"name": "bash", "parameters": schema(json!({"command": text}), json!(["command"]))}}]})
            ),
            r#"bash {"command":"ls"}"#
        );
        assert_eq!(
            seen(
                json!({"input": [{"type": "additional_tools", "tools": [{"type": "function", "name": "exec_command", "parameters": schema(json!({"cmd": text, "login": {"type": "boolean"}}), json!(["cmd", "login"]))}]}]})
            ),
            r#"exec_command {"cmd":"ls","login":false}"#
        );
        assert_eq!(
            seen(
                json!({"tools": [{"name": "Bash", "input_schema": schema(json!({"command": text, "description": text}), json!(["command", "description"]))}]})
            ),
            r#"Bash {"command":"ls","description":"scripted"}"#
        );
        assert_eq!(
            seen(
                json!({"tools": [{"type": "function", "name": "shell", "parameters": schema(json!({"command": {"type": "array"}}), json!(["command"]))}]})
            ),
            r#"shell {"command":["bash","-c","ls"]}"#
        );
        assert_eq!(
            seen(json!({"tools": [], "messages": [{"command": "x"}]})),
            "none"
        );
    }

    #[test]
    fn tools_are_named_wherever_they_stand() {
        let tool = |name: &str| json!({"name": name, "parameters": {"properties": {}}});
        assert_eq!(
            tool_names(
                &json!({"tools": [{"function": tool("a")}], "input": [{"tools": [tool("b")]}]})
            ),
            ["b", "a"]
        );
    }
}
