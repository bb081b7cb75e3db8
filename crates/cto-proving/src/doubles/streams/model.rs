//! Asks a model on one of three wires, as agents do: one request, one stream of events. It reaches nothing but the one
//! address inside.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use cto_contract::words::Wire;
use serde_json::{Value, json};

/// Most of an answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

pub(super) struct Model {
    pub(super) wire: Wire,
    /// Such as `http://127.0.0.1:8471/v1`.
    pub(super) base_url: String,
    pub(super) name: String,
}

/// What a model answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) command: Option<String>,
    pub(super) is_reasoning: bool,
    pub(super) is_refusal: bool,
    pub(super) input: u64,
    pub(super) output: u64,
}

/// An answer, and what came of its command.
pub(super) struct Turn {
    pub(super) answer: Answer,
    pub(super) output: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    Status(u16),
    Connection(io::Error),
    EndedEarly,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "unexpected status {status}"),
            Self::Connection(error) => write!(f, "connection failed: {error}"),
            Self::EndedEarly => f.write_str("stream disconnected before completion"),
        }
    }
}

impl Model {
    pub(super) fn ask(&self, task: &str, turns: &[Turn]) -> Result<Answer, Failure> {
        let (path, body) = self.request(task, turns);
        let (status, body) = post(&self.base_url, path, &body.to_string())?;
        if status != 200 {
            return Err(Failure::Status(status));
        }
        let text = String::from_utf8_lossy(&body);
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = data
            .filter_map(|data| serde_json::from_str(data).ok())
            .collect();
        let answer = match self.wire {
            Wire::Responses => responses(&events),
            Wire::ChatCompletions => chat(&events, text.contains("data: [DONE]")),
            Wire::Messages => messages(&events),
        };
        answer.ok_or(Failure::EndedEarly)
    }

    fn request(&self, task: &str, turns: &[Turn]) -> (&'static str, Value) {
        let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
        let numbered = || turns.iter().enumerate();
        let arguments = |turn: &Turn| json!({"command": turn.answer.command}).to_string();
        match self.wire {
            Wire::Responses => {
                let done = numbered().flat_map(|(n, turn)| {
                    let id = format!("call_{n}");
                    [
                        json!({"type": "function_call", "call_id": id, "name": "shell", "arguments": arguments(turn)}),
                        json!({"type": "function_call_output", "call_id": id, "output": turn.output}),
                    ]
                });
                let first = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": task}]});
                let input: Vec<Value> = std::iter::once(first).chain(done).collect();
                let tools = json!([{"type": "function", "name": "shell", "parameters": schema}]);
                (
                    "responses",
                    json!({"model": self.name, "stream": true, "store": false, "input": input, "tools": tools}),
                )
            }
            Wire::ChatCompletions => {
                let done = numbered().flat_map(|(n, turn)| {
                    let id = format!("call_{n}");
                    let call = json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments(turn)}});
                    [
                        json!({"role": "assistant", "content": turn.answer.text, "tool_calls": [call]}),
                        json!({"role": "tool", "tool_call_id": id, "content": turn.output}),
                    ]
                });
                let first = json!({"role": "user", "content": task});
                let messages: Vec<Value> = std::iter::once(first).chain(done).collect();
                let tools = json!([{"type": "function", "function": {"name": "bash", "parameters": schema}}]);
                (
                    "chat/completions",
                    json!({"model": self.name, "stream": true, "stream_options": {"include_usage": true}, "messages": messages, "tools": tools}),
                )
            }
            Wire::Messages => {
                let done = numbered().flat_map(|(n, turn)| {
                    let id = format!("toolu_{n}");
                    let call = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": turn.answer.command}});
                    let result = json!({"type": "tool_result", "tool_use_id": id, "content": turn.output});
                    [
                        json!({"role": "assistant", "content": [call]}),
                        json!({"role": "user", "content": [result]}),
                    ]
                });
                let first = json!({"role": "user", "content": task});
                let messages: Vec<Value> = std::iter::once(first).chain(done).collect();
                let tools = json!([{"name": "Bash", "input_schema": schema}]);
                (
                    "messages",
                    json!({"model": self.name, "stream": true, "max_tokens": 1024, "messages": messages, "tools": tools}),
                )
            }
        }
    }
}

