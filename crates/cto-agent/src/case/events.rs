//! The event file of Case: lines of JSON in, what counts of them out. Bytes come in chunks of any size.
//!
//! The agent's own commands can write the file, so nothing here speaks for a change. What is kept is bounded: the last end
//! of three phases, whatever the file holds.

use std::collections::BTreeMap;

use cto_contract::event::{
    ActivityKind, BackendActivity, EventFileFault, PhaseStatus, PhaseWords, PipelinePhase,
    PipelineWords,
};
use cto_contract::text::{one_line, shorten};
use serde::Deserialize;
use serde_json::Value;

use super::answers::Ends;

/// Longest line that is looked at: a phase's end holds what the model said in sum.
pub const EVENT_BYTES_MAX: usize = 1 << 20;
const TEXT_CHARS: usize = 400;
const RUBRICS_MAX: usize = 16;
/// Words of a rubric that speak for the change, or say nothing.
const PASSING: [&str; 3] = ["pass", "na", "n/a"];

/// Something to tell a person while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseNews {
    /// The phases that it means to walk.
    Plan(Vec<String>),
    PhaseStarted(String),
    RevisionRequested(String),
    /// A tool that a role uses.
    Does(BackendActivity),
}

/// Decodes one event file.
#[derive(Debug, Default)]
pub struct CaseEvents {
    partial: Vec<u8>,
    is_overlong: bool,
    words: PipelineWords,
    /// All ends of phases, not the last ones alone.
    ends: BTreeMap<PipelinePhase, Ends>,
}

impl CaseEvents {
    /// Takes the next bytes of the file.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<CaseNews> {
        let mut news = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (content, is_whole) = match piece.strip_suffix(b"\n") {
                Some(content) => (content, true),
                None => (piece, false),
            };
            if self.partial.len() + content.len() > EVENT_BYTES_MAX {
                self.is_overlong = true;
                self.partial = Vec::new();
            }
            if !self.is_overlong {
                self.partial.extend_from_slice(content);
            }
            if is_whole {
                news.extend(self.end_line());
            }
        }
        news
    }

    /// Something is wrong with the file; the first fault stays.
    pub fn distrust(&mut self, fault: EventFileFault) {
        self.words.fault.get_or_insert(fault);
    }

    /// Whether all of it has ended, by its own word.
    pub fn has_ended(&self) -> bool {
        self.words.ended
    }

    /// Whether a review has ended.
    pub fn is_reviewed(&self) -> bool {
        let mut phases = self.words.phases.iter();
        phases.any(|phase| phase.phase == PipelinePhase::Review)
    }

    /// How often each phase ended for the change and against it.
    pub(super) fn ends(&self) -> &BTreeMap<PipelinePhase, Ends> {
        &self.ends
    }

    /// Says what the phases came to so far.
    pub(super) fn so_far(&self) -> &PipelineWords {
        &self.words
    }

    /// Ends the file. A last line without its end was cut, and is no event.
    pub fn finish(mut self) -> PipelineWords {
        if !self.partial.is_empty() || self.is_overlong {
            self.words.malformed += 1;
        }
        self.words.phases.sort_by_key(|phase| phase.phase);
        if self.words.malformed > 0 {
            self.distrust(EventFileFault::Unreadable);
        }
        self.words
    }

    fn end_line(&mut self) -> Option<CaseNews> {
        let line = std::mem::take(&mut self.partial);
        let is_overlong = std::mem::take(&mut self.is_overlong);
        match serde_json::from_slice::<Line>(&line) {
            Ok(line) if !is_overlong => {
                // Case begins with 1: what begins later took the place of a file that is gone.
                if self.words.understood == 0 && line.sequence.is_some_and(|n| n > 1) {
                    self.distrust(EventFileFault::Rewritten);
                }
                self.words.understood += 1;
                self.take(line)
            }
            _ => {
                self.words.malformed += 1;
                None
            }
        }
    }

    fn take(&mut self, line: Line) -> Option<CaseNews> {
        let phase_name = || shorten(&one_line(line.phase.as_deref().unwrap_or("?")), 40);
        match line.event.as_str() {
            "pipeline_start" => {
                let phases = line.plan.as_ref()?.get("phases")?.as_array()?;
                let names = phases.iter().take(RUBRICS_MAX);
                let names = names.filter_map(|phase| phase.get("phase")?.as_str());
                Some(CaseNews::Plan(
                    names.map(|n| shorten(&one_line(n), 40)).collect(),
                ))
            }
            "phase_start" => Some(CaseNews::PhaseStarted(phase_name())),
            "revision_requested" => {
                let source = line.source.as_deref().unwrap_or("?");
                Some(CaseNews::RevisionRequested(shorten(&one_line(source), 40)))
            }
            "phase_end" => {
                if let Some(end) = phase_end(&line) {
                    self.ends.entry(end.phase).or_default().note(&end);
                    self.words.phases.retain(|phase| phase.phase != end.phase);
                    self.words.phases.push(end);
                }
                None
            }
            "tool_start" => activity(&line).map(CaseNews::Does),
            "tool_end" if line.is_error == Some(true) => {
                let tool = line.tool.as_deref().unwrap_or("?");
                let text = format!("{}: {tool} failed", phase_name());
                BackendActivity::new(ActivityKind::Struggles, &text).map(CaseNews::Does)
            }
            "pipeline_end" => {
                self.words.ended = true;
                None
            }
            _ => None,
        }
    }
}

