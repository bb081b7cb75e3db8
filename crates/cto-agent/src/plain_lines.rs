//! Plain output as lines that a person may watch. Lines that a program meant for a machine are left out.

use cto_contract::event::{ActivityKind, BackendActivity};

use crate::dialogue::Note;

/// Bytes of a line that are kept; more than an activity shows.
const LINE_BYTES_MAX: usize = 4 * BackendActivity::TEXT_CHARS;
/// Most lines that are given out.
const LINES_MAX: u64 = 400;

/// Cuts a stream of bytes into lines, whatever the chunks. Memory is bounded by one short line.
#[derive(Debug, Default)]
pub struct PlainLines {
    partial: Vec<u8>,
    given: u64,
}

impl PlainLines {
    /// Takes the next bytes and gives the lines that they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Note> {
        let mut notes = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let is_whole = piece.ends_with(b"\n");
            let room = LINE_BYTES_MAX - self.partial.len();
            self.partial
                .extend_from_slice(&piece[..piece.len().min(room)]);
            if is_whole {
                notes.extend(self.end_line());
            }
        }
        notes
    }

    /// Ends the stream: a last line may lack its newline.
    pub fn finish(mut self) -> Option<Note> {
        self.end_line()
    }

    fn end_line(&mut self) -> Option<Note> {
        let line = std::mem::take(&mut self.partial);
        let is_for_machines = line.trim_ascii_start().starts_with(b"{");
        if self.given == LINES_MAX || is_for_machines {
            return None;
        }
        let text = String::from_utf8_lossy(&line);
        let activity = BackendActivity::new(ActivityKind::Prints, &text)?;
        self.given += 1;
        Some(Note::Activity(activity))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = PlainLines::default();
        let mut notes: Vec<Note> = pieces.iter().flat_map(|p| lines.feed(p)).collect();
        notes.extend(lines.finish());
        let texts = notes.into_iter().map(|note| match note {
            Note::Activity(activity) => activity.text,
            Note::Plan(text) => text,
        });
        texts.collect()
    }

    #[test]
    fn lines_are_shown_without_what_is_empty_or_for_machines() {
        let text = b"one\n\n  {\"schema\":1}\ntwo".as_slice();
        assert_eq!(shown(&[text]), ["one", "two"]);
    }

    #[test]
    fn an_endless_line_and_endless_lines_are_cut() {
        let long = shown(&[&[b'x'; 10_000_000], b"\nnext\n"]);
        assert_eq!(long.len(), 2);
        assert!(long[0].len() <= LINE_BYTES_MAX);
        assert_eq!(shown(&[&b"y\n".repeat(100_000)]).len() as u64, LINES_MAX);
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_lines(bytes in proptest::collection::vec(any::<u8>(), 0..400), size in 1_usize..40) {
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(shown(&chunks), shown(&[&bytes]));
        }
    }
}
