//! What a request asks of the scripted model. No I/O.

use cto_contract::model_script::{FaultScope, ModelFault};
use serde_json::Value;

use super::wire::Wire;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Answer(Wire),
    CountTokens,
    Models,
    Nothing,
}

/// A fault, and which requests it meets.
pub(super) type Fault = (ModelFault, FaultScope);

/// Reads a method and a target: `[[/SCOPE]/FAULT][/v1]/PATH[?QUERY]`.
pub(super) fn route(method: &str, target: &str) -> (Option<Fault>, Asked) {
    let path = target.split('?').next().unwrap_or_default();
    let (scope, below_scope) = first_part::<FaultScope>(path);
    let (fault, path) = match first_part::<ModelFault>(below_scope) {
        (Some(fault), rest) => (Some((fault, scope.unwrap_or(FaultScope::Every))), rest),
        (None, _) => (None, path),
    };
    let below = path.strip_prefix("/v1").unwrap_or(path);
    let asked = match (method, below) {
        ("GET", "/models") => Asked::Models,
        ("POST", "/messages/count_tokens") => Asked::CountTokens,
        ("POST", path) => Wire::at(path).map_or(Asked::Nothing, Asked::Answer),
        _ => Asked::Nothing,
    };
    (fault, asked)
}

/// Takes the first part of a path off, if it is such a word.
fn first_part<W: std::str::FromStr>(path: &str) -> (Option<W>, &str) {
    let parts = path.strip_prefix('/').and_then(|rest| rest.split_once('/'));
    let word = parts.and_then(|(first, rest)| Some((first.parse().ok()?, rest)));
    match word {
        Some((word, rest)) => (Some(word), &path[path.len() - rest.len() - 1..]),
        None => (None, path),
    }
}

/// The model that a request names.
pub(super) fn model_of(request: &Value) -> &str {
    request
        .get("model")
        .and_then(Value::as_str)
        .unwrap_or(super::SCRIPTED_MODEL)
}

/// What a request begins with: all texts before the model's own first answer.
pub(super) fn opening(request: &Value) -> String {
    let mut texts = String::new();
    let fixed = ["system", "instructions"].iter();
    for value in fixed.filter_map(|name| request.get(name)) {
        gather(value, 0, &mut texts);
    }
    let talk = ["messages", "input"].iter();
    let talk = talk.filter_map(|name| request.get(name)?.as_array());
    for message in talk.flatten().take_while(|message| !is_answer(message)) {
        gather(message, 0, &mut texts);
    }
    texts
}

fn is_answer(message: &Value) -> bool {
    let text = |name: &str| message.get(name).and_then(Value::as_str);
    text("role") == Some("assistant") || matches!(text("type"), Some("function_call" | "reasoning"))
}

/// How deep texts are looked for.
const DEPTH_MAX: usize = 8;

fn gather(value: &Value, depth: usize, texts: &mut String) {
    match value {
        Value::String(text) => {
            texts.push_str(text);
            texts.push('\n');
        }
        Value::Array(items) if depth < DEPTH_MAX => {
            items.iter().for_each(|item| gather(item, depth + 1, texts));
        }
        Value::Object(fields) if depth < DEPTH_MAX => {
            let values = fields.values();
            values.for_each(|inner| gather(inner, depth + 1, texts));
        }
        Value::Array(_) | Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

pub(super) fn is_streamed(request: &Value) -> bool {
    request.get("stream").and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_path_names_the_wire_and_maybe_a_fault() {
        let told = |method: &str, target: &str| {
            let (fault, asked) = route(method, target);
            let fault = match fault {
                None => "-".to_owned(),
                Some((fault, FaultScope::Every)) => fault.to_string(),
                Some((fault, scope)) => format!("{scope} {fault}"),
            };
            match asked {
                Asked::Answer(wire) => format!("{fault} {wire:?}"),
                other @ (Asked::CountTokens | Asked::Models | Asked::Nothing) => {
                    format!("{fault} {other:?}")
                }
            }
        };
        let cases = [
            ("POST", "/v1/chat/completions", "- Chat"),
            ("POST", "/401/v1/responses", "401 Responses"),
            ("POST", "/hang/v1/messages?beta=true", "hang Messages"),
            ("POST", "/clean-cut/messages", "clean-cut Messages"),
            ("POST", "/v1/messages/count_tokens", "- CountTokens"),
            ("GET", "/drip/v1/models", "drip Models"),
            ("GET", "/v1/responses", "- Nothing"),
            ("POST", "/bad/v1/responses", "- Nothing"),
            ("POST", "/at-work/401/v1/messages", "at-work 401 Messages"),
            ("POST", "/every/hang/v1/messages", "hang Messages"),
            ("POST", "/at-work/v1/messages", "- Nothing"),
            ("POST", "/", "- Nothing"),
        ];
        for (method, target, expected) in cases {
            assert_eq!(told(method, target), expected, "{method} {target}");
        }
    }

    proptest! {
        #[test]
        fn no_target_makes_it_panic(target in "\\PC{0,40}") {
            route("POST", &target);
        }
    }
}
