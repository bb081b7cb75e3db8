//! The lane `codex`: OpenAI Codex, `codex exec --json`.
//!
//! All its settings are in a file of the run's own, made from nothing. Its own sandbox can't be nested in ours and would make
//! every edit fail: it is off, and ours confines.

use cto_contract::event::TokenUsage;
use cto_contract::words::Lane;
use serde_json::Value;

use super::reading::{owned, text};
use super::{Reading, StreamDialogue, StreamEvent, tokens};
use crate::dialogue::Dialogue;
use crate::plan::{
    LanePlan, ModelAddress, PLACEHOLDER_KEY, PackFile, ScratchEntry, StdinUse, VersionProbe,
    base_environment,
};
use crate::{Adapter, Surroundings};

const HOME: &str = "codex";
/// The name under which it knows its model's provider.
const PROVIDER: &str = "cto";
const KEY_VARIABLE: &str = "CTO_MODEL_KEY";
/// What stands in the pack where the address stood.
const REMOVED: &str = "<removed>";
/// Features that start further agents, load foreign code or retry without end.
const CLOSED_FEATURES: [&str; 4] = [
    "multi_agent",
    "plugins",
    "apps",
    "unbounded_connection_retries",
];
/// What its tools may see of the environment besides the few names that it passes on by itself.
const TOOL_VARIABLES: [&str; 6] = [
    "PYTHONDONTWRITEBYTECODE",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_TERMINAL_PROMPT",
    "LANG",
    "LC_ALL",
    "TZ",
];

/// One attempt at a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodexLane {
    /// The words that start it, as seen inside.
    pub program: Vec<String>,
    /// The one model that it may ask.
    pub model: String,
    pub task: String,
}

impl CodexLane {
    fn argv(&self, workspace: &str) -> Vec<String> {
        let words = [
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--ephemeral",
            "--dangerously-bypass-approvals-and-sandbox",
            "-C",
            workspace,
            "-m",
            &self.model,
            // The task comes by stdin.
            "-",
        ];
        let words = words.into_iter().map(str::to_owned);
        self.program.iter().cloned().chain(words).collect()
    }
}

/// `config.toml`. A string of JSON is one of TOML.
fn config(model: &str, address: &str, tools: &[(&str, &str)]) -> String {
    let quoted = |value: &str| Value::from(value).to_string();
    let mut lines = vec![
        format!("model = {}", quoted(model)),
        format!("model_provider = {}", quoted(PROVIDER)),
        "approval_policy = \"never\"".to_owned(),
        "sandbox_mode = \"danger-full-access\"".to_owned(),
        "web_search = \"disabled\"".to_owned(),
        "check_for_update_on_startup = false".to_owned(),
        "allow_login_shell = false".to_owned(),
        String::new(),
        "[analytics]".to_owned(),
        "enabled = false".to_owned(),
        String::new(),
        "[features]".to_owned(),
    ];
    lines.extend(CLOSED_FEATURES.map(|name| format!("{name} = false")));
    lines.extend([
        String::new(),
        format!("[model_providers.{PROVIDER}]"),
        format!("name = {}", quoted(PROVIDER)),
        format!("base_url = {}", quoted(address)),
        "wire_api = \"responses\"".to_owned(),
        format!("env_key = {}", quoted(KEY_VARIABLE)),
        "request_max_retries = 1".to_owned(),
        "stream_max_retries = 1".to_owned(),
        // Our own clock ends a run; a slow model is none of its business.
        "stream_idle_timeout_ms = 3600000".to_owned(),
        String::new(),
        "[shell_environment_policy]".to_owned(),
        "inherit = \"core\"".to_owned(),
        "ignore_default_excludes = false".to_owned(),
        String::new(),
        "[shell_environment_policy.set]".to_owned(),
    ]);
    lines.extend(
        tools
            .iter()
            .map(|(name, value)| format!("{name} = {}", quoted(value))),
    );
    lines.join("\n") + "\n"
}

impl Adapter for CodexLane {
    fn lane(&self) -> Lane {
        Lane::Codex
    }

    fn revision(&self) -> u32 {
        crate::revision(Lane::Codex)
    }

    fn plan(&self, around: Surroundings<'_>) -> LanePlan {
        let mut env = base_environment(around.places, around.path);
        let tools: Vec<(&str, &str)> = TOOL_VARIABLES
            .iter()
            .filter_map(|name| Some((*name, env.get(*name)?.as_str())))
            .collect();
        let address = around.model.map(ModelAddress::base_url).unwrap_or_default();
        let own = config(&self.model, &address, &tools);
        let shown = config(&self.model, REMOVED, &tools);
        let home = format!("{}/{HOME}", around.places.scratch);
        env.insert("CODEX_HOME".to_owned(), home);
        env.insert(KEY_VARIABLE.to_owned(), PLACEHOLDER_KEY.to_owned());
        let version = self.program.iter().cloned().chain(["--version".to_owned()]);
        LanePlan {
            argv: self.argv(&around.places.workspace),
            env,
            scratch: vec![ScratchEntry::file(&format!("{HOME}/config.toml"), own)],
            pack_files: vec![PackFile {
                path: "codex/config.toml".to_owned(),
                bytes: shown.into_bytes(),
            }],
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
        "thread.started" => Reading::nothing(),
        "turn.started" => Reading::one(StreamEvent::Works),
        "item.started" | "item.updated" | "item.completed" => item(name, line),
        "turn.completed" => {
            let usage = line.get("usage").map(|usage| TokenUsage {
                input: tokens(usage, "input_tokens"),
                cached_input: tokens(usage, "cached_input_tokens"),
                cache_write: tokens(usage, "cache_write_input_tokens"),
                output: tokens(usage, "output_tokens"),
                reasoning: tokens(usage, "reasoning_output_tokens"),
            });
            let usage = usage.map(StreamEvent::Uses);
            Reading::Known(usage.into_iter().chain([StreamEvent::Succeeds]).collect())
        }
        "turn.failed" => Reading::one(StreamEvent::Fails(owned(line, &["error", "message"]))),
        // "Reconnecting": it tries again.
        "error" => Reading::one(StreamEvent::Struggles(owned(line, &["message"]))),
        other => Reading::Unknown(other.to_owned()),
    }
}

fn item(event: &str, line: &Value) -> Reading {
    let Some(kind) = text(line, &["item", "type"]) else {
        return Reading::Malformed;
    };
    let is_start = event == "item.started";
    let is_end = event == "item.completed";
    let of = |name: &str| owned(line, &["item", name]);
    let when = |wanted: bool, event: StreamEvent| match wanted {
        true => Reading::one(event),
        false => Reading::nothing(),
    };
    match kind {
        "agent_message" => when(is_end, StreamEvent::Says(of("text"))),
        "command_execution" => when(is_start, StreamEvent::Runs(of("command"))),
        "file_change" => when(is_end, StreamEvent::Edits(changed_paths(line))),
        "mcp_tool_call" | "collab_tool_call" => when(is_start, StreamEvent::Runs(of("tool"))),
        "web_search" => when(is_start, StreamEvent::Runs(of("query"))),
        // A remark about itself, such as a model that it has no table for.
        "reasoning" | "todo_list" | "error" => Reading::nothing(),
        other => Reading::Unknown(format!("item {other}")),
    }
}

fn changed_paths(line: &Value) -> String {
    let changes = line.get("item").and_then(|item| item.get("changes"));
    let changes = changes.and_then(Value::as_array).into_iter().flatten();
    let paths: Vec<&str> = changes.filter_map(|c| text(c, &["path"])).collect();
    paths.join(", ")
}
