//! One small question to a model before anything is started: whether it answers, and who answers.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use cto_contract::event::{ModelProbe, ProviderFault};
use cto_contract::words::Wire;
use serde_json::{Value, json};

use crate::answer_reader::{AnswerFacts, AnswerReader};
use crate::api::Api;
use crate::call::{connect_fault, status_fault};
use crate::keys::CurrentKey;
use crate::link::Route;
use crate::outgoing::Outgoing;
use crate::pieces::{Piece, Pieces, read_answer, read_fault};
use crate::record::ExchangeEnd;
use crate::socket::StopSign;

/// Few enough to cost nothing, and enough that a model which reasons first comes to its answer.
const TOKENS_MAX: u64 = 1024;
const QUESTION: &str = "Answer with the one word: ready";
/// Longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// How often it is looked whether nobody wants to know any more.
const STOP_LOOK: Duration = Duration::from_millis(50);
const CONNECT: Duration = Duration::from_secs(10);

/// How a model is asked.
#[derive(Clone, Copy)]
pub struct ProbeTerms<'a> {
    /// Tried in this order until one is known at the upstream.
    pub wires: &'a [Wire],
    pub model: &'a str,
    /// For the whole answer.
    pub patience: Duration,
    /// Whether nobody wants to know any more.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// What one request came to.
struct Answered {
    status: Option<u16>,
    facts: AnswerFacts,
    fault: Option<ProviderFault>,
}

impl Route {
    /// Asks once, on the first wire that the upstream knows. The answer's words are not kept.
    pub fn probe(&self, terms: &ProbeTerms<'_>) -> io::Result<ModelProbe> {
        let (stop, alive) = io::pipe()?;
        let mut alive = Some(alive);
        let question = Question {
            route: self,
            wires: terms.wires,
            model: terms.model,
            patience: terms.patience,
            stop: StopSign::new(stop),
        };
        let (done, is_done) = mpsc::channel();
        std::thread::scope(|scope| {
            let asking = scope.spawn(move || {
                let probe = question.ask();
                done.send(()).ok();
                probe
            });
            while is_done.recv_timeout(STOP_LOOK) == Err(RecvTimeoutError::Timeout) {
                if (terms.is_stopped)() {
                    drop(alive.take());
                }
            }
            asking
                .join()
                .map_err(|_| io::Error::other("the question could not be asked"))
        })
    }
}

/// A question on its way.
struct Question<'a> {
    route: &'a Route,
    wires: &'a [Wire],
    model: &'a str,
    patience: Duration,
    stop: StopSign,
}

impl Question<'_> {
    fn ask(&self) -> ModelProbe {
        let since = Instant::now();
        let until = since.checked_add(self.patience);
        let mut requests = 0;
        let mut wires = self.wires.iter().copied();
        let mut wire = wires.next().unwrap_or(Wire::ChatCompletions);
        let answered = loop {
            let answered = self.ask_on(wire, until, &mut requests);
            // Not the provider's fault where the program may speak another wire.
            let is_unknown = matches!(answered.status, Some(404 | 405 | 501));
            match wires.next().filter(|_| is_unknown) {
                Some(next) => wire = next,
                None => break answered,
            }
        };
        ModelProbe {
            wire,
            model: self.model.to_owned(),
            requests,
            status: answered.status,
            answered_by: answered.facts.model,
            fault: answered.fault,
            usage: answered.facts.usage,
            millis: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn ask_on(&self, wire: Wire, until: Option<Instant>, requests: &mut u64) -> Answered {
        let failed = |fault| Answered {
            status: None,
            facts: AnswerFacts::default(),
            fault: Some(fault),
        };
        let Ok(mut key) = self.route.upstream.keys.current() else {
            return failed(ProviderFault::Auth);
        };
        loop {
            *requests += 1;
            let asked = self.ask_once(&question(wire, self.model), key.as_ref(), until);
            let answered = asked.unwrap_or_else(|end| {
                // An end that is no fault of the provider's is that of its time.
                failed(end.fault().unwrap_or(ProviderFault::Silent))
            });
            let number = key.as_ref().map(|key| key.number);
            let is_refused = matches!(answered.status, Some(401 | 403));
            let other = number.filter(|_| is_refused);
            match other.and_then(|number| self.route.upstream.keys.after_refusal(number)) {
                Some(next) => key = Some(next),
                None => {
                    if let Some(number) = number.filter(|_| answered.fault.is_none()) {
                        self.route.upstream.keys.was_accepted(number);
                    }
                    return answered;
                }
            }
        }
    }

    fn ask_once(
        &self,
        outgoing: &Outgoing,
        key: Option<&CurrentKey>,
        until: Option<Instant>,
    ) -> Result<Answered, ExchangeEnd> {
        let link = self.route.connect(&self.stop, CONNECT);
        let mut link = link.map_err(|error| connect_fault(&error))?;
        if let Some(until) = until {
            link.socket().finish_by(until);
        }
        let sent = outgoing.send(&mut link, &self.route.upstream, key.map(|key| &key.key));
        sent.map_err(|error| read_fault(&error))?;
        let (answer, rest) = read_answer(&mut link)?;
        let status = Some(answer.status);
        let by_status = status_fault(answer.status).or_else(|| {
            let is_other = (400..500).contains(&answer.status);
            is_other.then_some(ProviderFault::Rejected)
        });
        if let Some(fault) = by_status {
            return Ok(Answered {
                status,
                facts: AnswerFacts::default(),
                fault: Some(fault),
            });
        }
        let mut reader = AnswerReader::new(outgoing.wire, answer.is_event_stream);
        let mut pieces = Pieces::new(answer.framing, rest);
        let mut read = 0;
        while read <= ANSWER_BYTES_MAX {
            match pieces.next(&mut link) {
                Piece::Data(data) => {
                    read += data.len() as u64;
                    reader.feed(&data);
                }
                Piece::End => break,
                Piece::Fault(end) => return Err(end),
            }
        }
        let facts = reader.finish();
        let fault = match read > ANSWER_BYTES_MAX {
            true => Some(ProviderFault::Malformed),
            false => facts.fault,
        };
        Ok(Answered {
            status,
            facts,
            fault,
        })
    }
}

/// The question on a wire.
fn question(wire: Wire, model: &str) -> Outgoing {
    let (api, body): (Api, Value) = match wire {
        Wire::ChatCompletions => (
            Api::ChatCompletions,
            json!({
                "model": model,
                "messages": [{ "role": "user", "content": QUESTION }],
                "max_tokens": TOKENS_MAX,
            }),
        ),
        Wire::Responses => (
            Api::Responses,
            json!({
                "model": model,
                "input": [{ "role": "user", "content": [{ "type": "input_text", "text": QUESTION }] }],
                "max_output_tokens": TOKENS_MAX,
                "store": false,
            }),
        ),
        Wire::Messages => (
            Api::Messages,
            json!({
                "model": model,
                "messages": [{ "role": "user", "content": QUESTION }],
                "max_tokens": TOKENS_MAX,
            }),
        ),
    };
    let passed = match wire {
        Wire::Messages => vec![("anthropic-version", "2023-06-01".to_owned())],
        Wire::ChatCompletions | Wire::Responses => Vec::new(),
    };
    Outgoing {
        api,
        wire,
        query: None,
        passed,
        body: body.to_string().into_bytes(),
    }
}
