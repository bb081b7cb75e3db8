//! What an answer says, read from its body as it passes by: its tokens, its model, and whether it is an answer at all.

use cto_contract::event::{ProviderFault, TokenUsage};
use cto_contract::words::Wire;
use serde_json::Value;

use crate::body::shown;
use crate::overhear::AnswerText;
use crate::wires::{self, UsageFields};

/// Largest answer, or line of a stream, that is looked at. Beyond it nothing is known, and a count is never zero.
const LOOKED_AT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Counts above this are nobody's: they would not survive a report.
const TOKENS_MAX: u64 = 1 << 53;

/// Reads a JSON body or the lines of an event stream.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    wire: Wire,
    is_event_stream: bool,
    /// The body so far, or the line so far.
    held: Vec<u8>,
    /// What is held was too long to be looked at.
    overflowed: bool,
    /// The same for anything so far.
    has_overflowed: bool,
    said: Said,
}

/// What was said so far.
#[derive(Debug, Default)]
struct Said {
    counted: Option<Counted>,
    model: Option<String>,
    /// Text, a refusal or a call of a tool.
    has_content: bool,
    has_reasoning: bool,
    /// Something of the shape that the wire's answers have.
    has_shape: bool,
    /// A stream said that it is over, or one of its choices did.
    is_ended: bool,
    /// Nothing that counts can follow.
    is_final: bool,
    is_error: bool,
    is_unreadable: bool,
    /// A whole answer stops in the middle.
    is_cut: bool,
    /// Its text, where somebody wants it.
    text: Option<AnswerText>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    usage: TokenUsage,
    total: u64,
}

/// What an answer came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerFacts {
    /// None where the answer does not name them, or not all of them.
    pub(crate) tokens: Option<u64>,
    pub(crate) usage: Option<TokenUsage>,
    /// What it names at least.
    pub(crate) tokens_at_least: u64,
    /// The model that answered, escaped and cut.
    pub(crate) model: Option<String>,
    /// What is wrong with it, although HTTP has nothing against it.
    pub(crate) fault: Option<ProviderFault>,
    /// Its text, where it was kept.
    pub(crate) text: Option<AnswerText>,
}

impl AnswerReader {
    pub(crate) fn new(wire: Wire, is_event_stream: bool) -> Self {
        Self {
            wire,
            is_event_stream,
            held: Vec::new(),
            overflowed: false,
            has_overflowed: false,
            said: Said::default(),
        }
    }

    /// From now on the text of the answer is kept.
    pub(crate) fn keep_text(&mut self) {
        self.said.text = Some(AnswerText::default());
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if !self.is_event_stream {
            return self.hold(bytes);
        }
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&b| b == b'\n' || b == b'\r') {
            self.hold(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
        }
        self.hold(rest);
    }

    /// Says what an answer came to that was left before its end. One of several choices may have been over while the
    /// others went on, so a count counts only if nothing could follow it.
    pub(crate) fn abandon(mut self) -> AnswerFacts {
        self.said.is_ended &= self.said.is_final;
        self.finish()
    }

    /// Says what the answer came to, as far as it was fed.
    pub(crate) fn finish(mut self) -> AnswerFacts {
        if self.is_event_stream {
            self.end_line();
        } else if !self.overflowed {
            match serde_json::from_slice(&self.held) {
                Ok(value) => self.said.note(self.wire, &value),
                Err(error) if error.is_eof() && !self.held.is_empty() => self.said.is_cut = true,
                Err(_) => self.said.is_unreadable = true,
            }
        }
        let counted = self.said.counted;
        // A stream names its last tokens at its end.
        let whole = counted.filter(|_| !self.is_event_stream || self.said.is_ended);
        AnswerFacts {
            tokens: whole.map(|counted| counted.total),
            usage: whole.map(|counted| counted.usage),
            tokens_at_least: counted.map_or(0, |counted| counted.total),
            fault: self.fault(),
            model: self.said.model,
            text: self.said.text,
        }
    }

    fn fault(&self) -> Option<ProviderFault> {
        let said = &self.said;
        if said.is_error {
            return Some(ProviderFault::ServerError);
        }
        if self.has_overflowed {
            return None;
        }
        if said.is_unreadable && !said.has_shape && !said.is_cut {
            return Some(ProviderFault::Malformed);
        }
        if said.is_cut || (self.is_event_stream && !said.is_ended) {
            return Some(ProviderFault::Cut);
        }
        if !said.has_shape {
            return Some(ProviderFault::Malformed);
        }
        (said.has_reasoning && !said.has_content).then_some(ProviderFault::ReasoningOnly)
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.overflowed || self.held.len() + bytes.len() > LOOKED_AT_BYTES_MAX {
            self.overflowed = true;
            self.has_overflowed = true;
            self.held = Vec::new();
        } else {
            self.held.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self) {
        if let Some(data) = self.held.strip_prefix(b"data:") {
            let data = data.trim_ascii();
            if data == b"[DONE]" {
                self.said.end();
            } else if !data.is_empty() {
                match serde_json::from_slice(data) {
                    Ok(value) => self.said.note(self.wire, &value),
                    Err(_) => self.said.is_unreadable = true,
                }
            }
        }
        self.held.clear();
        self.overflowed = false;
    }
}

impl Said {
    /// Takes a whole answer, or one event of a stream.
    fn note(&mut self, wire: Wire, value: &Value) {
        let kind = text(&value["type"]);
        self.is_error |= value["error"].is_object() || kind == "error";
        // Events hold the whole of an answer, as far as it is there.
        for holder in [value, &value["response"], &value["message"]] {
            self.count(&wires::row(wire).usage, &holder["usage"]);
            if let (None, Some(model)) = (&self.model, holder["model"].as_str()) {
                self.model = Some(shown(model));
            }
        }
        match wire {
            Wire::ChatCompletions => self.note_chat(value),
            Wire::Responses => self.note_response(kind, value),
            Wire::Messages => self.note_message(kind, value),
        }
    }

