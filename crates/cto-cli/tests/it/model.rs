//! An agent with a model: one address, one key that it never sees, budgets, and no way around.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::place::{Ran, write};
use crate::providers::Provider;
use crate::records::admit;
use crate::source::Source;

const KEY: &str = "sk-of-the-operator-0815-4711";
const URL_NAME: &str = "CTO_HARNESS_COMMAND_LOCAL_BASE_URL";

/// A model of the operator's: it answers every call with one word, and keeps what it was asked.
pub(crate) struct Model {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Model {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(&mut stream.unwrap(), &log);
            }
        });
        Self { port, asked }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hidden-path/v1", self.port)
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(stream: &mut TcpStream, log: &Mutex<Vec<String>>) {
    let mut text = String::new();
    let mut piece = [0; 4096];
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                break;
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(count) => text.push_str(std::str::from_utf8(&piece[..count]).unwrap()),
        }
    }
    let events = [
        r#"data: {"choices":[{"delta":{"content":"ne"}}]}"#,
        r#"data: {"choices":[{"delta":{"content":"w"}}]}"#,
        r#"data: {"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":12,"total_tokens":42}}"#,
        "data: [DONE]",
    ];
    let streamed = text.contains("\"stream\":true");
    log.lock().unwrap().push(text);
    if streamed {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).ok();
        for event in events {
            let chunk = format!("{:x}\r\n{event}\n\n\r\n", event.len() + 2);
            stream.write_all(chunk.as_bytes()).ok();
        }
        stream.write_all(b"0\r\n\r\n").ok();
    } else {
        let body = r#"{"choices":[{"message":{"content":"new"}}],"usage":{"total_tokens":42}}"#;
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).ok();
    }
}

/// Asks the model what to write, as a client of these calls does, and writes it.
const AGENT: &str = r#"
import json, os, sys, urllib.request
base = os.environ["OPENAI_BASE_URL"]
def ask(stream):
    shell = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {
        "command": {"type": "string"}}}}}
    body = json.dumps({"model": "qwen-test", "stream": stream, "messages": [{"role": "user", "content": "a word"}],
        "tools": [shell]})
    request = urllib.request.Request(base + "/chat/completions", body.encode(), {
        "Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    with urllib.request.urlopen(request) as answer:
        if not stream:
            return json.load(answer)["choices"][0]["message"]["content"]
        word = ""
        for line in answer:
            if line.startswith(b"data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    word += choice["delta"]["content"]
        return word
"#;

pub(crate) fn source() -> Source {
    let source = Source::new(&[("src/a.txt", "old\n")]);
    source.contract(&terms(""));
    admit(&source, "local", "qwen-test");
    source
}

pub(crate) fn terms(limits: &str) -> String {
    format!(
        "network: model\nallowed_paths: [src/]\nverification_commands: [{{run: grep -q new src/a.txt, must_fail_before: true}}]\nlimits: {{wall_seconds: 120{limits}}}\n"
    )
}

pub(crate) fn config(source: &Source, text: &str) {
    let path = source.place.path("config/cto/harness.yaml");
    write(&path, &format!("schema: cto.harness/v1\n{text}"));
}

/// Runs a program that is given as Python, with the model in the environment.
pub(crate) fn run(source: &Source, url: &str, program: &str) -> (i32, Vec<String>, Value) {
    run_in(source, &Provider::native(), url, program)
}

fn run_in(
    source: &Source,
    provider: &Provider,
    url: &str,
    program: &str,
) -> (i32, Vec<String>, Value) {
    let program = format!("{AGENT}\n{program}");
    let argv = ["python3", "-c", &program];
    let mut command = source.command_with(&["--sandbox", provider.name], &argv);
    command.envs(provider.env.iter().cloned());
    command.env(URL_NAME, url).env("MODEL_PASSPHRASE", KEY);
    let ran = Ran::of(command.output().unwrap());
    let report = ran.json();
    let codes = report["blockers"]
        .as_array()
        .unwrap_or_else(|| panic!("{}{}", ran.out, ran.err))
        .iter()
        .map(|blocker| blocker["code"].as_str().unwrap().to_owned())
        .collect();
    (ran.code.unwrap(), codes, report)
}

pub(crate) fn texts(dir: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts(&path, found);
        } else {
            let bytes = fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            found.push((path.display().to_string(), text));
        }
    }
}

fn layer<'r>(report: &'r Value, name: &str) -> &'r Value {
    let layers = report["sandbox"]["layers"].as_array().unwrap();
    layers.iter().find(|layer| layer["name"] == name).unwrap()
}

