//! The forwarder of one backend: from the listener that the sandbox hands out to the record in the pack.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use cto_agent::{ModelAnswer, OverheardAnswers};
use cto_contract::artifact::FreshnessSource;
use cto_contract::event::{Cost, ModelTraffic, Step};
use cto_egress::{BudgetName, Deadlines, Forwarder, Marks, Standing, Terms, Traffic, amount};
use cto_rules::verdicts::LimitFact;

use crate::model::{self, Opened, Priced};
use crate::open_run::{OpenRun, StepError};
use crate::redacted_file::RedactedFile;

/// One line for each connection of the agent.
const EXCHANGES: &str = "backend/egress.jsonl";

/// A forwarder that waits for its listener, or serves it.
pub(super) struct Egress {
    opened: Opened,
    priced: Option<Priced>,
    terms: Terms,
    forwarder: Option<Forwarder>,
}

impl Egress {
    pub(super) fn new(
        opened: Opened,
        run: &OpenRun<'_>,
        overhears: Option<&OverheardAnswers>,
    ) -> Self {
        let (lane, limits) = (run.request.lane, &run.limits.limits);
        let pair = run.pair.as_ref();
        let priced = pair.and_then(|p| model::priced(run.harness, &p.provider, &p.model));
        Self {
            opened,
            terms: Terms {
                wires: model::wires(lane),
                model: run.pair.as_ref().map(|pair| pair.model.clone()),
                budget: model::budget(limits),
                prices: priced.as_ref().map(|priced| priced.prices),
                overhears: overhears.map(|wanted| Marks {
                    opens: wanted.opens.clone(),
                    closes: wanted.closes.clone(),
                    askers: wanted.askers.clone(),
                }),
                deadlines: deadlines(limits),
            },
            priced,
            forwarder: None,
        }
    }

    pub(super) fn host(&mut self, listeners: Vec<TcpListener>) -> io::Result<()> {
        let started = Forwarder::start(listeners, self.opened.route.clone(), self.terms.clone());
        self.opened.keys_stop.begin();
        self.forwarder = Some(started.map_err(io::Error::other)?);
        Ok(())
    }

    /// Where it stands; nothing where it never began.
    pub(super) fn standing(&self) -> Standing {
        let forwarder = self.forwarder.as_ref();
        forwarder.map_or_else(Standing::default, Forwarder::standing)
    }

    /// Ends it, whatever its peers do. `None`: it never began.
    pub(super) fn finish(self) -> Ended {
        self.opened.keys_stop.end();
        let traffic = self.forwarder.map(Forwarder::stop);
        let passed = traffic.map(|traffic| Passed {
            cost: self.priced.map(|priced| priced.cost(&traffic)),
            traffic,
            pinned_model: self.terms.model,
        });
        Ended {
            passed,
            opened: self.opened,
        }
    }
}

/// What is left of a forwarder.
pub(super) struct Ended {
    /// None: it never began.
    pub(super) passed: Option<Passed>,
    pub(super) opened: Opened,
}

/// What passed, what it cost, and the one model that could be asked for.
pub(super) struct Passed {
    traffic: Traffic,
    cost: Option<Cost>,
    pinned_model: Option<String>,
}

impl Passed {
    /// What the model answered where the lane wanted to know.
    pub(super) fn answers(&self) -> impl Iterator<Item = ModelAnswer> + '_ {
        self.traffic.passages.iter().map(|passage| ModelAnswer {
            asker: passage.asker.clone(),
            text: passage.text.clone(),
        })
    }

    /// Whether all of them are there.
    pub(super) fn has_all_answers(&self) -> bool {
        self.traffic.passages_dropped == 0
    }
}

/// A provider is silent after a quarter of the time that the backend has, and after half a minute at most.
fn deadlines(limits: &cto_contract::task::Limits) -> Deadlines {
    let usual = Deadlines::default();
    let wall = limits.wall_seconds.map(Duration::from_secs);
    Deadlines {
        silence: wall.map_or(usual.silence, |wall| usual.silence.min(wall / 4)),
        ..usual
    }
}

/// Writes the exchanges into the pack, records the budgets that were hit, and returns the sums.
pub(super) fn record_traffic(
    run: &mut OpenRun<'_>,
    passed: &Passed,
) -> Result<ModelTraffic, StepError> {
    let traffic = &passed.traffic;
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
        let fact = match hit.budget {
            BudgetName::Cost => LimitFact::Cost {
                seen: shown_amount(hit.seen),
                allowed: shown_amount(hit.allowed),
                currency: passed.cost.as_ref().map(|cost| cost.currency.clone()),
            },
            BudgetName::Requests | BudgetName::Bytes | BudgetName::Tokens => LimitFact::Model {
                budget: hit.budget.as_str().to_owned(),
                seen: hit.seen,
                allowed: hit.allowed,
            },
        };
        run.limit_hit(Step::Backend, &fact)?;
    }
    Ok(ModelTraffic {
        requests: traffic.requests,
        refused: traffic.refused,
        bytes_up: traffic.bytes_up,
        bytes_down: traffic.bytes_down,
        tokens: traffic.tokens,
        tokens_at_most: traffic.tokens_at_most,
        usage: traffic.usage,
        models: traffic.models.clone(),
        answered_by: traffic.answered_by.clone(),
        pinned_model: passed.pinned_model.clone(),
        model_mismatches: traffic.model_mismatches,
        faults: traffic.faults.clone(),
        standing_fault: traffic.standing_fault,
        cost: passed.cost.clone(),
        exchanges_dropped: traffic.exchanges_dropped,
    })
}

fn shown_amount(parts: u64) -> String {
    format!("{:.6}", amount(parts))
}
