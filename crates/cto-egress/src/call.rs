//! A request on its way: sent to the upstream, its answer passed on piece by piece, and what it came to.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Instant;

use cto_contract::event::ProviderFault;

use crate::answer_reader::{AnswerFacts, AnswerReader};
use crate::answering::head_of;
use crate::api::Work;
use crate::exchange::{Ending, Visit};
use crate::forwarder::Shared;
use crate::keys::CurrentKey;
use crate::link::Link;
use crate::outgoing::Outgoing;
use crate::pieces::{Piece, Pieces, read_answer, read_fault};
use crate::record::ExchangeEnd;
use crate::refusal::Refusal;
use crate::response::{Answer, AnswerFraming};
use crate::socket::{Socket, is_stop};
use crate::wires::OwnError;

/// Largest answer that is looked at as a whole before it is passed on.
const WHOLE_BYTES_MAX: u64 = 1024 * 1024;

/// A request on its way. The meter was entered for it.
pub(crate) struct Call<'v> {
    visit: &'v mut Visit,
    shared: &'v Shared,
    outgoing: &'v Outgoing,
    /// Whether the upstream may have begun to work.
    is_sent: bool,
    /// When the upstream last did something.
    heard_at: Instant,
    /// Set when an answer came that may name its tokens.
    reader: Option<AnswerReader>,
    /// What was read of it in the end.
    facts: Option<AnswerFacts>,
}

impl<'v> Call<'v> {
    pub(crate) fn new(visit: &'v mut Visit, shared: &'v Shared, outgoing: &'v Outgoing) -> Self {
        Self {
            visit,
            shared,
            outgoing,
            is_sent: false,
            heard_at: Instant::now(),
            reader: None,
            facts: None,
        }
    }

    pub(crate) fn forward(mut self, agent: &mut Socket) -> Ending {
        let ending = self.ask(agent);
        self.settle(&ending);
        ending
    }

    fn ask(&mut self, agent: &mut Socket) -> Ending {
        let keys = &self.shared.route.upstream.keys;
        let mut key = match keys.current() {
            Ok(key) => key,
            Err(_) if self.shared.is_over.load(Ordering::Acquire) => {
                return Ending::Over(ExchangeEnd::Stopped);
            }
            Err(_) => return Ending::Failed(ExchangeEnd::KeyUnavailable),
        };
        loop {
            let (mut link, answer, rest) = match self.send(key.as_ref()) {
                Ok(answered) => answered,
                Err(ending) => return ending,
            };
            let number = key.as_ref().map(|key| key.number);
            if answer.status == 401
                && let Some(next) = number.and_then(|number| keys.after_refusal(number))
            {
                // Before the agent sees anything of it: short-lived keys are the harness's affair.
                self.visit.exchange.key_renewed = true;
                key = Some(next);
                continue;
            }
            if let Some(number) = number.filter(|_| answer.status < 400) {
                keys.was_accepted(number);
            }
            // Errors are short, and a list of models is: they are read whole, so that they can be looked at.
            if answer.status >= 400 || self.outgoing.api.work() != Work::Generates {
                return self.pass_whole(agent, &mut link, &answer, rest);
            }
            let mut reader = AnswerReader::new(self.outgoing.wire, answer.is_event_stream);
            if self.shared.overhears.is_some() {
                reader.keep_text();
            }
            self.reader = Some(reader);
            return self.pass_pieces(agent, &mut link, &answer, rest);
        }
    }

