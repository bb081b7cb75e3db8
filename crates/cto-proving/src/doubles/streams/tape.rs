//! What the real programs told, one line of each kind, and how a double tells the same about something else.

use cto_contract::words::Lane;
use serde_json::Value;

/// Recorded from the pinned programs, with ids, times and long texts taken out.
pub fn recording(lane: Lane) -> &'static str {
    match lane {
        Lane::Codex => include_str!("../../../recordings/codex-0.169.0.jsonl"),
        Lane::Pi => include_str!("../../../recordings/pi-0.87.1.jsonl"),
        Lane::Claude => include_str!("../../../recordings/claude-2.1.326.jsonl"),
        Lane::Fake | Lane::Command | Lane::Case | Lane::Acp => "",
    }
}

/// A recording that is played.
pub(super) struct Tape(Vec<Value>);

impl Tape {
    pub(super) fn of(lane: Lane) -> Self {
        let lines = recording(lane).lines();
        Self(
            lines
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect(),
        )
    }

    /// The first recorded line that says all this, with other values in it. What was never recorded is told under a name that
    /// no lane knows.
    pub(super) fn line(&self, is: &[(&str, &str)], set: &[(&str, Value)]) -> String {
        let says = |line: &&Value| {
            is.iter()
                .all(|(path, text)| line.pointer(path).and_then(Value::as_str) == Some(text))
        };
        let Some(mut line) = self.0.iter().find(says).cloned() else {
            let names: Vec<&str> = is.iter().map(|(_, text)| *text).collect();
            return serde_json::json!({"type": format!("not recorded: {}", names.join(" "))})
                .to_string();
        };
        for (path, value) in set {
            if let Some(place) = line.pointer_mut(path) {
                *place = value.clone();
            }
        }
        line.to_string()
    }

    pub(super) fn tell(&self, is: &[(&str, &str)], set: &[(&str, Value)]) {
        super::print(&self.line(is, set));
    }
}
