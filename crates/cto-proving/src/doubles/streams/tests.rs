use super::*;

/// What kind of event a line tells of.
fn kinds(lane: Lane) -> Vec<String> {
    let lines = recording(lane).lines();
    let kind = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let text = |path: &str| value.pointer(path).and_then(Value::as_str);
        let parts = [
            text("/type"),
            text("/subtype").filter(|_| text("/type") == Some("system")),
            text("/item/type"),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    lines.map(kind).collect()
}

#[test]
fn a_recording_holds_the_events_that_a_lane_ends_by() {
    for (lane, ends) in [
        (Lane::Codex, &["turn.completed", "turn.failed"][..]),
        (Lane::Pi, &["agent_end", "agent_settled"]),
        (Lane::Claude, &["result", "system api_retry"]),
    ] {
        let known = kinds(lane);
        for end in ends {
            assert!(known.contains(&(*end).to_owned()), "{lane} {end}");
        }
    }
}

#[test]
fn a_recording_holds_no_long_text_and_no_address() {
    for lane in [Lane::Codex, Lane::Pi, Lane::Claude] {
        let text = recording(lane);
        assert!(!text.contains("127.0.0.1:"), "{lane}");
        for line in text.lines() {
            longest(&serde_json::from_str(line).unwrap());
        }
    }
}

fn longest(value: &Value) {
    match value {
        Value::String(text) => assert!(text.chars().count() <= 60, "{text}"),
        Value::Array(items) => items.iter().for_each(longest),
        Value::Object(fields) => fields.values().for_each(longest),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
