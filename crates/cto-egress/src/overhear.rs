//! What is kept of a model's answers: passages between two marks, and who asked for them.
//!
//! An agent can write what it likes about what its model said. What the model said passes here, where no agent can write.

/// Which passages are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    pub opens: String,
    pub closes: String,
    /// Texts of a request that say who asks. The one that stands first in it counts.
    pub askers: Vec<String>,
}

/// The last passage of an answer that calls no tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The text of the request that says who asked.
    pub asker: Option<String>,
    pub text: String,
}

/// Most passages that are kept; more are counted.
pub(crate) const PASSAGES_MAX: usize = 256;
/// What is held of an answer's text: its end, where a result stands.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// The end of an answer's text, as it comes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerText {
    text: String,
    calls_tool: bool,
}

impl AnswerText {
    pub(crate) fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
        if self.text.len() > 2 * TEXT_BYTES_MAX {
            let mut cut = self.text.len() - TEXT_BYTES_MAX;
            while !self.text.is_char_boundary(cut) {
                cut += 1;
            }
            self.text.drain(..cut);
        }
    }

    pub(crate) fn note_call(&mut self) {
        self.calls_tool = true;
    }

    /// The passage that counts. An answer that calls a tool is not the last word of whoever asked.
    pub(crate) fn passage(self, marks: &Marks, request: &[u8]) -> Option<Passage> {
        if self.calls_tool {
            return None;
        }
        let (_, rest) = self.text.rsplit_once(&marks.opens)?;
        let (inner, _) = rest.split_once(&marks.closes)?;
        Some(Passage {
            asker: asker(marks, request),
            text: inner.trim().to_owned(),
        })
    }
}

fn asker(marks: &Marks, request: &[u8]) -> Option<String> {
    let place = |name: &&String| {
        let name = name.as_bytes();
        let found = request.windows(name.len().max(1)).position(|w| w == name);
        found.unwrap_or(usize::MAX)
    };
    let first = marks.askers.iter().min_by_key(place)?;
    (place(&first) != usize::MAX).then(|| first.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marks() -> Marks {
        Marks {
            opens: "<<<R".to_owned(),
            closes: "R>>>".to_owned(),
            askers: ["name: one", "name: two"].map(str::to_owned).to_vec(),
        }
    }

    fn passage(pieces: &[&str], request: &str) -> Option<String> {
        let mut text = AnswerText::default();
        for piece in pieces {
            text.push(piece);
        }
        let passage = text.passage(&marks(), request.as_bytes())?;
        Some(format!(
            "{}: {}",
            passage.asker.as_deref().unwrap_or("nobody"),
            passage.text
        ))
    }

    #[test]
    fn the_last_passage_counts_and_who_stands_first_in_the_request_asked() {
        let kept = |pieces: &[&str], request: &str| passage(pieces, request).unwrap_or_default();
        assert_eq!(
            kept(
                &["a <<", "<R\n1\nR>>> b <<<R 2 R>", ">>"],
                "name: two name: one"
            ),
            "name: two: 2"
        );
        assert_eq!(kept(&["<<<R 1 R>>>"], "{}"), "nobody: 1");
        assert_eq!(kept(&["<<<R 1 R>>> <<<R 2"], "name: one"), "", "not closed");
        assert_eq!(kept(&["R>>> 1 <<<R"], "name: one"), "");
    }

    #[test]
    fn an_answer_that_calls_a_tool_is_not_the_last_word() {
        let mut text = AnswerText::default();
        text.push("<<<R 1 R>>>");
        text.note_call();
        assert_eq!(text.passage(&marks(), b""), None);
    }

    #[test]
    fn a_long_answer_keeps_its_end() {
        let mut text = AnswerText::default();
        for _ in 0..40 {
            text.push(&"ä".repeat(TEXT_BYTES_MAX / 10));
        }
        text.push("<<<R 1 R>>>");
        assert!(text.text.len() <= 2 * TEXT_BYTES_MAX);
        assert!(text.passage(&marks(), b"").is_some());
    }

    proptest! {
        #[test]
        fn any_cut_into_pieces_gives_the_same_passage(text in "[<>R1 ä\n]{0,40}", at in 0_usize..40) {
            let at = text.char_indices().map(|(i, _)| i).nth(at).unwrap_or(text.len());
            prop_assert_eq!(passage(&[&text], "name: one"), passage(&[&text[..at], &text[at..]], "name: one"));
        }
    }
}
