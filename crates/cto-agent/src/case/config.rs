//! What Case reads about its model and its repository: the run's own files, made from nothing.

use serde_json::{Value, json};

use crate::plan::PLACEHOLDER_KEY;

/// What stands in the pack where the endpoint stood.
const REMOVED: &str = "<removed>";
/// A provider that Pi has no key for: a role that names it sends no request and calls no tool.
const CLOSED: &str = "closed";
/// Roles that would push and open a pull request, or write after the review.
const CLOSED_ROLES: [&str; 2] = ["closer", "retrospective"];
/// The name of the one repository.
pub(super) const REPOSITORY: &str = "workspace";

/// A provider and a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPair {
    pub provider: String,
    pub model: String,
}

/// The provider under which Case is given its model, whatever the admitted one: Pi knows a key for it, and it speaks what
/// the forwarder answers.
pub(super) const RUNTIME_PROVIDER: &str = "openai";
pub(super) const KEY_VARIABLE: &str = "OPENAI_API_KEY";
const API: &str = "openai-completions";

/// `config.json`: the pair for every role, and the roles that stay closed.
pub(super) fn config(pair: &ModelPair) -> Vec<u8> {
    let mut models = serde_json::Map::new();
    let entry = |provider: &str, model: &str| json!({"provider": provider, "model": model});
    models.insert("default".to_owned(), entry(&pair.provider, &pair.model));
    for role in CLOSED_ROLES {
        models.insert(role.to_owned(), entry(CLOSED, CLOSED));
    }
    lines(&json!({"version": 1, "projects": "./projects.json", "models": models}))
}

/// Whether a `config.json` gives this pair to every role that is not closed.
pub fn names_pair(config: &[u8], pair: &ModelPair) -> bool {
    let Ok(config) = serde_json::from_slice::<Value>(config) else {
        return false;
    };
    let Some(models) = config.get("models").and_then(Value::as_object) else {
        return false;
    };
    let is = |entry: &Value, provider: &str, model: &str| {
        entry.get("provider").and_then(Value::as_str) == Some(provider)
            && entry.get("model").and_then(Value::as_str) == Some(model)
    };
    let named = models.get("default");
    named.is_some_and(|entry| is(entry, &pair.provider, &pair.model))
        && CLOSED_ROLES
            .iter()
            .all(|role| models.get(*role).is_some_and(|e| is(e, CLOSED, CLOSED)))
        && models.len() == 1 + CLOSED_ROLES.len()
}

/// `models.json`: where the model is. The key that stands there opens nothing.
pub(super) fn models(model: &str, address: &str) -> Vec<u8> {
    lines(&providers(model, address, PLACEHOLDER_KEY))
}

/// The same for the pack: without endpoint and key.
pub(super) fn shown_models(model: &str) -> Vec<u8> {
    let mut shown = providers(model, REMOVED, REMOVED);
    shown["providers"][CLOSED]["baseUrl"] = json!(REMOVED);
    lines(&shown)
}

fn providers(model: &str, address: &str, key: &str) -> Value {
    let provider = |base_url: &str, model: &str| {
        json!({
            "baseUrl": base_url,
            "api": API,
            "apiKey": key,
            // What small local servers understand.
            "compat": {"maxTokensField": "max_tokens", "supportsStore": false},
            "models": [{"id": model}],
        })
    };
    json!({"providers": {
        RUNTIME_PROVIDER: provider(address, model),
        CLOSED: provider("http://127.0.0.1:1/v1", CLOSED),
    }})
}

/// `projects.json`: the one repository, and how it is tested.
pub(super) fn projects(workspace: &str, test_command: Option<&str>) -> Vec<u8> {
    lines(&json!({"repos": [{
        "name": REPOSITORY,
        "type": "library",
        "path": workspace,
        "remote": "none",
        "description": "a copy of the repository",
        "language": "any",
        "packageManager": "none",
        "commands": {"setup": "true", "test": test_command.unwrap_or("true")},
    }]}))
}

pub(super) fn lines(value: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    text
}
