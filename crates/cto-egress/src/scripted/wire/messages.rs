//! Anthropic messages.

use serde_json::{Value, json};

use super::{Content, Frame, Reply, pieces};

fn stop_reason(reply: &Reply) -> &'static str {
    match &reply.content {
        Content::Speech { call: Some(_), .. } => "tool_use",
        Content::Refusal(_) => "refusal",
        Content::Speech { call: None, .. } | Content::Reasoning(_) => "end_turn",
    }
}

fn blocks(reply: &Reply) -> Vec<Value> {
    match &reply.content {
        Content::Reasoning(text) => {
            vec![json!({"type": "thinking", "thinking": text, "signature": "scripted"})]
        }
        Content::Refusal(text) => vec![json!({"type": "text", "text": text})],
        Content::Speech { text, call } => {
            let mut blocks = Vec::new();
            if !text.is_empty() || call.is_none() {
                blocks.push(json!({"type": "text", "text": text}));
            }
            blocks.extend(call.iter().map(|call| {
                json!({
                    "type": "tool_use",
                    "id": reply.id("toolu"),
                    "name": call.name,
                    "input": call.arguments,
                })
            }));
            blocks
        }
    }
}

fn usage(reply: &Reply) -> Value {
    let usage = reply.usage;
    // Here what came from a cache is not in the input.
    json!({
        "input_tokens": usage.input - usage.cached,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.output,
    })
}

fn message(reply: &Reply, content: Vec<Value>, stop_reason: Value) -> Value {
    json!({
        "id": reply.id("msg"),
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": usage(reply),
    })
}

pub(super) fn whole(reply: &Reply) -> Value {
    message(reply, blocks(reply), stop_reason(reply).into())
}

pub(super) fn stream(reply: &Reply) -> Vec<Frame> {
    let begun = message(reply, Vec::new(), Value::Null);
    let mut frames = vec![Frame::typed("message_start", json!({"message": begun}))];
    for (index, block) in blocks(reply).into_iter().enumerate() {
        let delta = |delta: Value| {
            Frame::typed(
                "content_block_delta",
                json!({"index": index, "delta": delta}),
            )
        };
        let mut begun = block.clone();
        let mut deltas = Vec::new();
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        match text("type") {
            "tool_use" => {
                begun["input"] = json!({});
                let input = block["input"].to_string();
                deltas.push(delta(
                    json!({"type": "input_json_delta", "partial_json": input}),
                ));
            }
            "thinking" => {
                begun["thinking"] = json!("");
                begun["signature"] = json!("");
                deltas.push(delta(
                    json!({"type": "thinking_delta", "thinking": text("thinking")}),
                ));
                deltas.push(delta(
                    json!({"type": "signature_delta", "signature": text("signature")}),
                ));
            }
            _ => {
                begun["text"] = json!("");
                let texts = pieces(text("text"));
                deltas
                    .extend(texts.map(|piece| delta(json!({"type": "text_delta", "text": piece}))));
            }
        }
        frames.push(Frame::typed(
            "content_block_start",
            json!({"index": index, "content_block": begun}),
        ));
        frames.extend(deltas);
        frames.push(Frame::typed("content_block_stop", json!({"index": index})));
    }
    frames.push(Frame::typed(
        "message_delta",
        json!({
            "delta": {"stop_reason": stop_reason(reply), "stop_sequence": null},
            "usage": usage(reply),
        }),
    ));
    frames.push(Frame::typed("message_stop", json!({})));
    frames
}
