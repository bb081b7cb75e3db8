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

/// The provider under which Case is given its model: one that Pi knows a key for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuntimeProvider {
    OpenAi,
    Anthropic,
}

impl RuntimeProvider {
    /// Every provider is spoken to as `openai`, which is what the forwarder answers, but for `anthropic`'s own calls.
    pub(super) fn of(admitted: &str) -> Self {
        match admitted {
            "anthropic" => Self::Anthropic,
            _ => Self::OpenAi,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    pub(super) const fn key_variable(self) -> &'static str {
        match self {
            Self::OpenAi => "OPENAI_API_KEY",
            Self::Anthropic => "ANTHROPIC_API_KEY",
        }
    }

    const fn api(self) -> &'static str {
        match self {
            Self::OpenAi => "openai-completions",
            Self::Anthropic => "anthropic-messages",
        }
    }

    fn base_url(self, address: &str) -> &str {
        match self {
            Self::OpenAi => address,
            // Its client adds the version itself.
            Self::Anthropic => address.strip_suffix("/v1").unwrap_or(address),
        }
    }
}

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
pub(super) fn models(runtime: RuntimeProvider, model: &str, address: &str) -> Vec<u8> {
    let provider = |api: &str, base_url: &str, model: &str| {
        json!({
            "baseUrl": base_url,
            "api": api,
            "apiKey": PLACEHOLDER_KEY,
            "models": [{"id": model}],
        })
    };
    let mut own = provider(runtime.api(), runtime.base_url(address), model);
    if runtime == RuntimeProvider::OpenAi {
        // What small local servers understand.
        own["compat"] = json!({"maxTokensField": "max_tokens", "supportsStore": false});
    }
    lines(&json!({"providers": {
        runtime.name(): own,
        CLOSED: provider("openai-completions", "http://127.0.0.1:1/v1", CLOSED),
    }}))
}

/// The same for the pack: without endpoint and key.
pub(super) fn shown_models(runtime: RuntimeProvider, model: &str) -> Vec<u8> {
    let bytes = models(runtime, model, REMOVED);
    let Ok(mut shown) = serde_json::from_slice::<Value>(&bytes) else {
        return Vec::new();
    };
    let providers = shown.get_mut("providers").and_then(Value::as_object_mut);
    for provider in providers.into_iter().flat_map(|all| all.values_mut()) {
        provider["baseUrl"] = json!(REMOVED);
        provider["apiKey"] = json!(REMOVED);
    }
    lines(&shown)
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
