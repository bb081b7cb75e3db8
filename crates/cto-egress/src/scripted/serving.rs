//! One connection to the scripted model: one request, one answer, with whatever is wrong with it.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use cto_contract::model_script::{FaultScope, ModelFault};
use rustix::event::PollFlags;
use serde_json::{Value, json};

use super::conduct::{Answering, By, Conduct, End, Framing, Matter, Pace, conduct};
use super::heard::{self, Asked};
use super::reply::{Call, Content, Frame, Reply, Usage};
use super::wire::Wire as Words;
use super::{SCRIPTED_MODEL, Served, tool, turn};
use crate::chunked::Chunked;
use crate::head::{self, Head};
use crate::socket::{Socket, wait};

const JSON: &str = "application/json";
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest that a peer may be silent, and that a fault keeps it waiting.
const PATIENCE: Duration = Duration::from_secs(3_600);
const DRIP_BYTES: usize = 5;
const DRIP_PAUSE: Duration = Duration::from_millis(5);
const HUGE_BYTES: usize = 32 * 1024 * 1024;
/// A text is about so many times longer than its tokens.
const BYTES_PER_TOKEN: u64 = 4;

pub(super) struct Visit<'s> {
    peer: Socket,
    stream: TcpStream,
    served: &'s Served,
}

/// A request, as far as it matters.
struct Request {
    method: String,
    target: String,
    wants_upgrade: bool,
    key: Option<String>,
    body: Value,
    body_bytes: usize,
}

impl<'s> Visit<'s> {
    pub(super) fn new(stream: TcpStream, served: &'s Served) -> io::Result<Self> {
        let own = stream.try_clone()?;
        Ok(Self {
            peer: Socket::new(stream, served.stop.clone(), PATIENCE)?,
            stream: own,
            served,
        })
    }

    pub(super) fn serve(&mut self) -> io::Result<()> {
        let Some(request) = self.read()? else {
            return self.send(400, JSON, b"{}");
        };
        let (by_path, asked) = heard::route(&request.method, &request.target);
        let (fault, scope) = by_path.unwrap_or((self.served.fault, self.served.scope));
        let tools = tool::tool_names(&request.body);
        let is_refused = |key: &String| self.served.refused_keys.contains(key);
        let fault = match scope {
            FaultScope::AtWork if tools.is_empty() => ModelFault::Ok,
            FaultScope::AtWork | FaultScope::Every => {
                match request.key.as_ref().is_some_and(is_refused) {
                    true => ModelFault::Unauthorized,
                    false => fault,
                }
            }
        };
        self.record(&request, (fault, asked), &tools)?;
        if request.wants_upgrade {
            return self.send(426, "text/plain", b"plain HTTP only\n");
        }
        match asked {
            Asked::Nothing => self.send(
                404,
                JSON,
                br#"{"error":{"message":"no such path","type":"not_found"}}"#,
            ),
            Asked::Models => {
                let entry = json!({"id": SCRIPTED_MODEL, "object": "model", "created": 0, "owned_by": "cto"});
                self.send_json(200, &json!({"object": "list", "data": [entry]}))
            }
            Asked::CountTokens => {
                self.send_json(200, &json!({"input_tokens": tokens(request.body_bytes)}))
            }
            Asked::Answer(words) => self.answer(words, fault, &request),
        }
    }

    fn answer(&mut self, words: Words, fault: ModelFault, request: &Request) -> io::Result<()> {
        match conduct(fault) {
            Conduct::Silence => self.pause(PATIENCE),
            Conduct::Error {
                status,
                kind,
                message,
            } => self.send_json(status, &words.error(kind, message)),
            Conduct::Garbage => self.send(200, JSON, b"\x00\xff<html>not what was asked for"),
            Conduct::Answer(how) => {
                let reply = self.reply(words, how, request);
                let (kind, pieces) = if heard::is_streamed(&request.body) {
                    let frames = words.stream(&reply);
                    (
                        "text/event-stream",
                        frames.iter().map(Frame::bytes).collect(),
                    )
                } else {
                    let whole = words.whole(&reply).to_string().into_bytes();
                    let (start, rest) = whole.split_at(whole.len() / 2);
                    (JSON, vec![start.to_vec(), rest.to_vec()])
                };
                self.deliver(kind, &pieces, how)
            }
        }
    }

