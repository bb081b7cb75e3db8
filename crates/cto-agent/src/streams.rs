//! Programs that print one JSON object a line about what they do: one dialogue for all of them, a table of events for each.
//!
//! Bytes in, acts out, whatever the chunks. What is not understood is counted and passed over: half a line, a line without
//! end, an event of a newer version. Nothing said here is evidence, save that a program may say that it failed.

pub(crate) mod claude;
pub(crate) mod codex;
mod lines;
pub(crate) mod pi;
mod reading;

use std::collections::BTreeSet;
use std::time::Duration;

use cto_contract::event::{ActivityKind, AgentWords, BackendActivity, SaidEnd, TokenUsage};
use cto_contract::text::{one_line, shorten};

use crate::dialogue::{Act, Dialogue, Ending, Note};
pub use lines::EVENT_LINE_BYTES_MAX;
use lines::{Line, Lines};
pub(crate) use reading::{Reading, StreamEvent};

/// How long a program may take to leave after it has said that all is over.
pub(crate) const LEAVE: Duration = Duration::from_secs(5);
/// Most notes of one run.
const NOTES_MAX: usize = 1_000;
/// Longest text of a note, and of a program's last words.
const TEXT_CHARS: usize = 2_000;
/// Most unknown types that are named, and the longest name.
const UNKNOWN_MAX: usize = 20;
const UNKNOWN_CHARS: usize = 60;

/// A conversation with such a program: it is told its task, and listened to.
pub(crate) struct StreamDialogue {
    /// For its stdin, once it runs.
    task: Vec<u8>,
    read: fn(&serde_json::Value) -> Reading,
    lines: Lines,
    words: AgentWords,
    unknown: BTreeSet<String>,
    notes: usize,
    /// Its last words so far.
    said: Option<String>,
    /// A failure that stands until it goes on.
    trouble: Option<String>,
    end: Option<SaidEnd>,
    /// When it was first seen to be over.
    over_since: Option<Duration>,
}

impl StreamDialogue {
    pub(crate) fn new(task: &str, read: fn(&serde_json::Value) -> Reading) -> Self {
        Self {
            task: task.as_bytes().to_vec(),
            read,
            lines: Lines::default(),
            words: AgentWords::default(),
            unknown: BTreeSet::new(),
            notes: 0,
            said: None,
            trouble: None,
            end: None,
            over_since: None,
        }
    }

    fn line(&mut self, line: Line<'_>) -> Vec<Note> {
        let bytes = match line {
            Line::Overlong => {
                self.words.dropped += 1;
                return Vec::new();
            }
            Line::Whole(bytes) => bytes.trim_ascii(),
        };
        // Whatever is no object is raw output.
        if !bytes.starts_with(b"{") {
            return Vec::new();
        }
        let reading = match serde_json::from_slice(bytes) {
            Ok(value) => (self.read)(&value),
            Err(_) => Reading::Malformed,
        };
        match reading {
            Reading::Malformed => self.words.malformed += 1,
            Reading::Unknown(name) => {
                if self.unknown.len() < UNKNOWN_MAX {
                    self.unknown
                        .insert(shorten(&one_line(&name), UNKNOWN_CHARS));
                }
            }
            Reading::Known(events) => {
                self.words.understood += 1;
                let notes = events.into_iter().filter_map(|event| self.take(event));
                return notes.collect();
            }
        }
        Vec::new()
    }

    fn take(&mut self, event: StreamEvent) -> Option<Note> {
        match event {
            StreamEvent::Works => {
                self.end = None;
                self.over_since = None;
                None
            }
            StreamEvent::Says(text) => {
                // A message of tool calls alone says nothing, and is an answer all the same.
                if !text.trim().is_empty() {
                    self.said = Some(shorten(&text, TEXT_CHARS));
                }
                self.trouble = None;
                self.note(ActivityKind::Says, &text)
            }
            StreamEvent::Runs(command) => self.note(ActivityKind::Runs, &command),
            StreamEvent::Edits(paths) => self.note(ActivityKind::Edits, &paths),
            StreamEvent::Uses(usage) => {
                let so_far = self.words.usage.unwrap_or_default();
                self.words.usage = Some(so_far.plus(&usage));
                None
            }
            StreamEvent::UsedInAll(usage) => {
                self.words.usage = Some(usage);
                None
            }
            StreamEvent::Struggles(why) => {
                self.trouble = Some(shorten(&why, TEXT_CHARS));
                self.note(ActivityKind::Struggles, &why)
            }
            StreamEvent::Ends => {
                // What it could not mend before is how it ended.
                self.end = Some(match self.trouble {
                    Some(_) => SaidEnd::Failed,
                    None => SaidEnd::Done,
                });
                None
            }
            StreamEvent::Succeeds => {
                self.trouble = None;
                self.end = Some(SaidEnd::Done);
                None
            }
            StreamEvent::Fails(why) => {
                self.trouble = Some(shorten(&why, TEXT_CHARS));
                self.end = Some(SaidEnd::Failed);
                None
            }
        }
    }

    fn note(&mut self, kind: ActivityKind, text: &str) -> Option<Note> {
        self.notes += 1;
        let activity = BackendActivity::new(kind, text)?;
        (self.notes <= NOTES_MAX).then_some(Note::Activity(activity))
    }
}

impl Dialogue for StreamDialogue {
    fn open(&mut self) -> Vec<Act> {
        vec![Act::Tell(std::mem::take(&mut self.task)), Act::CloseStdin]
    }

    fn hear(&mut self, bytes: &[u8]) -> Vec<Act> {
        let mut lines = std::mem::take(&mut self.lines);
        let mut notes = Vec::new();
        lines.feed(bytes, |line| notes.extend(self.line(line)));
        self.lines = lines;
        notes.into_iter().map(Act::Note).collect()
    }

    fn tick(&mut self, since_start: Duration) -> Vec<Act> {
        if self.end.is_none() {
            return Vec::new();
        }
        let over_since = *self.over_since.get_or_insert(since_start);
        match since_start.saturating_sub(over_since) >= LEAVE {
            true => vec![Act::Finished],
            false => Vec::new(),
        }
    }

    fn finish(mut self: Box<Self>) -> Ending {
        let mut notes = Vec::new();
        let lines = std::mem::take(&mut self.lines);
        lines.finish(|line| notes.extend(self.line(line)));
        let end = self.end.unwrap_or(SaidEnd::Unsaid);
        let failure = self.trouble.filter(|_| end != SaidEnd::Done);
        Ending {
            notes,
            words: Some(AgentWords {
                end: Some(end),
                failure,
                summary: self.said,
                unknown_events: self.unknown.into_iter().collect(),
                ..self.words
            }),
            ..Ending::default()
        }
    }
}

/// Whole tokens of an object, by the names that a program gives them; what is missing or odd is none.
fn tokens(usage: &serde_json::Value, name: &str) -> u64 {
    usage
        .get(name)
        .and_then(serde_json::Value::as_u64)
        .unwrap_or(0)
}

/// A count where input leaves out what came from a cache or went into one.
fn beside_cache(usage: &serde_json::Value, names: [&str; 5]) -> TokenUsage {
    let [input, cached, written, output, reasoning] = names.map(|name| tokens(usage, name));
    TokenUsage {
        input: input.saturating_add(cached).saturating_add(written),
        cached_input: cached,
        cache_write: written,
        output,
        reasoning,
    }
}

#[cfg(test)]
mod tests;
