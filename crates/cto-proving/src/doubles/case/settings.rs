//! What Case reads before it begins: its task, its repository, and which model each role has.

use std::path::{Path, PathBuf};

use cto_runner::Environment;
use serde_json::Value;

use super::journal::put;
use super::pipeline::Role;

/// Providers that Pi knows a variable with a key for; every other one is sent no request.
const KEYS: [(&str, &str); 2] = [
    ("openai", "OPENAI_API_KEY"),
    ("anthropic", "ANTHROPIC_API_KEY"),
];
/// What it falls back to where nothing is configured.
const FALLBACK: (&str, &str) = ("anthropic", "claude-sonnet-4-6");

/// A task, as it lies on disk.
pub(super) struct Settings {
    pub(super) task_file: PathBuf,
    pub(super) page: PathBuf,
    pub(super) id: String,
    pub(super) profile: Option<String>,
    pub(super) repository: PathBuf,
    pub(super) test_command: String,
    pub(super) scratch: PathBuf,
    config_file: PathBuf,
    models: Value,
    keys: Vec<&'static str>,
}

/// Where a role's model is.
pub(super) enum RoleModel {
    At {
        base_url: String,
        model: String,
    },
    /// No request is sent.
    WithoutKey,
}

impl Settings {
    /// Reads them; what is missing ends the program before it has begun anything.
    pub(super) fn read(task: &str, env: &Environment) -> Result<Self, String> {
        let task_file = PathBuf::from(task);
        let text = std::fs::read(&task_file);
        let text = text.map_err(|_| format!("task file not found: {task}"))?;
        let told: Value = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        let text_of = |name: &str| told.get(name).and_then(Value::as_str).map(str::to_owned);
        let data = data_directory(env);
        // Without a config of its own it falls back, and asks nobody.
        let config = read_json(&data.join("config.json")).unwrap_or(Value::Null);
        let projects = config.get("projects").and_then(Value::as_str);
        let projects = data.join(projects.unwrap_or("projects.json"));
        let projects = read_json(&projects).ok_or("projects.json not found")?;
        let repo = text_of("repo").unwrap_or_default();
        let entries = projects.get("repos").and_then(Value::as_array);
        let mut entries = entries.into_iter().flatten();
        let entry = entries
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some(&repo))
            .ok_or_else(|| format!("Repo \"{repo}\" not found in projects.json"))?;
        let path = entry.get("path").and_then(Value::as_str);
        let test = entry.pointer("/commands/test").and_then(Value::as_str);
        Ok(Self {
            page: PathBuf::from(format!("{}.md", task.trim_end_matches(".task.json"))),
            task_file,
            id: text_of("id").unwrap_or_default(),
            profile: text_of("profile"),
            repository: path.unwrap_or(".").into(),
            test_command: test.unwrap_or("true").to_owned(),
            scratch: env.get("TMPDIR").unwrap_or("/tmp").into(),
            config_file: data.join("config.json"),
            models: read_json(&pi_directory(env).join("models.json")).unwrap_or(Value::Null),
            keys: KEYS
                .iter()
                .filter(|(_, variable)| env.get(variable).is_some())
                .map(|(provider, _)| *provider)
                .collect(),
        })
    }

    /// The model of a role, read anew for each of them. One that no list names ends the program in the middle of its work.
    pub(super) fn model_of(&self, role: Role) -> Result<RoleModel, String> {
        let config = read_json(&self.config_file).unwrap_or(Value::Null);
        let entry = |name: &str| config.get("models")?.get(name).filter(|e| e.is_object());
        let entry = entry(role.agent()).or_else(|| entry("default"));
        let named = |name: &str, usual: &str| {
            let named = entry.and_then(|entry| entry.get(name)?.as_str());
            named.unwrap_or(usual).to_owned()
        };
        let provider = named("provider", FALLBACK.0);
        let model = named("model", FALLBACK.1);
        let listed = self.models.pointer(&format!("/providers/{provider}"));
        let ids = listed.and_then(|p| p.get("models")?.as_array());
        let mut ids = ids.into_iter().flatten();
        let is_listed = ids.any(|m| m.get("id").and_then(Value::as_str) == Some(&model));
        if !is_listed {
            return Err(format!("Model not found: {provider}/{model}"));
        }
        let base_url = listed.and_then(|p| p.get("baseUrl")?.as_str());
        Ok(match (self.keys.contains(&provider.as_str()), base_url) {
            (true, Some(base_url)) => RoleModel::At {
                base_url: base_url.to_owned(),
                model,
            },
            _ => RoleModel::WithoutKey,
        })
    }
}

/// The two files that every call leaves, `--help` too.
pub(super) fn leave_traces(env: &Environment) {
    let package = data_directory(env).join("pi-package/package.json");
    put(&package, b"{\"name\":\"case-pi\",\"private\":true}\n").ok();
    let auth = pi_directory(env).join("auth.json");
    if !auth.exists() {
        put(&auth, b"{}").ok();
    }
}

fn data_directory(env: &Environment) -> PathBuf {
    let home = env.get("HOME").unwrap_or("/");
    let usual = || Path::new(home).join(".config/case");
    env.get("CASE_DATA_DIR").map_or_else(usual, PathBuf::from)
}

fn pi_directory(env: &Environment) -> PathBuf {
    let home = env.get("HOME").unwrap_or("/");
    let usual = || Path::new(home).join(".pi/agent");
    env.get("PI_CODING_AGENT_DIR")
        .map_or_else(usual, PathBuf::from)
}

fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}
