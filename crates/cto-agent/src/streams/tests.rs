use proptest::prelude::*;
use serde_json::json;

use super::*;

type Read = fn(&serde_json::Value) -> Reading;
const READERS: [Read; 3] = [codex::read, pi::read, claude::read];

/// Everything that a dialogue gives for output in these chunks.
fn heard(read: Read, chunks: &[&[u8]]) -> (Vec<Act>, Ending) {
    let mut dialogue = Box::new(StreamDialogue::new("do it", read));
    let mut acts = dialogue.open();
    for chunk in chunks {
        acts.extend(dialogue.hear(chunk));
    }
    (acts, dialogue.finish())
}

/// What a stream comes to, in a few lines.
fn told(read: Read, lines: &[serde_json::Value]) -> String {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let (acts, ending) = heard(read, &[text.as_bytes()]);
    let notes = acts.iter().filter_map(|act| match act {
        Act::Note(Note::Plan(text)) => Some(text.clone()),
        Act::Note(Note::Activity(did)) => Some(format!("{}: {}", did.kind, did.text)),
        Act::Tell(_) | Act::CloseStdin | Act::Finished => None,
    });
    let mut out: Vec<String> = notes.collect();
    let words = ending.words.unwrap();
    let usage = words.usage.unwrap_or_default();
    out.push(format!(
        "{} {:?} in {} ({} cached, {} written) out {} ({} reasoning)",
        words.end.unwrap(),
        words.failure,
        usage.input,
        usage.cached_input,
        usage.cache_write,
        usage.output,
        usage.reasoning
    ));
    if !words.unknown_events.is_empty() {
        out.push(format!("unknown: {}", words.unknown_events.join(", ")));
    }
    out.join("\n")
}

