//! The three wires, each as data: where a request arrives, how it is read, and how an answer is put.

use serde_json::{Value, json};

use super::reply::{Content, Frame, Reply};

mod chat;
mod messages;
mod responses;

/// A way to talk to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Chat,
    Responses,
    Messages,
}

impl Wire {
    const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    /// Below the version of the API.
    const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Messages => "/messages",
        }
    }

    pub(crate) fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wire| wire.path() == path)
    }

    /// Counts the results of tools in a request: the step of the script that comes next.
    pub(crate) fn results(self, request: &Value) -> usize {
        let list = |key: &str| {
            let items = request.get(key).and_then(Value::as_array);
            items.into_iter().flatten()
        };
        let is = |value: &Value, key: &str, word: &str| {
            value.get(key).and_then(Value::as_str) == Some(word)
        };
        match self {
            Self::Chat => list("messages").filter(|m| is(m, "role", "tool")).count(),
            Self::Responses => list("input")
                .filter_map(|item| item.get("type")?.as_str())
                .filter(|kind| kind.ends_with("call_output"))
                .count(),
            Self::Messages => list("messages")
                .filter_map(|m| m.get("content")?.as_array())
                .flatten()
                .filter(|block| is(block, "type", "tool_result"))
                .count(),
        }
    }

    /// An answer in one piece.
    pub(crate) fn whole(self, reply: &Reply) -> Value {
        match self {
            Self::Chat => chat::whole(reply),
            Self::Responses => responses::whole(reply, "completed"),
            Self::Messages => messages::whole(reply),
        }
    }

    /// The same answer as a stream.
    pub(crate) fn stream(self, reply: &Reply) -> Vec<Frame> {
        match self {
            Self::Chat => chat::stream(reply),
            Self::Responses => responses::stream(reply),
            Self::Messages => messages::stream(reply),
        }
    }

    /// An error as this wire says it.
    pub(crate) fn error(self, kind: &str, message: &str) -> Value {
        match self {
            Self::Chat | Self::Responses => {
                json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
            }
            Self::Messages => {
                json!({"type": "error", "error": {"type": kind, "message": message}})
            }
        }
    }
}