    fn end(&mut self) {
        self.is_ended = true;
        self.is_final = true;
    }

    fn note_chat(&mut self, value: &Value) {
        let Some(choices) = value["choices"].as_array() else {
            return;
        };
        self.has_shape = true;
        for choice in choices {
            self.is_ended |= choice["finish_reason"].is_string();
            for part in [&choice["message"], &choice["delta"]] {
                self.keep(&part["content"], is_full(&part["tool_calls"]));
                let any = |keys: &[&str]| keys.iter().any(|key| is_full(&part[*key]));
                self.has_content |= any(&["content", "tool_calls", "function_call", "refusal"]);
                self.has_reasoning |= any(&[
                    "reasoning_content",
                    "reasoning",
                    "reasoning_details",
                    "thinking",
                ]);
            }
        }
    }

    fn note_response(&mut self, kind: &str, value: &Value) {
        self.has_shape |= value["output"].is_array() || kind.starts_with("response.");
        match kind {
            "response.completed" | "response.incomplete" => self.end(),
            "response.failed" => {
                self.end();
                self.is_error = true;
            }
            _ => {}
        }
        self.is_error |= text(&value["status"]) == "failed";
        if is_full(&value["delta"]) {
            match kind.contains("reasoning") {
                true => self.has_reasoning = true,
                false => self.has_content = true,
            }
            if kind == "response.output_text.delta" {
                self.keep(&value["delta"], false);
            }
        }
        let outputs = [&value["output"], &value["response"]["output"]];
        let items = outputs.into_iter().filter_map(Value::as_array).flatten();
        let item = (kind == "response.output_item.done").then(|| &value["item"]);
        for item in items.chain(item) {
            match text(&item["type"]) {
                "reasoning" => self.has_reasoning = true,
                "message" => {
                    self.has_content |= is_full(&item["content"]);
                    // A stream has said it before, piece by piece.
                    if kind.is_empty() {
                        self.keep(&item["content"], false);
                    }
                }
                _ => {
                    self.has_content = true;
                    self.keep(&Value::Null, true);
                }
            }
        }
    }

    fn note_message(&mut self, kind: &str, value: &Value) {
        self.has_shape |= value["content"].is_array() || kind == "message_start";
        if kind == "message_stop" || value["delta"]["stop_reason"].is_string() {
            self.end();
        }
        // Its words may be left out.
        for holder in [value, &value["delta"]] {
            self.has_content |= text(&holder["stop_reason"]) == "refusal";
        }
        let blocks = value["content"].as_array().into_iter().flatten();
        for part in blocks.chain([&value["content_block"], &value["delta"]]) {
            match text(&part["type"]) {
                "text" | "text_delta" => {
                    self.has_content |= is_full(&part["text"]);
                    self.keep(&part["text"], false);
                }
                "thinking" | "thinking_delta" | "redacted_thinking" | "signature_delta" => {
                    self.has_reasoning = true;
                }
                "" => {}
                // A call of a tool, or what is new.
                _ => {
                    self.has_content = true;
                    self.keep(&Value::Null, true);
                }
            }
        }
    }

    /// Keeps text, or texts of parts, for whoever wants it, and whether a tool is called.
    fn keep(&mut self, content: &Value, calls_tool: bool) {
        let Some(kept) = &mut self.text else {
            return;
        };
        if calls_tool {
            kept.note_call();
        }
        let parts = content.as_array().into_iter().flatten();
        let parts = parts.filter_map(|part| part["text"].as_str());
        for text in parts.chain(content.as_str()) {
            kept.push(text);
        }
    }

    /// Counts of a stream only grow, so the largest of each kind is the last.
    fn count(&mut self, fields: &UsageFields, usage: &Value) {
        let first = |keys: &[&str]| keys.iter().find_map(|key| usage[*key].as_u64());
        let part = |paths: &[&[&str]]| {
            let at = |path: &&[&str]| path.iter().fold(usage, |value, key| &value[*key]).as_u64();
            paths.iter().find_map(at).unwrap_or(0)
        };
        let (input, output) = (first(fields.input), first(fields.output));
        let total = fields.total.and_then(|key| usage[key].as_u64());
        if input.is_none() && output.is_none() && total.is_none() {
            return;
        }
        let (cached, cache_write) = (part(fields.cached), part(fields.cache_write));
        let beside = match fields.input_holds_cache {
            true => 0,
            false => cached.saturating_add(cache_write),
        };
        let seen = TokenUsage {
            input: input.unwrap_or(0).saturating_add(beside),
            cached_input: cached,
            cache_write,
            output: output.unwrap_or(0),
            reasoning: part(fields.reasoning),
        };
        let before = self.counted.unwrap_or_default();
        let usage = TokenUsage {
            input: before.usage.input.max(seen.input),
            cached_input: before.usage.cached_input.max(seen.cached_input),
            cache_write: before.usage.cache_write.max(seen.cache_write),
            output: before.usage.output.max(seen.output),
            reasoning: before.usage.reasoning.max(seen.reasoning),
        };
        // The larger wins: an answer that contradicts itself makes nothing cheaper.
        let total = usage.total().max(before.total).max(total.unwrap_or(0));
        if total <= TOKENS_MAX {
            self.counted = Some(Counted { usage, total });
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether there is something in it.
fn is_full(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => !text.trim().is_empty(),
        // A part of a content holds a text; anything else counts by being there.
        Value::Array(items) => items
            .iter()
            .any(|item| item.get("text").is_none_or(is_full)),
        Value::Object(_) => true,
    }
}

#[cfg(test)]
mod tests;
