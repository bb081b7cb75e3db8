//! What `git cat-file --batch` writes, read piece by piece without holding an object in memory.

use std::io;

use crate::oid::Oid;

/// The longest line before an object: a name that was asked for and one word.
const LINE_BYTES_MAX: usize = 4 * 1024;

/// One step of the answer, in order: `Begin`, any number of `Piece`, `End`; or `Absent` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    Begin { id: Oid, kind: Kind, size: u64 },
    Piece(&'a [u8]),
    End,
    Absent(Absence),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Blob,
    Tree,
    Commit,
    Tag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    Missing,
    Ambiguous,
}

/// The bytes are no answer of `cat-file`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer;

enum State {
    Line(Vec<u8>),
    Content { left: u64 },
    LineEnd,
}

pub(crate) struct Decoder(State);

impl Decoder {
    pub(crate) const fn new() -> Self {
        Self(State::Line(Vec::new()))
    }

    /// Takes the next bytes and hands on what they say; stops at the first error of `take`.
    pub(crate) fn decode<E: From<NoAnswer>>(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            match &mut self.0 {
                State::Line(line) => {
                    let end = bytes.iter().position(|&byte| byte == b'\n');
                    let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
                    if line.len() + part.len() > LINE_BYTES_MAX {
                        return Err(NoAnswer.into());
                    }
                    line.extend_from_slice(part);
                    if end.is_none() {
                        return Ok(());
                    }
                    bytes = &rest[1..];
                    let event = parse_line(line).ok_or(NoAnswer)?;
                    self.0 = match event {
                        Event::Begin { size: 0, .. } => State::LineEnd,
                        Event::Begin { size, .. } => State::Content { left: size },
                        Event::Piece(_) | Event::End | Event::Absent(_) => State::Line(Vec::new()),
                    };
                    take(event)?;
                }
                State::Content { left } => {
                    let count =
                        usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    let (piece, rest) = bytes.split_at(count);
                    *left -= count as u64;
                    if *left == 0 {
                        self.0 = State::LineEnd;
                    }
                    bytes = rest;
                    take(Event::Piece(piece))?;
                }
                State::LineEnd => {
                    if bytes[0] != b'\n' {
                        return Err(NoAnswer.into());
                    }
                    bytes = &bytes[1..];
                    self.0 = State::Line(Vec::new());
                    take(Event::End)?;
                }
            }
        }
        Ok(())
    }
}

fn parse_line(line: &[u8]) -> Option<Event<'static>> {
    let line = std::str::from_utf8(line).ok()?;
    let (rest, last) = line.rsplit_once(' ')?;
    match last {
        "missing" => return Some(Event::Absent(Absence::Missing)),
        "ambiguous" => return Some(Event::Absent(Absence::Ambiguous)),
        _ => {}
    }
    let (id, kind) = rest.split_once(' ')?;
    Some(Event::Begin {
        id: id.parse().ok()?,
        kind: match kind {
            "blob" => Kind::Blob,
            "tree" => Kind::Tree,
            "commit" => Kind::Commit,
            "tag" => Kind::Tag,
            _ => return None,
        },
        size: last.parse().ok()?,
    })
}

/// Lets git write straight into a decoder. The first error is kept, since a writer can only say that it failed.
pub(crate) struct Sink<F, E> {
    decoder: Decoder,
    take: F,
    error: Option<E>,
}

impl<F, E> Sink<F, E>
where
    F: FnMut(Event<'_>) -> Result<(), E>,
    E: From<NoAnswer>,
{
    pub(crate) const fn new(take: F) -> Self {
        Self {
            decoder: Decoder::new(),
            take,
            error: None,
        }
    }

    pub(crate) fn into_error(self) -> Option<E> {
        self.error
    }
}

impl<F, E> io::Write for Sink<F, E>
where
    F: FnMut(Event<'_>) -> Result<(), E>,
    E: From<NoAnswer>,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.decoder.decode(bytes, &mut self.take) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                self.error = Some(error);
                Err(io::Error::other("the answer was not wanted"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the events with their pieces put together.
    fn read(chunks: &[&[u8]]) -> Result<Vec<String>, NoAnswer> {
        let mut decoder = Decoder::new();
        let mut events: Vec<String> = Vec::new();
        let mut content = Vec::new();
        for chunk in chunks {
            decoder.decode(chunk, |event| {
                match event {
                    Event::Begin { id, kind, size } => events.push(format!("{id} {kind:?} {size}")),
                    Event::Piece(piece) => content.extend_from_slice(piece),
                    Event::End => {
                        events.push(content.drain(..).as_slice().escape_ascii().to_string())
                    }
                    Event::Absent(absence) => events.push(format!("{absence:?}")),
                }
                Ok::<_, NoAnswer>(())
            })?;
        }
        Ok(events)
    }

    fn answer(objects: &[Option<Vec<u8>>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for object in objects {
            let id = Oid::of_blob(b"");
            match object {
                None => bytes.extend_from_slice(format!("{id} missing\n").as_bytes()),
                Some(content) => {
                    bytes.extend_from_slice(format!("{id} blob {}\n", content.len()).as_bytes());
                    bytes.extend_from_slice(content);
                    bytes.push(b'\n');
                }
            }
        }
        bytes
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let id = Oid::of_blob(b"");
        for bad in [
            "x\n".to_owned(),
            format!("{id} blob -1\n"),
            format!("{id} thing 1\n"),
            format!("{id} blob 1\nab"),
            format!("{id} submodule\n"),
            "x".repeat(LINE_BYTES_MAX + 1),
        ] {
            assert_eq!(read(&[bad.as_bytes()]), Err(NoAnswer), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn how_the_bytes_are_cut_does_not_matter(
            objects in proptest::collection::vec(
                proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)), 0..8),
            cut in 1_usize..50,
        ) {
            let bytes = answer(&objects);
            let whole = read(&[&bytes]).unwrap();
            let cut: Vec<&[u8]> = bytes.chunks(cut).collect();
            prop_assert_eq!(read(&cut).unwrap(), whole);
        }

        #[test]
        fn any_bytes_can_be_offered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(read(&[&bytes]));
        }
    }
}
