//! How many tokens an answer used, read from its body as it passes by.

use serde::Deserialize;

/// Largest answer, or line of a stream, in which a count is looked for. Beyond it the count is unknown, never zero.
const LOOKED_AT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Counts above this are nobody's: they would not survive a report.
const TOKENS_MAX: u64 = 1 << 53;

/// Looks for `usage` in a JSON body or in the lines of an event stream.
#[derive(Debug)]
pub(crate) struct UsageReader {
    is_event_stream: bool,
    /// The body so far, or the line so far.
    held: Vec<u8>,
    /// Something was too long to be looked at.
    overflowed: bool,
    tokens: Option<u64>,
}

impl UsageReader {
    pub(crate) fn new(is_event_stream: bool) -> Self {
        Self {
            is_event_stream,
            held: Vec::new(),
            overflowed: false,
            tokens: None,
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if !self.is_event_stream {
            return self.hold(bytes);
        }
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&b| b == b'\n' || b == b'\r') {
            self.hold(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
        }
        self.hold(rest);
    }

    /// Returns the tokens, if the answer named them.
    pub(crate) fn finish(mut self) -> Option<u64> {
        if self.is_event_stream {
            self.end_line();
        } else if !self.overflowed {
            self.tokens = tokens_in(&self.held);
        }
        self.tokens
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.overflowed || self.held.len() + bytes.len() > LOOKED_AT_BYTES_MAX {
            self.overflowed = true;
            self.held = Vec::new();
        } else {
            self.held.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self) {
        let found = self
            .held
            .strip_prefix(b"data:")
            .and_then(|data| std::str::from_utf8(data).ok())
            // Most lines of a stream hold a word or two and no count.
            .filter(|data| data.contains("\"usage\""))
            .and_then(|data| tokens_in(data.as_bytes()));
        // Counts of a stream only grow.
        self.tokens = self.tokens.max(found);
        self.held.clear();
        self.overflowed = false;
    }
}

#[derive(Deserialize)]
struct Counted {
    usage: Option<Usage>,
    /// Events of the responses call hold the whole response.
    response: Option<Inner>,
}

#[derive(Deserialize)]
struct Inner {
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    total_tokens: Option<u64>,
    #[serde(alias = "input_tokens")]
    prompt_tokens: Option<u64>,
    #[serde(alias = "output_tokens")]
    completion_tokens: Option<u64>,
}

fn tokens_in(json: &[u8]) -> Option<u64> {
    let counted: Counted = serde_json::from_slice(json).ok()?;
    let usage = counted.usage.or(counted.response.and_then(|r| r.usage))?;
    let parts = match (usage.prompt_tokens, usage.completion_tokens) {
        (Some(prompt), completion) => Some(prompt.saturating_add(completion.unwrap_or_default())),
        (None, completion) => completion,
    };
    // The larger wins: an answer that contradicts itself makes nothing cheaper.
    let tokens = usage.total_tokens.max(parts)?;
    (tokens <= TOKENS_MAX).then_some(tokens)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(is_event_stream: bool, body: &str, size: usize) -> Option<u64> {
        let mut reader = UsageReader::new(is_event_stream);
        for piece in body.as_bytes().chunks(size) {
            reader.feed(piece);
        }
        reader.finish()
    }

    const CHAT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a \\\"usage\\\" b\"}}],\"usage\":null}\n\n\
        : comment\r\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5,\"total_tokens\":12}}\r\n\r\n\
        data: [DONE]\n\n";
    const RESPONSES: &str = "event: response.created\ndata: {\"response\":{\"usage\":null}}\n\n\
        event: response.completed\ndata: {\"response\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}}\n\n";

    #[test]
    fn both_calls_are_counted_streamed_or_not() {
        let whole = |body: &str| read(false, body, 1000);
        assert_eq!(whole(r#"{"usage":{"total_tokens":9}}"#), Some(9));
        assert_eq!(
            whole(r#"{"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}"#),
            Some(7)
        );
        assert_eq!(
            whole(r#"{"usage":{"total_tokens":1,"prompt_tokens":8}}"#),
            Some(8)
        );
        for body in [
            "{}",
            "",
            "[]",
            r#"{"usage":{}}"#,
            r#"{"usage":{"total_tokens":-1}}"#,
            r#"{"usage":{"total_tokens":18446744073709551615}}"#,
        ] {
            assert_eq!(whole(body), None, "{body}");
        }
        assert_eq!(read(true, CHAT, 1000), Some(12));
        assert_eq!(read(true, RESPONSES, 1000), Some(7));
        assert_eq!(
            read(true, "data: {\"usage\":null}\n\ndata: [DONE]\n\n", 5),
            None
        );
    }

    proptest! {
        #[test]
        fn a_count_is_found_wherever_the_stream_is_cut(size in 1_usize..80) {
            prop_assert_eq!(read(true, CHAT, size), Some(12));
            prop_assert_eq!(read(true, RESPONSES, size), Some(7));
        }
    }
}