/// Cuts a text in pieces as a model streams them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    const PIECE_BYTES: usize = 4_096;
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES).max(1));
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::super::reply::{Call, Usage};
    use super::*;

    fn reply(content: Content) -> Reply {
        Reply {
            model: "m".to_owned(),
            content,
            usage: Usage {
                input: 8,
                cached: 2,
                output: 3,
            },
            step: 1,
        }
    }

    fn told(wire: Wire, content: Content) -> String {
        let frames = wire.stream(&reply(content));
        let lines = frames.into_iter().map(|frame| match frame.event {
            Some(event) => format!("{event} {}", frame.data),
            None => frame.data,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn calling() -> Content {
        Content::Speech {
            text: "hi".to_owned(),
            call: Some(Call {
                name: "bash".to_owned(),
                arguments: json!({"command": "ls"}),
            }),
        }
    }

    #[test]
    fn a_call_is_put_in_the_words_of_each_wire() {
        insta::assert_snapshot!(told(Wire::Chat, calling()), @r#"
{"choices":[{"delta":{"role":"assistant"},"finish_reason":null,"index":0}],"created":0,"id":"chatcmpl_0001","model":"m","object":"chat.completion.chunk","usage":null}
{"choices":[{"delta":{"content":"hi"},"finish_reason":null,"index":0}],"created":0,"id":"chatcmpl_0001","model":"m","object":"chat.completion.chunk","usage":null}
{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"command\":\"ls\"}","name":"bash"},"id":"call_0001","index":0,"type":"function"}]},"finish_reason":null,"index":0}],"created":0,"id":"chatcmpl_0001","model":"m","object":"chat.completion.chunk","usage":null}
{"choices":[{"delta":{},"finish_reason":"tool_calls","index":0}],"created":0,"id":"chatcmpl_0001","model":"m","object":"chat.completion.chunk","usage":null}
{"choices":[],"created":0,"id":"chatcmpl_0001","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":3,"prompt_tokens":8,"prompt_tokens_details":{"cached_tokens":2},"total_tokens":11}}
[DONE]
"#);
        insta::assert_snapshot!(told(Wire::Responses, calling()), @r#"
response.created {"response":{"created_at":0,"id":"resp_0001","model":"m","object":"response","output":[],"status":"in_progress","usage":null},"sequence_number":0,"type":"response.created"}
response.output_item.added {"item":{"content":[],"id":"msg_0001","role":"assistant","status":"completed","type":"message"},"output_index":0,"sequence_number":1,"type":"response.output_item.added"}
response.output_text.delta {"content_index":0,"delta":"hi","item_id":"msg_0001","output_index":0,"sequence_number":2,"type":"response.output_text.delta"}
response.output_item.done {"item":{"content":[{"annotations":[],"text":"hi","type":"output_text"}],"id":"msg_0001","role":"assistant","status":"completed","type":"message"},"output_index":0,"sequence_number":3,"type":"response.output_item.done"}
response.output_item.added {"item":{"arguments":"","call_id":"call_0001","id":"fc_0001","name":"bash","status":"completed","type":"function_call"},"output_index":1,"sequence_number":4,"type":"response.output_item.added"}
response.function_call_arguments.delta {"delta":"{\"command\":\"ls\"}","item_id":"fc_0001","output_index":1,"sequence_number":5,"type":"response.function_call_arguments.delta"}
response.function_call_arguments.done {"arguments":"{\"command\":\"ls\"}","item_id":"fc_0001","output_index":1,"sequence_number":6,"type":"response.function_call_arguments.done"}
response.output_item.done {"item":{"arguments":"{\"command\":\"ls\"}","call_id":"call_0001","id":"fc_0001","name":"bash","status":"completed","type":"function_call"},"output_index":1,"sequence_number":7,"type":"response.output_item.done"}
response.completed {"response":{"created_at":0,"id":"resp_0001","model":"m","object":"response","output":[{"content":[{"annotations":[],"text":"hi","type":"output_text"}],"id":"msg_0001","role":"assistant","status":"completed","type":"message"},{"arguments":"{\"command\":\"ls\"}","call_id":"call_0001","id":"fc_0001","name":"bash","status":"completed","type":"function_call"}],"status":"completed","usage":{"input_tokens":8,"input_tokens_details":{"cached_tokens":2},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":11}},"sequence_number":8,"type":"response.completed"}
"#);
        insta::assert_snapshot!(told(Wire::Messages, calling()), @r#"
message_start {"message":{"content":[],"id":"msg_0001","model":"m","role":"assistant","stop_reason":null,"stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"input_tokens":6,"output_tokens":3}},"type":"message_start"}
content_block_start {"content_block":{"text":"","type":"text"},"index":0,"type":"content_block_start"}
content_block_delta {"delta":{"text":"hi","type":"text_delta"},"index":0,"type":"content_block_delta"}
content_block_stop {"index":0,"type":"content_block_stop"}
content_block_start {"content_block":{"id":"toolu_0001","input":{},"name":"bash","type":"tool_use"},"index":1,"type":"content_block_start"}
content_block_delta {"delta":{"partial_json":"{\"command\":\"ls\"}","type":"input_json_delta"},"index":1,"type":"content_block_delta"}
content_block_stop {"index":1,"type":"content_block_stop"}
message_delta {"delta":{"stop_reason":"tool_use","stop_sequence":null},"type":"message_delta","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"input_tokens":6,"output_tokens":3}}
message_stop {"type":"message_stop"}
"#);
    }

    #[test]
    fn reasoning_alone_and_refusals_hold_no_content() {
        let thought = || Content::Reasoning("hm".to_owned());
        let no = || Content::Refusal("no".to_owned());
        insta::assert_snapshot!(Wire::Chat.whole(&reply(thought())), @r#"{"choices":[{"finish_reason":"stop","index":0,"message":{"content":null,"reasoning_content":"hm","role":"assistant"}}],"created":0,"id":"chatcmpl_0001","model":"m","object":"chat.completion","usage":{"completion_tokens":3,"prompt_tokens":8,"prompt_tokens_details":{"cached_tokens":2},"total_tokens":11}}"#);
        insta::assert_snapshot!(Wire::Chat.whole(&reply(no())), @r#"{"choices":[{"finish_reason":"stop","index":0,"message":{"content":null,"refusal":"no","role":"assistant"}}],"created":0,"id":"chatcmpl_0001","model":"m","object":"chat.completion","usage":{"completion_tokens":3,"prompt_tokens":8,"prompt_tokens_details":{"cached_tokens":2},"total_tokens":11}}"#);
        insta::assert_snapshot!(Wire::Responses.whole(&reply(thought())), @r#"{"created_at":0,"id":"resp_0001","model":"m","object":"response","output":[{"id":"rs_0001","summary":[{"text":"hm","type":"summary_text"}],"type":"reasoning"}],"status":"completed","usage":{"input_tokens":8,"input_tokens_details":{"cached_tokens":2},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":11}}"#);
        insta::assert_snapshot!(Wire::Responses.whole(&reply(no())), @r#"{"created_at":0,"id":"resp_0001","model":"m","object":"response","output":[{"content":[{"refusal":"no","type":"refusal"}],"id":"msg_0001","role":"assistant","status":"completed","type":"message"}],"status":"completed","usage":{"input_tokens":8,"input_tokens_details":{"cached_tokens":2},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":11}}"#);
        insta::assert_snapshot!(Wire::Messages.whole(&reply(thought())), @r#"{"content":[{"signature":"scripted","thinking":"hm","type":"thinking"}],"id":"msg_0001","model":"m","role":"assistant","stop_reason":"end_turn","stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"input_tokens":6,"output_tokens":3}}"#);
        insta::assert_snapshot!(Wire::Messages.whole(&reply(no())), @r#"{"content":[{"text":"no","type":"text"}],"id":"msg_0001","model":"m","role":"assistant","stop_reason":"refusal","stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"input_tokens":6,"output_tokens":3}}"#);
    }

    #[test]
    fn results_are_counted_on_each_wire() {
        let chat = json!({"messages": [{"role": "user"}, {"role": "tool"}, {"role": "tool"}]});
        let responses = json!({"input": [{"type": "message"}, {"type": "function_call_output"}, {"type": "custom_tool_call_output"}, {"role": "user"}]});
        let messages = json!({"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "tool_result"}, {"type": "text"}]}]});
        assert_eq!(
            [
                Wire::Chat.results(&chat),
                Wire::Responses.results(&responses),
                Wire::Messages.results(&messages),
                Wire::Messages.results(&json!(7)),
            ],
            [2, 2, 1, 0]
        );
    }
}
