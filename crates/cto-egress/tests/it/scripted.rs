//! The scripted model over real connections: every wire, every fault, and the same answer for the same request.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use cto_contract::document;
use cto_contract::model_script::{FaultScope, ModelFault, ModelScript};
use cto_egress::parsing::Chunked;
use cto_egress::{ScriptedModel, ScriptedOptions};
use serde_json::{Value, json};

const SCRIPT: &str = "schema: cto.model-script/v1\nsteps:\n  - say: looking\n  - run: ls\n  - edit: {path: a.txt, content: new}\n  - finish: done\n";

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn model(fault: ModelFault, record: Option<Kept>) -> ScriptedModel {
    let script: ModelScript = document::read("script.yaml", SCRIPT.as_bytes()).unwrap();
    let record = record.map(|kept| Box::new(kept) as Box<dyn std::io::Write + Send>);
    ScriptedModel::start(
        0,
        ScriptedOptions {
            script,
            fault,
            scope: FaultScope::Every,
            record,
        },
    )
    .unwrap()
}

/// Sends a request and returns all that comes back.
fn ask(model: &ScriptedModel, target: &str, body: &Value) -> Vec<u8> {
    let mut stream = TcpStream::connect(model.address()).unwrap();
    let body = body.to_string();
    write!(
        stream,
        "POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// The body of an answer in chunks, as far as it came.
fn body(answer: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let start = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap()
        + 4;
    Chunked::default()
        .feed(&answer[start..], &mut decoded)
        .unwrap();
    decoded
}

fn text(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).into_owned()
}

fn tools() -> Value {
    json!([{"type": "function", "name": "exec_command", "function": {"name": "bash", "parameters": {"properties": {"command": {"type": "string"}}}}, "input_schema": {"properties": {"command": {"type": "string"}}}, "parameters": {"properties": {"cmd": {"type": "string"}}}}])
}

#[test]
fn the_step_is_the_number_of_results_so_asking_again_changes_nothing() {
    let model = model(ModelFault::Ok, None);
    let request = |results: usize| {
        let mut messages = vec![json!({"role": "user", "content": "x"})];
        messages.extend((0..results).map(|_| json!({"role": "tool", "content": "y"})));
        json!({"model": "m", "messages": messages, "tools": tools()})
    };
    let answer = |results| text(&ask(&model, "/v1/chat/completions", &request(results)));
    assert_eq!(answer(0), answer(0));
    assert!(answer(0).contains("looking"), "{}", answer(0));
    assert!(answer(1).contains("a.txt"), "{}", answer(1));
    for results in [2, 7] {
        let last = answer(results);
        assert!(
            last.contains("done") && !last.contains("tool_calls\":"),
            "{last}"
        );
    }
}

#[test]
fn every_wire_answers_streamed_and_whole() {
    let model = model(ModelFault::Ok, None);
    for (target, end) in [
        ("/v1/chat/completions", "data: [DONE]"),
        ("/v1/responses", "response.completed"),
        ("/v1/messages?beta=true", "message_stop"),
    ] {
        let whole = text(&ask(
            &model,
            target,
            &json!({"model": "m", "tools": tools()}),
        ));
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\n"), "{whole}");
        assert!(whole.contains("\"model\":\"m\""), "{whole}");
        let streamed = text(&ask(
            &model,
            target,
            &json!({"model": "m", "stream": true, "tools": tools()}),
        ));
        assert!(streamed.contains("text/event-stream"), "{streamed}");
        assert!(streamed.contains(end), "{streamed}");
        assert!(streamed.ends_with("0\r\n\r\n"), "{streamed}");
    }
    let counted = text(&ask(&model, "/v1/messages/count_tokens", &json!({"a": 1})));
    assert!(counted.contains("\"input_tokens\":2"), "{counted}");
}

#[test]
fn every_fault_that_answers_does_so_in_its_way() {
    let model = model(ModelFault::Ok, None);
    let streamed = json!({"model": "m", "stream": true, "tools": tools()});
    for fault in ModelFault::ALL {
        let target = format!("/{fault}/v1/chat/completions");
        let seen = match fault {
            // These two never answer; what ends them is tried below.
            ModelFault::Hang | ModelFault::Stall => continue,
            ModelFault::Huge => {
                let answer = ask(&model, &target, &streamed);
                format!("more than 30 MB: {}", answer.len() > 30_000_000)
            }
            ModelFault::Ok
            | ModelFault::Cut
            | ModelFault::CleanCut
            | ModelFault::ReasoningOnly
            | ModelFault::Refusal
            | ModelFault::Unauthorized
            | ModelFault::Forbidden
            | ModelFault::TooManyRequests
            | ModelFault::ServerError
            | ModelFault::AnotherModel
            | ModelFault::Garbage
            | ModelFault::Drip
            | ModelFault::CloseDelimited
            | ModelFault::Http10 => {
                let answer = ask(&model, &target, &streamed);
                let decoded = if *fault == ModelFault::Drip {
                    text(&body(&answer))
                } else {
                    String::new()
                };
                let answer = text(&answer);
                let line = answer.lines().next().unwrap_or_default().to_owned();
                let has = |word: &str| answer.contains(word) || decoded.contains(word);
                format!(
                    "{line}, done {}, ends by its framing {}, names m {}, thinks {}, refuses {}, calls {}",
                    has("[DONE]"),
                    answer.ends_with("0\r\n\r\n"),
                    has("\"model\":\"m\""),
                    has("reasoning_content"),
                    has("\"refusal\""),
                    has("\"tool_calls\":[")
                )
            }
        };
        let expected = match fault {
            ModelFault::Ok => {
                "HTTP/1.1 200 OK, done true, ends by its framing true, names m true, thinks false, refuses false, calls true"
            }
            ModelFault::Cut => {
                "HTTP/1.1 200 OK, done false, ends by its framing false, names m true, thinks false, refuses false, calls false"
            }
            ModelFault::CleanCut => {
                "HTTP/1.1 200 OK, done false, ends by its framing true, names m true, thinks false, refuses false, calls false"
            }
            ModelFault::ReasoningOnly => {
                "HTTP/1.1 200 OK, done true, ends by its framing true, names m true, thinks true, refuses false, calls false"
            }
            ModelFault::Refusal => {
                "HTTP/1.1 200 OK, done true, ends by its framing true, names m true, thinks false, refuses true, calls false"
            }
            ModelFault::Unauthorized => {
                "HTTP/1.1 401 Unauthorized, done false, ends by its framing false, names m false, thinks false, refuses false, calls false"
            }
            ModelFault::Forbidden => {
                "HTTP/1.1 403 Forbidden, done false, ends by its framing false, names m false, thinks false, refuses false, calls false"
            }
            ModelFault::TooManyRequests => {
                "HTTP/1.1 429 Too Many Requests, done false, ends by its framing false, names m false, thinks false, refuses false, calls false"
            }
            ModelFault::ServerError => {
                "HTTP/1.1 500 Internal Server Error, done false, ends by its framing false, names m false, thinks false, refuses false, calls false"
            }
            ModelFault::AnotherModel => {
                "HTTP/1.1 200 OK, done true, ends by its framing true, names m false, thinks false, refuses false, calls true"
            }
            ModelFault::Garbage => {
                "HTTP/1.1 200 OK, done false, ends by its framing false, names m false, thinks false, refuses false, calls false"
            }
            ModelFault::Drip => {
                "HTTP/1.1 200 OK, done true, ends by its framing true, names m true, thinks false, refuses false, calls true"
            }
            ModelFault::Huge => "more than 30 MB: true",
            ModelFault::CloseDelimited => {
                "HTTP/1.1 200 OK, done true, ends by its framing false, names m true, thinks false, refuses false, calls true"
            }
            ModelFault::Http10 => {
                "HTTP/1.0 200 OK, done true, ends by its framing false, names m true, thinks false, refuses false, calls true"
            }
            ModelFault::Hang | ModelFault::Stall => "",
        };
        assert_eq!(seen, expected, "{fault}");
    }
}

#[test]
fn a_model_that_keeps_its_peers_waiting_is_stopped_all_the_same() {
    for (fault, answers) in [(ModelFault::Hang, false), (ModelFault::Stall, true)] {
        let model = model(fault, None);
        let mut stream = TcpStream::connect(model.address()).unwrap();
        let body = json!({"model": "m", "stream": true}).to_string();
        write!(
            stream,
            "POST /v1/responses HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        if answers {
            let mut head = [0; 15];
            stream.read_exact(&mut head).unwrap();
            assert_eq!(&head, b"HTTP/1.1 200 OK");
        }
        drop(model);
        let mut rest = Vec::new();
        // The end of the connection, or its reset: nobody waits for ever.
        stream.read_to_end(&mut rest).ok();
        assert_eq!(rest.is_empty(), !answers, "{}", text(&rest));
    }
}

#[test]
fn requests_are_written_down_without_their_headers() {
    let kept = Kept::default();
    let model = model(ModelFault::Ok, Some(kept.clone()));
    let mut stream = TcpStream::connect(model.address()).unwrap();
    let body = json!({"model": "m", "tools": tools()}).to_string();
    // In chunks, as some clients send it.
    write!(
        stream,
        "POST /429/v1/responses HTTP/1.1\r\nAuthorization: Bearer hidden\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    drop(model);
    let line = text(&kept.0.lock().unwrap());
    assert!(!line.contains("hidden"), "{line}");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        json!([
            line["number"],
            line["target"],
            line["fault"],
            line["step"],
            line["tools"],
            line["body"]["model"]
        ]),
        json!([1, "/429/v1/responses", "429", 0, ["exec_command"], "m"])
    );
}

#[test]
fn what_is_no_request_of_ours_is_turned_away() {
    let model = model(ModelFault::Ok, None);
    let told = |request: &str| {
        let mut stream = TcpStream::connect(model.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    };
    let cases = [
        ("GET /v1/models HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK"),
        (
            "GET /v1/responses HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
            "HTTP/1.1 426 Upgrade Required",
        ),
        (
            "GET /v1/responses HTTP/1.1\r\n\r\n",
            "HTTP/1.1 404 Not Found",
        ),
        ("nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (
            "POST /v1/responses HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
            "HTTP/1.1 400 Bad Request",
        ),
        (
            "POST /v1/responses HTTP/1.1\r\nContent-Length: 1\r\n\r\n{",
            "HTTP/1.1 200 OK",
        ),
    ];
    for (request, expected) in cases {
        assert_eq!(told(request), expected, "{request}");
    }
}
