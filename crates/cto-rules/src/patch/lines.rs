//! The lines of a patch with their numbers.

use cto_contract::text;

use super::PatchError;

pub(super) struct Lines<'a> {
    rest: &'a [u8],
    /// Number of the line that was taken last.
    number: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(patch: &'a [u8]) -> Self {
        Self {
            rest: patch,
            number: 0,
        }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The next line without its newline; a last line without one was cut off.
    pub(super) fn peek(&self) -> Result<Option<&'a [u8]>, PatchError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        match self.rest.iter().position(|b| *b == b'\n') {
            Some(end) => Ok(Some(&self.rest[..end])),
            None => Err(PatchError {
                line: self.number + 1,
                message: "the patch ends in the middle of a line".to_owned(),
            }),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<&'a [u8]>, PatchError> {
        let line = self.peek()?;
        if let Some(line) = line {
            self.rest = &self.rest[line.len() + 1..];
            self.number += 1;
        }
        Ok(line)
    }

    /// Takes the next line if it begins with `prefix`, and gives what follows.
    pub(super) fn take_after(&mut self, prefix: &[u8]) -> Result<Option<&'a [u8]>, PatchError> {
        let found = self.peek()?.and_then(|line| line.strip_prefix(prefix));
        if found.is_some() {
            self.next()?;
        }
        Ok(found)
    }

    /// An error about the line that was taken last.
    pub(super) fn error(&self, message: impl Into<String>) -> PatchError {
        PatchError {
            line: self.number,
            message: message.into(),
        }
    }

    /// An error about the line taken last, which should have been something else.
    pub(super) fn unexpected(&self, line: &[u8], wanted: &str) -> PatchError {
        self.error(describe(line, wanted))
    }

    /// The same about a line that was only looked at.
    pub(super) fn unexpected_next(&self, line: &[u8], wanted: &str) -> PatchError {
        PatchError {
            line: self.number + 1,
            message: describe(line, wanted),
        }
    }

    /// An error about the end of the patch.
    pub(super) fn ended(&self, wanted: &str) -> PatchError {
        PatchError {
            line: self.number + 1,
            message: format!("the patch ends where {wanted} must be"),
        }
    }
}

fn describe(line: &[u8], wanted: &str) -> String {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|p| line.starts_with(p.as_bytes()));
    if begins(&[
        "rename ",
        "copy ",
        "similarity index ",
        "dissimilarity index ",
    ]) {
        return "renames and copies must be written as deletions and additions".to_owned();
    }
    if begins(&["Binary files "]) {
        return "binary content is missing: the patch was not made with `--binary`".to_owned();
    }
    format!(
        "expected {wanted}, found `{}`",
        text::shorten(&String::from_utf8_lossy(line), 60)
    )
}
