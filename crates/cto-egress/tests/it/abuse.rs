//! Everything that a stock HTTP library would let through and that must not get through here.

use crate::support::*;

/// A request line, header lines and what follows, with `P` for the port.
fn abuse(text: &str, port: u16) -> String {
    text.replace('\n', "\r\n")
        .replace(":P", &format!(":{port}"))
}

#[test]
fn no_abuse_reaches_the_upstream_and_each_is_named() {
    let upstream = Scripted::saying(200, "{}");
    let (forwarder, address) = forwarder_to(&upstream.url(), terms());
    const JSON: &str = "Content-Type: application/json\n";
    let chat = "POST /v1/chat/completions HTTP/1.1\nHost: 127.0.0.1:P\n";
    let cases = [
        (
            "CONNECT 127.0.0.1:22 HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "405 connect_method",
        ),
        (
            "GET http://example.org/ HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 absolute_form",
        ),
        (
            "GET http://127.0.0.1:P/v1/models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 absolute_form",
        ),
        (
            "OPTIONS * HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 absolute_form",
        ),
        (
            "GET //v1/models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 odd_path",
        ),
        (
            "GET /v1/../v1/models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 odd_path",
        ),
        (
            "GET /v1/./models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 odd_path",
        ),
        (
            "GET /v1/%2e%2e/admin HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 odd_path",
        ),
        (
            "GET /v1/models%2f HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 odd_path",
        ),
        (
            "GET /v1/models/ HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 odd_path",
        ),
        (
            "GET /v1\\models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 odd_path",
        ),
        (
            "GET /v1/models#x HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 odd_path",
        ),
        (
            "GET /v1/models;x HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 odd_path",
        ),
        (
            "GET /v1/models?host=x HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 query",
        ),
        (
            "GET /v1/files HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "404 unknown_route",
        ),
        (
            "GET /V1/models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "404 unknown_route",
        ),
        (
            "DELETE /v1/models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "404 unknown_route",
        ),
        (
            "get /v1/models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "404 unknown_route",
        ),
        (
            "GET /v1/models HTTP/1.0\nHost: 127.0.0.1:P\n\n",
            "505 http_version",
        ),
        (
            "GET /v1/models HTTP/2.0\nHost: 127.0.0.1:P\n\n",
            "505 http_version",
        ),
        ("PRI * HTTP/2.0\n\nSM\n\n", "505 http_version"),
        ("GET /v1/models\n\n", "400 bad_request_line"),
        (
            "GET  /v1/models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 bad_request_line",
        ),
        (
            "GET\t/v1/models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 bad_request_line",
        ),
        (
            "GET /v1/mod els HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 bad_request_line",
        ),
        (
            "\nGET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 bad_header",
        ),
        ("GET /v1/models HTTP/1.1\n\n", "400 host_missing"),
        (
            "GET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\nHost: 127.0.0.1:P\n\n",
            "400 repeated_header",
        ),
        (
            "GET /v1/models HTTP/1.1\nHost: example.org\n\n",
            "421 host_foreign",
        ),
        (
            "GET /v1/models HTTP/1.1\nHost: 127.0.0.1\n\n",
            "421 host_foreign",
        ),
        (
            "GET /v1/models HTTP/1.1\nHost: 127.0.0.1:P@example.org\n\n",
            "421 host_foreign",
        ),
        (
            "GET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\n X: folded\n\n",
            "400 folded_header",
        ),
        (
            "GET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\nX : y\n\n",
            "400 bad_header",
        ),
        (
            "GET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\nX\n\n",
            "400 bad_header",
        ),
        (
            "GET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\nX: \u{1}\n\n",
            "400 bad_header",
        ),
        (
            "GET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\nX: ü\n\n",
            "400 bad_header",
        ),
        (
            "GET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\nConnection: keep-alive, Upgrade\n\n",
            "426 upgrade",
        ),
        (
            "GET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\nUpgrade: websocket\n\n",
            "426 upgrade",
        ),
        (
            "GET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\nContent-Length: 3\n\nabc",
            "400 unexpected_body",
        ),
        (
            "GET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\n\nGET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 pipelined",
        ),
        (
            "{chat}{json}Content-Length: 2\nTransfer-Encoding: chunked\n\n{}",
            "400 length_and_encoding",
        ),
        (
            "{chat}{json}Content-Length: 2\nContent-Length: 2\n\n{}",
            "400 repeated_header",
        ),
        ("{chat}{json}Content-Length: 2, 2\n\n{}", "400 bad_length"),
        ("{chat}{json}Content-Length: +2\n\n{}", "400 bad_length"),
        ("{chat}{json}Content-Length: 0x2\n\n{}", "400 bad_length"),
        ("{chat}{json}Content-Length: -1\n\n{}", "400 bad_length"),
        (
            "{chat}{json}Content-Length: 99999999999999999999\n\n{}",
            "400 bad_length",
        ),
        (
            "{chat}{json}Content-Length: 99999999999\n\n{}",
            "413 body_too_large",
        ),
        ("{chat}{json}Content-Length: 20\n\n{}", "400 cut_off"),
        ("{chat}{json}\n{}", "411 length_required"),
        ("{chat}Content-Length: 2\n\n{}", "415 content_type"),
        (
            "{chat}Content-Type: text/plain\nContent-Length: 2\n\n{}",
            "415 content_type",
        ),
        (
            "{chat}{json}Content-Encoding: gzip\nContent-Length: 2\n\n{}",
            "415 content_encoding",
        ),
        (
            "{chat}{json}Expect: 100-continue\nContent-Length: 2\n\n{}",
            "417 expect",
        ),
        (
            "{chat}{json}Trailer: X\nTransfer-Encoding: chunked\n\n0\n\n",
            "400 trailer",
        ),
        (
            "{chat}{json}Transfer-Encoding: gzip, chunked\n\n0\n\n",
            "400 bad_transfer_encoding",
        ),
        (
            "{chat}{json}Transfer-Encoding: xchunked\n\n0\n\n",
            "400 bad_transfer_encoding",
        ),
        (
            "{chat}{json}Transfer-Encoding : chunked\nContent-Length: 2\n\n{}",
            "400 bad_header",
        ),
        (
            "{chat}{json}Transfer-Encoding: chunked\n\n2;x=y\n{}\n0\n\n",
            "400 bad_chunk",
        ),
        (
            "{chat}{json}Transfer-Encoding: chunked\n\n2\n{}\n0\nX: y\n\n",
            "400 bad_chunk",
        ),
        (
            "{chat}{json}Transfer-Encoding: chunked\n\n2\n{}\n0\n\nGET /v1/models",
            "400 pipelined",
        ),
        (
            "{chat}{json}Content-Length: 2\n\n{}GET /v1/models HTTP/1.1\nHost: 127.0.0.1:P\n\n",
            "400 pipelined",
        ),
        (
            "{chat}{json}Content-Length: 9\n\n{\"a\":1}{}",
            "400 bad_json",
        ),
        (
            "{chat}{json}Content-Length: 13\n\n{\"a\":1,\"a\":2}",
            "400 repeated_key",
        ),
        (
            "{chat}{json}Content-Length: 19\n\n{\"background\":true}",
            "400 background_work",
        ),
        (
            "{chat}{json}Content-Length: 26\n\n{\"tools\":[{\"type\":\"mcp\"}]}",
            "403 hosted_tool",
        ),
        (
            "{chat}{json}Content-Length: 26\n\n{\"x\":{\"image_url\":\"ftp:\"}}",
            "403 remote_url",
        ),
    ];
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(text, expected)| {
            let text = text.replace("{chat}", chat).replace("{json}", JSON);
            let seen = verdict(&send(address, abuse(&text, address.port()).as_bytes()));
            (seen != *expected).then(|| format!("{text:?}: {seen}, not {expected}"))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    for (bytes, expected) in [
        (
            &b"GET /v1/models HTTP/1.1\nHost: x\n\n"[..],
            "400 bare_line_end",
        ),
        (b"GET /v1/models HTTP/1.1\rHost: x\r\r", "400 bare_line_end"),
        (
            b"GET /v1/models HTTP/1.1\r\nHost: x\nX: y\r\n\r\n",
            "400 bare_line_end",
        ),
        (b"\x16\x03\x01\x02\x00\x01", "nothing"),
        (b"\xff\xfe\r\n\r\n", "400 bad_header"),
    ] {
        let seen = verdict(&send(address, bytes));
        // A TLS greeting is no line: it is answered when its sender has given up.
        let expected = if expected == "nothing" {
            "400 cut_off"
        } else {
            expected
        };
        assert_eq!(seen, expected, "{bytes:?}");
    }
    let many = "X: y\r\n".repeat(200);
    let huge = format!("X: {}\r\n", "y".repeat(40_000));
    for lines in [many, huge] {
        let request = format!("GET /v1/models HTTP/1.1\r\n{lines}\r\n");
        let seen = verdict(&send(address, request.as_bytes()));
        assert_eq!(seen, "431 head_too_large");
    }
    // The control: the same bytes without the abuse do get through.
    assert_eq!(verdict(&crate::support::chat(address, "{}")), "200");
    assert_eq!(upstream.seen().len(), 1);
    let traffic = forwarder.stop();
    assert_eq!(traffic.requests, 1);
    let upgrades = cases.iter().filter(|case| case.1 == "426 upgrade").count() as u64;
    assert_eq!(traffic.refused, cases.len() as u64 - upgrades + 5 + 2);
    assert_eq!(
        traffic.exchanges.len() as u64,
        traffic.refused + upgrades + 1
    );
}

#[test]
fn a_record_of_an_abuse_is_harmless_text() {
    let upstream = Scripted::saying(200, "{}");
    let (forwarder, address) = forwarder_to(&upstream.url(), terms());
    let long = format!("GET /\x1b[31m{} HTTP/1.1\r\n\r\n", "x".repeat(5_000));
    send(address, long.as_bytes());
    let exchange = forwarder.stop().exchanges.remove(0);
    assert!(exchange.path.starts_with("/\\x1b[31mxxx"), "{exchange:?}");
    assert!(exchange.path.len() < 200, "{exchange:?}");
}