    fn reply(&self, words: Words, how: Answering, request: &Request) -> Reply {
        let step = words.results(&request.body);
        let content = match how.matter {
            Matter::Reasoning => Content::Reasoning("thinking about it".to_owned()),
            Matter::Refusal => Content::Refusal("I can't help with that.".to_owned()),
            Matter::Huge => speech("words ".repeat(HUGE_BYTES / 6)),
            Matter::Script => {
                let turn = turn::turn_after(self.served.play.turns_for(&request.body), step);
                match turn.zip(tool::find_shell(&request.body)) {
                    // A request without tools is about something else, such as a title.
                    None => speech("ok".to_owned()),
                    Some((turn, shell)) => Content::Speech {
                        text: turn.text.clone(),
                        call: turn.command.as_ref().map(|command| Call {
                            name: shell.name.clone(),
                            arguments: shell.arguments(command),
                        }),
                    },
                }
            }
        };
        let model = match how.by {
            By::AnotherModel => "another-model",
            By::TheModelAsked => heard::model_of(&request.body),
        };
        let input = tokens(request.body_bytes);
        Reply {
            model: model.to_owned(),
            usage: Usage {
                input,
                // After the first turn most of what is sent was sent before.
                cached: if step > 0 { input / 2 } else { 0 },
                output: tokens(content.bytes()),
            },
            content,
            step,
        }
    }

    fn deliver(&mut self, kind: &str, pieces: &[Vec<u8>], how: Answering) -> io::Result<()> {
        let (version, field) = match how.framing {
            Framing::Chunked => ("HTTP/1.1", "Transfer-Encoding: chunked\r\n"),
            Framing::Close => ("HTTP/1.1", ""),
            Framing::CloseOfHttp10 => ("HTTP/1.0", ""),
        };
        self.head(version, 200, kind, field)?;
        let count = match how.end {
            End::AfterHead => return self.pause(PATIENCE),
            End::Whole => pieces.len(),
            // In the middle, before anything of it could be used.
            End::Broken | End::Early => (pieces.len() / 3).max(1),
        };
        for piece in &pieces[..count] {
            let size = match how.pace {
                Pace::AtOnce => piece.len().max(1),
                Pace::Drip => DRIP_BYTES,
            };
            for part in piece.chunks(size) {
                self.part(part, how.framing)?;
                if how.pace == Pace::Drip {
                    self.pause(DRIP_PAUSE)?;
                }
            }
        }
        match (how.end, how.framing) {
            (End::Whole | End::Early, Framing::Chunked) => self.peer.write_all(b"0\r\n\r\n"),
            (End::Broken | End::AfterHead, _) | (_, Framing::Close | Framing::CloseOfHttp10) => {
                Ok(())
            }
        }
    }

