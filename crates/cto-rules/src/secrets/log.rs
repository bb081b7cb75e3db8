//! Takes secrets out of an event, so that its line can be written again without them.

use cto_contract::event::EventKind;
use serde_json::Value;

use super::{Known, output_hits};

/// An event that no longer holds what was found in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cleaned {
    pub kind: EventKind,
    /// The rule of the first finding.
    pub rule: String,
}

/// The event without its secrets; none when it holds none.
///
/// What the harness said before anything ran is left alone: the contract was scanned before the run had an id, and its
/// digest binds it.
pub fn clean_event(kind: &EventKind, known: &Known) -> Result<Option<Cleaned>, serde_json::Error> {
    if matches!(
        kind,
        EventKind::RunStarted(_)
            | EventKind::TaskContractCreated(_)
            | EventKind::EligibilityDecided(_)
    ) {
        return Ok(None);
    }
    let mut value = serde_json::to_value(kind)?;
    let mut rule = None;
    clean(&mut value, known, &mut rule);
    let Some(rule) = rule else { return Ok(None) };
    Ok(Some(Cleaned {
        kind: serde_json::from_value(value)?,
        rule,
    }))
}

fn clean(value: &mut Value, known: &Known, rule: &mut Option<String>) {
    match value {
        Value::String(text) => {
            if let Some((clean, first)) = clean_text(text, known) {
                *text = clean;
                rule.get_or_insert(first);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, known, rule)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| clean(field, known, rule)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text with a marker in the place of each finding, and the rule of the first.
fn clean_text(text: &str, known: &Known) -> Option<(String, String)> {
    let mut hits = output_hits(text.as_bytes(), known);
    hits.sort_by_key(|hit| (hit.start, hit.end));
    let first = hits.first()?.rule.clone();
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    for hit in hits {
        if hit.start >= at {
            out.extend_from_slice(&text.as_bytes()[at..hit.start]);
            out.extend_from_slice(format!("[quarantined:{}]", hit.rule).as_bytes());
        }
        at = at.max(hit.end);
    }
    out.extend_from_slice(&text.as_bytes()[at..]);
    // A finding may end within a character: what is left of that can go.
    Some((String::from_utf8_lossy(&out).into_owned(), first))
}
