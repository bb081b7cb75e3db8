//! The way to end a launch from another thread or from a signal handler's pipe.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Asks a launch to stop. Clones share one state, and it never goes back: a launch that begins later with an asked token does not start.
#[derive(Clone, Debug)]
pub struct StopToken {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    wanted: AtomicU8,
    /// One pipe for each level. They are written once and never read, so every waiter sees each for ever.
    ask: Wake,
    kill: Wake,
}

#[derive(Debug)]
struct Wake {
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "nothing can be launched there")
    )]
    reader: PipeReader,
    writer: PipeWriter,
}

/// What was asked so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    Nothing,
    Stop,
    Kill,
}

impl Wanted {
    fn of(level: u8) -> Self {
        match level {
            0 => Self::Nothing,
            1 => Self::Stop,
            _ => Self::Kill,
        }
    }
}

impl Wake {
    fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { reader, writer })
    }

    fn wake(&self) {
        // One byte into an empty pipe whose reader lives as long: it can neither block nor fail.
        (&self.writer).write_all(b"!").ok();
    }
}

impl StopToken {
    /// Returns a token that asks for nothing yet; fails only when no descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            shared: Arc::new(Shared {
                wanted: AtomicU8::new(0),
                ask: Wake::new()?,
                kill: Wake::new()?,
            }),
        })
    }

    /// Asks to stop: TERM, then KILL after the grace. Asking again kills at once.
    pub fn ask(&self) {
        self.raise(|level| level.saturating_add(1).min(2));
    }

    /// Kills at once.
    pub fn kill(&self) {
        self.raise(|_| 2);
    }

    /// Returns whether a stop was asked for.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.wanted() > Wanted::Nothing
    }

    pub(crate) fn wanted(&self) -> Wanted {
        Wanted::of(self.shared.wanted.load(Ordering::SeqCst))
    }

    /// Returns the pipe that becomes readable with the first level above `seen`, if there is one.
    #[cfg(target_os = "linux")]
    pub(crate) fn wake_above(&self, seen: Wanted) -> Option<&PipeReader> {
        match seen {
            Wanted::Nothing => Some(&self.shared.ask.reader),
            Wanted::Stop => Some(&self.shared.kill.reader),
            Wanted::Kill => None,
        }
    }

    fn raise(&self, next: impl Fn(u8) -> u8) {
        let update = |level| Some(next(level));
        let Ok(before) =
            self.shared
                .wanted
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, update)
        else {
            return;
        };
        let after = next(before);
        if before < 1 && after >= 1 {
            self.shared.ask.wake();
        }
        if before < 2 && after >= 2 {
            self.shared.kill.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(steps: &str) -> Wanted {
        let token = StopToken::new().unwrap();
        for step in steps.chars() {
            match step {
                'a' => token.ask(),
                _ => token.clone().kill(),
            }
        }
        token.wanted()
    }

    #[test]
    fn asking_twice_kills_and_nothing_goes_back() {
        assert_eq!(after(""), Wanted::Nothing);
        assert_eq!(after("a"), Wanted::Stop);
        assert_eq!(after("aa"), Wanted::Kill);
        assert_eq!(after("k"), Wanted::Kill);
        assert_eq!(after("kaaa"), Wanted::Kill);
    }
}
