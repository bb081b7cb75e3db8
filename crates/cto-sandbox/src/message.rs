//! What a launch tells its listener while it runs, and what the listener answers.

use std::collections::VecDeque;
use std::time::Duration;

use crate::activity::Activity;
use crate::attempt::Attempt;
use crate::outcome::{StopCause, Stream};

/// Time between two ticks of a launch.
pub const TICK_INTERVAL: Duration = Duration::from_millis(250);
/// Most bytes that wait for the command to read them. More end the launch: [`StopCause::StdinFull`].
pub const STDIN_WAITING_MAX: usize = 16 * 1024 * 1024;

/// What a launch tells while it runs.
#[derive(Clone, Copy, Debug)]
pub enum SandboxMessage<'a> {
    /// The sandbox stands and the command is about to be executed: the time to open a dialogue. Everything that the command
    /// prints comes after it. Should the execution fail, the launch returns the error.
    Started,
    /// Before [`Started`](Self::Started) it can only come from another provider's program.
    Output(Stream, &'a [u8]),
    /// Told when it is first seen. What was seen again is told once more at the end, with its final count.
    Attempt(&'a Attempt),
    /// Comes every [`TICK_INTERVAL`] once the command has started, so that a dialogue can time out.
    Tick { since_start: Duration },
    /// What the tree does: the answer to [`Replies::look`].
    Activity(Activity),
}

/// Hears what a launch tells, and may answer. A panic in it leaves nothing of the tree behind.
pub type Listener<'l> = dyn FnMut(SandboxMessage<'_>, &mut Replies) + 'l;

/// What a listener answers. It takes effect when the listener has returned; nothing here waits for the command.
#[derive(Debug)]
pub struct Replies {
    waiting: VecDeque<u8>,
    stdin: StdinState,
    dropped_bytes: u64,
    end: Option<StopCause>,
    wants_look: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StdinState {
    Open,
    /// To be closed once everything that waits is written.
    Closing,
    /// It never was open, or the command has closed it, or more was told than may wait.
    Gone,
}

impl Replies {
    /// Writes bytes to the command's standard input, after all that was told before.
    ///
    /// They wait where the command doesn't read yet. Where they would be more than [`STDIN_WAITING_MAX`], none of them is
    /// written and the launch ends as by a stop, with [`StopCause::StdinFull`]. What can't be written any more (there is no
    /// [`Stdin::Written`](crate::Stdin::Written), or it is closed) is only counted, in
    /// [`StdinTotals::dropped_bytes`](crate::StdinTotals::dropped_bytes).
    pub fn tell(&mut self, bytes: &[u8]) {
        let fits = bytes.len() <= STDIN_WAITING_MAX - self.waiting.len();
        match self.stdin {
            StdinState::Open if fits => return self.waiting.extend(bytes),
            StdinState::Open => {
                self.stdin = StdinState::Gone;
                self.end.get_or_insert(StopCause::StdinFull);
            }
            StdinState::Closing | StdinState::Gone => {}
        }
        self.dropped_bytes += bytes.len() as u64;
    }

    /// Closes the standard input after all that was told before.
    pub fn close_stdin(&mut self) {
        if self.stdin == StdinState::Open {
            self.stdin = StdinState::Closing;
        }
    }

    /// The dialogue is over: the tree is ended as by a stop, with TERM and after the grace with KILL.
    /// A command that has ended by itself meanwhile was not stopped.
    pub fn finish(&mut self) {
        self.end.get_or_insert(StopCause::Finished);
    }

    /// Asks what the tree does. The answer is a [`SandboxMessage::Activity`]; none comes where the tree can't be seen.
    pub fn look(&mut self) {
        self.wants_look = true;
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Replies, StdinState};
    use crate::outcome::StopCause;
    use crate::request::Stdin;

    impl Replies {
        pub(crate) fn new(stdin: Stdin) -> Self {
            Self {
                waiting: std::collections::VecDeque::new(),
                stdin: match stdin {
                    Stdin::Closed => StdinState::Gone,
                    Stdin::Written => StdinState::Open,
                },
                dropped_bytes: 0,
                end: None,
                wants_look: false,
            }
        }

        /// Returns why the launch is to end, if it is.
        pub(crate) fn end(&self) -> Option<StopCause> {
            self.end
        }

        /// Returns whether a look is wanted, once.
        pub(crate) fn take_look(&mut self) -> bool {
            std::mem::take(&mut self.wants_look)
        }

        /// Returns what to write next, or nothing if there is nothing.
        pub(crate) fn next_bytes(&self) -> &[u8] {
            self.waiting.as_slices().0
        }

        pub(crate) fn is_written(&mut self, count: usize) {
            self.waiting.drain(..count.min(self.waiting.len()));
        }

        /// Returns whether nothing will ever be written any more.
        pub(crate) fn is_all_written(&self) -> bool {
            self.waiting.is_empty() && self.stdin != StdinState::Open
        }

        /// Nobody reads any more: gives up what waits.
        pub(crate) fn give_up_stdin(&mut self) {
            self.stdin = StdinState::Gone;
            self.dropped_bytes += self.waiting.len() as u64;
            self.waiting.clear();
        }

        pub(crate) fn dropped_bytes(&self) -> u64 {
            self.dropped_bytes
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Stdin;

    #[derive(Clone, Copy, Debug)]
    enum Act {
        Tell(usize),
        Write(usize),
        Close,
        Finish,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            6 => (0_usize..5 * 1024 * 1024).prop_map(Act::Tell),
            3 => (0_usize..2 * 1024 * 1024).prop_map(Act::Write),
            1 => Just(Act::Close),
            1 => Just(Act::Finish),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn never_more_waits_than_may_and_every_byte_is_counted(
            acts in proptest::collection::vec(act(), 0..16),
            is_open in any::<bool>(),
        ) {
            let room = vec![b'x'; 5 * 1024 * 1024];
            let mut replies = Replies::new(if is_open { Stdin::Written } else { Stdin::Closed });
            let (mut told, mut written) = (0, 0);
            for act in acts {
                let before = replies.end();
                match act {
                    Act::Tell(count) => {
                        let waiting = replies.waiting.len();
                        let was_open = replies.stdin == StdinState::Open;
                        replies.tell(&room[..count]);
                        told += count as u64;
                        let is_full = was_open && waiting + count > STDIN_WAITING_MAX;
                        let full = is_full.then_some(StopCause::StdinFull);
                        prop_assert_eq!(replies.end(), before.or(full));
                    }
                    Act::Write(count) => {
                        let count = count.min(replies.next_bytes().len());
                        replies.is_written(count);
                        written += count as u64;
                    }
                    Act::Close => replies.close_stdin(),
                    Act::Finish => {
                        replies.finish();
                        prop_assert_eq!(replies.end(), before.or(Some(StopCause::Finished)));
                    }
                }
                prop_assert!(replies.waiting.len() <= STDIN_WAITING_MAX);
                let waiting = replies.waiting.len() as u64;
                prop_assert_eq!(told, written + waiting + replies.dropped_bytes());
            }
        }
    }
}
