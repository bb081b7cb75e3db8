//! One connection: one request read whole and looked at before it is forwarded, and an answer whatever came of it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::answering::{failure, head_of};
use crate::body;
use crate::call::Call;
use crate::chunked::Chunked;
use crate::forwarder::Shared;
use crate::meter::NotAdmitted;
use crate::outgoing::Outgoing;
use crate::pieces::PIECE_BYTES;
use crate::record::{Exchange, ExchangeEnd};
use crate::refusal::{Objection, Refusal};
use crate::request::{self, Framing, Request};
use crate::response::AnswerFraming;
use crate::room::Held;
use crate::socket::{Socket, is_stop};
use crate::wires::OwnError;

/// Largest body of a request.
const REQUEST_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// What a refused agent may still send before the connection is closed on it, and how long that may take.
const LINGER_BYTES_MAX: usize = 1024 * 1024;
const LINGER: Duration = Duration::from_secs(2);

/// A connection being served, and what will be recorded of it.
pub(crate) struct Visit {
    since: Instant,
    pub(crate) exchange: Exchange,
    /// What an agent that was refused should do, where it is more than the refusal's words.
    remedy: Option<String>,
}

/// How far it came.
pub(crate) enum Ending {
    Refused(Refusal),
    /// The upstream is at fault, and the agent has not been answered yet.
    Failed(ExchangeEnd),
    /// The agent has its answer, or a part of it.
    Over(ExchangeEnd),
}

/// Answers a visitor for whom there is no room.
pub(crate) fn turn_away(stream: TcpStream, shared: &Shared) {
    let mut visit = Visit::new();
    if let Ok(mut agent) = Socket::new(stream, Arc::clone(&shared.stop), Duration::ZERO) {
        visit.conclude(
            &mut agent,
            shared,
            Ending::Refused(Refusal::TooManyConnections),
        );
    }
    shared.meter.record(visit.exchange);
}