    fn part(&mut self, bytes: &[u8], framing: Framing) -> io::Result<()> {
        match framing {
            Framing::Chunked => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(bytes);
                chunk.extend_from_slice(b"\r\n");
                self.peer.write_all(&chunk)
            }
            Framing::Close | Framing::CloseOfHttp10 => self.peer.write_all(bytes),
        }
    }

    fn send_json(&mut self, status: u16, body: &Value) -> io::Result<()> {
        self.send(status, JSON, body.to_string().as_bytes())
    }

    fn send(&mut self, status: u16, kind: &str, body: &[u8]) -> io::Result<()> {
        let length = format!("Content-Length: {}\r\n", body.len());
        self.head("HTTP/1.1", status, kind, &length)?;
        self.peer.write_all(body)
    }

    fn head(&mut self, version: &str, status: u16, kind: &str, framing: &str) -> io::Result<()> {
        let head = format!(
            "{version} {status} {}\r\nContent-Type: {kind}\r\n{framing}Connection: close\r\n\r\n",
            reason(status)
        );
        self.peer.write_all(head.as_bytes())
    }

    /// Waits, unless the peer gives up or all is over.
    fn pause(&self, time: Duration) -> io::Result<()> {
        let until = Instant::now() + time;
        match wait(
            self.stream.as_fd(),
            PollFlags::RDHUP,
            &self.served.stop,
            until,
        ) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
            Ok(()) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(error) => Err(error),
        }
    }

    /// Reads one request; `None` if it is none that we understand.
    fn read(&mut self) -> io::Result<Option<Request>> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 16 * 1024];
        loop {
            let count = self.peer.read(&mut buffer)?;
            bytes.extend_from_slice(&buffer[..count]);
            let Ok(head) = head::read_head(&bytes) else {
                return Ok(None);
            };
            let Some(head) = head else {
                if count == 0 {
                    return Ok(None);
                }
                continue;
            };
            let Some(mut request) = Request::of(&head) else {
                return Ok(None);
            };
            let framing = BodyFraming::of(&head);
            let rest = bytes.split_off(head.length);
            let Some(body) = self.read_body(rest, framing)? else {
                return Ok(None);
            };
            request.body_bytes = body.len();
            request.body = serde_json::from_slice(&body).unwrap_or_default();
            return Ok(Some(request));
        }
    }

    fn read_body(&mut self, start: Vec<u8>, framing: BodyFraming) -> io::Result<Option<Vec<u8>>> {
        let mut chunks = Chunked::default();
        let mut body = Vec::new();
        let mut fresh = start;
        let mut buffer = [0; 64 * 1024];
        loop {
            match framing {
                BodyFraming::Length(length) => {
                    body.append(&mut fresh);
                    if body.len() >= length {
                        return Ok((body.len() == length).then_some(body));
                    }
                }
                BodyFraming::Chunked => {
                    if chunks.feed(&fresh, &mut body).is_err() {
                        return Ok(None);
                    }
                    if chunks.is_done() {
                        return Ok(Some(body));
                    }
                }
            }
            if body.len() > BODY_BYTES_MAX {
                return Ok(None);
            }
            let count = self.peer.read(&mut buffer)?;
            if count == 0 {
                return Ok(None);
            }
            fresh = buffer[..count].to_vec();
        }
    }

    fn record(
        &self,
        request: &Request,
        (fault, asked): (ModelFault, Asked),
        tools: &[String],
    ) -> io::Result<()> {
        let Some(record) = &self.served.record else {
            return Ok(());
        };
        let step = match asked {
            Asked::Answer(words) => Some(words.results(&request.body)),
            Asked::CountTokens | Asked::Models | Asked::Nothing => None,
        };
        let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
        record.count += 1;
        let line = json!({
            "number": record.count,
            "method": request.method,
            "target": request.target,
            "fault": fault.as_str(),
            "step": step,
            "tools": tools,
            "body": request.body,
        });
        writeln!(record.to, "{line}")?;
        record.to.flush()
    }
}

#[derive(Clone, Copy)]
enum BodyFraming {
    Length(usize),
    Chunked,
}

impl BodyFraming {
    fn of(head: &Head<'_>) -> Self {
        let value = |name: &str| {
            let mut headers = head.headers.iter();
            headers.find(|(key, _)| key.eq_ignore_ascii_case(name))
        };
        if value("transfer-encoding").is_some() {
            return Self::Chunked;
        }
        let length = value("content-length").and_then(|(_, text)| head::plain_number(text));
        Self::Length(length.and_then(|n| usize::try_from(n).ok()).unwrap_or(0))
    }
}

impl Request {
    fn of(head: &Head<'_>) -> Option<Self> {
        let mut words = head.first_line.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let value = |name: &str| {
            let mut headers = head.headers.iter();
            let found = headers.find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        let bearer = value("authorization");
        let bearer = bearer.and_then(|v| v.strip_prefix("Bearer ").map(str::to_owned));
        Some(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            wants_upgrade: value("upgrade").is_some(),
            key: bearer.or_else(|| value("x-api-key")),
            body: Value::Null,
            body_bytes: 0,
        })
    }
}

fn speech(text: String) -> Content {
    Content::Speech { text, call: None }
}

fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        _ => "Internal Server Error",
    }
}