#[test]
fn codex_ends_by_its_turn_and_a_reconnection_is_no_failure() {
    let work = [
        json!({"type": "thread.started", "thread_id": "x"}),
        json!({"type": "item.completed", "item": {"type": "error", "message": "no metadata"}}),
        json!({"type": "turn.started"}),
        json!({"type": "error", "message": "Reconnecting... 1/1"}),
        json!({"type": "item.started", "item": {"type": "command_execution", "command": "ls\nls"}}),
        json!({"type": "item.completed", "item": {"type": "command_execution", "command": "ls\nls"}}),
        json!({"type": "item.completed", "item": {"type": "file_change", "changes": [{"path": "a.py"}, {"path": "b.py"}]}}),
        json!({"type": "item.completed", "item": {"type": "hologram"}}),
        json!({"type": "turn.paused"}),
    ];
    let usage = json!({"input_tokens": 10, "cached_input_tokens": 4, "cache_write_input_tokens": 1, "output_tokens": 3, "reasoning_output_tokens": 2});
    let end = json!({"type": "turn.completed", "usage": usage});
    let lines: Vec<_> = work.iter().cloned().chain([end]).collect();
    insta::assert_snapshot!(told(codex::read, &lines), @r"
    struggles: Reconnecting... 1/1
    runs: ls\nls
    edits: a.py, b.py
    done None in 10 (4 cached, 1 written) out 3 (2 reasoning)
    unknown: item hologram, turn.paused
    ");
    let end = json!({"type": "turn.failed", "error": {"message": "401"}});
    let lines: Vec<_> = work[2..3].iter().cloned().chain([end]).collect();
    insta::assert_snapshot!(told(codex::read, &lines), @r#"failed Some("401") in 0 (0 cached, 0 written) out 0 (0 reasoning)"#);
    insta::assert_snapshot!(told(codex::read, &work[..3]), @"unsaid None in 0 (0 cached, 0 written) out 0 (0 reasoning)");
}

#[test]
fn pi_ends_as_its_last_message_stopped_and_its_usage_is_summed() {
    let message = |stop: &str, error: Option<&str>| {
        json!({"type": "message_end", "message": {"role": "assistant", "stopReason": stop, "errorMessage": error,
            "content": [{"type": "text", "text": "hm"}], "usage": {"input": 7, "cacheRead": 2, "cacheWrite": 1, "output": 3}}})
    };
    let run =
        json!({"type": "tool_execution_start", "toolName": "bash", "args": {"command": "ls"}});
    let edit =
        json!({"type": "tool_execution_start", "toolName": "edit", "args": {"path": "a.py"}});
    let end = json!({"type": "agent_end", "messages": []});
    let good = [
        json!({"type": "session"}),
        message("error", Some("terminated")),
        end.clone(),
        json!({"type": "auto_retry_start"}),
        message("toolUse", None),
        run,
        edit,
        message("stop", None),
        end.clone(),
        json!({"type": "agent_settled"}),
    ];
    insta::assert_snapshot!(told(pi::read, &good), @r"
    struggles: terminated
    says: hm
    runs: ls
    edits: a.py
    says: hm
    done None in 30 (6 cached, 3 written) out 9 (0 reasoning)
    ");
    let bad = [message("error", Some("401: no")), end];
    insta::assert_snapshot!(told(pi::read, &bad), @r#"
    struggles: 401: no
    failed Some("401: no") in 10 (2 cached, 1 written) out 3 (0 reasoning)
    "#);
}

#[test]
fn claude_is_not_believed_when_it_calls_an_error_a_success() {
    let usage = json!({"input_tokens": 5, "cache_read_input_tokens": 6, "cache_creation_input_tokens": 7, "output_tokens": 8});
    let said = json!({"type": "assistant", "message": {"content": [{"type": "text", "text": "I look"}, {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}},
        {"type": "tool_use", "name": "Edit", "input": {"file_path": "a.py"}}, {"type": "tool_use", "name": "Glob", "input": {}}]}});
    let end = |is_error: bool, subtype: &str, reason: &str| json!({"type": "result", "subtype": subtype, "is_error": is_error, "terminal_reason": reason, "result": "words", "usage": usage});
    let good = [
        json!({"type": "system", "subtype": "init"}),
        said,
        end(false, "success", "completed"),
    ];
    insta::assert_snapshot!(told(claude::read, &good), @r"
    says: I look
    runs: ls
    edits: a.py
    runs: Glob
    done None in 18 (6 cached, 7 written) out 8 (0 reasoning)
    ");
    for (is_error, subtype, reason) in [
        (true, "success", "completed"),
        (false, "success", "api_error"),
        (false, "error_max_turns", "completed"),
    ] {
        let text = told(claude::read, &[end(is_error, subtype, reason)]);
        assert!(text.starts_with("failed"), "{text}");
    }
    let later = [end(false, "success", "completed"), good[1].clone()];
    assert!(told(claude::read, &later).contains("unsaid"), "it went on");
}

#[test]
fn a_program_that_lingers_after_its_end_is_ended_and_one_that_goes_on_is_not() {
    let mut dialogue = StreamDialogue::new("x", codex::read);
    let seconds = Duration::from_secs;
    assert_eq!(dialogue.tick(seconds(100)), []);
    dialogue.hear(b"{\"type\":\"turn.completed\"}\n");
    assert_eq!(dialogue.tick(seconds(101)), []);
    assert_eq!(dialogue.tick(seconds(105)), []);
    dialogue.hear(b"{\"type\":\"turn.started\"}\n");
    assert_eq!(dialogue.tick(seconds(107)), []);
    dialogue.hear(b"{\"type\":\"turn.completed\"}\n");
    assert_eq!(dialogue.tick(seconds(108)), []);
    assert_eq!(dialogue.tick(seconds(113)), [Act::Finished]);
}

#[test]
fn a_line_without_end_is_dropped_and_the_next_one_counts() {
    for read in READERS {
        let mut dialogue = Box::new(StreamDialogue::new("x", read));
        dialogue.hear(b"{\"type\":\"");
        let piece = vec![b'x'; EVENT_LINE_BYTES_MAX / 4];
        for _ in 0..6 {
            dialogue.hear(&piece);
            assert!(dialogue.lines.held_bytes() <= EVENT_LINE_BYTES_MAX);
        }
        dialogue.hear(b"\n{\"type\":\"turn.completed\"}\n{\"type\":\"agent_end\"}\n{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false}\n");
        let words = dialogue.finish().words.unwrap();
        assert_eq!((words.dropped, words.end), (1, Some(SaidEnd::Done)));
    }
}

/// Lines as such programs print them, and as they do not.
fn line() -> impl Strategy<Value = String> {
    let known = [
        r#"{"type":"turn.completed","usage":{"input_tokens":1}}"#,
        r#"{"type":"turn.failed","error":"text, not an object"}"#,
        r#"{"type":"item.completed","item":{"type":"agent_message","text":"é"}}"#,
        r#"{"type":"item.started","item":[]}"#,
        r#"{"type":"message_end","message":{"role":"assistant","content":[{"text":"a"}],"usage":{"input":-1}}}"#,
        r#"{"type":"agent_end"}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"a"}]}}"#,
        r#"{"type":"result","is_error":"no","usage":3}"#,
        r#"{"type":"system"}"#,
        r#"{"type":7}"#,
        r#"{"type":"turn.comp"#,
        "not json",
        "",
    ];
    prop_oneof![
        prop::sample::select(known.to_vec()).prop_map(str::to_owned),
        "[ -~]{0,40}",
    ]
}

proptest! {
    #[test]
    fn a_stream_means_the_same_wherever_it_is_cut(lines in prop::collection::vec(line(), 0..10), size in 1_usize..60) {
        let text = lines.join("\n").into_bytes();
        for read in READERS {
            let chunks: Vec<&[u8]> = text.chunks(size).collect();
            prop_assert_eq!(heard(read, &chunks), heard(read, &[&text]));
        }
    }

    #[test]
    fn no_bytes_make_a_stream_panic_or_end_the_program(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        for read in READERS {
            let (acts, _) = heard(read, &[&bytes]);
            prop_assert!(!acts.contains(&Act::Finished));
        }
    }
}
