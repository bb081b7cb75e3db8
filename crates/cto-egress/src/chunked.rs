//! A chunked body, read strictly: no extensions, no trailers. No I/O.

/// Longest chunk size in hexadecimal digits: four gigabytes are more than any cap here.
const SIZE_DIGITS_MAX: usize = 8;

/// The body is not what it claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadChunk;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expecting {
    Size { digits: usize, value: u64 },
    SizeEnd { value: u64 },
    Data { left: u64 },
    DataEnd,
    DataEndFeed,
    LastEnd,
    LastEndFeed,
    Nothing,
}

/// Reads a chunked body from pieces of any size.
#[derive(Debug)]
pub struct Chunked {
    expecting: Expecting,
}

impl Default for Chunked {
    fn default() -> Self {
        Self {
            expecting: Expecting::Size {
                digits: 0,
                value: 0,
            },
        }
    }
}

impl Chunked {
    /// Whether the whole body was read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.expecting == Expecting::Nothing
    }

    /// Reads `input`, appends the data in it to `data`, and returns how much was read: all of it, unless the body ended.
    pub fn feed(&mut self, input: &[u8], data: &mut Vec<u8>) -> Result<usize, BadChunk> {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            self.expecting = match (self.expecting, byte) {
                (Expecting::Nothing, _) => return Ok(at),
                (Expecting::Data { left }, _) => {
                    let rest = &input[at..];
                    let take = usize::try_from(left).map_or(rest.len(), |l| l.min(rest.len()));
                    data.extend_from_slice(&rest[..take]);
                    at += take;
                    match left - take as u64 {
                        0 => self.expecting = Expecting::DataEnd,
                        left => self.expecting = Expecting::Data { left },
                    }
                    continue;
                }
                (Expecting::Size { digits, value }, b'\r') if digits > 0 => {
                    Expecting::SizeEnd { value }
                }
                (Expecting::Size { digits, value }, _) => {
                    let digit = char::from(byte).to_digit(16).ok_or(BadChunk)?;
                    if digits == SIZE_DIGITS_MAX {
                        return Err(BadChunk);
                    }
                    Expecting::Size {
                        digits: digits + 1,
                        value: value * 16 + u64::from(digit),
                    }
                }
                (Expecting::SizeEnd { value: 0 }, b'\n') => Expecting::LastEnd,
                (Expecting::SizeEnd { value }, b'\n') => Expecting::Data { left: value },
                (Expecting::DataEnd, b'\r') => Expecting::DataEndFeed,
                (Expecting::DataEndFeed, b'\n') => Expecting::Size {
                    digits: 0,
                    value: 0,
                },
                (Expecting::LastEnd, b'\r') => Expecting::LastEndFeed,
                (Expecting::LastEndFeed, b'\n') => Expecting::Nothing,
                (
                    Expecting::SizeEnd { .. }
                    | Expecting::DataEnd
                    | Expecting::DataEndFeed
                    | Expecting::LastEnd
                    | Expecting::LastEndFeed,
                    _,
                ) => return Err(BadChunk),
            };
            at += 1;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> String {
        let (mut chunked, mut data) = (Chunked::default(), Vec::new());
        match chunked.feed(text.as_bytes(), &mut data) {
            Err(BadChunk) => "bad".to_owned(),
            Ok(read) => format!(
                "{} {read} {}",
                if chunked.is_done() { "done" } else { "open" },
                String::from_utf8_lossy(&data)
            ),
        }
    }

    #[test]
    fn only_plain_chunks_are_read() {
        let cases = [
            ("3\r\nabc\r\n0\r\n\r\n", "done 13 abc"),
            ("3\r\nabc\r\n0\r\n\r\nGET", "done 13 abc"),
            ("A\r\n0123456789\r\n", "open 15 0123456789"),
            ("", "open 0 "),
            ("3;x=y\r\nabc\r\n", "bad"),
            ("3 \r\nabc\r\n", "bad"),
            ("0x3\r\nabc\r\n", "bad"),
            ("+3\r\nabc\r\n", "bad"),
            ("-1\r\n", "bad"),
            ("3\nabc\r\n", "bad"),
            ("\r\n", "bad"),
            ("3\r\nabcd\r\n", "bad"),
            ("3\r\nabc\n", "bad"),
            ("0\r\nX: y\r\n\r\n", "bad"),
            ("000000003\r\nabc\r\n", "bad"),
            ("ffffffffff\r\n", "bad"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_body_is_the_same_wherever_it_is_cut(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6),
            size in 1_usize..24,
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\n");
            let (mut chunked, mut data) = (Chunked::default(), Vec::new());
            for piece in wire.chunks(size) {
                prop_assert_eq!(chunked.feed(piece, &mut data), Ok(piece.len()));
            }
            prop_assert!(chunked.is_done());
            prop_assert_eq!(data, chunks.concat());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut data = Vec::new();
            Chunked::default().feed(&bytes, &mut data).ok();
            prop_assert!(data.len() <= bytes.len());
        }
    }
}
