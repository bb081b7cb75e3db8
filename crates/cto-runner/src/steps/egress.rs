//! The forwarder of one backend: from the listener that the sandbox hands out to the record in the pack.

use std::io;
use std::net::TcpListener;

use cto_contract::artifact::FreshnessSource;
use cto_contract::event::{ModelTraffic, Step};
use cto_egress::{Deadlines, Forwarder, Route, Terms, Traffic};
use cto_rules::verdicts::LimitFact;

use crate::model;
use crate::open_run::{OpenRun, StepError};
use crate::redacted_file::RedactedFile;

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

/// Writes the exchanges into the pack, records the budgets that were hit, and returns the sums.
pub(super) fn record_traffic(
    run: &mut OpenRun<'_>,
    traffic: &Traffic,
) -> Result<ModelTraffic, StepError> {
    let file = run.create_artifact(EXCHANGES)?;
    // Method, path and model are the agent's words.
    let mut out = RedactedFile::new(file, &run.secrets, &run.places);
    for exchange in &traffic.exchanges {
        let line = serde_json::to_vec(exchange);
        let mut line = line.map_err(|e| StepError::not_written(EXCHANGES, &e))?;
        line.push(b'\n');
        out.push(&line);
    }
    out.finish()
        .map_err(|e| StepError::not_written(EXCHANGES, &e))?;
    run.times.note(EXCHANGES, FreshnessSource::Written);
    for hit in &traffic.hits {
        let fact = LimitFact::Model {
            budget: hit.budget.as_str().to_owned(),
            seen: hit.seen,
            allowed: hit.allowed,
        };
        run.limit_hit(Step::Backend, &fact)?;
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