#[test]
fn an_agent_asks_its_model_through_one_address_and_sees_neither_endpoint_nor_key() {
    for provider in Provider::all() {
        ask_and_look_around(&provider);
    }
}

fn ask_and_look_around(provider: &Provider) {
    let (model, source) = (Model::start(), source());
    config(&source, "providers: {local: {key_env: MODEL_PASSPHRASE}}\n");
    let (code, blockers, report) = run_in(
        &source,
        provider,
        &model.url(),
        r#"
print("environment", sorted(os.environ.items()))
for pid in os.listdir("/proc"):
    if pid.isdigit():
        print("seen", pid, open(f"/proc/{pid}/cmdline").read())
assert ask(False) == "new"
open("src/a.txt", "w").write(ask(True) + "\n")
print("base", base)
"#,
    );
    assert_eq!((code, blockers.as_slice()), (0, &[][..]), "{report:#}");
    assert_eq!(report["resources"]["tokens"], 84);
    for (name, expected) in [
        ("model_provider", "local"),
        ("model", "qwen-test"),
        ("model_admission_status", "admitted"),
        ("admission", "unsigned"),
        ("source_admission_status", "not_admitted"),
    ] {
        assert_eq!(report[name], expected, "{name}");
    }
    assert_eq!(report["identity"]["model"], "qwen-test");
    assert_eq!(
        report["resources"]["model_traffic"]["models"],
        serde_json::json!(["qwen-test"])
    );
    assert_eq!(layer(&report, "egress_forwarder")["in_force"], true);
    assert_eq!(layer(&report, "network_namespace")["in_force"], true);
    let seen = (&report["sandbox"]["provider"], &report["sandbox"]["class"]);
    assert_eq!(seen, (&provider.name.into(), &"full".into()));
    let asked = model.asked();
    // The first question is the harness's own, before the start.
    assert_eq!(asked.len(), 3);
    assert!(asked[0].contains("ready") && asked[0].contains("\"max_tokens\":1024"));
    for request in asked {
        assert!(request.starts_with("POST /hidden-path/v1/chat/completions HTTP/1.1\r\n"));
        assert!(request.contains(&format!("Authorization: Bearer {KEY}\r\n")));
        assert!(!request.contains("Bearer cto"), "{request}");
    }
    let pack = source.pack(&report);
    let out = fs::read_to_string(pack.join("backend/stdout.log")).unwrap();
    assert!(out.contains("('OPENAI_API_KEY', 'cto')"), "{out}");
    assert!(out.contains("base http://127.0.0.1:8471/v1"), "{out}");
    let log = fs::read_to_string(pack.join("events.normalized.jsonl")).unwrap();
    let events: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let data = |kind: &str| &events.iter().find(|e| e["type"] == kind).unwrap()["data"];
    assert_eq!(
        data("plan.updated")["plan"]["sandbox"],
        data("backend.finished")["sandbox"]
    );
    let lines = fs::read_to_string(pack.join("backend/egress.jsonl")).unwrap();
    let exchange: Value = serde_json::from_str(lines.lines().next_back().unwrap()).unwrap();
    for (field, expected) in [
        ("path", Value::from("/v1/chat/completions")),
        ("model", "qwen-test".into()),
        ("streamed", true.into()),
        ("tokens", 42.into()),
        ("end", "answered".into()),
    ] {
        assert_eq!(exchange[field], expected, "{lines}");
    }
    let mut all = Vec::new();
    texts(&source.place.home(), &mut all);
    for (path, text) in all {
        for word in [KEY, "hidden-path", &format!("127.0.0.1:{}", model.port)] {
            assert!(!text.contains(word), "{word} in {path}");
        }
    }
    source.place.cto(&["verify", "latest"]).expect(0);
}

#[test]
fn a_key_comes_from_a_command_of_the_operators_and_a_command_that_fails_blocks() {
    let (model, source) = (Model::start(), source());
    let honest = r#"open("src/a.txt", "w").write(ask(False))"#;
    config(
        &source,
        &format!("providers: {{local: {{credential_command: [printf, '{KEY}']}}}}\n"),
    );
    let (code, blockers, report) = run(&source, &model.url(), honest);
    assert_eq!((code, blockers.as_slice()), (0, &[][..]), "{report:#}");
    assert!(model.asked()[0].contains(KEY));
    for (command, expected) in [
        ("[sh, -c, 'echo no; exit 3']", "ended with code 3"),
        ("[no-such-program]", "could not be started"),
        ("['true']", "is empty"),
        ("[echo, two words]", "no header can hold"),
    ] {
        config(
            &source,
            &format!("providers: {{local: {{credential_command: {command}}}}}\n"),
        );
        let (code, blockers, report) = run(&source, &model.url(), honest);
        assert_eq!(
            (code, blockers[0].as_str()),
            (3, "provider_auth_unavailable")
        );
        let message = report["blockers"][0]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
        let marker = source
            .pack(&report)
            .join("backend/provider-auth-unavailable.txt");
        assert!(marker.is_file());
        assert_eq!(report["backend_process_started"], false);
    }
}

