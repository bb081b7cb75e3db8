//! The pipe that becomes the command's standard input: written by the harness as the command reads, and never waited for.
//!
//! Its reading end goes over the control socket to the one process that forks the command, whoever built the sandbox, and
//! nobody else keeps it: a command that closes its standard input is seen to.

use std::io::{self, IoSlice, IoSliceMut, PipeReader, PipeWriter, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::message::Replies;
use crate::outcome::StdinTotals;
use crate::output::not_now;
use crate::process::unblock;
use crate::request::Stdin;
use crate::wire::STDIN;

/// The harness's side. Without a pipe, or when it is closed, there is nothing to do.
#[derive(Debug, Default)]
pub(crate) struct StdinPipe {
    /// Until it is handed over.
    reader: Option<PipeReader>,
    writer: Option<PipeWriter>,
    written_bytes: u64,
}

impl StdinPipe {
    pub(crate) fn new(stdin: Stdin) -> io::Result<Self> {
        if stdin == Stdin::Closed {
            return Ok(Self::default());
        }
        let (reader, writer) = io::pipe()?;
        unblock(writer.as_fd())?;
        Ok(Self {
            reader: Some(reader),
            writer: Some(writer),
            written_bytes: 0,
        })
    }

    /// Whether the reading end still has to be handed over.
    pub(crate) fn is_here(&self) -> bool {
        self.reader.is_some()
    }

    /// Hands the reading end over, if the socket takes it now. An error is a hang-up, which the end of the launcher explains.
    pub(crate) fn hand_over(&mut self, control: &UnixStream) {
        let Some(reader) = &self.reader else { return };
        let fds = [reader.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let data = [IoSlice::new(&[STDIN])];
        match rustix::net::sendmsg(control, &data, &mut ancillary, SendFlags::NOSIGNAL) {
            Err(error) if not_now(&error.into()) => {}
            Ok(_) | Err(_) => self.reader = None,
        }
    }

    /// Returns the end to wait for, while there is something to write.
    pub(crate) fn waiting(&self, replies: &Replies) -> Option<BorrowedFd<'_>> {
        let writer = self.writer.as_ref().map(AsFd::as_fd);
        writer.filter(|_| !replies.next_bytes().is_empty())
    }

    /// Writes what the pipe takes now, and closes it after the last byte.
    ///
    /// The signal that comes with a closed pipe is ignored in every Rust program.
    pub(crate) fn write(&mut self, replies: &mut Replies) {
        if let Some(writer) = &mut self.writer
            && !replies.next_bytes().is_empty()
        {
            match writer.write(replies.next_bytes()) {
                Ok(count) => {
                    self.written_bytes += count as u64;
                    replies.is_written(count);
                }
                Err(error) if not_now(&error) => {}
                // The command has closed it, or is gone.
                Err(_) => replies.give_up_stdin(),
            }
        }
        if replies.is_all_written() {
            self.writer = None;
        }
    }

    /// Returns what was written, once nothing more will be.
    pub(crate) fn totals(&self, replies: &mut Replies) -> StdinTotals {
        replies.give_up_stdin();
        StdinTotals {
            written_bytes: self.written_bytes,
            dropped_bytes: replies.dropped_bytes(),
        }
    }
}

/// The other side: takes the reading end. `None`: the harness is gone, or wants an end, and nothing is to be started.
pub(crate) fn receive(control: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(control, &mut data, &mut ancillary, flags)?;
    let mut reader = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            reader = fds.next();
        }
    }
    Ok(reader.filter(|_| received.bytes == 1 && byte == [STDIN]))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    fn pipe() -> (PipeReader, StdinPipe, Replies) {
        let mut pipe = StdinPipe::new(Stdin::Written).unwrap();
        let reader = pipe.reader.take().unwrap();
        (reader, pipe, Replies::new(Stdin::Written))
    }

    proptest! {
        #[test]
        fn bytes_arrive_exact_and_in_order(
            steps in proptest::collection::vec((0_usize..50_000, 0_usize..50_000), 0..24),
        ) {
            let (mut reader, mut pipe, mut replies) = pipe();
            unblock(reader.as_fd()).unwrap();
            let mut source = (0_u32..).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8);
            let (mut told, mut seen) = (Vec::new(), Vec::new());
            for (count, wanted) in steps {
                let begin = told.len();
                told.extend(source.by_ref().take(count));
                replies.tell(&told[begin..]);
                pipe.write(&mut replies);
                let mut room = vec![0; wanted];
                let count = reader.read(&mut room).unwrap_or(0);
                seen.extend_from_slice(&room[..count]);
            }
            replies.close_stdin();
            while !replies.is_all_written() {
                pipe.write(&mut replies);
                let mut room = [0; 8192];
                let count = reader.read(&mut room).unwrap_or(0);
                seen.extend_from_slice(&room[..count]);
            }
            pipe.write(&mut replies);
            // Ends only because the pipe is closed.
            reader.read_to_end(&mut seen).unwrap();
            prop_assert!(seen == told);
            let totals = pipe.totals(&mut replies);
            prop_assert_eq!((totals.written_bytes, totals.dropped_bytes), (told.len() as u64, 0));
        }
    }

    #[test]
    fn what_nobody_reads_any_more_is_dropped_and_counted() {
        let (reader, mut pipe, mut replies) = pipe();
        replies.tell(b"12345");
        pipe.write(&mut replies);
        drop(reader);
        replies.tell(b"678");
        pipe.write(&mut replies);
        replies.tell(b"9");
        pipe.write(&mut replies);
        assert!(pipe.writer.is_none());
        assert!(pipe.waiting(&replies).is_none());
        let totals = StdinTotals {
            written_bytes: 5,
            dropped_bytes: 4,
        };
        assert_eq!(pipe.totals(&mut replies), totals);
    }

    #[test]
    fn the_reading_end_goes_over_the_socket_once_and_another_byte_is_none() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut pipe = StdinPipe::new(Stdin::Written).unwrap();
        pipe.hand_over(&ours);
        assert!(!pipe.is_here());
        let mut replies = Replies::new(Stdin::Written);
        replies.tell(b"through");
        replies.close_stdin();
        pipe.write(&mut replies);
        let mut reader = PipeReader::from(receive(&theirs).unwrap().unwrap());
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        (&ours).write_all(&[crate::wire::KILL]).unwrap();
        assert!(receive(&theirs).unwrap().is_none());
        drop(ours);
        assert!(receive(&theirs).unwrap().is_none());
    }
}
