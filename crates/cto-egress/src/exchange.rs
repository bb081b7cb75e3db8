//! One connection: one request read whole, looked at, written anew, and its answer passed on piece by piece.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::answering::{error_body, failure, head_of};
use crate::api::Api;
use crate::body;
use crate::chunked::Chunked;
use crate::conceal::KeyMask;
use crate::forwarder::Shared;
use crate::link::Link;
use crate::meter::NotAdmitted;
use crate::pieces::{PIECE_BYTES, Piece, Pieces, read_answer, read_fault};
use crate::record::{Exchange, ExchangeEnd};
use crate::refusal::Refusal;
use crate::request::{self, Framing, Request};
use crate::response::{Answer, AnswerFraming};
use crate::room::Held;
use crate::usage::UsageReader;
use crate::wire::{Wire, is_stop};

/// Largest body of a request.
const REQUEST_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Largest answer that is looked at as a whole before it is passed on.
const WHOLE_BYTES_MAX: u64 = 1024 * 1024;
/// What a refused agent may still send before the connection is closed on it, and how long that may take.
const LINGER_BYTES_MAX: usize = 1024 * 1024;
const LINGER: Duration = Duration::from_secs(2);

/// A connection being served, and what will be recorded of it.
pub(crate) struct Visit {
    since: Instant,
    exchange: Exchange,
}

/// How far it came.
enum Ending {
    Refused(Refusal),
    /// The upstream is at fault, and the agent has not been answered yet.
    Failed(ExchangeEnd),
    /// The agent has its answer, or a part of it.
    Over(ExchangeEnd),
}

/// Answers a visitor for whom there is no room.
pub(crate) fn turn_away(stream: TcpStream, shared: &Shared) {
    let mut visit = Visit::new();
    if let Ok(mut agent) = Wire::new(stream, Arc::clone(&shared.stop), Duration::ZERO) {
        visit.conclude(&mut agent, Ending::Refused(Refusal::TooManyConnections));
    }
    shared.meter.record(visit.exchange);
}

impl Visit {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            exchange: Exchange {
                number: 0,
                method: String::new(),
                path: String::new(),
                status: 0,
                end: ExchangeEnd::AgentLeft,
                refusal: None,
                refused_for: None,
                request_bytes: 0,
                response_bytes: 0,
                tokens: None,
                tokens_at_most: 0,
                model: None,
                streamed: false,
                millis: 0,
            },
        }
    }

    pub(crate) fn serve(mut self, stream: TcpStream, shared: &Shared) {
        let taking = shared.deadlines.taking;
        let mut agent = Wire::new(stream, Arc::clone(&shared.stop), taking).ok();
        let mut is_refused = false;
        if let Some(agent) = &mut agent {
            let ending = self.exchange(agent, shared);
            is_refused = matches!(ending, Ending::Refused(_));
            agent.be_patient(taking);
            self.conclude(agent, ending);
        }
        self.exchange.millis = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        // Before the connection is closed: whoever sees its end finds it in the record.
        shared.meter.record(self.exchange);
        if let Some(agent) = agent.as_mut().filter(|_| is_refused) {
            agent.close_gently(LINGER_BYTES_MAX, LINGER);
        }
    }

    fn exchange(&mut self, agent: &mut Wire, shared: &Shared) -> Ending {
        let (api, read, _held) = match self.read_request(agent, shared) {
            Ok(read) => read,
            Err(ending) => return ending,
        };
        let bytes = match api.takes_body() {
            false => Vec::new(),
            true => match body::inspect(api, &read) {
                Err(objection) => {
                    self.exchange.refused_for = objection.subject;
                    return Ending::Refused(objection.refusal);
                }
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
        let mut call = Call {
            visit: self,
            shared,
            api,
            is_sent: false,
            reader: None,
        };
        let ending = call.forward(agent, &bytes);
        call.settle();
        ending
    }

    /// Reads one request to its last byte and not beyond.
    fn read_request<'s>(
        &mut self,
        agent: &mut Wire,
        shared: &'s Shared,
    ) -> Result<(Api, Vec<u8>, Held<'s>), Ending> {
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
        agent.finish_by(self.since + shared.deadlines.request);
        let rest = bytes.split_off(request.length);
        let body = self.read_body(agent, &request, rest, &mut held)?;
        Ok((request.api, body, held))
    }

    fn read_body(
        &self,
        agent: &mut Wire,
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
        agent: &mut Wire,
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
    fn conclude(&mut self, agent: &mut Wire, ending: Ending) {
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
                let words = match &self.exchange.refused_for {
                    Some(subject) => format!("`{subject}`: {}", refusal.words()),
                    None => refusal.words().to_owned(),
                };
                (refusal.status(), kind, refusal.as_str(), words)
            }
            Ending::Failed(end) => {
                self.exchange.end = end;
                let (status, words) = failure(end);
                let words = words.to_owned();
                (status, "upstream_error", "upstream_error", words)
            }
        };
        let body = error_body(kind, code, &words);
        self.exchange.status = status;
        self.exchange.response_bytes = body.len() as u64;
        let head = head_of(status, &[], AnswerFraming::Length(body.len() as u64), true);
        agent.write_all(&[head, body].concat()).ok();
    }
}

