//! The lane `claude`: Claude Code, `claude -p --output-format stream-json`.
//!
//! Its `subtype` says `success` even where the provider refused the key: `is_error` and `terminal_reason` tell the end.

use cto_contract::words::Lane;
use serde_json::Value;

use super::reading::text;
use super::{Reading, StreamDialogue, StreamEvent, beside_cache};
use crate::dialogue::Dialogue;
use crate::plan::{LanePlan, PLACEHOLDER_KEY, StdinUse, VersionProbe, base_environment};
use crate::{Adapter, Surroundings};

const HOME: &str = "claude";

/// One attempt at a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaudeLane {
    /// The words that start it, as seen inside.
    pub program: Vec<String>,
    /// The one model that it may ask.
    pub model: String,
    pub task: String,
}

impl Adapter for ClaudeLane {
    fn lane(&self) -> Lane {
        Lane::Claude
    }

    fn revision(&self) -> u32 {
        crate::revision(Lane::Claude)
    }

    fn plan(&self, around: Surroundings<'_>) -> LanePlan {
        let mut env = base_environment(around.places, around.path);
        let origin = around.model.map(|model| model.origin.clone());
        for (name, value) in [
            ("ANTHROPIC_BASE_URL", origin.unwrap_or_default()),
            ("ANTHROPIC_API_KEY", PLACEHOLDER_KEY.to_owned()),
            // What it would ask of another model, for titles and the like, is asked of this one.
            ("ANTHROPIC_SMALL_FAST_MODEL", self.model.clone()),
            ("ANTHROPIC_DEFAULT_HAIKU_MODEL", self.model.clone()),
            ("ANTHROPIC_DEFAULT_SONNET_MODEL", self.model.clone()),
            ("ANTHROPIC_DEFAULT_OPUS_MODEL", self.model.clone()),
            ("CLAUDE_CODE_SUBAGENT_MODEL", self.model.clone()),
            (
                "CLAUDE_CONFIG_DIR",
                format!("{}/{HOME}", around.places.scratch),
            ),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ("DISABLE_TELEMETRY", "1".to_owned()),
            // Started as root it refuses without.
            ("IS_SANDBOX", "1".to_owned()),
        ] {
            env.insert(name.to_owned(), value);
        }
        let words = [
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--dangerously-skip-permissions",
            "--model",
            &self.model,
        ];
        let words = words.into_iter().map(str::to_owned);
        let version = self.program.iter().cloned().chain(["--version".to_owned()]);
        LanePlan {
            argv: self.program.iter().cloned().chain(words).collect(),
            env,
            version_probe: Some(VersionProbe {
                argv: version.collect(),
            }),
            stdin: StdinUse::Dialogue,
            ..LanePlan::default()
        }
    }

    fn dialogue(&self) -> Box<dyn Dialogue> {
        Box::new(StreamDialogue::new(&self.task, read))
    }
}

/// Reads one event.
pub(crate) fn read(line: &Value) -> Reading {
    let Some(name) = text(line, &["type"]) else {
        return Reading::Malformed;
    };
    match name {
        "system" => system(line),
        "assistant" => Reading::Known(message(line)),
        "result" => Reading::Known(result(line)),
        "user" | "stream_event" | "rate_limit_event" => Reading::nothing(),
        other => Reading::Unknown(other.to_owned()),
    }
}

fn system(line: &Value) -> Reading {
    match text(line, &["subtype"]) {
        Some("api_retry") => {
            let why = text(line, &["error"]).unwrap_or("unknown");
            let status = line.get("error_status").and_then(Value::as_u64);
            let status = status.map_or_else(String::new, |status| format!(" ({status})"));
            Reading::one(StreamEvent::Struggles(format!(
                "it asks again: {why}{status}"
            )))
        }
        Some(
            "init"
            | "status"
            | "thinking_tokens"
            | "informational"
            | "compact_boundary"
            | "model_refusal_no_fallback"
            | "hook_started"
            | "hook_progress"
            | "hook_response"
            | "task_started"
            | "task_progress"
            | "task_notification"
            | "task_updated"
            | "files_persisted"
            | "local_command_output",
        ) => Reading::nothing(),
        Some(other) => Reading::Unknown(format!("system {other}")),
        None => Reading::Malformed,
    }
}

/// What the model says and which tools it calls. Its usage is told once more for all at the end.
fn message(line: &Value) -> Vec<StreamEvent> {
    let parts = line.get("message").and_then(|m| m.get("content"));
    let parts = parts.and_then(Value::as_array).into_iter().flatten();
    let events = parts.filter_map(|part| match text(part, &["type"])? {
        "text" => Some(StreamEvent::Says(text(part, &["text"])?.to_owned())),
        "tool_use" => Some(tool(part)),
        _ => None,
    });
    std::iter::once(StreamEvent::Works).chain(events).collect()
}

fn tool(part: &Value) -> StreamEvent {
    let name = text(part, &["name"]).unwrap_or_default();
    let path =
        text(part, &["input", "file_path"]).or_else(|| text(part, &["input", "notebook_path"]));
    match (name, path) {
        ("Edit" | "Write" | "MultiEdit" | "NotebookEdit", Some(path)) => {
            StreamEvent::Edits(path.to_owned())
        }
        _ => match text(part, &["input", "command"]) {
            Some(command) => StreamEvent::Runs(command.to_owned()),
            None => StreamEvent::Runs(format!("{name} {}", path.unwrap_or_default())),
        },
    }
}

fn result(line: &Value) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    if let Some(usage) = line.get("usage") {
        let names = [
            "input_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "output_tokens",
            "thinking_tokens",
        ];
        events.push(StreamEvent::UsedInAll(beside_cache(usage, names)));
    }
    let said = text(line, &["result"]);
    let is_error = line.get("is_error").and_then(Value::as_bool);
    let subtype = text(line, &["subtype"]).unwrap_or("no subtype");
    let reason = text(line, &["terminal_reason"]).unwrap_or("completed");
    if is_error == Some(false) && subtype == "success" && reason != "api_error" {
        events.push(StreamEvent::Succeeds);
    } else {
        let why = said.filter(|said| !said.is_empty()).unwrap_or(subtype);
        events.push(StreamEvent::Fails(format!("{reason}: {why}")));
    }
    events
}