#[test]
fn without_an_endpoint_or_with_a_cap_that_nobody_can_hold_nothing_starts() {
    let source = source();
    let nothing = "raise SystemExit('it must not run')";
    let (code, blockers, report) = run(&source, "", nothing);
    assert_eq!(
        (code, blockers),
        (3, vec!["local_provider_config_missing".to_owned()])
    );
    assert_eq!(report["failure_reason"], "provider unavailable");
    let marker = "backend/provider-local-config-unavailable.txt";
    assert!(source.pack(&report).join(marker).is_file());
    let secret_url = "http://user:pass-4711-word@h.example/v1";
    let (_, blockers, report) = run(&source, secret_url, nothing);
    assert_eq!(blockers, ["local_provider_config_missing"]);
    assert!(!report.to_string().contains("pass-4711-word"), "{report:#}");
    source.contract(&terms(", cost: 2.5"));
    let (code, blockers, report) = run(&source, "http://127.0.0.1:9/v1", nothing);
    assert_eq!((code, blockers), (3, vec!["budget_unmeterable".to_owned()]));
    assert_eq!(report["failure_reason"], "gate missing: budget");
    source.contract(&terms(""));
    let mut command = source.command_with(&["--weak"], &["true"]);
    let ran = Ran::of(
        command
            .env(URL_NAME, "http://127.0.0.1:9/v1")
            .output()
            .unwrap(),
    );
    let report = ran.expect(3).json();
    let blockers = report["blockers"].as_array().unwrap();
    let said = "`model_endpoint` needs an endpoint in a network of the agent's own";
    let names = |blocker: &Value| blocker["message"].as_str().unwrap().starts_with(said);
    assert!(blockers.iter().any(names), "{report:#}");
}

#[test]
fn each_budget_that_is_used_up_ends_in_its_name() {
    let (model, source) = (Model::start(), source());
    let greedy = r#"
open("src/a.txt", "w").write(ask(False))
for attempt in range(3):
    try:
        ask(False)
    except urllib.error.HTTPError as error:
        print(error.code, json.load(error)["error"]["code"])
"#;
    let limits = [
        ("requests", "2", "429 budget_requests"),
        ("tokens", "50", "429 budget_tokens"),
    ];
    let providers: Vec<_> = Provider::all().collect();
    let each = providers
        .iter()
        .flat_map(|provider| limits.map(|limit| (provider, limit)));
    for (provider, (limit, allowed, seen)) in each {
        source.contract(&terms(&format!(", {limit}: {allowed}")));
        let (code, blockers, report) = run_in(&source, provider, &model.url(), greedy);
        assert_eq!(
            (code, blockers),
            (3, vec!["limit_exceeded".to_owned()]),
            "{report:#}"
        );
        let message = report["blockers"][0]["message"].as_str().unwrap();
        assert!(message.contains(limit), "{message}");
        let out = fs::read_to_string(source.pack(&report).join("backend/stdout.log")).unwrap();
        assert!(out.contains(seen), "{out}");
        let log = fs::read_to_string(source.pack(&report).join("events.normalized.jsonl")).unwrap();
        assert!(log.contains(&format!("\"limit\":\"{limit}\"")), "{log}");
    }
}

/// What an agent may try so that its one address becomes another.
const RELAY: &str = r##"
import socket
def raw(text):
    with socket.create_connection(("127.0.0.1", 8471)) as stream:
        stream.sendall(text.replace("\n", "\r\n").encode())
        stream.shutdown(socket.SHUT_WR)
        answer = stream.makefile("rb").read().decode()
    code = answer.partition('"code":"')[2].partition('"')[0]
    print("relay", answer.split(" ")[1] if answer else "none", code)
