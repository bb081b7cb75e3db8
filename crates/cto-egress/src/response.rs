//! The head of the upstream's answer: what of it is passed on, and where its body ends. No I/O.

use crate::head::{self, HeadFault};

/// The headers that an agent gets to see. None of them can name the upstream by its nature; values are looked at.
const PASSED_ON: [&str; 4] = [
    "content-type",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
];
const VALUE_BYTES_MAX: usize = 200;

/// An answer whose body is still to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub framing: AnswerFraming,
    /// Where the body begins.
    pub length: usize,
    pub is_event_stream: bool,
}

/// How the end of an answer's body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFraming {
    Length(u64),
    Chunked,
    /// It ends with the connection, and so could have been cut anywhere: what it says must show that it is whole.
    Close,
}

/// Why an answer is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAnswer {
    Malformed,
    Redirect,
}

impl From<HeadFault> for BadAnswer {
    fn from(fault: HeadFault) -> Self {
        match fault {
            HeadFault::TooLarge | HeadFault::BareLineEnd | HeadFault::Folded | HeadFault::Bad => {
                Self::Malformed
            }
        }
    }
}

/// Reads the head of an answer. `None`: more bytes are needed.
pub fn parse_answer(bytes: &[u8]) -> Result<Option<Answer>, BadAnswer> {
    let Some(head) = head::read_head(bytes)? else {
        return Ok(None);
    };
    let (version, status) = status(head.first_line).ok_or(BadAnswer::Malformed)?;
    match status {
        300..=399 => return Err(BadAnswer::Redirect),
        200..=299 | 400..=599 => {}
        _ => return Err(BadAnswer::Malformed),
    }
    let (mut length, mut encoding) = (None, None);
    let mut headers: Vec<(&'static str, String)> = Vec::new();
    for &(name, value) in &head.headers {
        let lower = name.to_ascii_lowercase();
        let repeated = match lower.as_str() {
            "content-length" => length.replace(value).is_some(),
            "transfer-encoding" => encoding.replace(value).is_some(),
            // What is compressed cannot be metered, and nobody asked for it.
            "content-encoding" if !value.eq_ignore_ascii_case(b"identity") => true,
            _ => false,
        };
        if repeated {
            return Err(BadAnswer::Malformed);
        }
        let kept = PASSED_ON.iter().find(|kept| **kept == lower);
        if let (Some(kept), Some(text)) = (kept, plain_value(value)) {
            if headers.iter().any(|(name, _)| name == kept) {
                return Err(BadAnswer::Malformed);
            }
            headers.push((kept, text));
        }
    }
    let framing = match (length, encoding) {
        (None, Some(encoding))
            if version == Version::Http11 && encoding.eq_ignore_ascii_case(b"chunked") =>
        {
            AnswerFraming::Chunked
        }
        (Some(length), None) => {
            AnswerFraming::Length(head::plain_number(length).ok_or(BadAnswer::Malformed)?)
        }
        // It has no body by definition.
        (None, None) if status == 204 => AnswerFraming::Length(0),
        (None, None) => AnswerFraming::Close,
        (Some(_), Some(_)) | (None, Some(_)) => return Err(BadAnswer::Malformed),
    };
    let is_event_stream = headers.iter().any(|(name, value)| {
        let kind = value.split(';').next().unwrap_or_default().trim();
        *name == "content-type" && kind.eq_ignore_ascii_case("text/event-stream")
    });
    Ok(Some(Answer {
        status,
        headers,
        framing,
        length: head.length,
        is_event_stream,
    }))
}

/// What an upstream speaks. Small local servers speak the older one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

fn status(line: &str) -> Option<(Version, u16)> {
    let (version, rest) = match line.split_once(' ')? {
        ("HTTP/1.1", rest) => (Version::Http11, rest),
        ("HTTP/1.0", rest) => (Version::Http10, rest),
        _ => return None,
    };
    let (code, reason) = rest.split_at_checked(3)?;
    let digits = code.bytes().all(|byte| byte.is_ascii_digit());
    let ends = reason.is_empty() || reason.starts_with(' ');
    let code = code.parse().ok().filter(|_| digits && ends)?;
    Some((version, code))
}

fn plain_value(value: &[u8]) -> Option<String> {
    let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let fits = value.len() <= VALUE_BYTES_MAX && value.iter().all(printable);
    fits.then(|| String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> String {
        match parse_answer(text.replace('\n', "\r\n").as_bytes()) {
            Err(bad) => format!("{bad:?}"),
            Ok(None) => "more".to_owned(),
            Ok(Some(answer)) => format!(
                "{} {:?} {:?}{}",
                answer.status,
                answer.framing,
                answer.headers,
                if answer.is_event_stream {
                    " events"
                } else {
                    ""
                }
            ),
        }
    }

    #[test]
    fn an_answer_says_where_it_ends_and_keeps_little_of_its_head() {
        let cases = [
            (
                "HTTP/1.1 200 OK\nContent-Length: 2\nServer: nginx\nContent-Type: application/json\n\n",
                r#"200 Length(2) [("content-type", "application/json")]"#,
            ),
            (
                "HTTP/1.1 200\nTransfer-Encoding: Chunked\nContent-Type: text/event-stream; charset=utf-8\n\n",
                r#"200 Chunked [("content-type", "text/event-stream; charset=utf-8")] events"#,
            ),
            (
                "HTTP/1.1 429 No\nRetry-After: 3\nContent-Length: 0\nX-Served-By: secret.host\n\n",
                r#"429 Length(0) [("retry-after", "3")]"#,
            ),
            ("HTTP/1.1 204 No Content\n\n", "204 Length(0) []"),
            ("HTTP/1.1 200 OK\nContent-Length: 2\n", "more"),
            (
                "HTTP/1.1 302 Found\nLocation: http://x\nContent-Length: 0\n\n",
                "Redirect",
            ),
            ("HTTP/1.1 101 Switching\n\n", "Malformed"),
            ("HTTP/1.1 100 Continue\n\n", "Malformed"),
            ("HTTP/1.0 200 OK\nContent-Length: 2\n\n", "200 Length(2) []"),
            ("HTTP/1.0 200 OK\n\n", "200 Close []"),
            ("HTTP/1.1 200 OK\nConnection: close\n\n", "200 Close []"),
            (
                "HTTP/1.0 200 OK\nTransfer-Encoding: chunked\n\n",
                "Malformed",
            ),
            ("HTTP/2 200 OK\nContent-Length: 2\n\n", "Malformed"),
            (
                "HTTP/1.1 200 OK\nContent-Length: 2\nContent-Length: 2\n\n",
                "Malformed",
            ),
            (
                "HTTP/1.1 200 OK\nContent-Length: 2\nTransfer-Encoding: chunked\n\n",
                "Malformed",
            ),
            ("HTTP/1.1 200 OK\nContent-Length: 2, 2\n\n", "Malformed"),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: gzip, chunked\n\n",
                "Malformed",
            ),
            (
                "HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: 2\n\n",
                "Malformed",
            ),
            ("HTTP/1.1 2x0 OK\nContent-Length: 2\n\n", "Malformed"),
            (
                "HTTP/1.1 200 OK\nContent-Length: 2\n X: folded\n\n",
                "Malformed",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse_answer(&bytes).ok();
        }
    }
}
