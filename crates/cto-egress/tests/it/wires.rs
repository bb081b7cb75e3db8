//! Each wire against the scripted model: its calls, its key, its errors, and what a provider does wrong by name.

use std::fmt::Write as _;
use std::time::Duration;

use cto_contract::document;
use cto_contract::model_script::{FaultScope, ModelFault, ModelScript};
use cto_contract::words::Wire;
use cto_egress::{Deadlines, ScriptedModel, ScriptedOptions, Terms, Traffic};

use crate::support::*;

const ASK: &str = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"input":"hi","stream":STREAM}"#;

fn scripted() -> ScriptedModel {
    let script = "schema: cto.model-script/v1\nsteps:\n  - finish: done\n";
    let script: ModelScript = document::read("script.yaml", script.as_bytes()).unwrap();
    let options = ScriptedOptions {
        script,
        fault: ModelFault::Ok,
        scope: FaultScope::Every,
        record: None,
    };
    ScriptedModel::start(0, options).unwrap()
}

fn path(wire: Wire) -> &'static str {
    match wire {
        Wire::ChatCompletions => "/v1/chat/completions",
        Wire::Responses => "/v1/responses",
        Wire::Messages => "/v1/messages?beta=true",
    }
}

/// Only what never comes is not waited for.
fn patience(fault: ModelFault) -> Deadlines {
    let waits = Deadlines::default();
    if ![ModelFault::Hang, ModelFault::Stall].contains(&fault) {
        return waits;
    }
    Deadlines {
        answer: Duration::from_millis(50),
        idle: Duration::from_millis(50),
        ..waits
    }
}

fn traffic_of(model: &ScriptedModel, fault: ModelFault, wire: Wire, streamed: bool) -> Traffic {
    let terms = Terms {
        wires: vec![wire],
        deadlines: patience(fault),
        ..terms()
    };
    let (forwarder, address) = forwarder_to(&model.base_url(fault), terms);
    let body = ASK.replace("STREAM", &streamed.to_string());
    post(address, path(wire), &body);
    forwarder.stop()
}

