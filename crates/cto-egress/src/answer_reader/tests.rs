//! Tokens, model and faults of answers on every wire, streamed or whole, wherever a stream is cut.

use proptest::prelude::*;

use super::*;
use Wire::{ChatCompletions, Messages, Responses};

fn facts(wire: Wire, body: &str, size: usize) -> AnswerFacts {
    let mut reader = AnswerReader::new(wire, body.contains("data:"));
    for piece in body.as_bytes().chunks(size) {
        reader.feed(piece);
    }
    reader.finish()
}

/// Input, cached, written to a cache, output, reasoning, all; the model; the fault.
fn told(wire: Wire, body: &str, size: usize) -> String {
    let facts = facts(wire, body, size);
    let tokens = match (facts.usage, facts.tokens) {
        (Some(u), Some(total)) => format!(
            "{} {} {} {} {} = {total}",
            u.input, u.cached_input, u.cache_write, u.output, u.reasoning
        ),
        _ => "unknown".to_owned(),
    };
    let model = facts.model.unwrap_or_else(|| "-".to_owned());
    let fault = facts.fault.map_or("ok", ProviderFault::as_str);
    format!("{tokens}; {model}; {fault}")
}

const CHAT: &str = "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"a \\\"usage\\\" b\"}}],\"usage\":null}\n\n\
    : comment\r\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5,\"total_tokens\":12,\"prompt_tokens_details\":{\"cached_tokens\":4},\"completion_tokens_details\":{\"reasoning_tokens\":2}}}\r\n\r\n\
    data: [DONE]\n\n";
const RESPONSES: &str = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"model\":\"m\",\"usage\":null}}\n\n\
    event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n\
    event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":4,\"input_tokens_details\":{\"cached_tokens\":1},\"output_tokens_details\":{\"reasoning_tokens\":2}}}}\n\n";
const MESSAGES: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":100,\"cache_creation_input_tokens\":20,\"output_tokens\":1}}}\n\n\
    event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n\
    event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n\
    event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

const STREAMS: [(Wire, &str, &str); 3] = [
    (ChatCompletions, CHAT, "7 4 0 5 2 = 12; m; ok"),
    (Responses, RESPONSES, "3 1 0 4 2 = 7; m; ok"),
    // What was read from or written to a cache is input that stands beside the input.
    (Messages, MESSAGES, "130 100 20 9 0 = 139; m; ok"),
];

/// What is counted when whoever asked leaves after so many events.
fn left_after(wire: Wire, stream: &str, events: usize) -> (Option<u64>, u64) {
    let mut reader = AnswerReader::new(wire, true);
    for event in stream.split_inclusive("\n\n").take(events) {
        reader.feed(event.as_bytes());
    }
    let facts = reader.abandon();
    (facts.tokens, facts.tokens_at_least)
}

