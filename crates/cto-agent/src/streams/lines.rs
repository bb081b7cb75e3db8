//! Lines out of bytes, with bounded memory.

/// Longest line that is looked at; of a longer one nothing is kept.
pub const EVENT_LINE_BYTES_MAX: usize = 4 << 20;

/// One line, without its end.
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    Overlong,
}

/// The line so far.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
    is_overlong: bool,
}

impl Lines {
    /// Takes the next bytes and gives the lines that they complete.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Line<'_>)) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            match piece.strip_suffix(b"\n") {
                None => self.push(piece),
                Some(rest) => {
                    self.push(rest);
                    self.end(&mut each);
                }
            }
        }
    }

    /// The stream is over: a last line may lack its end.
    pub(super) fn finish(mut self, mut each: impl FnMut(Line<'_>)) {
        if self.is_overlong || !self.partial.is_empty() {
            self.end(&mut each);
        }
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.partial.len()
    }

    fn push(&mut self, piece: &[u8]) {
        if self.is_overlong || self.partial.len() + piece.len() > EVENT_LINE_BYTES_MAX {
            self.is_overlong = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(piece);
        }
    }

    fn end(&mut self, each: &mut impl FnMut(Line<'_>)) {
        let line = std::mem::take(&mut self.partial);
        match std::mem::take(&mut self.is_overlong) {
            true => each(Line::Overlong),
            false => each(Line::Whole(&line)),
        }
    }
}
