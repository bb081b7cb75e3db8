//! What launcher and init have said so far, understood line by line.

use crate::activity::Activity;
use crate::attempt::{Attempt, Recorded};
use crate::error::LaunchError;
use crate::facts::{Facts, Refusal};
use crate::payload::Proved;
use crate::wire::{Ended, Failure, MESSAGE_BYTES_MAX, Message};

/// What the other side has said so far.
pub(crate) struct LauncherReport {
    pub(crate) nothing: bool,
    line: Vec<u8>,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) proved: Option<Proved>,
    pub(crate) facts: Option<Facts>,
    /// The endpoint waits to be taken over.
    pub(crate) is_listening: bool,
    pub(crate) started: bool,
    pub(crate) failure: Option<Failure>,
    /// Not yet handed on.
    pub(crate) activity: Option<Activity>,
    pub(crate) ended: Option<Ended>,
    /// Not yet handed on.
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) recorded: Option<Recorded>,
}

impl LauncherReport {
    pub(crate) fn new() -> Self {
        Self {
            nothing: true,
            line: Vec::new(),
            refusal: None,
            proved: None,
            facts: None,
            is_listening: false,
            started: false,
            failure: None,
            activity: None,
            ended: None,
            attempts: Vec::new(),
            recorded: None,
        }
    }

    /// Takes bytes as they come and understands whole lines.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(), LaunchError> {
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let message =
                serde_json::from_slice(&self.line).map_err(|error| LaunchError::Protocol {
                    what: error.to_string(),
                })?;
            self.line.clear();
            self.understand(message);
        }
        if self.line.len() > MESSAGE_BYTES_MAX {
            return Err(LaunchError::Protocol {
                what: "a line without end".to_owned(),
            });
        }
        Ok(())
    }

    fn understand(&mut self, message: Message) {
        self.nothing = false;
        match message {
            Message::Refused(refusal) => self.refusal = Some(refusal),
            Message::Proved(proved) => self.proved = Some(proved),
            Message::Listening => self.is_listening = true,
            Message::Ready(facts) => self.facts = Some(facts),
            Message::Started => self.started = true,
            // The first: one failure brings about others.
            Message::Failed(failure) => self.failure = self.failure.take().or(Some(failure)),
            Message::Activity(activity) => self.activity = Some(activity),
            Message::Ended(ended) => self.ended = Some(ended),
            Message::Attempted(attempt) => self.attempts.push(attempt),
            Message::Recorded(recorded) => self.recorded = Some(recorded),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::outcome::End;

    fn ended() -> Ended {
        Ended {
            end: End::Exited(3),
            told: true,
            limit_hit: None,
            cpu_micros: 5,
            peak_rss_bytes: 7,
        }
    }

    proptest! {
        #[test]
        fn messages_are_understood_wherever_they_are_cut(size in 1_usize..64) {
            let messages = [Message::Started, Message::Ended(ended())];
            let bytes: Vec<u8> = messages.iter().flat_map(|message| message.encode().unwrap()).collect();
            let mut report = LauncherReport::new();
            for piece in bytes.chunks(size) {
                report.take(piece).unwrap();
            }
            prop_assert!(report.started && !report.nothing);
            prop_assert_eq!(report.ended, Some(ended()));
        }

        #[test]
        fn any_bytes_are_heard_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            LauncherReport::new().take(&bytes).ok();
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        assert!(
            LauncherReport::new()
                .take(&[b'x'; MESSAGE_BYTES_MAX + 1])
                .is_err()
        );
    }
}
