//! The lane `pi`: Pi coding agent, `pi -p --mode json`.
//!
//! It ends with 0 whatever happened: how its last message stopped is the only word about its end.

use cto_contract::words::Lane;
use serde_json::{Value, json};

use super::reading::{owned, text};
use super::{Reading, StreamDialogue, StreamEvent, beside_cache};
use crate::dialogue::Dialogue;
use crate::plan::{
    LanePlan, ModelAddress, PLACEHOLDER_KEY, PackFile, ScratchEntry, StdinUse, VersionProbe,
    base_environment,
};
use crate::{Adapter, Surroundings};

const HOME: &str = "pi";
/// The name under which it knows its model's provider.
const PROVIDER: &str = "cto";
const REMOVED: &str = "<removed>";
/// Our own clock ends a run.
const TIMEOUT_MS: u64 = 3_600_000;

/// One attempt at a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PiLane {
    /// The words that start it, as seen inside.
    pub program: Vec<String>,
    /// The one model that it may ask.
    pub model: String,
    pub task: String,
}

fn models(model: &str, address: &str, key: &str) -> Vec<u8> {
    lines(&json!({"providers": {PROVIDER: {
        "baseUrl": address,
        "api": "openai-completions",
        "apiKey": key,
        // What small local servers understand.
        "compat": {"maxTokensField": "max_tokens", "supportsStore": false},
        "models": [{"id": model}],
    }}}))
}

fn settings() -> Vec<u8> {
    lines(&json!({
        "retry": {"enabled": false, "provider": {"timeoutMs": TIMEOUT_MS, "maxRetries": 0}},
    }))
}

fn lines(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

impl Adapter for PiLane {
    fn lane(&self) -> Lane {
        Lane::Pi
    }

    fn revision(&self) -> u32 {
        crate::revision(Lane::Pi)
    }

    fn plan(&self, around: Surroundings<'_>) -> LanePlan {
        let mut env = base_environment(around.places, around.path);
        for (name, value) in [
            (
                "PI_CODING_AGENT_DIR",
                format!("{}/{HOME}", around.places.scratch),
            ),
            ("PI_OFFLINE", "1".to_owned()),
            ("PI_TELEMETRY", "0".to_owned()),
            // Its kernel interface is refused inside; Node does as well without it.
            ("UV_USE_IO_URING", "0".to_owned()),
        ] {
            env.insert(name.to_owned(), value);
        }
        let address = around.model.map(ModelAddress::base_url).unwrap_or_default();
        let words = [
            "-p",
            "--mode",
            "json",
            "--no-session",
            "--provider",
            PROVIDER,
            "--model",
            &self.model,
        ];
        let words = words.into_iter().map(str::to_owned);
        let file =
            |name: &str, bytes: Vec<u8>| ScratchEntry::file(&format!("{HOME}/{name}"), bytes);
        let shown = |name: &str, bytes: Vec<u8>| PackFile {
            path: format!("pi/{name}"),
            bytes,
        };
        let version = self.program.iter().cloned().chain(["--version".to_owned()]);
        LanePlan {
            argv: self.program.iter().cloned().chain(words).collect(),
            env,
            scratch: vec![
                file(
                    "models.json",
                    models(&self.model, &address, PLACEHOLDER_KEY),
                ),
                file("settings.json", settings()),
            ],
            pack_files: vec![
                shown("models.json", models(&self.model, REMOVED, REMOVED)),
                shown("settings.json", settings()),
            ],
            version_probe: Some(VersionProbe {
                argv: version.collect(),
            }),
            runtime_model_provider: Some(PROVIDER.to_owned()),
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
        "agent_start" | "turn_start" | "auto_retry_start" => Reading::one(StreamEvent::Works),
        "message_end" => Reading::Known(message(line)),
        "tool_execution_start" => Reading::one(tool(line)),
        "agent_end" | "agent_settled" => Reading::one(StreamEvent::Ends),
        // `message_update` repeats the whole message for every word of it.
        "session"
        | "turn_end"
        | "message_start"
        | "message_update"
        | "tool_execution_update"
        | "tool_execution_end"
        | "auto_retry_end"
        | "auto_compaction_start"
        | "auto_compaction_end"
        | "compaction_start"
        | "compaction_end"
        | "queue_update" => Reading::nothing(),
        other => Reading::Unknown(other.to_owned()),
    }
}

/// A message of the model: what it says, what it cost, and how it stopped.
fn message(line: &Value) -> Vec<StreamEvent> {
    if text(line, &["message", "role"]) != Some("assistant") {
        return Vec::new();
    }
    let message = line.get("message").unwrap_or(&Value::Null);
    let mut events = Vec::new();
    if let Some(usage) = message.get("usage") {
        let names = ["input", "cacheRead", "cacheWrite", "output", "reasoning"];
        events.push(StreamEvent::Uses(beside_cache(usage, names)));
    }
    let parts = message.get("content").and_then(Value::as_array);
    let parts = parts.into_iter().flatten();
    let said: Vec<&str> = parts.filter_map(|part| text(part, &["text"])).collect();
    match text(message, &["stopReason"]) {
        Some("error" | "aborted") => {
            let why = text(message, &["errorMessage"]).unwrap_or("it stopped with an error");
            events.push(StreamEvent::Struggles(why.to_owned()));
        }
        _ => events.push(StreamEvent::Says(said.join("\n"))),
    }
    events
}

fn tool(line: &Value) -> StreamEvent {
    let name = owned(line, &["toolName"]);
    let path = text(line, &["args", "path"]);
    match (name.as_str(), path) {
        ("edit" | "write", Some(path)) => StreamEvent::Edits(path.to_owned()),
        _ => match text(line, &["args", "command"]) {
            Some(command) => StreamEvent::Runs(command.to_owned()),
            None => StreamEvent::Runs(format!("{name} {}", path.unwrap_or_default())),
        },
    }
}
