//! `cto model scripted` as a process: it says where it listens, does what its script says, and ends when it is told to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::place::Place;
use crate::schemas::fits_schema;

fn started(place: &Place, args: &[&str]) -> (Child, Value) {
    let mut command = place.command(args);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut text = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    // One document, and the process lives on.
    let document = loop {
        assert_ne!(out.read_line(&mut text).unwrap(), 0, "{text}");
        if let Ok(document) = serde_json::from_str(&text) {
            break document;
        }
    };
    (child, document)
}

fn ask(base_url: &str, path: &str, body: &Value) -> String {
    let rest = base_url.strip_prefix("http://").unwrap();
    let (host, base) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let body = body.to_string();
    write!(
        stream,
        "POST /{base}{path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_scripted_model_serves_its_script_until_it_is_told_to_end() {
    let place = Place::new();
    let script = place.path("script.yaml");
    std::fs::write(
        &script,
        "schema: cto.model-script/v1\nsteps: [{run: make}, {finish: over}]\n",
    )
    .unwrap();
    let record = place.path("requests.jsonl");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (script, record) = (script.to_str().unwrap(), record.to_str().unwrap());
        let args = [
            "model", "scripted", "--json", "--script", script, "--record", record,
        ];
        let (mut child, said) = started(&place, &args);
        fits_schema(&place, "scripted-model", &said);
        let base_url = said["base_url"].as_str().unwrap();
        let tool =
            json!({"name": "shell", "parameters": {"properties": {"command": {"type": "string"}}}});
        let answer = ask(
            base_url,
            "/responses",
            &json!({"model": "m", "tools": [tool]}),
        );
        assert!(
            answer.contains(r#""arguments":"{\"command\":\"make\"}""#),
            "{answer}"
        );
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    let lines = std::fs::read_to_string(record).unwrap();
    assert_eq!(lines.lines().count(), 3, "{lines}");
}

#[test]
fn the_schema_of_a_script_is_that_of_what_is_read() {
    let place = Place::new();
    let steps = json!([{"say": "a"}, {"edit": {"path": "a", "find": "b", "replace": "c"}}, {"edit": {"path": "a", "content": ""}}, {"run": "x"}, {"finish": "d"}]);
    let script = json!({"schema": "cto.model-script/v1", "steps": steps});
    fits_schema(&place, "model-script", &script);
}

#[test]
fn what_can_not_be_served_is_said_with_its_reason() {
    let place = Place::new();
    let bad = place.path("bad.yaml");
    std::fs::write(&bad, "schema: cto.model-script/v1\nsteps: [{push: main}]\n").unwrap();
    let bad = bad.to_str().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let told = |args: &[&str]| {
        let all = [&["model", "scripted", "--json"], args].concat();
        place.cto(&all).error()
    };
    assert_eq!(told(&["--script", bad]), "2 script_invalid");
    assert_eq!(told(&["--script", "none.yaml"]), "2 script_unreadable");
    assert_eq!(told(&["--record", "none/x"]), "2 record_unwritable");
    assert_eq!(told(&["--port", &port]), "2 port_unavailable");
    assert_eq!(told(&["--fault", "bad"]), "2 usage");
}
