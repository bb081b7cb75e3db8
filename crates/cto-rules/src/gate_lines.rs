//! The gates of `harness.yaml` as lines: one lane's is written anew, and every other line of the file stays as it is.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cto_contract::config::{GateConfig, HarnessConfig};
use cto_contract::document::DocumentError;
use cto_contract::words::Lane;

const KEY: &str = "gates:";
const NEW_FILE: &str = "schema: cto.harness/v1\n";

/// Why a gate could not be written into a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateLinesError {
    /// The file is no good as it is.
    #[error("the file can't be read as it is")]
    Invalid(#[source] DocumentError),
    /// The gate itself is refused.
    #[error("the gate is refused")]
    Refused(#[source] DocumentError),
    /// Its shape is not that of a list of keys, one a line.
    #[error("`gates` is written in a way that can't be changed without touching more")]
    OddShape,
}

/// The lines that open a lane, as they stand in the file.
pub fn gate_lines(gates: &BTreeMap<String, GateConfig>) -> String {
    if gates.is_empty() {
        return String::new();
    }
    let mut lines = format!("{KEY}\n");
    for (lane, gate) in gates {
        let stage = gate
            .stage
            .map_or_else(String::new, |stage| format!(", stage: {stage}"));
        // Writing to a string can't fail.
        writeln!(lines, "  {lane}: {{allow: {}{stage}}}", gate.allow).ok();
    }
    lines
}

/// Returns the text of the file with the gate of a lane, or without one. Whatever else it says, it says as before.
pub fn with_gate(
    text: &str,
    lane: Lane,
    gate: Option<GateConfig>,
) -> Result<String, GateLinesError> {
    let is_new = text.trim().is_empty();
    let text = if is_new { NEW_FILE } else { text };
    let read = |text: &str| HarnessConfig::read("harness.yaml", text.as_bytes());
    let mut wanted = read(text).map_err(GateLinesError::Invalid)?;
    match gate {
        Some(gate) => wanted.gates.insert(lane.as_str().to_owned(), gate),
        None => wanted.gates.remove(lane.as_str()),
    };
    let (before, after) = around(text).ok_or(GateLinesError::OddShape)?;
    let mut new = before.to_owned();
    if !new.is_empty() && !new.ends_with('\n') {
        new.push('\n');
    }
    new.push_str(&gate_lines(&wanted.gates));
    new.push_str(after);
    match read(&new) {
        Ok(found) if found == wanted => Ok(new),
        Ok(_) => Err(GateLinesError::OddShape),
        // The same lines in a file of their own tell whether it is the gate or the file.
        Err(error) => {
            let alone = format!("{NEW_FILE}{}", gate_lines(&wanted.gates));
            Err(match read(&alone) {
                Ok(_) => GateLinesError::OddShape,
                Err(_) => GateLinesError::Refused(error),
            })
        }
    }
}

/// What stands before and after the gates; none where they stand there twice.
fn around(text: &str) -> Option<(&str, &str)> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with(KEY) {
            starts.push(at);
        }
        at += line.len();
    }
    let start = match starts[..] {
        [] => return Some((text, "")),
        [start] => start,
        _ => return None,
    };
    // It ends where the next line begins at the margin; blank lines before that are no part of it.
    let mut end = start;
    let mut at = start;
    for (number, line) in text[start..].split_inclusive('\n').enumerate() {
        let is_inside = number == 0 || line.starts_with([' ', '\t']);
        let is_blank = line.trim().is_empty();
        if !is_inside && !is_blank {
            break;
        }
        at += line.len();
        if !is_blank {
            end = at;
        }
    }
    Some((&text[..start], &text[end..]))
}

#[cfg(test)]
mod tests {
    use cto_contract::words::Stage;
    use proptest::prelude::*;

    use super::*;

    const OPEN: GateConfig = GateConfig {
        allow: true,
        stage: Some(Stage::COPIED_REPOSITORY),
    };

    fn opened(text: &str) -> String {
        with_gate(text, Lane::Codex, Some(OPEN)).unwrap_or_else(|e| format!("refused: {e}"))
    }

    #[test]
    fn a_gate_is_written_and_the_rest_of_the_file_stays() {
        let line = "gates:\n  codex: {allow: true, stage: 3}\n";
        assert_eq!(opened(""), format!("schema: cto.harness/v1\n{line}"));
        let rest = "# mine\nschema: cto.harness/v1   # keep\n\nproviders: {local: {key_env: K}}";
        assert_eq!(opened(rest), format!("{rest}\n{line}"));
        let held = "schema: cto.harness/v1\ngates:\n  # why\n  pi: {allow: true, stage: 2}\n\n# limits\nlimits: {tokens: 5}\n";
        assert_eq!(
            opened(held),
            "schema: cto.harness/v1\ngates:\n  codex: {allow: true, stage: 3}\n  pi: {allow: true, stage: 2}\n\n# limits\nlimits: {tokens: 5}\n"
        );
        let flow = "schema: cto.harness/v1\ngates: {codex: {allow: true}}\nlimits: {tokens: 5}\n";
        assert_eq!(
            opened(flow),
            "schema: cto.harness/v1\ngates:\n  codex: {allow: true, stage: 3}\nlimits: {tokens: 5}\n"
        );
        assert_eq!(opened(&opened(held)), opened(held));
    }

    #[test]
    fn a_closed_gate_leaves_nothing_behind() {
        let text = "schema: cto.harness/v1\nlimits: {tokens: 5}\n";
        let open = opened(text);
        assert_eq!(with_gate(&open, Lane::Codex, None).unwrap(), text);
        assert_eq!(with_gate(text, Lane::Codex, None).unwrap(), text);
    }

    #[test]
    fn what_can_be_neither_read_nor_changed_in_place_is_refused() {
        let odd = [
            "{schema: cto.harness/v1, limits: {tokens: 5}}\n",
            "schema: cto.harness/v1\ngates: {codex: {allow: true},\n\n}\n",
            "schema: cto.harness/v1\nread_paths: [\"/a\n\ngates: b\"]\n",
        ];
        for text in odd {
            assert!(
                opened(text).starts_with("refused: "),
                "{text}: {}",
                opened(text)
            );
        }
        let invalid = with_gate("schema: other\n", Lane::Codex, Some(OPEN));
        assert!(matches!(invalid, Err(GateLinesError::Invalid(_))));
        let landing = GateConfig {
            stage: Some(Stage::DISPOSABLE),
            ..OPEN
        };
        for (lane, gate) in [
            (Lane::Case, OPEN),
            (Lane::Fake, OPEN),
            (Lane::Codex, landing),
        ] {
            let refused = with_gate("", lane, Some(gate));
            assert!(matches!(refused, Err(GateLinesError::Refused(_))), "{lane}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_file_says_only_the_one_gate_changes(lines in proptest::collection::vec("(schema: cto.harness/v1|gates:|gates: \\{pi: \\{allow: true\\}\\}|  pi: \\{allow: true, stage: 2\\}|  codex: \\{allow: false\\}|limits: \\{tokens: 5\\}|# note|settle_seconds: 9|\\}| |---|\\.\\.\\.|read_paths:|  - /a)", 0..8)) {
            let text = lines.join("\n");
            let read = |text: &str| HarnessConfig::read("h", text.as_bytes());
            if let Ok(new) = with_gate(&text, Lane::Codex, Some(OPEN)) {
                let mut before = read(&text).unwrap_or_else(|_| read(NEW_FILE).unwrap());
                before.gates.insert("codex".to_owned(), OPEN);
                prop_assert_eq!(read(&new).unwrap(), before);
            }
        }
    }
}
