//! What an upstream does wrong, and what of it an agent gets to see.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use cto_egress::{Deadlines, ExchangeEnd, Route, Terms, Upstream};

use crate::support::*;

fn end_of(upstream: &Scripted) -> (String, ExchangeEnd) {
    let (forwarder, address) = forwarder_to(&upstream.url(), terms());
    let answer = chat(address, "{}");
    let traffic = forwarder.stop();
    (answer, traffic.exchanges[0].end)
}

#[test]
fn a_malformed_answer_is_not_passed_on() {
    let cases = [
        (
            "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n",
            ExchangeEnd::UpstreamRedirect,
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            ExchangeEnd::UpstreamMalformed,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            ExchangeEnd::UpstreamMalformed,
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
            ExchangeEnd::UpstreamMalformed,
        ),
        ("garbage", ExchangeEnd::UpstreamCut),
        ("", ExchangeEnd::UpstreamCut),
    ];
    for (raw, expected) in cases {
        let (answer, end) = end_of(&Scripted::raw(raw));
        assert_eq!(end, expected, "{raw:?}");
        assert_eq!(verdict(&answer), "502 upstream_error", "{raw:?}");
        assert!(!answer.contains("elsewhere"), "{answer}");
    }
}

#[test]
fn an_answer_that_ends_early_does_not_look_whole() {
    let (answer, end) = end_of(&Scripted::raw(
        "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
    ));
    assert_eq!(end, ExchangeEnd::UpstreamCut);
    assert!(
        answer.contains("content-length: 50") && answer.ends_with("short"),
        "{answer}"
    );
    let cut = format!("{EVENTS_HEAD}{}", chunk("data: x\n\n"));
    let (answer, end) = end_of(&Scripted::raw(&cut));
    assert_eq!(end, ExchangeEnd::UpstreamCut);
    assert!(
        answer.ends_with("data: x\n\n\r\n"),
        "no last chunk: {answer}"
    );
}

#[test]
fn an_answer_that_ends_with_the_connection_is_whole_if_it_says_so() {
    let body = r#"{"choices":[{"message":{"content":"hi"}}],"usage":{"total_tokens":3}}"#;
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n";
    let answer_to = |version: &str, kind: &str, body: &str| {
        let head = format!("HTTP/{version} 200 OK\r\nContent-Type: {kind}\r\n\r\n");
        end_of(&Scripted::raw(&format!("{head}{body}")))
    };
    for version in ["1.0", "1.1"] {
        for (kind, body) in [("application/json", body), ("text/event-stream", stream)] {
            let (answer, end) = answer_to(version, kind, body);
            assert_eq!(end, ExchangeEnd::Answered, "{version} {kind}");
            assert!(answer.contains("transfer-encoding: chunked"), "{answer}");
            assert!(
                answer.contains(body) && answer.ends_with("\r\n0\r\n\r\n"),
                "{answer}"
            );
            // Where it could have been cut, it was.
            let (answer, end) = answer_to(version, kind, &body[..body.len() / 2]);
            assert_eq!(end, ExchangeEnd::UpstreamCut, "{version} {kind}");
            assert!(
                !answer.ends_with("\r\n0\r\n\r\n"),
                "no last chunk: {answer}"
            );
        }
    }
}

#[test]
fn an_error_that_names_the_endpoint_or_the_key_is_replaced_and_others_are_not() {
    let answer_to = |body: &str| {
        let body = body.to_owned();
        let upstream = Scripted::start(move |stream, request| {
            let host = request
                .lines()
                .find_map(|line| line.strip_prefix("Host: "))
                .unwrap_or_default();
            let said = whole(500, &body.replace("HOST", host));
            stream.write_all(said.as_bytes()).unwrap();
        });
        let answer = end_of(&upstream).0;
        assert!(!answer.contains(&upstream.port.to_string()), "{answer}");
        assert!(
            !answer.contains(KEY) && !answer.contains("hidden"),
            "{answer}"
        );
        verdict(&answer)
    };
    assert_eq!(answer_to("no route to HOST"), "500 answer_withheld");
    assert_eq!(
        answer_to("bad key sk-KEY-of-the-operator-4711"),
        "500 answer_withheld"
    );
    assert_eq!(
        answer_to(r#"{"error":{"code":"model_not_found"}}"#),
        "500 model_not_found"
    );
}

#[test]
fn a_key_in_a_good_answer_is_overwritten() {
    let body = format!("data: your key is {KEY}, data: and again {KEY}\n\n");
    let whole_body = whole(200, &body);
    for raw in [
        whole_body,
        format!("{EVENTS_HEAD}{}0\r\n\r\n", chunk(&body)),
    ] {
        let (answer, end) = end_of(&Scripted::raw(&raw));
        assert_eq!(end, ExchangeEnd::Answered);
        assert!(!answer.contains(KEY), "{answer}");
        assert_eq!(answer.matches(&"*".repeat(KEY.len())).count(), 2);
    }
}

#[test]
fn an_endpoint_that_is_not_there_is_said_so_without_its_name() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let (forwarder, address) = forwarder_to(&format!("http://127.0.0.1:{port}/v1"), terms());
    let answer = chat(address, "{}");
    assert_eq!(verdict(&answer), "502 upstream_error");
    assert!(!answer.contains(&port.to_string()), "{answer}");
    let traffic = forwarder.stop();
    assert_eq!(traffic.exchanges[0].end, ExchangeEnd::ConnectionRefused);
    assert_eq!(
        traffic.tokens,
        Some(0),
        "nothing was sent, so nothing was used"
    );
}

#[test]
fn a_silent_endpoint_is_given_up_and_its_request_counts() {
    let upstream = Scripted::start(|stream, _| {
        // Until the forwarder hangs up.
        std::io::Read::read_to_end(stream, &mut Vec::new()).ok();
    });
    let impatient = Terms {
        deadlines: Deadlines {
            answer: Duration::from_millis(30),
            ..Deadlines::default()
        },
        ..terms()
    };
    let (forwarder, address) = forwarder_to(&upstream.url(), impatient);
    let answer = chat(address, r#"{"x":12345}"#);
    assert_eq!(verdict(&answer), "504 upstream_error");
    let traffic = forwarder.stop();
    assert_eq!(traffic.exchanges[0].end, ExchangeEnd::UpstreamSilent);
    assert_eq!((traffic.tokens, traffic.tokens_at_most), (None, 11));
}

#[test]
fn nothing_that_can_be_printed_names_endpoint_or_key() {
    let upstream = Upstream::parse("http://no-such-host.invalid:4711/secret/v1").unwrap();
    let error = Route::open(upstream.clone()).unwrap_err();
    let mut shown = format!("{upstream:?} {error:?}");
    let mut next: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = next {
        shown.push_str(&error.to_string());
        next = error.source();
    }
    let scripted = Scripted::saying(200, "{}");
    let (forwarder, _) = forwarder_to(&scripted.url(), terms());
    shown.push_str(&format!("{forwarder:?}").replace("port: ", "own port "));
    for word in ["no-such-host", "4711", "secret/v1", KEY, &scripted.url()] {
        assert!(!shown.contains(word), "{word} in {shown}");
    }
}