#[test]
fn who_leaves_when_one_of_several_choices_is_over_makes_nothing_cheaper() {
    // Some providers count in every event, if they are asked to.
    let event = |choice: u32, reason: &str, total: u32| {
        format!(
            "data: {{\"choices\":[{{\"index\":{choice},\"delta\":{{\"content\":\"a\"}},\"finish_reason\":{reason}}}],\"usage\":{{\"total_tokens\":{total}}}}}\n\n"
        )
    };
    let stream = [
        event(0, "null", 5),
        event(0, "\"stop\"", 6),
        event(1, "null", 7),
        event(1, "\"stop\"", 8),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    for (events, at_least) in [(1, 5), (2, 6), (3, 7), (4, 8)] {
        let counted = left_after(ChatCompletions, &stream, events);
        assert_eq!(counted, (None, at_least), "after {events}");
    }
    assert_eq!(left_after(ChatCompletions, &stream, 5), (Some(8), 8));
    // The other wires have one choice, and say so when it is over.
    assert_eq!(left_after(Responses, RESPONSES, 3), (Some(7), 7));
    assert_eq!(left_after(Messages, MESSAGES, 2).0, None);
    assert_eq!(left_after(Messages, MESSAGES, 3), (Some(139), 139));
}

#[test]
fn every_wire_is_counted_streamed_or_not() {
    for (wire, stream, expected) in STREAMS {
        assert_eq!(told(wire, stream, 1000), expected);
    }
    let whole = [
        (
            ChatCompletions,
            r#"{"model":"m","choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":null}}"#,
            "3 0 0 4 0 = 7; m; ok",
        ),
        (
            ChatCompletions,
            r#"{"choices":[{"message":{"content":"x"}}],"usage":{"total_tokens":1,"prompt_tokens":8}}"#,
            "8 0 0 0 0 = 8; -; ok",
        ),
        (
            ChatCompletions,
            r#"{"choices":[{"message":{"content":"x"}}],"usage":{"total_tokens":9}}"#,
            "0 0 0 0 0 = 9; -; ok",
        ),
        (
            Responses,
            r#"{"model":"m","output":[{"type":"function_call"}],"error":null,"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}"#,
            "3 0 0 4 0 = 7; m; ok",
        ),
        (
            Messages,
            r#"{"type":"message","model":"m","content":[{"type":"tool_use"}],"usage":{"input_tokens":1,"cache_read_input_tokens":2,"output_tokens":4}}"#,
            "3 2 0 4 0 = 7; m; ok",
        ),
    ];
    for (wire, body, expected) in whole {
        assert_eq!(told(wire, body, 7), expected, "{body}");
    }
    for usage in [
        "null",
        "{}",
        r#"{"total_tokens":-1}"#,
        r#"{"total_tokens":18446744073709551615}"#,
    ] {
        let body = format!(r#"{{"choices":[{{"message":{{"content":"x"}}}}],"usage":{usage}}}"#);
        assert_eq!(told(ChatCompletions, &body, 7), "unknown; -; ok", "{usage}");
    }
}

#[test]
fn what_is_no_answer_is_called_by_its_fault() {
    let cases = [
        (ChatCompletions, "", "malformed"),
        (ChatCompletions, "{}", "malformed"),
        (ChatCompletions, r#"{"choices":[{"mess"#, "cut"),
        (ChatCompletions, "<html>", "malformed"),
        (ChatCompletions, "data: <html>\n\n", "malformed"),
        (
            ChatCompletions,
            r#"{"error":{"message":"x"}}"#,
            "server_error",
        ),
        (
            ChatCompletions,
            r#"{"choices":[{"message":{"content":null,"reasoning_content":"hm"}}]}"#,
            "reasoning_only",
        ),
        (
            ChatCompletions,
            r#"{"choices":[{"message":{"content":"\n","reasoning":"hm"}}]}"#,
            "reasoning_only",
        ),
        (
            ChatCompletions,
            r#"{"choices":[{"message":{"content":null,"reasoning":"hm","tool_calls":[{}]}}]}"#,
            "ok",
        ),
        (
            ChatCompletions,
            r#"{"choices":[{"message":{"content":""}}]}"#,
            "ok",
        ),
        (
            ChatCompletions,
            r#"{"choices":[{"message":{"content":null,"refusal":"no","reasoning":"hm"}}]}"#,
            "ok",
        ),
        (
            ChatCompletions,
            "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n",
            "cut",
        ),
        (
            Responses,
            r#"{"output":[{"type":"reasoning"},{"type":"message","content":[]}]}"#,
            "reasoning_only",
        ),
        (
            Responses,
            r#"{"output":[],"status":"failed"}"#,
            "server_error",
        ),
        (
            Responses,
            "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"x\"}}}\n\n",
            "server_error",
        ),
        (
            Responses,
            "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"reasoning\"}}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"type\":\"reasoning\"}]}}\n\n",
            "reasoning_only",
        ),
        (
            Responses,
            "data: {\"type\":\"response.created\"}\n\n",
            "cut",
        ),
        (
            Messages,
            r#"{"content":[{"type":"thinking","thinking":"hm"}]}"#,
            "reasoning_only",
        ),
        (
            Messages,
            r#"{"content":[{"type":"thinking"}],"stop_reason":"refusal"}"#,
            "ok",
        ),
        (
            Messages,
            r#"{"type":"error","error":{"type":"overloaded_error"}}"#,
            "server_error",
        ),
        (
            Messages,
            "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"error\",\"error\":{}}\n\n",
            "server_error",
        ),
        (
            Messages,
            "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
            "reasoning_only",
        ),
    ];
    for (wire, body, expected) in cases {
        let fault = facts(wire, body, 11).fault;
        assert_eq!(
            fault.map_or("ok", ProviderFault::as_str),
            expected,
            "{body}"
        );
    }
}

#[test]
fn a_stream_that_ends_early_names_some_of_its_tokens_and_not_all() {
    let begun = MESSAGES.split("event: message_delta").next().unwrap();
    let facts = facts(Messages, begun, 1000);
    assert_eq!((facts.tokens, facts.tokens_at_least), (None, 131));
    assert_eq!(facts.fault, Some(ProviderFault::Cut));
}

proptest! {
    #[test]
    fn an_answer_reads_the_same_wherever_it_is_cut_into_pieces(size in 1_usize..80) {
        for (wire, stream, expected) in STREAMS {
            prop_assert_eq!(told(wire, stream, size), expected);
        }
    }

    #[test]
    fn no_answer_makes_it_panic(body in "(data: )?[\\[\\]{}\",:a-z0-9\n]{0,80}", wire in 0usize..3) {
        told(Wire::ALL[wire], &body, 9);
    }

    #[test]
    fn a_stream_that_lost_its_end_is_cut(at in 0usize..200, wire in 0usize..3) {
        let (wire, stream, _) = STREAMS[wire];
        let end = match wire {
            ChatCompletions => "data: {\"choices\":[{\"delta\":{},\"finish",
            Responses => "event: response.completed",
            Messages => "event: message_delta",
        };
        let begun = stream.split(end).next().unwrap();
        let cut = &begun[..begun.len().min(60 + at)];
        let fault = facts(wire, cut, 13).fault;
        prop_assert!(matches!(fault, Some(ProviderFault::Cut | ProviderFault::Malformed)), "{cut} {fault:?}");
    }
}
