//! What each fault means, as data.

use cto_contract::model_script::ModelFault;

/// How a request is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conduct {
    Silence,
    Error {
        status: u16,
        kind: &'static str,
        message: &'static str,
    },
    Garbage,
    Answer(Answering),
}

/// An answer, and what is odd about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answering {
    pub(super) matter: Matter,
    pub(super) by: By,
    pub(super) framing: Framing,
    pub(super) pace: Pace,
    pub(super) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matter {
    Script,
    Reasoning,
    Refusal,
    Huge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    TheModelAsked,
    AnotherModel,
}

/// How an answer of unknown length is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Chunked,
    Close,
    CloseOfHttp10,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    AtOnce,
    Drip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    /// Nothing comes behind the head.
    AfterHead,
    /// The connection breaks in the middle.
    Broken,
    /// It ends in the middle, by the rules.
    Early,
}

const PLAIN: Answering = Answering {
    matter: Matter::Script,
    by: By::TheModelAsked,
    framing: Framing::Chunked,
    pace: Pace::AtOnce,
    end: End::Whole,
};

pub(super) const fn conduct(fault: ModelFault) -> Conduct {
    match fault {
        ModelFault::Hang => Conduct::Silence,
        ModelFault::Unauthorized => refused(401, "authentication_error", "the key is not valid"),
        ModelFault::Forbidden => refused(403, "permission_error", "the key may not do this"),
        ModelFault::TooManyRequests => refused(429, "rate_limit_error", "too many requests"),
        ModelFault::ServerError => refused(500, "api_error", "broken"),
        ModelFault::Garbage => Conduct::Garbage,
        ModelFault::Ok => Conduct::Answer(PLAIN),
        ModelFault::Stall => ending(End::AfterHead),
        ModelFault::Cut => ending(End::Broken),
        ModelFault::CleanCut => ending(End::Early),
        ModelFault::ReasoningOnly => about(Matter::Reasoning),
        ModelFault::Refusal => about(Matter::Refusal),
        ModelFault::Huge => about(Matter::Huge),
        ModelFault::AnotherModel => Conduct::Answer(Answering {
            by: By::AnotherModel,
            ..PLAIN
        }),
        ModelFault::Drip => Conduct::Answer(Answering {
            pace: Pace::Drip,
            ..PLAIN
        }),
        ModelFault::CloseDelimited => framed(Framing::Close),
        ModelFault::Http10 => framed(Framing::CloseOfHttp10),
    }
}

const fn refused(status: u16, kind: &'static str, message: &'static str) -> Conduct {
    Conduct::Error {
        status,
        kind,
        message,
    }
}

const fn ending(end: End) -> Conduct {
    Conduct::Answer(Answering { end, ..PLAIN })
}

const fn about(matter: Matter) -> Conduct {
    Conduct::Answer(Answering { matter, ..PLAIN })
}

const fn framed(framing: Framing) -> Conduct {
    Conduct::Answer(Answering { framing, ..PLAIN })
}
