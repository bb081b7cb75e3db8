//! Every reason for which a request is not forwarded. Closed: each has a name in the record and an answer for the agent.

use serde::Serialize;

macro_rules! refusals {
    ($($variant:ident = $name:literal $status:literal $words:literal,)+) => {
        /// Why a request was not forwarded.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Refusal {
            $(#[serde(rename = $name)] $variant,)+
        }

        impl Refusal {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The status that the agent gets.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ }
            }

            /// The sentence that the agent gets.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self { $(Self::$variant => $words,)+ }
            }
        }
    };
}

impl Refusal {
    /// Whether the agent asked for something that it may not have. A client that tries another protocol first does not.
    #[must_use]
    pub const fn counts(self) -> bool {
        !matches!(self, Self::Upgrade)
    }
}

/// A refusal, and what in the request it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Objection {
    pub(crate) refusal: Refusal,
    /// The agent's own word, escaped and cut.
    pub(crate) subject: Option<String>,
    /// What to do, where it is more than the refusal's own words say.
    pub(crate) remedy: Option<String>,
}

impl From<Refusal> for Objection {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            subject: None,
            remedy: None,
        }
    }
}

refusals! {
    ConnectMethod = "connect_method" 405 "this is no proxy: CONNECT is refused",
    AbsoluteForm = "absolute_form" 400 "this is no proxy: the target must be a path",
    BadRequestLine = "bad_request_line" 400 "the request line is not `METHOD path HTTP/1.1`",
    HttpVersion = "http_version" 505 "only HTTP/1.1 is spoken here",
    OddPath = "odd_path" 400 "the path holds empty, dotted or encoded segments",
    Query = "query" 400 "this call does not take such a query",
    UnknownRoute = "unknown_route" 404 "this call is not offered to this run",
    BadHeader = "bad_header" 400 "a header line is not `Name: value` in plain characters",
    FoldedHeader = "folded_header" 400 "a header goes on in a second line",
    BareLineEnd = "bare_line_end" 400 "a line does not end in CR LF",
    HeadTooLarge = "head_too_large" 431 "the head of the request is too large",
    HostMissing = "host_missing" 400 "there is no Host header",
    HostForeign = "host_foreign" 421 "the Host header names another server",
    RepeatedHeader = "repeated_header" 400 "a header that may stand once stands twice",
    LengthAndEncoding = "length_and_encoding" 400 "Content-Length and Transfer-Encoding exclude each other",
    BadLength = "bad_length" 400 "Content-Length is not a plain number",
    BadTransferEncoding = "bad_transfer_encoding" 400 "the only Transfer-Encoding is chunked",
    Upgrade = "upgrade" 426 "no other protocol is spoken here: ask again in plain HTTP/1.1",
    Expect = "expect" 417 "Expect is refused: send the body at once",
    Trailer = "trailer" 400 "trailers are refused",
    ContentEncoding = "content_encoding" 415 "a compressed body is refused",
    ContentType = "content_type" 415 "the body must be application/json",
    LengthRequired = "length_required" 411 "the body has neither Content-Length nor Transfer-Encoding",
    UnexpectedBody = "unexpected_body" 400 "this call takes no body",
    Pipelined = "pipelined" 400 "something follows the request: one connection carries one request",
    BodyTooLarge = "body_too_large" 413 "the body is too large",
    BadChunk = "bad_chunk" 400 "the chunked body is malformed; extensions and trailers are refused",
    CutOff = "cut_off" 400 "the request ended early",
    TooSlow = "too_slow" 408 "the request did not come in time",
    BadJson = "bad_json" 400 "the body is not one JSON object",
    RepeatedKey = "repeated_key" 400 "a key of the body stands twice",
    BadField = "bad_field" 400 "`model`, `stream`, `stream_options` or `background` has the wrong type or another spelling",
    BackgroundWork = "background_work" 400 "work in the background cannot be metered",
    HostedTool = "hosted_tool" 403 "a tool that the provider runs itself would reach further than this run may; turn it off in the agent's settings, or offer a function that the agent runs",
    RemoteUrl = "remote_url" 403 "the provider would fetch an address for this run; send the data itself",
    ModelMismatch = "model_mismatch" 403 "the run was admitted for another model",
    TooManyConnections = "too_many_connections" 503 "too many connections or too large requests are open at once",
    BudgetRequests = "budget_requests" 429 "the run's budget of requests is used up",
    BudgetBytes = "budget_bytes" 429 "the run's budget of bytes is used up",
    BudgetTokens = "budget_tokens" 429 "the run's budget of tokens is used up",
    BudgetCost = "budget_cost" 429 "the run's budget of money is used up",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_names_are_frozen() {
        let names: Vec<_> = Refusal::ALL
            .iter()
            .map(|r| format!("{} {}", r.status(), r.as_str()))
            .collect();
        insta::assert_snapshot!(names.join("\n"));
    }
}