own = "Host: 127.0.0.1:8471\n"
post = "POST /v1/chat/completions HTTP/1.1\n" + own + "Content-Type: application/json\n"
raw(f"CONNECT 127.0.0.1:{PORT} HTTP/1.1\n{own}\n")
raw(f"GET http://127.0.0.1:{PORT}/admin HTTP/1.1\n{own}\n")
raw(f"GET /v1/models HTTP/1.1\nHost: 127.0.0.1:{PORT}\n\n")
raw(f"GET /v1/../admin HTTP/1.1\n{own}\n")
raw(f"GET /admin HTTP/1.1\n{own}\n")
raw(f"{post}Content-Length: 2\nTransfer-Encoding: chunked\n\n0\n\nGET /admin HTTP/1.1\n{own}\n")
raw(f"{post}Content-Length: 2\n\n{{}}GET /admin HTTP/1.1\n{own}\n")
raw(f"GET /v1/models HTTP/1.1\n{own}Upgrade: websocket\nConnection: Upgrade\n\n")
body = '{"tools":[{"type":"mcp","server_url":"http://127.0.0.1:%d/admin"}]}' % PORT
raw(f"{post}Content-Length: {len(body)}\n\n{body}")
body = '{"messages":[{"content":[{"image_url":{"url":"http://127.0.0.1:%d/admin"}}]}]}' % PORT
raw(f"{post}Content-Length: {len(body)}\n\n{body}")
for address in ("127.0.0.1", PORT), ("192.0.2.1", 80), ("169.254.169.254", 80):
    try:
        socket.create_connection(address, 5).close()
        print("direct reached")
    except OSError as error:
        print("direct", error.errno)
try:
    urllib.request.urlopen("http://example.org/")
except OSError as error:
    print("name", type(error.reason).__name__)
"##;

#[test]
fn rt_25_the_allowed_endpoint_relays_to_nowhere_else() {
    for provider in Provider::all() {
        relay(&provider);
    }
}

fn relay(provider: &Provider) {
    let (model, source) = (Model::start(), source());
    let program = format!("{RELAY}\nopen('src/a.txt', 'w').write(ask(False))")
        .replace("PORT", &model.port.to_string());
    let (code, blockers, report) = run_in(&source, provider, &model.url(), &program);
    // What it tried beside its address is an attempt, where somebody notes it; the last line is the control: its honest
    // call is answered.
    let (ended, attempted, actions) = match provider.notes_attempts() {
        true => (
            1,
            vec!["forbidden_action_attempted".to_owned()],
            serde_json::json!(["public_publication", "credential_change"]),
        ),
        false => (0, Vec::new(), serde_json::json!([])),
    };
    assert_eq!((code, blockers), (ended, attempted), "{report:#}");
    assert_eq!(report["forbidden_actions_attempted"], actions);
    assert_eq!(report["changed_files"], serde_json::json!(["src/a.txt"]));
    assert_eq!(
        model.asked().len(),
        2,
        "one before the start, and one of its own"
    );
    let out = fs::read_to_string(source.pack(&report).join("backend/stdout.log")).unwrap();
    insta::allow_duplicates! {
    insta::assert_snapshot!(out, @"
    relay 405 connect_method
    relay 400 absolute_form
    relay 421 host_foreign
    relay 400 odd_path
    relay 404 unknown_route
    relay 400 length_and_encoding
    relay 400 pipelined
    relay 426 upgrade
    relay 403 hosted_tool
    relay 403 remote_url
    direct 111
    direct 101
    direct 101
    name gaierror
    ");
    }
    let traffic = &report["resources"]["model_traffic"];
    assert_eq!(
        (&traffic["requests"], &traffic["refused"]),
        (&1.into(), &9.into())
    );
}

#[test]
fn an_agent_whose_contract_asks_for_no_network_gets_none_though_an_endpoint_is_named() {
    let (model, source) = (Model::start(), source());
    source.contract(&terms("").replace("network: model\n", ""));
    let (code, blockers, report) = run_bare(
        &source,
        &model.url(),
        r#"
import os, socket
assert "OPENAI_BASE_URL" not in os.environ
try:
    socket.create_connection(("127.0.0.1", 8471))
except ConnectionRefusedError:
    open("src/a.txt", "w").write("new")
"#,
    );
    assert_eq!((code, blockers.as_slice()), (0, &[][..]), "{report:#}");
    assert_eq!(layer(&report, "egress_forwarder")["in_force"], false);
    assert_eq!(report["resources"]["tokens"], Value::Null);
    assert!(model.asked().is_empty());
}

fn run_bare(source: &Source, url: &str, program: &str) -> (i32, Vec<String>, Value) {
    let mut command = source.command(&["python3", "-c", program]);
    let ran = Ran::of(command.env(URL_NAME, url).output().unwrap());
    let report = ran.json();
    let blockers = report["blockers"].as_array().unwrap();
    let codes = blockers.iter().map(|b| b["code"].to_string()).collect();
    (ran.code.unwrap(), codes, report)
}
