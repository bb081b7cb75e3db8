//! What a backend said of itself, gathered while it ran. Nothing of it is evidence, save that a rejection counts.

use cto_agent::{AgentLine, Decoder, ReviewVerdict};
use cto_contract::event::AgentWords;
use cto_contract::text::shorten;

/// Longest text of a backend that an event keeps.
const TEXT_CHARS: usize = 2_000;

/// The decoder and what it gave so far.
#[derive(Default)]
pub(crate) struct Heard {
    decoder: Decoder,
    review_note: Option<String>,
    accepted: bool,
    summary: Option<String>,
}

impl Heard {
    /// Takes output that was redacted, and returns the plans in it.
    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Vec<String> {
        let lines = self.decoder.feed(bytes);
        lines.into_iter().filter_map(|l| self.take(l)).collect()
    }

    fn take(&mut self, line: AgentLine) -> Option<String> {
        match line {
            AgentLine::Plan { steps } => {
                return Some(shorten(&steps.join("; "), TEXT_CHARS));
            }
            AgentLine::Review { verdict, note } => match verdict {
                ReviewVerdict::Accept => self.accepted = true,
                ReviewVerdict::Reject => {
                    self.review_note = note.map(|n| shorten(&n, TEXT_CHARS));
                }
            },
            AgentLine::Done { summary } => {
                self.summary = summary.map(|s| shorten(&s, TEXT_CHARS));
            }
            AgentLine::Say { .. } => {}
        }
        None
    }

    pub(crate) fn finish(mut self) -> AgentWords {
        let (last, tally) = std::mem::take(&mut self.decoder).finish();
        if let Some(line) = last {
            self.take(line);
        }
        // One rejection outweighs any number of other reviews.
        let review = if tally.rejections > 0 {
            Some(ReviewVerdict::Reject)
        } else {
            self.accepted.then_some(ReviewVerdict::Accept)
        };
        AgentWords {
            understood: tally.understood,
            malformed: tally.malformed,
            dropped: tally.dropped,
            review,
            review_note: self.review_note,
            summary: self.summary,
        }
    }
}
