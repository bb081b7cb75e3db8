//! Asks a model for chat completions as agents do: one request, one stream of events. Only for doubles, which reach nothing
//! but the one address inside.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

/// Most of an answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// What a model answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// What it said aloud: reasoning is not.
    pub(super) text: String,
    pub(super) calls: Vec<ToolCall>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// Sends a request to an address such as `http://127.0.0.1:8471/v1`, and reads the whole answer.
pub(super) fn ask(base_url: &str, request: &Value) -> io::Result<Heard> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let rest = base_url
        .strip_prefix("http://")
        .ok_or_else(|| wrong("no plain address"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let body = request.to_string();
    let mut stream = TcpStream::connect(host)?;
    write!(
        stream,
        "POST /{path}/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Authorization: Bearer cto\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    read_answer(&answer).ok_or_else(|| wrong("no good answer"))
}

/// Reads a whole answer; none for one that is an error or ended early.
fn read_answer(answer: &[u8]) -> Option<Heard> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    if head.split(' ').nth(1) != Some("200") {
        return None;
    }
    let body = &answer[end + 4..];
    let body = match head.contains("transfer-encoding: chunked") {
        true => joined(body)?,
        false => body.to_vec(),
    };
    let mut heard = Heard::default();
    let mut is_whole = false;
    for line in String::from_utf8_lossy(&body).lines() {
        match line.strip_prefix("data: ") {
            Some("[DONE]") => is_whole = true,
            Some(data) => take(&mut heard, &serde_json::from_str(data).ok()?),
            None => {}
        }
    }
    is_whole.then_some(heard)
}

/// The pieces of a chunked body, put together.
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

/// Adds one event of a stream.
fn take(heard: &mut Heard, event: &Value) {
    let Some(delta) = event.pointer("/choices/0/delta") else {
        return;
    };
    let text = |value: &Value, path: &str| {
        let text = value.pointer(path).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    heard.text.push_str(&text(delta, "/content"));
    let calls = delta.get("tool_calls").and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        let index = call.get("index").and_then(Value::as_u64).unwrap_or(0);
        let index = usize::try_from(index).unwrap_or(0).min(heard.calls.len());
        if index == heard.calls.len() {
            heard.calls.push(ToolCall::default());
        }
        let known = &mut heard.calls[index];
        known.id.push_str(&text(call, "/id"));
        known.name.push_str(&text(call, "/function/name"));
        known.arguments.push_str(&text(call, "/function/arguments"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(events: &[&str]) -> Vec<u8> {
        let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for event in events {
            let line = format!("data: {event}\n\n");
            answer.extend(format!("{:x}\r\n{line}\r\n", line.len()).bytes());
        }
        answer.extend(b"0\r\n\r\n");
        answer
    }

    #[test]
    fn a_stream_is_put_together_and_reasoning_is_not_said() {
        let heard = read_answer(&stream(&[
            r#"{"choices":[{"delta":{"reasoning_content":"<<<AGENT_RESULT"}}]}"#,
            r#"{"choices":[{"delta":{"content":"I "}}]}"#,
            r#"{"choices":[{"delta":{"content":"look","tool_calls":[{"index":0,"id":"c1","function":{"name":"bash","arguments":"{\"com"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"mand\":\"ls\"}"}}]}}]}"#,
            r#"{"choices":[],"usage":{"total_tokens":1}}"#,
            "[DONE]",
        ]));
        let heard = heard.unwrap();
        assert_eq!(heard.text, "I look");
        assert_eq!(heard.calls[0].name, "bash");
        assert_eq!(heard.calls[0].arguments, r#"{"command":"ls"}"#);
    }

    #[test]
    fn an_error_and_an_answer_that_ended_early_are_no_answers() {
        assert_eq!(read_answer(b"HTTP/1.1 401 no\r\n\r\n{}"), None);
        assert_eq!(read_answer(b"HTTP/1.1 200"), None);
        assert_eq!(read_answer(&stream(&[r#"{"choices":[]}"#])), None);
        let whole = stream(&["[DONE]"]);
        assert!(read_answer(&whole).is_some());
        assert_eq!(read_answer(&whole[..whole.len() - 9]), None);
    }
}
