//! What an attacking program says of its attempts.

use std::collections::BTreeMap;

/// Most lines of a program that are looked at.
const LINES_MAX: usize = 10_000;
const ALLOWED: &str = "ALLOWED";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Refused,
    Bait,
    Works,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    kind: Kind,
    name: String,
    result: String,
}

/// The lines of one program, by behaviour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    by_number: BTreeMap<u8, Vec<Line>>,
    /// It came to its last line.
    pub(crate) has_ended: bool,
}

impl Lines {
    /// Reads what was said. Whatever does not fit is somebody else's.
    pub(crate) fn read(text: &str) -> Self {
        let mut lines = Self::default();
        for line in text.lines().take(LINES_MAX) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (kind, number, name, result) = match words[..] {
                ["rt", "end"] => {
                    lines.has_ended = true;
                    continue;
                }
                ["rt", number, "refused", name, result] => (Kind::Refused, number, name, result),
                ["rt", number, "bait", name, result] => (Kind::Bait, number, name, result),
                ["rt", number, "works", name, result] => (Kind::Works, number, name, result),
                _ => continue,
            };
            let Ok(number) = number.parse() else { continue };
            lines.by_number.entry(number).or_default().push(Line {
                kind,
                name: name.to_owned(),
                result: result.to_owned(),
            });
        }
        lines
    }

    fn of(&self, number: u8) -> &[Line] {
        self.by_number.get(&number).map_or(&[], Vec::as_slice)
    }

    fn count(&self, number: u8, wanted: impl Fn(&Line) -> bool) -> usize {
        self.of(number).iter().filter(|line| wanted(line)).count()
    }

    /// How many attempts there were at what must not work.
    pub(crate) fn attempts(&self, number: u8) -> usize {
        self.count(number, |line| line.kind != Kind::Works)
    }

    pub(crate) fn controls(&self, number: u8) -> usize {
        self.count(number, |line| line.kind == Kind::Works)
    }

    /// What the kernel said to the attempts, each once.
    pub(crate) fn answers(&self, number: u8) -> Vec<&str> {
        let attempts = self.of(number).iter().filter(|l| l.kind != Kind::Works);
        let mut answers: Vec<&str> = attempts.map(|line| line.result.as_str()).collect();
        answers.sort_unstable();
        answers.dedup();
        answers
    }

    /// What is not as it must be inside, a sentence each.
    pub(crate) fn wrong_inside(&self, number: u8) -> Vec<String> {
        let wrong = |line: &Line| match (line.kind, line.result == ALLOWED) {
            (Kind::Refused | Kind::Bait, true) => Some(format!("`{}` was allowed", line.name)),
            (Kind::Works, false) => Some(format!(
                "control `{}` did not work: {}",
                line.name, line.result
            )),
            (Kind::Refused | Kind::Bait, false) | (Kind::Works, true) => None,
        };
        self.of(number).iter().filter_map(wrong).collect()
    }

    /// What is not as it must be outside, where the same program meets no sandbox.
    pub(crate) fn wrong_outside(&self, number: u8, inside: &Self) -> Vec<String> {
        let baits = |lines: &Self| lines.count(number, |line| line.kind == Kind::Bait);
        let refused = self.of(number).iter().filter(|l| l.result != ALLOWED);
        let mut wrong: Vec<String> = refused
            .map(|line| {
                format!(
                    "control: `{}` did not work outside either: {}",
                    line.name, line.result
                )
            })
            .collect();
        if baits(self) < baits(inside) {
            wrong.push("control: not all of it was tried outside".to_owned());
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        Lines::read(text).wrong_inside(1).join("; ")
    }

    #[test]
    fn what_was_allowed_and_what_did_not_work_is_named() {
        assert_eq!(
            wrong("rt 1 refused create EROFS\nrt 1 works create ALLOWED"),
            ""
        );
        assert_eq!(wrong("rt 1 refused create ALLOWED"), "`create` was allowed");
        assert_eq!(wrong("rt 1 bait create ALLOWED"), "`create` was allowed");
        assert_eq!(
            wrong("rt 1 works create EROFS"),
            "control `create` did not work: EROFS"
        );
        assert_eq!(wrong("rt 2 refused create ALLOWED"), "");
    }

    #[test]
    fn a_bait_must_have_been_taken_outside() {
        let inside = Lines::read("rt 1 bait a ENOENT\nrt 1 bait b ENOENT\nrt end");
        let outside = |text: &str| Lines::read(text).wrong_outside(1, &inside).join("; ");
        assert_eq!(outside("rt 1 bait a ALLOWED\nrt 1 bait b ALLOWED"), "");
        assert_eq!(
            outside("rt 1 bait a ALLOWED"),
            "control: not all of it was tried outside"
        );
        assert_eq!(
            outside("rt 1 bait a ALLOWED\nrt 1 bait b EACCES"),
            "control: `b` did not work outside either: EACCES"
        );
    }

    #[test]
    fn other_lines_are_somebody_elses() {
        for text in [
            "",
            "rt",
            "rt x works a ALLOWED",
            "rt 300 works a ALLOWED",
            "rt 1 likes a b",
        ] {
            assert_eq!(Lines::read(text), Lines::default(), "{text}");
        }
        assert!(Lines::read("x\nrt end\n").has_ended);
    }
}