fn text_at(value: &Value, path: &str) -> String {
    let text = value.pointer(path).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

fn count_at(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

fn command_in(arguments: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    Some(arguments.get("command")?.as_str()?.to_owned())
}

fn responses(events: &[Value]) -> Option<Answer> {
    let done = events
        .iter()
        .find(|event| text_at(event, "/type") == "response.completed")?;
    let mut answer = Answer {
        input: count_at(done, "/response/usage/input_tokens"),
        output: count_at(done, "/response/usage/output_tokens"),
        ..Answer::default()
    };
    let items = done.pointer("/response/output").and_then(Value::as_array);
    for item in items.into_iter().flatten() {
        match text_at(item, "/type").as_str() {
            "message" => {
                answer.text.push_str(&text_at(item, "/content/0/text"));
                answer.is_refusal |= item.pointer("/content/0/refusal").is_some();
            }
            "function_call" => answer.command = command_in(&text_at(item, "/arguments")),
            "reasoning" => answer.is_reasoning = true,
            _ => {}
        }
    }
    Some(answer)
}

fn chat(events: &[Value], is_whole: bool) -> Option<Answer> {
    let mut answer = Answer::default();
    let mut arguments = String::new();
    for event in events {
        answer
            .text
            .push_str(&text_at(event, "/choices/0/delta/content"));
        answer.is_reasoning |= event
            .pointer("/choices/0/delta/reasoning_content")
            .is_some();
        answer.is_refusal |= event.pointer("/choices/0/delta/refusal").is_some();
        arguments.push_str(&text_at(
            event,
            "/choices/0/delta/tool_calls/0/function/arguments",
        ));
        answer.input += count_at(event, "/usage/prompt_tokens");
        answer.output += count_at(event, "/usage/completion_tokens");
    }
    answer.command = command_in(&arguments);
    is_whole.then_some(answer)
}

fn messages(events: &[Value]) -> Option<Answer> {
    let mut answer = Answer::default();
    let mut arguments = String::new();
    let mut is_whole = false;
    for event in events {
        answer.text.push_str(&text_at(event, "/delta/text"));
        answer.is_reasoning |= event.pointer("/delta/thinking").is_some();
        answer.is_refusal |= text_at(event, "/delta/stop_reason") == "refusal";
        arguments.push_str(&text_at(event, "/delta/partial_json"));
        if text_at(event, "/type") == "message_start" {
            answer.input = count_at(event, "/message/usage/input_tokens")
                + count_at(event, "/message/usage/cache_read_input_tokens");
        }
        answer.output = answer.output.max(count_at(event, "/usage/output_tokens"));
        is_whole |= text_at(event, "/type") == "message_stop";
    }
    answer.command = command_in(&arguments);
    is_whole.then_some(answer)
}

fn post(base_url: &str, path: &str, body: &str) -> Result<(u16, Vec<u8>), Failure> {
    let wrong = |why: &str| Failure::Connection(io::Error::other(why.to_owned()));
    let rest = base_url
        .strip_prefix("http://")
        .ok_or_else(|| wrong("no plain address"))?;
    let (host, above) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).map_err(Failure::Connection)?;
    let head = format!(
        "POST /{above}/{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAuthorization: Bearer cto\r\n\
         x-api-key: cto\r\nanthropic-version: 2023-06-01\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream
        .write_all(head.as_bytes())
        .map_err(Failure::Connection)?;
    stream
        .write_all(body.as_bytes())
        .map_err(Failure::Connection)?;
    let mut answer = Vec::new();
    // What came before a break counts: it tells an answer that ended early from none.
    let read = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else {
        return Err(read.map_or_else(Failure::Connection, |_| Failure::EndedEarly));
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let body = &answer[end + 4..];
    let body = match head.contains("transfer-encoding: chunked") {
        true => joined(body).ok_or(Failure::EndedEarly)?,
        false => body.to_vec(),
    };
    Ok((status.ok_or(Failure::EndedEarly)?, body))
}

/// The pieces of a chunked body, put together; none for one that ended early.
fn joined(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&body[..end]).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        let rest = body.get(end + 2..)?;
        if size == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(rest.get(..size)?);
        body = rest.get(size + 2..)?;
    }
}
