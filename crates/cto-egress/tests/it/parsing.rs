//! Whatever is accepted is exactly one request, and reads the same to whoever comes after.

use cto_contract::words::Wire;
use cto_egress::parsing::{Doorway, Framing, parse};
use proptest::prelude::*;

use crate::support::*;

fn door(port: u16) -> Doorway {
    Doorway {
        port,
        wires: Wire::ALL.to_vec(),
    }
}

/// Lines that are right, nearly right, or wrong, in any order.
fn pieces() -> impl Strategy<Value = Vec<&'static str>> {
    let line = prop::sample::select(vec![
        "Host: 127.0.0.1:4711\r\n",
        "Host: localhost:4711\r\n",
        "Host: example.org\r\n",
        "Content-Length: 2\r\n",
        "Content-Length: 02\r\n",
        "Content-Length: 2 2\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Content-Type: application/json\r\n",
        "X-Y: z\r\n",
        "X-Y: z\n",
        "Connection: close\r\n",
        "Upgrade: h2c\r\n",
        " folded\r\n",
        "Bad Name: z\r\n",
    ]);
    let first = prop::sample::select(vec![
        "POST /v1/chat/completions HTTP/1.1\r\n",
        "POST /v1/responses HTTP/1.1\r\n",
        "GET /v1/models HTTP/1.1\r\n",
        "GET http://x/v1/models HTTP/1.1\r\n",
        "POST /v1/responses HTTP/1.0\r\n",
    ]);
    let body = prop::sample::select(vec![
        "\r\n{}",
        "\r\n2\r\n{}\r\n0\r\n\r\n",
        "\r\n",
        "\r\n{}{}",
        "\r\n2\r\n{}\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\n\r\n",
    ]);
    (first, proptest::collection::vec(line, 0..7), body)
        .prop_map(|(first, lines, body)| [vec![first], lines, vec![body]].concat())
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        parse(&bytes, &door(4711)).ok();
    }

    #[test]
    fn what_is_accepted_holds_one_host_and_one_length(pieces in pieces()) {
        let text = pieces.concat();
        if let Ok(Some(request)) = parse(text.as_bytes(), &door(4711)) {
            let head = &text[..request.length];
            prop_assert!(head.ends_with("\r\n\r\n"));
            prop_assert_eq!(head.matches("\r\n\r\n").count(), 1);
            prop_assert_eq!(head.matches("Host:").count(), 1);
            prop_assert!(!head.contains("example.org") && !head.contains("http://"));
            let framings = head.matches("Content-Length:").count() + head.matches("Transfer-Encoding:").count();
            prop_assert_eq!(framings, usize::from(request.framing != Framing::None));
            prop_assert_eq!(head.replace("\r\n", "").contains('\n'), false);
        }
    }

    #[test]
    fn a_head_reads_the_same_wherever_it_is_cut(pieces in pieces(), cut in any::<prop::sample::Index>()) {
        let text = pieces.concat();
        let whole = parse(text.as_bytes(), &door(4711));
        let cut = cut.index(text.len() + 1);
        // A part is either not enough, or already shows what the whole shows.
        match parse(&text.as_bytes()[..cut], &door(4711)) {
            Ok(None) => {}
            Ok(Some(request)) => prop_assert_eq!(Ok(Some(request)), whole),
            Err(refused) => prop_assert_eq!(Some(refused.refusal), whole.err().map(|r| r.refusal)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_reaches_the_upstream_is_one_request_by_the_same_rules(pieces in pieces()) {
        let upstream = Scripted::saying(200, "{}");
        let (forwarder, address) = forwarder_to(&upstream.url(), terms());
        let text = pieces.concat().replace(":4711", &format!(":{}", address.port()));
        let accepted = verdict(&send(address, text.as_bytes())) == "200";
        drop(forwarder.stop());
        let seen = upstream.seen();
        prop_assert_eq!(seen.len(), usize::from(accepted));
        for request in seen {
            // The base path is the upstream's; the rest must be acceptable to the very parser it came through.
            let request = request.replacen("/base/v1", "/v1", 1);
            let again = parse(request.as_bytes(), &door(upstream.port)).unwrap().unwrap();
            let body = &request[again.length..];
            let expected = match again.framing {
                Framing::None => 0,
                Framing::Length(length) => usize::try_from(length).unwrap(),
                Framing::Chunked => usize::MAX,
            };
            prop_assert_eq!(body.len(), expected);
        }
    }
}