/// A request on its way.
struct Call<'v> {
    visit: &'v mut Visit,
    shared: &'v Shared,
    api: Api,
    /// Whether the upstream may have begun to work.
    is_sent: bool,
    /// Set when an answer came that may name its tokens.
    reader: Option<UsageReader>,
}

impl Call<'_> {
    fn forward(&mut self, agent: &mut Wire, body: &[u8]) -> Ending {
        let deadlines = self.shared.deadlines;
        let link = self
            .shared
            .route
            .connect(&self.shared.stop, deadlines.connect);
        let mut link = match link {
            Ok(link) => link,
            Err(error) if is_stop(&error) => return Ending::Over(ExchangeEnd::Stopped),
            Err(_) => return Ending::Failed(ExchangeEnd::Unreachable),
        };
        if !self.shared.meter.pass(body.len() as u64, 0) {
            return Ending::Refused(Refusal::BudgetBytes);
        }
        self.visit.exchange.request_bytes = body.len() as u64;
        let head = self.request_head(body.len());
        let sent = link
            .write_all(head.as_bytes())
            .and_then(|()| link.write_all(body));
        if let Err(error) = sent.and_then(|()| link.flush()) {
            return Ending::Failed(read_fault(&error));
        }
        self.is_sent = true;
        link.wire().be_patient(deadlines.answer);
        let (answer, rest) = match read_answer(&mut link) {
            Ok(read) => read,
            Err(end) => return Ending::Failed(end),
        };
        link.wire().be_patient(deadlines.idle);
        // Errors are short, and a list of models is: they are read whole, so that they can be looked at.
        if answer.status >= 400 || !self.api.takes_body() {
            return self.pass_whole(agent, &mut link, &answer, rest);
        }
        self.reader = Some(UsageReader::new(answer.is_event_stream));
        self.pass_pieces(agent, &mut link, &answer, rest)
    }

    /// The request as the upstream gets it: nothing in it but the body is the agent's.
    fn request_head(&self, body_bytes: usize) -> String {
        let upstream = &self.shared.route.upstream;
        let mut head = format!(
            "{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: cto\r\nAccept: application/json, text/event-stream\r\nAccept-Encoding: identity\r\nConnection: close\r\n",
            self.api.method(),
            upstream.base_path,
            self.api.below_base(),
            upstream.host_header(),
        );
        if let Some(key) = &upstream.key {
            head.push_str(&format!("Authorization: Bearer {}\r\n", key.reveal()));
        }
        if self.api.takes_body() {
            head.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {body_bytes}\r\n"
            ));
        }
        head + "\r\n"
    }

    fn pass_whole(
        &mut self,
        agent: &mut Wire,
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
        let names_endpoint = self.shared.telling.is_in(&body);
        let mut headers = answer.headers.clone();
        headers.retain(|(_, value)| !self.shared.telling.is_in(value.as_bytes()));
        if names_endpoint {
            headers.retain(|(name, _)| *name != "content-type");
            let words = "the model endpoint's answer named the endpoint and was left out";
            body = error_body("upstream_error", "answer_withheld", words);
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
        agent: &mut Wire,
        link: &mut Link,
        answer: &Answer,
        rest: Vec<u8>,
    ) -> Ending {
        let key = self.shared.route.upstream.key.as_ref();
        let mut mask = KeyMask::new(key.map(|key| key.reveal()));
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
            let mut out = Vec::with_capacity(data.len() + 16);
            match answer.framing {
                AnswerFraming::Length(_) => out.extend_from_slice(&data),
                AnswerFraming::Chunked => {
                    if !data.is_empty() {
                        out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
                        out.extend_from_slice(&data);
                        out.extend_from_slice(b"\r\n");
                    }
                    if is_end {
                        out.extend_from_slice(b"0\r\n\r\n");
                    }
                }
            }
            if let Err(error) = agent.write_all(&out) {
                return Ending::Over(agent_fault(&error));
            }
            if is_end {
                return Ending::Over(ExchangeEnd::Answered);
            }
        }
    }

    /// Settles the tokens. An answer that names none is counted by its bytes: no tokenizer makes more tokens than bytes.
    fn settle(self) {
        let exchange = &mut self.visit.exchange;
        let known = self.reader.and_then(UsageReader::finish);
        let uses_none = !self.api.takes_body() || !self.is_sent || exchange.status >= 400;
        exchange.tokens = match uses_none {
            true => Some(0),
            false => known,
        };
        exchange.tokens_at_most = exchange
            .tokens
            .unwrap_or(exchange.request_bytes + exchange.response_bytes);
        self.shared
            .meter
            .leave(exchange.tokens, exchange.tokens_at_most);
    }
}

fn agent_fault(error: &io::Error) -> ExchangeEnd {
    match is_stop(error) {
        true => ExchangeEnd::Stopped,
        false => ExchangeEnd::AgentLeft,
    }
}