#[test]
fn what_a_provider_does_wrong_has_a_name_on_every_wire_streamed_or_not() {
    let model = scripted();
    let mut table = String::new();
    // What is too large to be looked at has no name.
    let named = ModelFault::ALL.iter().filter(|f| **f != ModelFault::Huge);
    for fault in named {
        let mut names: Vec<String> = Vec::new();
        for wire in Wire::ALL {
            for streamed in [false, true] {
                let traffic = traffic_of(&model, *fault, *wire, streamed);
                let exchange = &traffic.exchanges[0];
                let name = match exchange.fault {
                    Some(fault) => fault.as_str().to_owned(),
                    None => format!(
                        "ok by {} of {}",
                        traffic.answered_by.join(" "),
                        traffic.models.join(" ")
                    ),
                };
                assert_eq!(traffic.standing_fault, exchange.fault);
                assert_eq!(traffic.faults.len(), usize::from(exchange.fault.is_some()));
                if exchange.fault.is_none() {
                    let usage = exchange.usage.unwrap();
                    assert_eq!(exchange.tokens, Some(usage.total()), "{exchange:?}");
                    assert!(usage.input > 0 && usage.output > 0, "{exchange:?}");
                }
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        writeln!(table, "{fault}: {}", names.join(", ")).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_fault_stands_until_a_model_answers_well() {
    let upstream = Scripted::start(|stream, request| {
        let body = r#"{"choices":[{"message":{"content":"x"}}]}"#;
        let said = match request.contains("\"n\":1") {
            true => whole(200, body),
            false => whole(429, "{}"),
        };
        std::io::Write::write_all(stream, said.as_bytes()).unwrap();
    });
    let (forwarder, address) = forwarder_to(&upstream.url(), terms());
    let standing = || {
        let fault = forwarder.traffic().standing_fault;
        fault.map_or("none", |fault| fault.as_str())
    };
    chat(address, "{}");
    assert_eq!(standing(), "rate_limited");
    // A list of models is no answer of one, and what the forwarder refuses says nothing of the provider.
    send(
        address,
        format!(
            "GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n",
            address.port()
        )
        .as_bytes(),
    );
    chat(address, r#"{"n":1,"tools":[{"type":"mcp"}]}"#);
    assert_eq!(standing(), "rate_limited");
    chat(address, r#"{"n":1}"#);
    assert_eq!(standing(), "none");
    let traffic = forwarder.stop();
    assert_eq!(traffic.faults.values().sum::<u64>(), 1, "it is counted");
}

#[test]
fn a_provider_that_is_silent_when_the_run_ends_is_called_so_and_one_that_was_asked_just_now_is_not()
{
    for (silence, expected) in [
        (Duration::ZERO, "silent"),
        (Duration::from_secs(60), "none"),
    ] {
        let (told, seen) = std::sync::mpsc::channel();
        let told = std::sync::Mutex::new(told);
        let upstream = Scripted::start(move |stream, _| {
            told.lock().unwrap().send(()).unwrap();
            std::io::Read::read_to_end(stream, &mut Vec::new()).ok();
        });
        let terms = Terms {
            deadlines: Deadlines {
                silence,
                ..Deadlines::default()
            },
            ..terms()
        };
        let (forwarder, address) = forwarder_to(&upstream.url(), terms);
        let asking = std::thread::spawn(move || chat(address, "{}"));
        seen.recv().unwrap();
        let traffic = forwarder.stop();
        asking.join().unwrap();
        let standing = traffic
            .standing_fault
            .map_or("none", |fault| fault.as_str());
        assert_eq!(standing, expected);
    }
}

#[test]
fn messages_carry_their_key_and_headers_in_their_own_way() {
    let answer = r#"{"type":"message","content":[{"type":"text","text":"x"}]}"#;
    let upstream = Scripted::saying(200, answer);
    let (forwarder, address) = forwarder_to(&upstream.url(), terms());
    let ask = |target: &str, headers: &str| {
        let text = format!(
            "POST {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nx-api-key: agents-own\r\nAuthorization: Bearer agents-own\r\n{headers}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}",
            address.port()
        );
        verdict(&send(address, text.as_bytes()))
    };
    let own = "anthropic-version: 2023-06-01\r\nAnthropic-Beta: a-1,b-2\r\nanthropic-other: x\r\n";
    assert_eq!(ask("/v1/messages?beta=true", own), "200");
    assert_eq!(ask("/v1/messages/count_tokens", own), "200");
    assert_eq!(ask("/v1/messages?beta=false", ""), "400 query");
    assert_eq!(ask("/v1/messages?beta=true&x=y", ""), "400 query");
    assert_eq!(ask("/v1/responses?beta=true", ""), "400 query");
    let twice = "anthropic-beta: a\r\nanthropic-beta: b\r\n";
    assert_eq!(ask("/v1/messages", twice), "400 repeated_header");
    let odd = "anthropic-beta: a/../b\r\n";
    assert_eq!(ask("/v1/messages", odd), "400 bad_header");
    let seen = upstream.seen();
    assert_eq!(seen.len(), 2);
    insta::assert_snapshot!(seen[0].replace(&upstream.port.to_string(), "PORT").replace('\r', ""), @r"
    POST /base/v1/messages?beta=true HTTP/1.1
    Host: 127.0.0.1:PORT
    User-Agent: cto
    Accept: application/json, text/event-stream
    Accept-Encoding: identity
    Connection: close
    x-api-key: sk-key-of-the-operator-4711
    anthropic-version: 2023-06-01
    anthropic-beta: a-1,b-2
    Content-Type: application/json
    Content-Length: 2

    {}
    ");
    assert!(seen[1].starts_with("POST /base/v1/messages/count_tokens HTTP/1.1\r\n"));
    let refused = post(
        address,
        "/v1/messages",
        r#"{"tools":[{"type":"web_search_20250305"}]}"#,
    );
    let body = refused.split_once("\r\n\r\n").unwrap().1;
    insta::assert_snapshot!(body, @r#"{"error":{"code":"hosted_tool","message":"`web_search_20250305`: a tool that the provider runs itself would reach further than this run may; turn it off in the agent's settings, or offer a function that the agent runs","type":"permission_error"},"type":"error"}"#);
    drop(forwarder);
}

#[test]
fn another_protocol_is_answered_with_426_and_does_not_count_against_the_agent() {
    let upstream = Scripted::saying(200, "{}");
    let (forwarder, address) = forwarder_to(&upstream.url(), terms());
    let text = format!(
        "GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        address.port()
    );
    let answer = send(address, text.as_bytes());
    assert_eq!(verdict(&answer), "426 upgrade");
    assert!(answer.contains("upgrade: HTTP/1.1\r\n"), "{answer}");
    let traffic = forwarder.stop();
    assert_eq!((traffic.refused, traffic.exchanges.len()), (0, 1));
    assert!(upstream.seen().is_empty());
}

#[test]
fn only_the_model_of_the_run_is_asked() {
    let upstream = Scripted::saying(
        200,
        r#"{"model":"m-9","choices":[{"message":{"content":"x"}}]}"#,
    );
    let pinned = Terms {
        model: Some("m".to_owned()),
        ..terms()
    };
    let (forwarder, address) = forwarder_to(&upstream.url(), pinned);
    assert_eq!(verdict(&chat(address, r#"{"model":"m"}"#)), "200");
    let refused = chat(address, r#"{"model":"larger"}"#);
    assert_eq!(verdict(&refused), "403 model_mismatch");
    assert!(
        refused.contains("`larger`: the run was admitted for another model; ask for `m`"),
        "{refused}"
    );
    assert_eq!(verdict(&chat(address, "{}")), "403 model_mismatch");
    let traffic = forwarder.stop();
    assert_eq!((traffic.model_mismatches, traffic.refused), (2, 2));
    assert_eq!(
        (traffic.models, traffic.answered_by),
        (vec!["m".to_owned()], vec!["m-9".to_owned()])
    );
    assert_eq!(upstream.seen().len(), 1);
}
