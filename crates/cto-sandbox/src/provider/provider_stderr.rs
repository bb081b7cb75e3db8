//! What a provider writes to its error stream before the launcher inside speaks: the reason, when it never does.

use super::Means;
use crate::error::LaunchError;
use crate::message::SandboxMessage;
use crate::outcome::Stream;

/// Most bytes that are kept.
const BYTES_MAX: usize = 2048;

#[derive(Default)]
pub(crate) struct ProviderStderr(Vec<u8>);

impl ProviderStderr {
    pub(crate) fn take(&mut self, message: &SandboxMessage<'_>) {
        let room = BYTES_MAX.saturating_sub(self.0.len());
        if let SandboxMessage::Output(Stream::Stderr, bytes) = message {
            self.0.extend(bytes.iter().take(room));
        }
    }

    /// Returns the error of a provider that gave no answer, in its own words.
    pub(crate) fn explain(&self, error: LaunchError, means: &Means) -> LaunchError {
        match (error, means) {
            (LaunchError::NoAnswer { how, .. }, Means::Bwrap { program }) => {
                LaunchError::Provider {
                    provider: program.clone(),
                    said: last_line(&self.0).unwrap_or(how),
                }
            }
            (error, _) => error,
        }
    }
}

/// Returns the last thing that was said, in one line; warnings come before it.
pub(crate) fn last_line(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let mut lines = text.lines().rev().map(str::trim);
    let line = lines.find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(400).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_providers_words_the_last_line_counts() {
        let said = |bytes: &[u8]| last_line(bytes);
        let text = b"level=warning\nError: no \x1b[31mspace\n\n";
        assert_eq!(said(text).as_deref(), Some("Error: no [31mspace"));
        assert_eq!(said(b"\n \n"), None);
    }
}
