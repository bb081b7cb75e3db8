//! An answer as it arrives: its head, then its body piece by piece.

use std::io::{self, Read};

use crate::chunked::Chunked;
use crate::link::Link;
use crate::record::ExchangeEnd;
use crate::response::{Answer, AnswerFraming, BadAnswer, parse_answer};
use crate::socket::is_stop;

/// What is read at once, and so the most that is ever held back of a stream.
pub(crate) const PIECE_BYTES: usize = 16 * 1024;

pub(crate) enum Piece {
    Data(Vec<u8>),
    End,
    Fault(ExchangeEnd),
}

/// The body of an answer, as it arrives.
pub(crate) struct Pieces {
    framing: AnswerFraming,
    chunked: Chunked,
    left: u64,
    /// Bytes that came with the head.
    rest: Vec<u8>,
}

impl Pieces {
    pub(crate) fn new(framing: AnswerFraming, rest: Vec<u8>) -> Self {
        Self {
            framing,
            chunked: Chunked::default(),
            left: match framing {
                AnswerFraming::Length(length) => length,
                AnswerFraming::Chunked | AnswerFraming::Close => 0,
            },
            rest,
        }
    }

    pub(crate) fn next(&mut self, link: &mut Link) -> Piece {
        loop {
            let is_done = match self.framing {
                AnswerFraming::Length(_) => self.left == 0,
                AnswerFraming::Chunked => self.chunked.is_done(),
                AnswerFraming::Close => false,
            };
            if is_done {
                return Piece::End;
            }
            let mut input = std::mem::take(&mut self.rest);
            if input.is_empty() {
                input = vec![0; PIECE_BYTES];
                match link.read(&mut input) {
                    Ok(0) if self.framing == AnswerFraming::Close => return Piece::End,
                    Ok(0) => return Piece::Fault(ExchangeEnd::UpstreamCut),
                    Ok(count) => input.truncate(count),
                    Err(error) => return Piece::Fault(read_fault(&error)),
                }
            }
            let mut data = Vec::with_capacity(input.len());
            match self.framing {
                AnswerFraming::Length(_) => {
                    let take =
                        usize::try_from(self.left).map_or(input.len(), |l| l.min(input.len()));
                    self.left -= take as u64;
                    input.truncate(take);
                    data = input;
                }
                AnswerFraming::Close => data = input,
                // What follows the end belongs to nobody: the connection is closed.
                AnswerFraming::Chunked => {
                    if self.chunked.feed(&input, &mut data).is_err() {
                        return Piece::Fault(ExchangeEnd::UpstreamMalformed);
                    }
                }
            }
            if !data.is_empty() {
                return Piece::Data(data);
            }
        }
    }
}

pub(crate) fn read_answer(link: &mut Link) -> Result<(Answer, Vec<u8>), ExchangeEnd> {
    let mut bytes = Vec::new();
    let mut piece = [0; PIECE_BYTES];
    loop {
        match parse_answer(&bytes) {
            Err(BadAnswer::Malformed) => return Err(ExchangeEnd::UpstreamMalformed),
            Err(BadAnswer::Redirect) => return Err(ExchangeEnd::UpstreamRedirect),
            Ok(Some(answer)) => {
                let rest = bytes.split_off(answer.length);
                return Ok((answer, rest));
            }
            Ok(None) => {}
        }
        match link.read(&mut piece) {
            Ok(0) => return Err(ExchangeEnd::UpstreamCut),
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) => return Err(read_fault(&error)),
        }
    }
}

pub(crate) fn read_fault(error: &io::Error) -> ExchangeEnd {
    if is_stop(error) {
        ExchangeEnd::Stopped
    } else if error.kind() == io::ErrorKind::TimedOut {
        ExchangeEnd::UpstreamSilent
    } else {
        ExchangeEnd::UpstreamCut
    }
}
