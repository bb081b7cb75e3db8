//! Responses.

use serde_json::{Value, json};

use super::{Content, Frame, Reply, pieces};

/// What the answer is made of, in order.
fn items(reply: &Reply) -> Vec<Value> {
    let message = |part: Value| {
        json!({
            "type": "message",
            "id": reply.id("msg"),
            "role": "assistant",
            "status": "completed",
            "content": [part],
        })
    };
    match &reply.content {
        Content::Reasoning(text) => vec![json!({
            "type": "reasoning",
            "id": reply.id("rs"),
            "summary": [{"type": "summary_text", "text": text}],
        })],
        Content::Refusal(text) => vec![message(json!({"type": "refusal", "refusal": text}))],
        Content::Speech { text, call } => {
            let mut items = Vec::new();
            if !text.is_empty() || call.is_none() {
                items.push(message(
                    json!({"type": "output_text", "text": text, "annotations": []}),
                ));
            }
            items.extend(call.iter().map(|call| {
                json!({
                    "type": "function_call",
                    "id": reply.id("fc"),
                    "call_id": reply.id("call"),
                    "name": call.name,
                    "arguments": call.arguments.to_string(),
                    "status": "completed",
                })
            }));
            items
        }
    }
}

fn response(reply: &Reply, status: &str, output: Vec<Value>, usage: Value) -> Value {
    json!({
        "id": reply.id("resp"),
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": reply.model,
        "output": output,
        "usage": usage,
    })
}

pub(super) fn whole(reply: &Reply, status: &str) -> Value {
    let usage = reply.usage;
    let usage = json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input + usage.output,
    });
    response(reply, status, items(reply), usage)
}

pub(super) fn stream(reply: &Reply) -> Vec<Frame> {
    let created = response(reply, "in_progress", Vec::new(), Value::Null);
    let mut events = vec![("response.created", json!({"response": created}))];
    for (index, item) in items(reply).into_iter().enumerate() {
        let mut begun = item.clone();
        // What is still to come is empty at first.
        for (key, empty) in [("content", json!([])), ("arguments", json!(""))] {
            if begun.get(key).is_some() {
                begun[key] = empty;
            }
        }
        let at = |mut data: Value| {
            data["output_index"] = index.into();
            data["item_id"] = item["id"].clone();
            data
        };
        events.push((
            "response.output_item.added",
            json!({"output_index": index, "item": begun}),
        ));
        let text = item["content"][0]["text"].as_str().unwrap_or_default();
        events.extend(pieces(text).map(|piece| {
            (
                "response.output_text.delta",
                at(json!({"content_index": 0, "delta": piece})),
            )
        }));
        if let Some(arguments) = item["arguments"].as_str() {
            events.push((
                "response.function_call_arguments.delta",
                at(json!({"delta": arguments})),
            ));
            events.push((
                "response.function_call_arguments.done",
                at(json!({"arguments": arguments})),
            ));
        }
        events.push((
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        ));
    }
    events.push((
        "response.completed",
        json!({"response": whole(reply, "completed")}),
    ));
    let numbered = events.into_iter().enumerate();
    numbered
        .map(|(number, (event, mut data))| {
            data["sequence_number"] = number.into();
            Frame::typed(event, data)
        })
        .collect()
}