    /// Sends the request and waits for the head of its answer.
    fn send(&mut self, key: Option<&CurrentKey>) -> Result<(Link, Answer, Vec<u8>), Ending> {
        let deadlines = self.shared.deadlines;
        let route = &self.shared.route;
        let mut link = match route.connect(&self.shared.stop, deadlines.connect) {
            Ok(link) => link,
            Err(error) if is_stop(&error) => return Err(Ending::Over(ExchangeEnd::Stopped)),
            Err(error) => return Err(Ending::Failed(connect_fault(&error))),
        };
        let bytes = self.outgoing.body.len() as u64;
        if !self.shared.meter.pass(bytes, 0) {
            return Err(Ending::Refused(Refusal::BudgetBytes));
        }
        self.visit.exchange.request_bytes += bytes;
        let sent = self
            .outgoing
            .send(&mut link, &route.upstream, key.map(|key| &key.key));
        if let Err(error) = sent {
            return Err(Ending::Failed(read_fault(&error)));
        }
        self.is_sent = true;
        self.heard_at = Instant::now();
        link.socket().be_patient(deadlines.answer);
        let (answer, rest) = read_answer(&mut link).map_err(Ending::Failed)?;
        self.heard_at = Instant::now();
        link.socket().be_patient(deadlines.idle);
        Ok((link, answer, rest))
    }

    fn pass_whole(
        &mut self,
        agent: &mut Socket,
        link: &mut Link,
        answer: &Answer,
        rest: Vec<u8>,
    ) -> Ending {
        let mut body = Vec::new();
        let mut pieces = Pieces::new(answer.framing, rest);
        loop {
            match pieces.next(link) {
                Piece::Data(data) => body.extend_from_slice(&data),
                Piece::End => break,
                Piece::Fault(end) => return Ending::Failed(end),
            }
            if body.len() as u64 > WHOLE_BYTES_MAX {
                return Ending::Failed(ExchangeEnd::UpstreamMalformed);
            }
        }
        let keys = &self.shared.route.upstream.keys;
        let is_telling = |text: &[u8]| self.shared.telling.is_in(text) || keys.are_in(text);
        let names_endpoint = is_telling(&body);
        let mut headers = answer.headers.clone();
        headers.retain(|(_, value)| !is_telling(value.as_bytes()));
        if names_endpoint {
            headers.retain(|(name, _)| *name != "content-type");
            let words = "the model endpoint's answer named the endpoint and was left out";
            let error = OwnError {
                status: answer.status,
                kind: "upstream_error",
                code: "answer_withheld",
                words,
            };
            body = error.body(self.outgoing.wire);
        }
        let length = body.len() as u64;
        let head = head_of(
            answer.status,
            &headers,
            AnswerFraming::Length(length),
            names_endpoint,
        );
        self.visit.exchange.status = answer.status;
        self.visit.exchange.response_bytes = length;
        let within = self.shared.meter.pass(0, length);
        match agent.write_all(&[head, body].concat()) {
            Ok(()) if within => Ending::Over(ExchangeEnd::Answered),
            Ok(()) => Ending::Over(ExchangeEnd::BudgetCut),
            Err(error) => Ending::Over(agent_fault(&error)),
        }
    }

    /// Passes an answer on as it comes.
    fn pass_pieces(
        &mut self,
        agent: &mut Socket,
        link: &mut Link,
        answer: &Answer,
        rest: Vec<u8>,
    ) -> Ending {
        let mut mask = self.shared.route.upstream.keys.mask();
        let head = head_of(answer.status, &answer.headers, answer.framing, false);
        self.visit.exchange.status = answer.status;
        if let Err(error) = agent.write_all(&head) {
            return Ending::Over(agent_fault(&error));
        }
        let mut pieces = Pieces::new(answer.framing, rest);
        loop {
            let (data, is_end) = match pieces.next(link) {
                Piece::Fault(end) => return Ending::Over(end),
                Piece::End => (mask.finish(), true),
                Piece::Data(data) => {
                    self.heard_at = Instant::now();
                    if let Some(reader) = &mut self.reader {
                        reader.feed(&data);
                    }
                    let count = data.len() as u64;
                    self.visit.exchange.response_bytes += count;
                    if !self.shared.meter.pass(0, count) {
                        return Ending::Over(ExchangeEnd::BudgetCut);
                    }
                    (mask.push(data), false)
                }
            };
            if is_end {
                self.facts = self.reader.take().map(AnswerReader::finish);
            }
            let is_torn = is_end && answer.framing == AnswerFraming::Close && !self.is_whole();
            let mut out = Vec::with_capacity(data.len() + 16);
            match answer.framing {
                AnswerFraming::Length(_) => out.extend_from_slice(&data),
                AnswerFraming::Chunked | AnswerFraming::Close => {
                    if !data.is_empty() {
                        out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
                        out.extend_from_slice(&data);
                        out.extend_from_slice(b"\r\n");
                    }
                    if is_end && !is_torn {
                        out.extend_from_slice(b"0\r\n\r\n");
                    }
                }
            }
            if let Err(error) = agent.write_all(&out) {
                return Ending::Over(agent_fault(&error));
            }
            if is_torn {
                return Ending::Over(ExchangeEnd::UpstreamCut);
            }
            if is_end {
                return Ending::Over(ExchangeEnd::Answered);
            }
        }
    }

