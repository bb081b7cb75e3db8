//! The one address that a confined agent can reach: a forwarder to a fixed model endpoint that counts what passes.
//!
//! Invariants:
//! - One connection carries one request. It is read by a strict parser, and what goes on is written anew from what was
//!   understood: of the agent's head only the few plain headers that a wire needs go on, and no credential of its own.
//! - Method, path and query come from a closed list ([`Api`]), the upstream from [`Upstream`]; nothing that an agent sends, and no
//!   redirect, changes either. What would make the upstream itself reach out for the agent is refused.
//! - Key and endpoint stand in no error, no record and no `Debug`.
//! - Every wait has a deadline, every buffer a cap, and [`Forwarder::stop`] ends every thread whatever its peers do.
//! - Tokens that could not be read from an answer are bounded from above, never taken for none.
//!
//! Absent on purpose: keep-alive, pipelining, compression, redirects, proxies, trailers and HTTP/2.

mod answer_reader;
mod answering;
mod api;
mod body;
mod budget;
mod call;
mod chunked;
mod conceal;
mod exchange;
mod forwarder;
mod head;
mod keys;
mod link;
mod meter;
mod outgoing;
mod overhear;
mod pieces;
mod prices;
mod probe;
mod reach;
mod record;
mod refusal;
mod request;
mod response;
mod room;
mod scripted;
mod secret;
mod socket;
mod upstream;
mod wires;

pub use api::Api;
pub use budget::{Budget, BudgetHit, BudgetName, unmeterable};
pub use forwarder::{Deadlines, Forwarder, ForwarderError, Standing, Terms};
pub use keys::{KeySource, Keys, Token};
pub use link::{Route, RouteError};
pub use overhear::{Marks, Passage};
pub use prices::{Prices, amount, parts};
pub use probe::ProbeTerms;
pub use record::{Exchange, ExchangeEnd, Traffic};
pub use refusal::Refusal;
pub use scripted::{SCRIPTED_MODEL, ScriptedModel, ScriptedOptions};
pub use secret::{Secret, SecretError};
pub use upstream::{Authorities, Upstream, UpstreamError};

/// The strict parsers without a socket, for tests of what they accept.
#[doc(hidden)]
pub mod parsing {
    pub use crate::chunked::Chunked;
    pub use crate::request::{Doorway, Framing, Request, parse};
    pub use crate::response::{Answer, parse_answer};
}
