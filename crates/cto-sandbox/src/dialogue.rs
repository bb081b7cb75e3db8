//! The listener of one launch: when it is told what, and what it has answered so far.

use std::time::Instant;

use crate::activity::Activity;
use crate::attempt::Attempt;
use crate::message::{Listener, Replies, SandboxMessage, TICK_INTERVAL};
use crate::outcome::Stream;
use crate::request::Stdin;

pub(crate) struct Dialogue<'l> {
    listener: &'l mut Listener<'l>,
    pub(crate) replies: Replies,
    start: Instant,
    /// `None` until the command is about to start.
    next_tick: Option<Instant>,
}

impl<'l> Dialogue<'l> {
    pub(crate) fn new(listener: &'l mut Listener<'l>, stdin: Stdin, start: Instant) -> Self {
        Self {
            listener,
            replies: Replies::new(stdin),
            start,
            next_tick: None,
        }
    }

    /// Whether the listener knows that the command is about to start.
    pub(crate) fn has_begun(&self) -> bool {
        self.next_tick.is_some()
    }

    /// Tells that the command is about to start, the first time.
    pub(crate) fn begin(&mut self, now: Instant) {
        if !self.has_begun() {
            self.next_tick = Some(now + TICK_INTERVAL);
            self.send(SandboxMessage::Started);
        }
    }

    pub(crate) fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.send(SandboxMessage::Output(stream, bytes));
    }

    pub(crate) fn activity(&mut self, activity: Activity) {
        self.send(SandboxMessage::Activity(activity));
    }

    pub(crate) fn attempt(&mut self, attempt: &Attempt) {
        self.send(SandboxMessage::Attempt(attempt));
    }

    /// Returns when the next tick is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.next_tick
    }

    /// Tells how late it is, if a tick is due. Ticks that were missed are not made up for.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.next_tick.is_some_and(|due| now >= due) {
            self.next_tick = Some(now + TICK_INTERVAL);
            let since_start = now.saturating_duration_since(self.start);
            self.send(SandboxMessage::Tick { since_start });
        }
    }

    fn send(&mut self, message: SandboxMessage<'_>) {
        (self.listener)(message, &mut self.replies);
    }
}
