//! How much of requests is held in memory at once, by all connections together.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes of unfinished requests. A crowd of large ones must not cost the harness its memory.
const HELD_BYTES_MAX: usize = 128 * 1024 * 1024;

/// The room that all share.
#[derive(Debug, Default)]
pub(crate) struct Room(AtomicUsize);

/// What one connection holds of it, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'r> {
    room: &'r Room,
    bytes: usize,
}

impl Room {
    pub(crate) fn enter(&self) -> Held<'_> {
        Held {
            room: self,
            bytes: 0,
        }
    }
}

impl Held<'_> {
    /// Takes more; false when there is no room for it.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let before = self.room.0.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        before + bytes <= HELD_BYTES_MAX
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
