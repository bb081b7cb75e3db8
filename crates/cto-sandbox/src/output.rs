//! The two output pipes of a launch: read in bounded chunks, capped together, never waited for.

use std::io::{self, PipeReader, Read};

use crate::dialogue::Dialogue;
use crate::outcome::{OutputTotals, Stream};

/// Size of a chunk, that of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;
/// Most that is still read after the end; more can only come from a process outside that was handed a pipe.
const REST_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Returns whether a read or write that does not block may work later.
pub(crate) fn not_now(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Reading ends, where still open, and what came through them.
pub(crate) struct Output {
    pub(crate) stdout: Option<PipeReader>,
    pub(crate) stderr: Option<PipeReader>,
    totals: OutputTotals,
    left: u64,
    chunk: Vec<u8>,
}

impl Output {
    /// Takes over two pipes whose reading ends do not block.
    pub(crate) fn new(stdout: PipeReader, stderr: PipeReader, cap: u64) -> Self {
        Self {
            stdout: Some(stdout),
            stderr: Some(stderr),
            totals: OutputTotals::default(),
            left: cap,
            chunk: vec![0; CHUNK_BYTES],
        }
    }

    /// Reads at most one chunk, so that no stream starves the rest of the loop. Returns how much came.
    pub(crate) fn read(&mut self, stream: Stream, dialogue: &mut Dialogue<'_>) -> usize {
        let pipe = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let Some(reader) = pipe else { return 0 };
        match reader.read(&mut self.chunk) {
            Ok(0) => *pipe = None,
            Ok(count) => {
                self.take(stream, count, dialogue);
                return count;
            }
            Err(error) if not_now(&error) => {}
            Err(_) => *pipe = None,
        }
        0
    }

    /// Reads what is left in the pipes after the tree is dead.
    pub(crate) fn read_rest(&mut self, dialogue: &mut Dialogue<'_>) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let mut rest = 0;
            while rest < REST_BYTES_MAX {
                match self.read(stream, dialogue) {
                    0 => break,
                    count => rest += count,
                }
            }
        }
    }

    pub(crate) fn totals(&self) -> OutputTotals {
        self.totals
    }

    fn take(&mut self, stream: Stream, count: usize, dialogue: &mut Dialogue<'_>) {
        let allowed = usize::try_from(self.left).unwrap_or(usize::MAX).min(count);
        let (kept, dropped) = self.chunk[..count].split_at(allowed);
        self.left -= kept.len() as u64;
        let total = match stream {
            Stream::Stdout => &mut self.totals.stdout_bytes,
            Stream::Stderr => &mut self.totals.stderr_bytes,
        };
        *total += kept.len() as u64;
        self.totals.dropped_bytes += dropped.len() as u64;
        self.totals.capped |= !dropped.is_empty();
        if !kept.is_empty() {
            dialogue.output(stream, kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;
    use crate::message::{Replies, SandboxMessage};
    use crate::request::Stdin;

    proptest! {
        #[test]
        fn the_listener_gets_exactly_what_the_cap_allows(
            writes in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..64)), 0..16),
            cap in 0_u64..600,
        ) {
            let (out, mut to_out) = io::pipe().unwrap();
            let (err, mut to_err) = io::pipe().unwrap();
            let mut seen = Vec::new();
            let mut listener = |message: SandboxMessage<'_>, _: &mut Replies| {
                let SandboxMessage::Output(stream, bytes) = message else {
                    panic!("{message:?}");
                };
                seen.extend(bytes.iter().map(|&byte| (stream, byte)));
            };
            let mut dialogue = Dialogue::new(&mut listener, Stdin::Closed, Instant::now());
            let mut output = Output::new(out, err, cap);
            let mut written = Vec::new();
            for (to_stdout, bytes) in writes.iter().filter(|(_, bytes)| !bytes.is_empty()) {
                let stream = if *to_stdout { Stream::Stdout } else { Stream::Stderr };
                let pipe = if *to_stdout { &mut to_out } else { &mut to_err };
                pipe.write_all(bytes).unwrap();
                written.extend(bytes.iter().map(|&byte| (stream, byte)));
                prop_assert_eq!(output.read(stream, &mut dialogue), bytes.len());
            }
            let totals = output.totals();
            let kept = written.len().min(usize::try_from(cap).unwrap());
            prop_assert_eq!(totals.stdout_bytes + totals.stderr_bytes, kept as u64);
            prop_assert_eq!(totals.dropped_bytes, (written.len() - kept) as u64);
            prop_assert_eq!(totals.capped, written.len() > kept);
            prop_assert_eq!(&seen[..], &written[..kept]);
        }
    }
}