    /// Whether what was read of an answer shows that it is all of it.
    fn is_whole(&self) -> bool {
        let fault = self.facts.as_ref().and_then(|facts| facts.fault);
        !matches!(fault, Some(ProviderFault::Cut | ProviderFault::Malformed))
    }

    /// Settles the tokens, and whether the provider is at fault. An answer that names no tokens is counted by its bytes: no
    /// tokenizer makes more tokens than bytes.
    fn settle(mut self, ending: &Ending) {
        let facts = self
            .facts
            .take()
            .or_else(|| self.reader.take().map(AnswerReader::abandon));
        let facts = facts.unwrap_or_default();
        let fault = self.fault(ending, facts.fault);
        let exchange = &mut self.visit.exchange;
        let uses_none =
            self.outgoing.api.work() != Work::Generates || !self.is_sent || exchange.status >= 400;
        exchange.tokens = match uses_none {
            true => Some(0),
            false => facts.tokens,
        };
        let bytes = exchange.request_bytes + exchange.response_bytes;
        exchange.tokens_at_most = exchange
            .tokens
            .unwrap_or_else(|| bytes.max(facts.tokens_at_least));
        exchange.usage = facts.usage;
        exchange.answered_by = facts.model;
        exchange.fault = fault;
        if let (Some(marks), Some(text)) = (&self.shared.overhears, facts.text) {
            exchange.passage = text.passage(marks, &self.outgoing.body);
        }
        let usage = exchange.usage.as_ref();
        self.shared
            .meter
            .leave(exchange.tokens, usage, exchange.tokens_at_most);
    }

    /// What the provider did wrong. Only where a model was to answer: nothing else is what it is there for.
    fn fault(&self, ending: &Ending, said: Option<ProviderFault>) -> Option<ProviderFault> {
        if self.outgoing.api.work() != Work::Generates {
            return None;
        }
        match ending {
            Ending::Refused(_) => None,
            Ending::Over(ExchangeEnd::Answered) => {
                status_fault(self.visit.exchange.status).or(said)
            }
            // Whoever ended it did not wait any longer.
            Ending::Over(ExchangeEnd::Stopped | ExchangeEnd::AgentLeft)
            | Ending::Failed(ExchangeEnd::Stopped) => {
                let quiet = self.heard_at.elapsed();
                (quiet >= self.shared.deadlines.silence).then_some(ProviderFault::Silent)
            }
            Ending::Failed(end) | Ending::Over(end) => end.fault(),
        }
    }
}

/// What a status says of a provider. Other errors may be the request's.
pub(crate) const fn status_fault(status: u16) -> Option<ProviderFault> {
    match status {
        401 | 403 => Some(ProviderFault::Auth),
        402 | 429 => Some(ProviderFault::RateLimited),
        500..=599 => Some(ProviderFault::ServerError),
        _ => None,
    }
}

/// Why there is no connection.
pub(crate) fn connect_fault(error: &io::Error) -> ExchangeEnd {
    let inner = error.get_ref();
    if error.kind() == io::ErrorKind::ConnectionRefused {
        ExchangeEnd::ConnectionRefused
    } else if inner.is_some_and(|inner| inner.is::<rustls::Error>()) {
        ExchangeEnd::BadCertificate
    } else {
        ExchangeEnd::Unreachable
    }
}

fn agent_fault(error: &io::Error) -> ExchangeEnd {
    match is_stop(error) {
        true => ExchangeEnd::Stopped,
        false => ExchangeEnd::AgentLeft,
    }
}
