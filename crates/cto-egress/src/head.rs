//! Lines and headers, read strictly: the part that requests and answers share. No I/O.

/// Largest head, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Most header lines.
pub(crate) const HEADERS_MAX: usize = 100;

/// Why a head cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadFault {
    TooLarge,
    BareLineEnd,
    Folded,
    Bad,
}

/// A head that is there as a whole.
#[derive(Debug)]
pub(crate) struct Head<'b> {
    pub(crate) first_line: &'b str,
    /// Names as they came, values without the white space around them.
    pub(crate) headers: Vec<(&'b str, &'b [u8])>,
    /// Where the body begins.
    pub(crate) length: usize,
}

/// Reads a head up to its empty line. `None`: more bytes are needed.
pub(crate) fn read_head(bytes: &[u8]) -> Result<Option<Head<'_>>, HeadFault> {
    let window = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let mut lines = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while let Some(&byte) = window.get(at) {
        match byte {
            b'\n' => return Err(HeadFault::BareLineEnd),
            b'\r' => match window.get(at + 1) {
                None => break,
                Some(b'\n') if at == start && lines.is_empty() => return Err(HeadFault::Bad),
                Some(b'\n') if at == start => return understand(&lines, at + 2).map(Some),
                Some(b'\n') => {
                    lines.push(&window[start..at]);
                    if lines.len() > HEADERS_MAX + 1 {
                        return Err(HeadFault::TooLarge);
                    }
                    at += 2;
                    start = at;
                    continue;
                }
                Some(_) => return Err(HeadFault::BareLineEnd),
            },
            _ => {}
        }
        at += 1;
    }
    if bytes.len() >= HEAD_BYTES_MAX {
        return Err(HeadFault::TooLarge);
    }
    Ok(None)
}

fn understand<'b>(lines: &[&'b [u8]], length: usize) -> Result<Head<'b>, HeadFault> {
    let (first, rest) = lines.split_first().ok_or(HeadFault::Bad)?;
    let first_line = std::str::from_utf8(first).map_err(|_| HeadFault::Bad)?;
    let headers = rest
        .iter()
        .map(|line| header(line))
        .collect::<Result<_, _>>()?;
    Ok(Head {
        first_line,
        headers,
        length,
    })
}

fn header(line: &[u8]) -> Result<(&str, &[u8]), HeadFault> {
    if line.first().is_some_and(|byte| b" \t".contains(byte)) {
        return Err(HeadFault::Folded);
    }
    let colon = line
        .iter()
        .position(|&byte| byte == b':')
        .ok_or(HeadFault::Bad)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    // A tab is allowed between words, other control characters nowhere; bytes of no known alphabet are for the caller.
    let plain = |byte: &u8| *byte >= 0x20 && *byte != 0x7f || *byte == b'\t';
    if name.is_empty() || !name.iter().all(is_token) || !value.iter().all(plain) {
        return Err(HeadFault::Bad);
    }
    // Token characters are ASCII.
    let name = std::str::from_utf8(name).map_err(|_| HeadFault::Bad)?;
    Ok((name, value))
}

/// A character of a method or of a header's name.
pub(crate) fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Reads `Content-Length`: digits, and few enough of them to be a length.
pub(crate) fn plain_number(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.len() <= 15 && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    text.parse().ok()
}
