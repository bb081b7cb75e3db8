//! Honest calls come through, and only they.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc;

use crate::support::*;

#[test]
fn a_call_is_written_anew_with_the_key_and_nothing_of_the_agents_head() {
    let upstream = Scripted::saying(200, r#"{"usage":{"total_tokens":9},"x":1}"#);
    let (forwarder, address) = forwarder_to(&upstream.url(), terms());
    let answer = chat(address, r#"{"model":"m-1","messages":[]}"#);
    insta::assert_snapshot!(answer.replace("\r\n", "\n"), @r#"
    HTTP/1.1 200 OK
    content-type: application/json
    content-length: 34
    connection: close

    {"usage":{"total_tokens":9},"x":1}
    "#);
    let seen = upstream.seen().concat();
    let shown = seen
        .replace("\r\n", "\n")
        .replace(&upstream.port.to_string(), "[port]");
    insta::assert_snapshot!(shown, @r#"
    POST /base/v1/chat/completions HTTP/1.1
    Host: 127.0.0.1:[port]
    User-Agent: cto
    Accept: application/json, text/event-stream
    Accept-Encoding: identity
    Connection: close
    Authorization: Bearer sk-key-of-the-operator-4711
    Content-Type: application/json
    Content-Length: 29

    {"model":"m-1","messages":[]}
    "#);
    let traffic = forwarder.stop();
    assert_eq!((traffic.requests, traffic.refused), (1, 0));
    assert_eq!((traffic.bytes_up, traffic.bytes_down), (29, 34));
    assert_eq!((traffic.tokens, traffic.tokens_at_most), (Some(9), 9));
    let exchange = serde_json::to_value(&traffic.exchanges[0]).unwrap();
    let mut exchange = exchange.as_object().unwrap().clone();
    exchange.remove("millis");
    insta::assert_snapshot!(serde_json::to_string(&exchange).unwrap(), @r#"{"call":"chat_completions","end":"answered","fault":"malformed","method":"POST","model":"m-1","number":1,"path":"/v1/chat/completions","request_bytes":29,"response_bytes":34,"status":200,"streamed":false,"tokens":9,"tokens_at_most":9,"usage":{"cache_write":0,"cached_input":0,"input":0,"output":0,"reasoning":0}}"#);
}

#[test]
fn every_call_on_offer_reaches_its_own_path_chunked_or_not() {
    let upstream = Scripted::saying(200, r#"{"data":[]}"#);
    let (_forwarder, address) = forwarder_to(&upstream.url(), terms());
    let host = format!("Host: localhost:{}", address.port());
    let get = format!("GET /v1/models HTTP/1.1\r\n{host}\r\n\r\n");
    assert_eq!(verdict(&send(address, get.as_bytes())), "200");
    assert_eq!(verdict(&post(address, "/v1/responses", "{}")), "200");
    let chunked = format!(
        "POST /v1/responses HTTP/1.1\r\n{host}\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json; charset=utf-8\r\n\r\n2\r\n{{\"\r\n5\r\na\":1}}\r\n0\r\n\r\n"
    );
    assert_eq!(verdict(&send(address, chunked.as_bytes())), "200");
    let lines: Vec<String> = upstream
        .seen()
        .iter()
        .map(|request| {
            let body = request.rsplit("\r\n").next().unwrap();
            format!("{} {body}", request.lines().next().unwrap())
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    GET /base/v1/models HTTP/1.1 
    POST /base/v1/responses HTTP/1.1 {}
    POST /base/v1/responses HTTP/1.1 {"a":1}
    "#);
}

#[test]
fn a_call_that_is_not_offered_does_not_exist() {
    let upstream = Scripted::saying(200, "{}");
    let only_chat = cto_egress::Terms {
        wires: vec![cto_contract::words::Wire::ChatCompletions],
        ..terms()
    };
    let (_forwarder, address) = forwarder_to(&upstream.url(), only_chat);
    assert_eq!(
        verdict(&post(address, "/v1/responses", "{}")),
        "404 unknown_route"
    );
    assert_eq!(verdict(&chat(address, "{}")), "200");
}

#[test]
fn each_event_of_a_stream_is_passed_on_before_the_next_one_is_made() {
    // The upstream sends an event only when the agent has the one before: a forwarder that gathers would wait for ever.
    let (ask, asked) = mpsc::channel::<()>();
    let asked = Mutex::new(asked);
    let upstream = Scripted::start(move |stream, _| {
        stream.write_all(EVENTS_HEAD.as_bytes()).unwrap();
        for number in 0..20 {
            let event = format!("data: {{\"n\":{number}}}\n\n");
            stream.write_all(chunk(&event).as_bytes()).unwrap();
            asked.lock().unwrap().recv().unwrap();
        }
        let usage = "data: {\"usage\":{\"total_tokens\":21}}\n\ndata: [DONE]\n\n";
        stream.write_all(chunk(usage).as_bytes()).unwrap();
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let (forwarder, address) = forwarder_to(&upstream.url(), terms());
    let mut agent = TcpStream::connect(address).unwrap();
    let body = r#"{"stream":true}"#;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    agent.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let mut piece = [0; 1000];
    for number in 0..20 {
        while !answer.contains(&format!("{{\"n\":{number}}}\n\n")) {
            let count = agent.read(&mut piece).unwrap();
            assert_ne!(count, 0, "cut: {answer}");
            answer.push_str(std::str::from_utf8(&piece[..count]).unwrap());
        }
        ask.send(()).unwrap();
    }
    agent.read_to_string(&mut answer).unwrap();
    assert!(
        answer.contains("content-type: text/event-stream\r\n"),
        "{answer}"
    );
    assert!(
        answer.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"),
        "{answer}"
    );
    let numbers: Vec<usize> = answer.match_indices("{\"n\":").map(|(at, _)| at).collect();
    assert_eq!(numbers.len(), 20);
    assert!(
        upstream.seen()[0].ends_with(r#"{"stream":true,"stream_options":{"include_usage":true}}"#)
    );
    let traffic = forwarder.stop();
    assert_eq!(traffic.tokens, Some(21));
    assert!(traffic.exchanges[0].streamed);
}
