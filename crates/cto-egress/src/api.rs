//! The calls that are forwarded. Closed: a call that is not here does not exist inside.

use serde::Serialize;

/// One call of a model endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    ChatCompletions,
    Responses,
    Models,
}

impl Api {
    pub const ALL: &[Self] = &[Self::ChatCompletions, Self::Responses, Self::Models];

    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::ChatCompletions | Self::Responses => "POST",
            Self::Models => "GET",
        }
    }

    /// Where it is found inside.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Models => "/v1/models",
        }
    }

    /// Where it is found below the base path of the upstream, which stands for `/v1`.
    pub(crate) const fn below_base(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/chat/completions",
            Self::Responses => "/responses",
            Self::Models => "/models",
        }
    }

    /// Whether the tokens it uses can be known: its answers name them, or it uses none.
    #[must_use]
    pub const fn meters_tokens(self) -> bool {
        match self {
            Self::ChatCompletions | Self::Responses | Self::Models => true,
        }
    }

    pub(crate) const fn takes_body(self) -> bool {
        match self {
            Self::ChatCompletions | Self::Responses => true,
            Self::Models => false,
        }
    }

    /// Returns the call for a method and a path, if it is one of those offered.
    pub(crate) fn find(offered: &[Self], method: &str, path: &str) -> Option<Self> {
        let mut fits = offered.iter().copied();
        fits.find(|api| api.method() == method && api.path() == path)
    }
}
