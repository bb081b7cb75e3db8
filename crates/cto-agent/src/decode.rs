//! `cto.agent/v1`: what an agent may say in JSON lines on its stdout. Everything else it prints is raw output.
//!
//! Bytes in, typed lines out, whatever the chunks. Memory is bounded: one partial line, and so many lines and bytes in
//! all; what is over is counted and dropped, but a rejection is never forgotten. Nothing said here is evidence.

pub use cto_contract::event::ReviewVerdict;
use serde::Deserialize;

/// The tag that a line must carry.
pub const AGENT_SCHEMA: &str = "cto.agent/v1";
/// Longest line that is looked at; a longer one is raw.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Most lines that one decoder gives out.
pub const LINES_KEPT_MAX: usize = 1_000;
/// Most bytes of the lines that one decoder gives out, together.
pub const KEPT_BYTES_MAX: usize = 4 << 20;

/// One line that the agent meant for the harness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentLine {
    /// What it is about to do.
    Plan { steps: Vec<String> },
    /// Something for a person to read.
    Say { text: String },
    /// What its own reviewer thinks of the change.
    Review {
        verdict: ReviewVerdict,
        note: Option<String>,
    },
    /// It has finished.
    Done { summary: Option<String> },
}

/// What went by, kept or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lines that were understood.
    pub understood: u64,
    /// Understood, but over the bounds of what is kept.
    pub dropped: u64,
    /// Lines that claim [`AGENT_SCHEMA`] and are not of its form.
    pub malformed: u64,
    /// Lines too long to be looked at.
    pub overlong: u64,
    /// `review` lines that reject, dropped ones too.
    pub rejections: u64,
}

/// Decodes a stream of bytes, chunk by chunk.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The line so far; never more than [`LINE_BYTES_MAX`].
    partial: Vec<u8>,
    /// The line so far was too long and its bytes are gone.
    is_overlong: bool,
    kept_lines: usize,
    kept_bytes: usize,
    tally: Tally,
}

impl Decoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and gives the lines that they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<AgentLine> {
        let mut out = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(end) if self.partial.is_empty() && !self.is_overlong => {
                    out.extend(self.line(end));
                }
                Some(end) => {
                    self.push(end);
                    out.extend(self.end_line());
                }
                None => self.push(piece),
            }
        }
        out
    }

    /// Ends the stream: a last line may lack its newline.
    pub fn finish(mut self) -> (Option<AgentLine>, Tally) {
        let last = self.end_line();
        (last, self.tally)
    }

    /// What went by so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    fn push(&mut self, piece: &[u8]) {
        if self.is_overlong || self.partial.len() + piece.len() > LINE_BYTES_MAX {
            self.is_overlong = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(piece);
        }
    }

    fn end_line(&mut self) -> Option<AgentLine> {
        let line = std::mem::take(&mut self.partial);
        if std::mem::take(&mut self.is_overlong) {
            self.tally.overlong += 1;
            return None;
        }
        self.line(&line)
    }

    fn line(&mut self, line: &[u8]) -> Option<AgentLine> {
        if line.len() > LINE_BYTES_MAX {
            self.tally.overlong += 1;
            return None;
        }
        let decoded = match read_line(line) {
            Read::Line(decoded) => decoded,
            Read::Raw => return None,
            Read::Malformed => {
                self.tally.malformed += 1;
                return None;
            }
        };
        self.tally.understood += 1;
        if let AgentLine::Review {
            verdict: ReviewVerdict::Reject,
            ..
        } = decoded
        {
            self.tally.rejections += 1;
        }
        if self.kept_lines == LINES_KEPT_MAX || self.kept_bytes + line.len() > KEPT_BYTES_MAX {
            self.tally.dropped += 1;
            return None;
        }
        self.kept_lines += 1;
        self.kept_bytes += line.len();
        Some(decoded)
    }
}

enum Read {
    Line(AgentLine),
    Raw,
    Malformed,
}

/// Every field of every type in one, so that a field given twice is an error. Fields of others are ignored.
#[derive(Deserialize)]
struct Fields {
    schema: Option<String>,
    r#type: Option<String>,
    steps: Option<Vec<String>>,
    text: Option<String>,
    verdict: Option<ReviewVerdict>,
    note: Option<String>,
    summary: Option<String>,
}

fn read_line(line: &[u8]) -> Read {
    let line = line.trim_ascii();
    if !line.starts_with(b"{") {
        return Read::Raw;
    }
    match serde_json::from_slice::<Fields>(line) {
        Ok(fields) if fields.schema.as_deref() == Some(AGENT_SCHEMA) => {
            typed(fields).map_or(Read::Malformed, Read::Line)
        }
        Ok(_) => Read::Raw,
        Err(_) if claims_schema(line) => Read::Malformed,
        Err(_) => Read::Raw,
    }
}

fn typed(fields: Fields) -> Option<AgentLine> {
    match fields.r#type?.as_str() {
        "plan" => Some(AgentLine::Plan {
            steps: fields.steps?,
        }),
        "say" => Some(AgentLine::Say { text: fields.text? }),
        "review" => Some(AgentLine::Review {
            verdict: fields.verdict?,
            note: fields.note,
        }),
        "done" => Some(AgentLine::Done {
            summary: fields.summary,
        }),
        _ => None,
    }
}

/// A line that can't be read claims the schema when the tag stands in it as a whole string.
fn claims_schema(line: &[u8]) -> bool {
    let tag = format!("\"{AGENT_SCHEMA}\"");
    line.windows(tag.len()).any(|w| w == tag.as_bytes())
}

#[cfg(test)]
mod tests;