impl Visit {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            remedy: None,
            exchange: Exchange {
                number: 0,
                method: String::new(),
                path: String::new(),
                status: 0,
                end: ExchangeEnd::AgentLeft,
                refusal: None,
                refused_for: None,
                fault: None,
                call: None,
                request_bytes: 0,
                response_bytes: 0,
                tokens: None,
                usage: None,
                tokens_at_most: 0,
                model: None,
                answered_by: None,
                streamed: false,
                key_renewed: false,
                millis: 0,
                passage: None,
            },
        }
    }

    pub(crate) fn serve(mut self, stream: TcpStream, shared: &Shared) {
        let taking = shared.deadlines.taking;
        let mut agent = Socket::new(stream, Arc::clone(&shared.stop), taking).ok();
        let mut is_refused = false;
        if let Some(agent) = &mut agent {
            let ending = self.exchange(agent, shared);
            is_refused = matches!(ending, Ending::Refused(_));
            agent.be_patient(taking);
            self.conclude(agent, shared, ending);
        }
        self.exchange.millis = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        // Before the connection is closed: whoever sees its end finds it in the record.
        shared.meter.record(self.exchange);
        if let Some(agent) = agent.as_mut().filter(|_| is_refused) {
            agent.close_gently(LINGER_BYTES_MAX, LINGER);
        }
    }

    fn exchange(&mut self, agent: &mut Socket, shared: &Shared) -> Ending {
        let (request, read, _held) = match self.read_request(agent, shared) {
            Ok(read) => read,
            Err(ending) => return ending,
        };
        let body = match request.api.takes_body() {
            false => Vec::new(),
            true => match body::inspect(request.wire, shared.model.as_deref(), &read) {
                Err(objection) => return self.refuse(objection),
                Ok(inspected) => {
                    self.exchange.model = inspected.model;
                    self.exchange.streamed = inspected.is_streamed;
                    inspected.bytes
                }
            },
        };
        drop(read);
        match shared
            .meter
            .enter(&|| shared.is_over.load(Ordering::Acquire))
        {
            Err(NotAdmitted::Stopped) => return Ending::Over(ExchangeEnd::Stopped),
            Err(NotAdmitted::Budget(budget)) => return Ending::Refused(budget.refusal()),
            Ok(()) => {}
        }
        let outgoing = Outgoing {
            api: request.api,
            wire: request.wire,
            query: request.query,
            passed: request.passed,
            body,
        };
        Call::new(self, shared, &outgoing).forward(agent)
    }

    fn refuse(&mut self, objection: Objection) -> Ending {
        self.exchange.refused_for = objection.subject;
        self.remedy = objection.remedy;
        Ending::Refused(objection.refusal)
    }

    /// Reads one request to its last byte and not beyond.
    fn read_request<'s>(
        &mut self,
        agent: &mut Socket,
        shared: &'s Shared,
    ) -> Result<(Request, Vec<u8>, Held<'s>), Ending> {
        agent.finish_by(self.since + shared.deadlines.head);
        let mut held = shared.room.enter();
        let mut bytes = Vec::new();
        let request = loop {
            match request::parse(&bytes, &shared.door) {
                Err(refused) => {
                    self.exchange.method = refused.method;
                    self.exchange.path = refused.path;
                    return Err(Ending::Refused(refused.refusal));
                }
                Ok(Some(request)) => break request,
                Ok(None) => self.read_more(agent, &mut bytes, &mut held)?,
            }
        };
        (self.exchange.method, self.exchange.path) = request::shown(&bytes);
        self.exchange.call = Some(request.api);
        agent.finish_by(self.since + shared.deadlines.request);
        let rest = bytes.split_off(request.length);
        let body = self.read_body(agent, &request, rest, &mut held)?;
        Ok((request, body, held))
    }

    fn read_body(
        &self,
        agent: &mut Socket,
        request: &Request,
        rest: Vec<u8>,
        held: &mut Held<'_>,
    ) -> Result<Vec<u8>, Ending> {
        match request.framing {
            Framing::None | Framing::Length(0) if rest.is_empty() => Ok(rest),
            Framing::None => Err(Ending::Refused(Refusal::Pipelined)),
            Framing::Length(length) if length > REQUEST_BYTES_MAX => {
                Err(Ending::Refused(Refusal::BodyTooLarge))
            }
            Framing::Length(length) => {
                let mut body = rest;
                while (body.len() as u64) < length {
                    self.read_more(agent, &mut body, held)?;
                }
                match body.len() as u64 == length {
                    true => Ok(body),
                    false => Err(Ending::Refused(Refusal::Pipelined)),
                }
            }
            Framing::Chunked => {
                let (mut chunked, mut body, mut input) = (Chunked::default(), Vec::new(), rest);
                loop {
                    let read = chunked
                        .feed(&input, &mut body)
                        .map_err(|_| Ending::Refused(Refusal::BadChunk))?;
                    if read < input.len() {
                        return Err(Ending::Refused(Refusal::Pipelined));
                    }
                    if chunked.is_done() {
                        return Ok(body);
                    }
                    if body.len() as u64 > REQUEST_BYTES_MAX {
                        return Err(Ending::Refused(Refusal::BodyTooLarge));
                    }
                    input.clear();
                    self.read_more(agent, &mut input, held)?;
                }
            }
        }
    }

    fn read_more(
        &self,
        agent: &mut Socket,
        bytes: &mut Vec<u8>,
        held: &mut Held<'_>,
    ) -> Result<(), Ending> {
        let mut piece = [0; PIECE_BYTES];
        match agent.read(&mut piece) {
            // Somebody who connects and says nothing asked for nothing.
            Ok(0) if bytes.is_empty() && self.exchange.method.is_empty() => {
                Err(Ending::Over(ExchangeEnd::AgentLeft))
            }
            Ok(0) => Err(Ending::Refused(Refusal::CutOff)),
            Ok(count) if !held.grow(count) => Err(Ending::Refused(Refusal::TooManyConnections)),
            Ok(count) => {
                bytes.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(error) if is_stop(&error) => Err(Ending::Over(ExchangeEnd::Stopped)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(Ending::Refused(Refusal::TooSlow))
            }
            Err(_) => Err(Ending::Over(ExchangeEnd::AgentLeft)),
        }
    }

    /// Answers whoever has no answer yet, and notes how it ended.
    fn conclude(&mut self, agent: &mut Socket, shared: &Shared, ending: Ending) {
        let (status, kind, code, words) = match ending {
            Ending::Over(end) => {
                self.exchange.end = end;
                return;
            }
            Ending::Refused(refusal) => {
                self.exchange.end = ExchangeEnd::Refused;
                self.exchange.refusal = Some(refusal);
                let kind = match refusal.status() {
                    429 => "budget_exceeded",
                    _ => "request_refused",
                };
                let subject = self.exchange.refused_for.as_ref();
                let subject = subject.map_or(String::new(), |subject| format!("`{subject}`: "));
                let remedy = self.remedy.as_ref();
                let remedy = remedy.map_or(String::new(), |remedy| format!("; {remedy}"));
                let words = format!("{subject}{}{remedy}", refusal.words());
                (refusal.status(), kind, refusal.as_str(), words)
            }
            Ending::Failed(end) => {
                self.exchange.end = end;
                let (status, words) = failure(end);
                let words = words.to_owned();
                (status, "upstream_error", "upstream_error", words)
            }
        };
        let error = OwnError {
            status,
            kind,
            code,
            words: &words,
        };
        let body = error.body(shared.door.wire_at(&self.exchange.path));
        self.exchange.status = status;
        self.exchange.response_bytes = body.len() as u64;
        let head = head_of(status, &[], AnswerFraming::Length(body.len() as u64), true);
        agent.write_all(&[head, body].concat()).ok();
    }
}
