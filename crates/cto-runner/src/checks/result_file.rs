//! The file of test results that a command is to write.

use std::io;

use super::PARSED_BYTES_MAX as BYTES_MAX;
use super::planting::{FileState, Layers};
use crate::room::Room;

/// The file of test results that a command is to write: what lay there before is none of its own.
pub(super) struct ResultFile<'p> {
    layers: Layers,
    path: &'p str,
    before: Option<FileState>,
}

impl<'p> ResultFile<'p> {
    pub(super) fn note(room: &Room, path: &'p str) -> io::Result<Self> {
        let layers = Layers::open(room.written())?;
        let before = layers.state(path).unwrap_or_default();
        Ok(Self {
            layers,
            path,
            before,
        })
    }

    /// The text, if it was written since. The code under test made it: no link of it leads the harness anywhere else.
    pub(super) fn read(&self) -> Option<String> {
        let now = self.layers.state(self.path).ok()??;
        let is_new = self.before.as_ref() != Some(&now);
        let read = || self.layers.read(self.path, BYTES_MAX);
        is_new.then(read)?.unwrap_or_default()
    }
}
