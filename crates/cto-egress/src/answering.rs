//! What is written to an agent: heads, and errors of our own.

use crate::record::ExchangeEnd;
use crate::response::AnswerFraming;

/// Status and sentence for a call that failed before its answer.
pub(crate) fn failure(end: ExchangeEnd) -> (u16, &'static str) {
    match end {
        ExchangeEnd::UpstreamSilent => (504, "the model endpoint did not answer in time"),
        ExchangeEnd::UpstreamRedirect => (502, "the model endpoint redirects, which is refused"),
        ExchangeEnd::UpstreamMalformed => (502, "the model endpoint's answer is malformed"),
        ExchangeEnd::UpstreamCut => (502, "the model endpoint's answer ended early"),
        ExchangeEnd::Unreachable => (502, "the model endpoint can't be reached"),
        ExchangeEnd::ConnectionRefused => (502, "nobody listens at the model endpoint"),
        ExchangeEnd::BadCertificate => (
            502,
            "the model endpoint's certificate does not vouch for its name",
        ),
        ExchangeEnd::KeyUnavailable => (502, "there is no key for the model endpoint"),
        ExchangeEnd::Stopped => (503, "the run is over"),
        ExchangeEnd::Answered
        | ExchangeEnd::Refused
        | ExchangeEnd::BudgetCut
        | ExchangeEnd::AgentLeft => (502, "the model endpoint failed"),
    }
}

/// `is_own`: the body is ours, and there is no use in trying again.
pub(crate) fn head_of(
    status: u16,
    headers: &[(&'static str, String)],
    framing: AnswerFraming,
    is_own: bool,
) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if status == 426 {
        head.push_str("upgrade: HTTP/1.1\r\n");
    }
    if is_own {
        head.push_str("content-type: application/json\r\n");
        if !headers.iter().any(|(name, _)| *name == "x-should-retry") {
            head.push_str("x-should-retry: false\r\n");
        }
    }
    match framing {
        AnswerFraming::Length(length) => head.push_str(&format!("content-length: {length}\r\n")),
        // Here the end is always said.
        AnswerFraming::Chunked | AnswerFraming::Close => {
            head.push_str("transfer-encoding: chunked\r\n");
        }
    }
    head.push_str("connection: close\r\n\r\n");
    head.into_bytes()
}

fn reason(status: u16) -> &'static str {
    match status {
        200..=299 => "OK",
        400..=499 => "Refused",
        _ => "Failed",
    }
}
