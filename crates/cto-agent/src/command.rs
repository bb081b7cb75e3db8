//! The `command` lane: any program that edits files in its working directory, and may speak `cto.agent/v1`.

use cto_contract::event::{ActivityKind, AgentWords, BackendActivity};
use cto_contract::text::shorten;
use cto_contract::words::Lane;

use crate::decode::{AgentLine, Decoder, ReviewVerdict};
use crate::dialogue::{Act, Dialogue, Ending, Note};
use crate::plain_lines::PlainLines;
use crate::plan::{LanePlan, PLACEHOLDER_KEY, ScratchEntry, base_environment};
use crate::{Adapter, Surroundings};

/// Longest text of a program that an event keeps.
const TEXT_CHARS: usize = 2_000;

/// Environment name that holds the path of the brief.
pub const TASK_VARIABLE: &str = "CTO_TASK";
/// Environment name that holds the path of the contract.
pub const CONTRACT_VARIABLE: &str = "CTO_CONTRACT";

const BRIEF_NAME: &str = "brief.md";
const CONTRACT_NAME: &str = "task-contract.json";

/// The program and its arguments, as they were typed. The runner resolves the first word and refuses an empty list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLane {
    pub argv: Vec<String>,
}

impl Adapter for CommandLane {
    fn lane(&self) -> Lane {
        Lane::Command
    }

    fn revision(&self) -> u32 {
        crate::revision(Lane::Command)
    }

    fn plan(&self, around: Surroundings<'_>) -> LanePlan {
        let mut env = base_environment(around.places, around.path);
        if let Some(model) = around.model {
            // The names that clients of these calls read by themselves.
            for (variable, value) in [
                ("OPENAI_BASE_URL", model.base_url()),
                ("OPENAI_API_KEY", PLACEHOLDER_KEY.to_owned()),
            ] {
                env.insert(variable.to_owned(), value);
            }
        }
        for (variable, name) in [
            (TASK_VARIABLE, BRIEF_NAME),
            (CONTRACT_VARIABLE, CONTRACT_NAME),
        ] {
            let path = format!("{}/{name}", around.places.scratch);
            env.insert(variable.to_owned(), path);
        }
        LanePlan {
            argv: self.argv.clone(),
            env,
            scratch: vec![
                ScratchEntry::file(BRIEF_NAME, around.brief.markdown.as_bytes()),
                ScratchEntry::file(CONTRACT_NAME, around.brief.contract_json.as_slice()),
            ],
            ..LanePlan::default()
        }
    }

    fn dialogue(&self) -> Box<dyn Dialogue> {
        Box::new(CommandDialogue::default())
    }
}

/// Listens for `cto.agent/v1`. Nothing of it is evidence, save that a rejection counts.
#[derive(Default)]
struct CommandDialogue {
    decoder: Decoder,
    plain: PlainLines,
    review_note: Option<String>,
    is_accepted: bool,
    summary: Option<String>,
}

impl CommandDialogue {
    fn take(&mut self, line: AgentLine) -> Option<Note> {
        match line {
            AgentLine::Plan { steps } => {
                return Some(Note::Plan(shorten(&steps.join("; "), TEXT_CHARS)));
            }
            AgentLine::Review { verdict, note } => match verdict {
                ReviewVerdict::Accept => self.is_accepted = true,
                ReviewVerdict::Reject => {
                    self.review_note = note.map(|n| shorten(&n, TEXT_CHARS));
                }
            },
            AgentLine::Done { summary } => {
                self.summary = summary.map(|s| shorten(&s, TEXT_CHARS));
            }
            AgentLine::Say { text } => {
                return BackendActivity::new(ActivityKind::Says, &text).map(Note::Activity);
            }
        }
        None
    }
}

impl Dialogue for CommandDialogue {
    fn hear(&mut self, bytes: &[u8]) -> Vec<Act> {
        let mut notes = Vec::new();
        // Line by line, so that both kinds stay in order.
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            notes.extend(self.plain.feed(piece));
            let lines = self.decoder.feed(piece);
            notes.extend(lines.into_iter().filter_map(|line| self.take(line)));
        }
        notes.into_iter().map(Act::Note).collect()
    }

    fn finish(mut self: Box<Self>) -> Ending {
        let (last, tally) = std::mem::take(&mut self.decoder).finish();
        let mut notes: Vec<Note> = last.and_then(|line| self.take(line)).into_iter().collect();
        notes.extend(std::mem::take(&mut self.plain).finish());
        // One rejection outweighs any number of other reviews.
        let review = if tally.rejections > 0 {
            Some(ReviewVerdict::Reject)
        } else {
            self.is_accepted.then_some(ReviewVerdict::Accept)
        };
        let words = AgentWords {
            understood: tally.understood,
            malformed: tally.malformed,
            dropped: tally.dropped,
            review,
            review_note: self.review_note,
            summary: self.summary,
            ..AgentWords::default()
        };
        Ending {
            notes,
            words: Some(words),
            ..Ending::default()
        }
    }
}
