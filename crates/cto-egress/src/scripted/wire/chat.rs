//! Chat completions.

use serde_json::{Value, json};

use super::{Content, Frame, Reply, pieces};

fn usage(reply: &Reply) -> Value {
    let usage = reply.usage;
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    })
}

fn calls(reply: &Reply) -> Option<Value> {
    let Content::Speech {
        call: Some(call), ..
    } = &reply.content
    else {
        return None;
    };
    Some(json!([{
        "index": 0,
        "id": reply.id("call"),
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments.to_string()},
    }]))
}

fn finish_reason(reply: &Reply) -> &'static str {
    match &reply.content {
        Content::Speech { call: Some(_), .. } => "tool_calls",
        Content::Speech { call: None, .. } | Content::Reasoning(_) | Content::Refusal(_) => "stop",
    }
}

pub(super) fn whole(reply: &Reply) -> Value {
    let mut message = match &reply.content {
        Content::Speech { text, .. } => json!({"role": "assistant", "content": text}),
        Content::Reasoning(text) => {
            json!({"role": "assistant", "content": null, "reasoning_content": text})
        }
        Content::Refusal(text) => json!({"role": "assistant", "content": null, "refusal": text}),
    };
    if let Some(calls) = calls(reply) {
        message["tool_calls"] = calls;
    }
    json!({
        "id": reply.id("chatcmpl"),
        "object": "chat.completion",
        "created": 0,
        "model": reply.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(reply)}],
        "usage": usage(reply),
    })
}

pub(super) fn stream(reply: &Reply) -> Vec<Frame> {
    let chunk = |choices: Value, usage: Value| {
        Frame::plain(json!({
            "id": reply.id("chatcmpl"),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": reply.model,
            "choices": choices,
            "usage": usage,
        }))
    };
    let delta = |delta: Value, finish: Value| {
        chunk(
            json!([{"index": 0, "delta": delta, "finish_reason": finish}]),
            Value::Null,
        )
    };
    let (key, text) = match &reply.content {
        Content::Speech { text, .. } => ("content", text),
        Content::Reasoning(text) => ("reasoning_content", text),
        Content::Refusal(text) => ("refusal", text),
    };
    let mut frames = vec![delta(json!({"role": "assistant"}), Value::Null)];
    frames.extend(pieces(text).map(|piece| delta(json!({key: piece}), Value::Null)));
    if let Some(calls) = calls(reply) {
        frames.push(delta(json!({"tool_calls": calls}), Value::Null));
    }
    frames.push(delta(json!({}), finish_reason(reply).into()));
    frames.push(chunk(json!([]), usage(reply)));
    frames.push(Frame::plain("[DONE]"));
    frames
}
