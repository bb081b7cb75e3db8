use proptest::prelude::*;

use super::*;

/// Decodes in one go and writes what came out as text.
fn decoded(text: &str) -> String {
    let (lines, tally) = all([text.as_bytes()]);
    format!("{lines:?} {tally:?}")
}

fn all<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<AgentLine>, Tally) {
    let mut decoder = Decoder::new();
    let mut lines = Vec::new();
    for chunk in chunks {
        lines.extend(decoder.feed(chunk));
        assert!(decoder.partial.capacity() <= 2 * LINE_BYTES_MAX);
    }
    let (last, tally) = decoder.finish();
    lines.extend(last);
    (lines, tally)
}

/// One line of a type, with the rest of its fields.
fn line(rest: &str) -> String {
    format!("{{\"schema\":\"cto.agent/v1\",{rest}}}\n")
}

#[test]
fn the_four_types_are_read() {
    let lines = |text: &str| format!("{:?}", all([text.as_bytes()]).0);
    insta::assert_snapshot!(lines(&line(r#""type":"plan","steps":["read","write"]"#)), @r#"[Plan { steps: ["read", "write"] }]"#);
    insta::assert_snapshot!(lines(&line(r#""type":"say","text":"hello""#)), @r#"[Say { text: "hello" }]"#);
    insta::assert_snapshot!(lines(&line(r#""type":"review","verdict":"reject","note":"no tests""#)), @r#"[Review { verdict: Reject, note: Some("no tests") }]"#);
    insta::assert_snapshot!(lines(&line(r#""type":"review","verdict":"accept""#)), @"[Review { verdict: Accept, note: None }]");
    insta::assert_snapshot!(lines(&line(r#""type":"done","summary":"2 files""#)), @r#"[Done { summary: Some("2 files") }]"#);
    insta::assert_snapshot!(lines(&line(r#""type":"done""#)), @"[Done { summary: None }]");
}

#[test]
fn a_last_line_needs_no_newline_and_a_carriage_return_is_no_part_of_it() {
    let text = line(r#""type":"say","text":"a""#);
    for shape in [
        text.trim_end().to_owned(),
        text.replace('\n', "\r\n"),
        format!("  {text}"),
    ] {
        let (lines, tally) = all([shape.as_bytes()]);
        assert_eq!(lines, [AgentLine::Say { text: "a".into() }], "{shape:?}");
        assert_eq!(tally.understood, 1);
    }
}

#[test]
fn everything_else_is_raw() {
    for raw in [
        "",
        "\n\n",
        "Running tests…\n",
        "{\"type\":\"say\",\"text\":\"no schema\"}\n",
        "{\"schema\":\"cto.agent/v2\",\"type\":\"say\",\"text\":\"other\"}\n",
        "{\"type\":\"item.completed\",\"text\":{\"nested\":true}}\n",
        "[{\"schema\":\"cto.agent/v1\"}]\n",
        "note: {\"schema\":\"cto.agent/v1\",\"type\":\"done\"}\n",
        "{\"text\":\"it said \\\"cto.agent/v1\\\" to me\", oops\n",
    ] {
        assert_eq!(all([raw.as_bytes()]), (vec![], Tally::default()), "{raw:?}");
    }
}

#[test]
fn a_line_that_claims_the_schema_and_is_not_of_its_form_is_counted() {
    for bad in [
        line(r#""type":"shout","text":"x""#),
        line(r#""text":"no type""#),
        line(r#""type":"say""#),
        line(r#""type":"say","text":7"#),
        line(r#""type":"plan","steps":"one""#),
        line(r#""type":"review","verdict":"maybe""#),
        line(r#""type":"say","text":"a","text":"b""#),
        "{\"schema\":\"cto.agent/v1\",\"type\":\"say\",\"text\":\"cut\n".to_owned(),
    ] {
        let (lines, tally) = all([bad.as_bytes()]);
        assert_eq!((lines.len(), tally.malformed), (0, 1), "{bad}");
    }
    assert!(decoded(&line(r#""type":"done","tokens":5"#)).contains("malformed: 0"));
}

#[test]
fn a_line_over_the_cap_is_raw_and_the_next_is_read() {
    let fill = |bytes: usize| {
        let empty = line(r#""type":"say","text":"""#).len() - 1;
        line(&format!(
            "\"type\":\"say\",\"text\":\"{}\"",
            "x".repeat(bytes - empty)
        ))
    };
    let next = line(r#""type":"done""#);
    let at = format!("{}{next}", fill(LINE_BYTES_MAX));
    assert_eq!(all([at.as_bytes()]).0.len(), 2);
    let over = format!("{}{next}", fill(LINE_BYTES_MAX + 1));
    for chunks in [vec![over.as_bytes()], over.as_bytes().chunks(999).collect()] {
        let (lines, tally) = all(chunks);
        assert_eq!(lines, [AgentLine::Done { summary: None }]);
        assert_eq!((tally.overlong, tally.understood), (1, 1));
    }
}

#[test]
fn a_flood_is_bounded_and_a_rejection_after_it_is_not_forgotten() {
    let say = line(r#""type":"say","text":"again""#);
    let mut decoder = Decoder::new();
    let mut kept = 0;
    for _ in 0..(2 * LINES_KEPT_MAX) {
        kept += decoder.feed(say.as_bytes()).len();
    }
    kept += decoder
        .feed(line(r#""type":"review","verdict":"reject""#).as_bytes())
        .len();
    assert_eq!(kept, LINES_KEPT_MAX);
    let tally = decoder.tally();
    assert_eq!(
        (tally.dropped, tally.rejections),
        (LINES_KEPT_MAX as u64 + 1, 1)
    );

    let long = line(&format!(
        "\"type\":\"say\",\"text\":\"{}\"",
        "y".repeat(60_000)
    ));
    let mut decoder = Decoder::new();
    let kept: usize = (0..200).map(|_| decoder.feed(long.as_bytes()).len()).sum();
    assert!(kept * long.len() <= KEPT_BYTES_MAX && kept > 0, "{kept}");
    assert_eq!(decoder.tally().dropped, 200 - kept as u64);
}

#[test]
fn ten_megabytes_without_a_newline_take_one_partial_line() {
    let block = vec![b'{'; 1 << 16];
    let chunks = std::iter::repeat_n(block.as_slice(), 160);
    let (lines, tally) = all(chunks);
    assert_eq!((lines.len(), tally.overlong), (0, 1));
}

/// Bytes that look enough like lines to reach every arm.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..20),
        2 => Just(b"\n".to_vec()),
        2 => prop_oneof![
            Just(r#""type":"say","text":"hi""#),
            Just(r#""type":"review","verdict":"reject""#),
            Just(r#""type":"plan","steps":[]"#),
            Just(r#""type":"nothing""#),
        ].prop_map(|rest| line(rest).into_bytes()),
        1 => Just(b"{\"schema\":\"cto.agent/v1\"".to_vec()),
        1 => (0..4u8).prop_map(|n| vec![b'a' + n; LINE_BYTES_MAX - 1]),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_lines(bytes in streams(), sizes in proptest::collection::vec(1usize..70_000, 1..8)) {
        let mut chunks = Vec::new();
        let mut rest = bytes.as_slice();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (head, tail) = rest.split_at((*size).min(rest.len()));
            chunks.push(head);
            rest = tail;
        }
        prop_assert_eq!(all(chunks), all([bytes.as_slice()]));
    }

    #[test]
    fn byte_by_byte_is_no_different(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(all(bytes.chunks(1)), all([bytes.as_slice()]));
    }

    #[test]
    fn what_is_kept_is_bounded(bytes in streams(), times in 1usize..40) {
        let (lines, tally) = all(std::iter::repeat_n(bytes.as_slice(), times));
        prop_assert!(lines.len() <= LINES_KEPT_MAX);
        prop_assert_eq!(lines.len() as u64 + tally.dropped, tally.understood);
    }
}
