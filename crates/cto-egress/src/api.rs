//! The calls that are forwarded. Closed: a call that is not here does not exist inside.

use cto_contract::words::Wire;
use serde::Serialize;

/// One call of a model endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    ChatCompletions,
    Responses,
    ResponsesCompact,
    Messages,
    CountTokens,
    Models,
}

/// What an endpoint does for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A model answers: this uses tokens, and this is what a provider is there for.
    Generates,
    /// Something about a request is told; nothing is used.
    Counts,
    /// Nothing is sent.
    Lists,
}

/// One row: where a call is found below `/v1`, and what it is.
struct Row {
    /// None: every wire has it.
    wire: Option<Wire>,
    method: &'static str,
    path: &'static str,
    /// The queries that may stand behind the path, whole.
    queries: &'static [&'static str],
    work: Work,
}

impl Api {
    pub const ALL: &[Self] = &[
        Self::ChatCompletions,
        Self::Responses,
        Self::ResponsesCompact,
        Self::Messages,
        Self::CountTokens,
        Self::Models,
    ];

    const fn row(self) -> Row {
        const POST: Row = Row {
            wire: None,
            method: "POST",
            path: "",
            queries: &[],
            work: Work::Generates,
        };
        match self {
            Self::ChatCompletions => Row {
                wire: Some(Wire::ChatCompletions),
                path: "/v1/chat/completions",
                ..POST
            },
            Self::Responses => Row {
                wire: Some(Wire::Responses),
                path: "/v1/responses",
                ..POST
            },
            Self::ResponsesCompact => Row {
                wire: Some(Wire::Responses),
                path: "/v1/responses/compact",
                ..POST
            },
            Self::Messages => Row {
                wire: Some(Wire::Messages),
                path: "/v1/messages",
                queries: &["beta=true"],
                ..POST
            },
            Self::CountTokens => Row {
                wire: Some(Wire::Messages),
                path: "/v1/messages/count_tokens",
                queries: &["beta=true"],
                work: Work::Counts,
                ..POST
            },
            Self::Models => Row {
                method: "GET",
                path: "/v1/models",
                work: Work::Lists,
                ..POST
            },
        }
    }

    /// The calls of these wires.
    #[must_use]
    pub fn of(wires: &[Wire]) -> Vec<Self> {
        let offered = |api: &Self| api.wire().is_none_or(|wire| wires.contains(&wire));
        Self::ALL.iter().copied().filter(offered).collect()
    }

    /// The wire that it belongs to; none for what every wire has.
    #[must_use]
    pub const fn wire(self) -> Option<Wire> {
        self.row().wire
    }

    #[must_use]
    pub const fn method(self) -> &'static str {
        self.row().method
    }

    /// Where it is found inside.
    #[must_use]
    pub const fn path(self) -> &'static str {
        self.row().path
    }

    /// Where it is found below the base path of the upstream, which stands for `/v1`.
    pub(crate) fn below_base(self) -> &'static str {
        self.path().trim_start_matches("/v1")
    }

    /// Returns the query as it may go on, if this call takes it.
    pub(crate) fn query(self, query: &str) -> Option<&'static str> {
        let mut known = self.row().queries.iter().copied();
        known.find(|known| *known == query)
    }

    pub(crate) const fn work(self) -> Work {
        self.row().work
    }

    /// Whether the tokens it uses can be known: its answers name them, or it uses none.
    #[must_use]
    pub const fn meters_tokens(self) -> bool {
        match self.work() {
            Work::Generates | Work::Counts | Work::Lists => true,
        }
    }

    pub(crate) const fn takes_body(self) -> bool {
        match self.work() {
            Work::Generates | Work::Counts => true,
            Work::Lists => false,
        }
    }

    /// Returns the call for a method and a path, if it is one of those offered.
    pub(crate) fn find(offered: &[Self], method: &str, path: &str) -> Option<Self> {
        let mut fits = offered.iter().copied();
        fits.find(|api| api.method() == method && api.path() == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_offers_its_own_calls_and_the_list_of_models() {
        let paths = |wires: &[Wire]| {
            let apis = Api::of(wires);
            apis.iter().map(|a| a.path()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            paths(&[Wire::ChatCompletions]),
            "/v1/chat/completions /v1/models"
        );
        assert_eq!(
            paths(&[Wire::Responses]),
            "/v1/responses /v1/responses/compact /v1/models"
        );
        assert_eq!(
            paths(&[Wire::Messages]),
            "/v1/messages /v1/messages/count_tokens /v1/models"
        );
        assert_eq!(Api::of(Wire::ALL), Api::ALL);
        assert_eq!(Api::of(&[]), [Api::Models]);
    }
}
