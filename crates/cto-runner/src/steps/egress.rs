//! The forwarder of one backend: from the listener that the sandbox hands out to the record in the pack.

use std::io;
use std::net::TcpListener;

use cto_contract::artifact::FreshnessSource;
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{ModelTraffic, Step};
use cto_egress::{Deadlines, Forwarder, Route, Terms, Traffic};
use cto_evidence::writer::PackWriter;

use crate::checks::RedactedFile;
use crate::live::{Live, StepError};
use crate::{error_chain, model};

/// One line for each connection of the agent.
const EXCHANGES: &str = "backend/egress.jsonl";
/// Most names of models that an event keeps.
const MODELS_MAX: usize = 8;

/// A forwarder that waits for its listener, or serves it.
pub(super) struct Egress {
    route: Route,
    terms: Terms,
    forwarder: Option<Forwarder>,
}

impl Egress {
    pub(super) fn new(route: Route, limits: &cto_contract::task::Limits) -> Self {
        Self {
            route,
            terms: Terms {
                apis: model::apis(),
                budget: model::budget(limits),
                deadlines: Deadlines::default(),
            },
            forwarder: None,
        }
    }

    pub(super) fn host(&mut self, listeners: Vec<TcpListener>) -> io::Result<()> {
        let started = Forwarder::start(listeners, self.route.clone(), self.terms.clone());
        self.forwarder = Some(started.map_err(io::Error::other)?);
        Ok(())
    }

    /// Ends it, whatever its peers do. `None`: it never began.
    pub(super) fn finish(self) -> Option<Traffic> {
        self.forwarder.map(Forwarder::stop)
    }
}

impl Live<'_> {
    /// Writes the exchanges into the pack, records the budgets that were hit, and returns the sums.
    pub(super) fn record_traffic(&mut self, traffic: &Traffic) -> Result<ModelTraffic, StepError> {
        let failed = |source| StepError::Artifact {
            path: EXCHANGES.to_owned(),
            source,
        };
        let other = |e: &dyn std::error::Error| failed(io::Error::other(error_chain(e)));
        let writer = PackWriter::open(&self.pack).map_err(|e| other(&e))?;
        let file = writer.create_new(EXCHANGES).map_err(|e| other(&e))?;
        // Method, path and model are the agent's words.
        let mut out = RedactedFile::new(file, &self.known, &self.places);
        for exchange in &traffic.exchanges {
            let mut line = serde_json::to_vec(exchange).map_err(|e| other(&e))?;
            line.push(b'\n');
            out.push(&line);
        }
        out.finish().map_err(failed)?;
        self.book.note(EXCHANGES, FreshnessSource::Written);
        for hit in &traffic.hits {
            let name = hit.budget.as_str();
            let blocker = Blocker::new(
                BlockerCode::LimitExceeded,
                name,
                format!(
                    "the backend used up its {name}: {} of {}",
                    hit.seen, hit.allowed
                ),
            );
            self.limit_hit(name, hit.allowed, Step::Backend, blocker)?;
        }
        let mut models: Vec<String> = Vec::new();
        for name in traffic.exchanges.iter().filter_map(|e| e.model.as_ref()) {
            if models.len() < MODELS_MAX && !models.contains(name) {
                models.push(name.clone());
            }
        }
        Ok(ModelTraffic {
            requests: traffic.requests,
            refused: traffic.refused,
            bytes_up: traffic.bytes_up,
            bytes_down: traffic.bytes_down,
            tokens: traffic.tokens,
            tokens_at_most: traffic.tokens_at_most,
            models,
            exchanges_dropped: traffic.exchanges_dropped,
        })
    }
}