/// The fields that are looked at; those of others are ignored.
#[derive(Deserialize)]
struct Line {
    event: String,
    sequence: Option<u64>,
    phase: Option<String>,
    outcome: Option<String>,
    source: Option<String>,
    plan: Option<Value>,
    tool: Option<String>,
    /// JSON of a tool's arguments, cut.
    args: Option<Value>,
    #[serde(rename = "isError")]
    is_error: Option<bool>,
    /// An object at the end of a phase; text at the end of a tool call.
    result: Option<Value>,
}

/// What a role does with a tool, in a few words.
fn activity(line: &Line) -> Option<BackendActivity> {
    let tool = line.tool.as_deref()?;
    let args = line.args.as_ref()?.as_str().unwrap_or_default();
    let kind = match tool {
        "bash" => ActivityKind::Runs,
        "write" | "edit" => ActivityKind::Edits,
        _ => ActivityKind::Runs,
    };
    // Arguments that were cut are no JSON any more: they are shown as they are.
    let parsed = serde_json::from_str::<Value>(args).unwrap_or(Value::Null);
    let named = ["command", "path", "pattern"];
    let named = named.iter().find_map(|name| parsed.get(name)?.as_str());
    let what = named.unwrap_or(args);
    let text = match tool {
        "bash" | "write" | "edit" => what.to_owned(),
        _ => format!("{tool} {what}"),
    };
    let phase = line.phase.as_deref().unwrap_or("?");
    BackendActivity::new(kind, &format!("{}: {text}", shorten(&one_line(phase), 40)))
}

/// What the end of a phase says; none for a phase that was skipped or counts for nothing.
fn phase_end(line: &Line) -> Option<PhaseWords> {
    let phase: PipelinePhase = line.phase.as_deref()?.parse().ok()?;
    let outcome = line.outcome.as_deref();
    if outcome == Some("skipped") {
        return None;
    }
    Some(words_of(phase, outcome, line.result.as_ref()))
}

/// What a result says of its phase.
pub(super) fn words_of(
    phase: PipelinePhase,
    outcome: Option<&str>,
    result: Option<&Value>,
) -> PhaseWords {
    let text = |name: &str| result?.get(name)?.as_str();
    let status = match (outcome, text("status")) {
        (Some("completed"), Some("completed")) => PhaseStatus::Completed,
        (_, Some("blocked")) => PhaseStatus::Blocked,
        (_, _) => PhaseStatus::Failed,
    };
    let findings = result.and_then(|r| r.get("findings"));
    PhaseWords {
        phase,
        status,
        error: text("error").map(|error| shorten(&one_line(error), TEXT_CHARS)),
        critical: findings.and_then(|f| f.get("critical")).map_or(0, count),
        failed_rubrics: result
            .and_then(|r| r.get("rubric"))
            .map_or_else(Vec::new, failed),
    }
}

/// The model wrote it, so it may be anything: what is no plain zero counts.
fn count(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(false) => 0,
        Value::Number(number) => match number.as_f64() {
            Some(0.0) => 0,
            Some(_) | None => number.as_u64().unwrap_or(1).max(1),
        },
        Value::String(text) if text.trim() == "0" || text.trim().is_empty() => 0,
        Value::Array(list) => list.len() as u64,
        Value::String(_) | Value::Bool(true) | Value::Object(_) => 1,
    }
}

fn failed(rubric: &Value) -> Vec<String> {
    let Some(categories) = rubric.get("categories").and_then(Value::as_array) else {
        return Vec::new();
    };
    let is_failed = |category: &&Value| {
        let verdict = category.get("verdict").and_then(Value::as_str);
        let verdict = verdict.unwrap_or_default().trim().to_ascii_lowercase();
        !PASSING.contains(&verdict.as_str())
    };
    let name = |category: &Value| {
        let name = category.get("category").and_then(Value::as_str);
        shorten(&one_line(name.unwrap_or("?")), 80)
    };
    let failed = categories.iter().filter(is_failed).take(RUBRICS_MAX);
    failed.map(name).collect()
}

#[cfg(test)]
mod tests;
