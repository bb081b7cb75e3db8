//! What sets the wires apart, one row each.

use cto_contract::words::Wire;
use serde_json::{Value, json};

use crate::reach;

/// One row.
pub(crate) struct WireRow {
    pub(crate) key: KeyHeader,
    /// Headers of a request that go on, in lower case.
    pub(crate) passed_headers: &'static [&'static str],
    /// What a request may not ask of a provider.
    pub(crate) reach: &'static reach::Rules,
    pub(crate) usage: UsageFields,
    /// Whether a stream must be asked for its count.
    pub(crate) asks_for_usage: bool,
    error: fn(&OwnError<'_>) -> Value,
}

/// Where the key stands in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyHeader {
    Bearer,
    XApiKey,
}

impl KeyHeader {
    /// The line of a head that carries a key.
    pub(crate) fn line(self, key: &str) -> String {
        match self {
            Self::Bearer => format!("Authorization: Bearer {key}\r\n"),
            Self::XApiKey => format!("x-api-key: {key}\r\n"),
        }
    }
}

/// Where an answer names its tokens. A path goes from `usage` inwards.
pub(crate) struct UsageFields {
    pub(crate) input: &'static [&'static str],
    pub(crate) output: &'static [&'static str],
    pub(crate) total: Option<&'static str>,
    pub(crate) cached: &'static [&'static [&'static str]],
    pub(crate) cache_write: &'static [&'static [&'static str]],
    pub(crate) reasoning: &'static [&'static [&'static str]],
    /// Whether the input holds what went from or to a cache.
    pub(crate) input_holds_cache: bool,
}

/// An error of the forwarder's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnError<'a> {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) code: &'static str,
    pub(crate) words: &'a str,
}

const CHAT: WireRow = WireRow {
    key: KeyHeader::Bearer,
    passed_headers: &[],
    reach: &reach::OPENAI,
    usage: UsageFields {
        input: &["prompt_tokens", "input_tokens"],
        output: &["completion_tokens", "output_tokens"],
        total: Some("total_tokens"),
        cached: &[
            &["prompt_tokens_details", "cached_tokens"],
            &["prompt_cache_hit_tokens"],
        ],
        cache_write: &[&["prompt_tokens_details", "cache_write_tokens"]],
        reasoning: &[&["completion_tokens_details", "reasoning_tokens"]],
        input_holds_cache: true,
    },
    asks_for_usage: true,
    error: openai_error,
};

const RESPONSES: WireRow = WireRow {
    usage: UsageFields {
        input: &["input_tokens", "prompt_tokens"],
        output: &["output_tokens", "completion_tokens"],
        total: Some("total_tokens"),
        cached: &[&["input_tokens_details", "cached_tokens"]],
        cache_write: &[
            &["input_tokens_details", "cache_write_tokens"],
            &["cache_write_input_tokens"],
        ],
        reasoning: &[&["output_tokens_details", "reasoning_tokens"]],
        input_holds_cache: true,
    },
    asks_for_usage: false,
    ..CHAT
};

const MESSAGES: WireRow = WireRow {
    key: KeyHeader::XApiKey,
    passed_headers: &["anthropic-version", "anthropic-beta"],
    reach: &reach::ANTHROPIC,
    usage: UsageFields {
        input: &["input_tokens"],
        output: &["output_tokens"],
        total: None,
        cached: &[&["cache_read_input_tokens"]],
        cache_write: &[&["cache_creation_input_tokens"]],
        reasoning: &[],
        input_holds_cache: false,
    },
    asks_for_usage: false,
    error: anthropic_error,
};

pub(crate) const fn row(wire: Wire) -> &'static WireRow {
    match wire {
        Wire::ChatCompletions => &CHAT,
        Wire::Responses => &RESPONSES,
        Wire::Messages => &MESSAGES,
    }
}

impl OwnError<'_> {
    /// The error in the shape that clients of the wire understand.
    pub(crate) fn body(&self, wire: Wire) -> Vec<u8> {
        (row(wire).error)(self).to_string().into_bytes()
    }
}

fn openai_error(error: &OwnError<'_>) -> Value {
    json!({
        "error": { "message": error.words, "type": error.kind, "param": null, "code": error.code }
    })
}

fn anthropic_error(error: &OwnError<'_>) -> Value {
    let kind = match error.status {
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({
        "type": "error",
        "error": { "type": kind, "message": error.words, "code": error.code }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_shape_of_its_wire() {
        let error = OwnError {
            status: 403,
            kind: "request_refused",
            code: "hosted_tool",
            words: "no",
        };
        let body = |wire| String::from_utf8(error.body(wire)).unwrap();
        let openai = r#"{"error":{"code":"hosted_tool","message":"no","param":null,"type":"request_refused"}}"#;
        assert_eq!(body(Wire::ChatCompletions), openai);
        assert_eq!(body(Wire::Responses), openai);
        assert_eq!(
            body(Wire::Messages),
            r#"{"error":{"code":"hosted_tool","message":"no","type":"permission_error"},"type":"error"}"#
        );
    }
}
