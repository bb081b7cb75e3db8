//! The head of an agent's request, read by rules that leave no room for two readings. No I/O.

use cto_contract::words::Wire;

use crate::api::Api;
use crate::head::{self, Head, HeadFault};
use crate::refusal::Refusal;
use crate::wires;

/// Most bytes of a path or method that a record keeps.
const SHOWN_BYTES_MAX: usize = 120;
/// Longest value of a header that goes on.
const PASSED_BYTES_MAX: usize = 1_000;

/// What a listener answers to: its own port, and the calls of the wires that it offers.
#[derive(Clone, Debug)]
pub struct Doorway {
    pub port: u16,
    pub wires: Vec<Wire>,
}

impl Doorway {
    /// The wire of a call that every wire has, and of what is no call.
    fn first_wire(&self) -> Wire {
        self.wires.first().copied().unwrap_or(Wire::ChatCompletions)
    }

    /// The wire in whose shape a refusal of this path is put.
    pub(crate) fn wire_at(&self, path: &str) -> Wire {
        let path = path.split('?').next().unwrap_or_default();
        let mut fits = Api::ALL.iter().filter(|api| api.path() == path);
        let wire = fits.next().and_then(|api| api.wire());
        let offered = wire.filter(|wire| self.wires.contains(wire));
        offered.unwrap_or_else(|| self.first_wire())
    }
}

/// A request that may go on, once its body has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub api: Api,
    pub wire: Wire,
    /// What stands behind the path, as it may go on.
    pub query: Option<&'static str>,
    /// The headers that go on.
    pub passed: Vec<(&'static str, String)>,
    pub framing: Framing,
    /// Where the body begins.
    pub length: usize,
}

/// How the end of a request's body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    None,
    Length(u64),
    Chunked,
}

/// A refusal with what could be read of the request line, made harmless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub refusal: Refusal,
    pub method: String,
    pub path: String,
}

impl From<HeadFault> for Refusal {
    fn from(fault: HeadFault) -> Self {
        match fault {
            HeadFault::TooLarge => Self::HeadTooLarge,
            HeadFault::BareLineEnd => Self::BareLineEnd,
            HeadFault::Folded => Self::FoldedHeader,
            HeadFault::Bad => Self::BadHeader,
        }
    }
}

/// Reads a request. `None`: more bytes are needed.
pub fn parse(bytes: &[u8], door: &Doorway) -> Result<Option<Request>, Refused> {
    let refused = |refusal| {
        let (method, path) = shown(bytes);
        Refused {
            refusal,
            method,
            path,
        }
    };
    let Some(head) = head::read_head(bytes).map_err(|fault| refused(fault.into()))? else {
        return Ok(None);
    };
    understand(&head, door).map(Some).map_err(refused)
}

fn understand(head: &Head<'_>, door: &Doorway) -> Result<Request, Refusal> {
    let (method, target) = request_line(head.first_line)?;
    if method == "CONNECT" {
        return Err(Refusal::ConnectMethod);
    }
    let (path, query) = origin_path(target)?;
    // Before the path is looked at: whoever asks on any path may fall back to plain HTTP then.
    if head.headers.iter().any(is_upgrade) {
        return Err(Refusal::Upgrade);
    }
    let api = Api::find(&Api::of(&door.wires), method, path).ok_or(Refusal::UnknownRoute)?;
    let query = match query {
        None => None,
        Some(query) => Some(api.query(query).ok_or(Refusal::Query)?),
    };
    let framing = headers(head, door, api)?;
    let wire = wire_of(head, door, api);
    Ok(Request {
        api,
        wire,
        query,
        passed: passed_headers(head, wire)?,
        framing,
        length: head.length,
    })
}

fn request_line(line: &str) -> Result<(&str, &str), Refusal> {
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::BadRequestLine);
    };
    let visible = target.bytes().all(|byte| byte.is_ascii_graphic());
    let token = method.bytes().all(|byte| head::is_token(&byte));
    if method.is_empty() || target.is_empty() || !visible || !token {
        return Err(Refusal::BadRequestLine);
    }
    match version {
        "HTTP/1.1" => Ok((method, target)),
        version if version.starts_with("HTTP/") => Err(Refusal::HttpVersion),
        _ => Err(Refusal::BadRequestLine),
    }
}

/// The wire of a call. One that every wire has is on that of the client's own headers.
fn wire_of(head: &Head<'_>, door: &Doorway, api: Api) -> Wire {
    let is_named = |wire: &&Wire| {
        let own = wires::row(**wire).passed_headers;
        let mut names = head.headers.iter().map(|(name, _)| name);
        names.any(|name| own.iter().any(|own| name.eq_ignore_ascii_case(own)))
    };
    let named = || door.wires.iter().find(is_named).copied();
    let wire = api.wire().or_else(named);
    wire.unwrap_or_else(|| door.first_wire())
}

/// The headers that the wire passes on: one plain line each.
fn passed_headers(head: &Head<'_>, wire: Wire) -> Result<Vec<(&'static str, String)>, Refusal> {
    let mut passed: Vec<(&'static str, String)> = Vec::new();
    for &(name, value) in &head.headers {
        let known = wires::row(wire).passed_headers.iter();
        let Some(known) = known.copied().find(|k| name.eq_ignore_ascii_case(k)) else {
            continue;
        };
        if passed.iter().any(|(seen, _)| *seen == known) {
            return Err(Refusal::RepeatedHeader);
        }
        let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"-_., ".contains(b);
        if value.len() > PASSED_BYTES_MAX || !value.iter().all(allowed) {
            return Err(Refusal::BadHeader);
        }
        passed.push((known, String::from_utf8_lossy(value).into_owned()));
    }
    Ok(passed)
}

fn is_upgrade(&(name, value): &(&str, &[u8])) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    is("upgrade") || is("http2-settings") || (is("connection") && has_word(value, b"upgrade"))
}

/// Accepts a target that means the same to every reader: a plain absolute path, and a query that is looked at later.
fn origin_path(target: &str) -> Result<(&str, Option<&str>), Refusal> {
    if !target.starts_with('/') {
        return Err(Refusal::AbsoluteForm);
    }
    let (path, query) = match target.split_once('?') {
        None => (target, None),
        Some((path, query)) => (path, Some(query)),
    };
    let plain = |segment: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
        !segment.is_empty() && segment != "." && segment != ".." && segment.bytes().all(allowed)
    };
    if path.split('/').skip(1).all(plain) {
        Ok((path, query))
    } else {
        Err(Refusal::OddPath)
    }
}

/// Looks at every header: what could change the meaning of the message is understood or refused, the rest is left behind.
fn headers(head: &Head<'_>, door: &Doorway, api: Api) -> Result<Framing, Refusal> {
    let (mut host, mut length, mut encoding, mut kind) = (None, None, None, None);
    for &(name, value) in &head.headers {
        if value.iter().any(|byte| !byte.is_ascii()) {
            return Err(Refusal::BadHeader);
        }
        let lower = name.to_ascii_lowercase();
        let slot = match lower.as_str() {
            "host" => &mut host,
            "content-length" => &mut length,
            "transfer-encoding" => &mut encoding,
            "content-type" => &mut kind,
            "expect" => return Err(Refusal::Expect),
            "trailer" => return Err(Refusal::Trailer),
            "content-encoding" => return Err(Refusal::ContentEncoding),
            _ => continue,
        };
        if slot.replace(value).is_some() {
            return Err(Refusal::RepeatedHeader);
        }
    }
    let host = host.ok_or(Refusal::HostMissing)?;
    if !is_own(host, door.port) {
        return Err(Refusal::HostForeign);
    }
    let framing = match (length, encoding) {
        (Some(_), Some(_)) => return Err(Refusal::LengthAndEncoding),
        (None, Some(encoding)) if encoding.eq_ignore_ascii_case(b"chunked") => Framing::Chunked,
        (None, Some(_)) => return Err(Refusal::BadTransferEncoding),
        (Some(length), None) => {
            Framing::Length(head::plain_number(length).ok_or(Refusal::BadLength)?)
        }
        (None, None) => Framing::None,
    };
    match (api.takes_body(), framing) {
        (true, Framing::None) => Err(Refusal::LengthRequired),
        (true, Framing::Length(_) | Framing::Chunked) if !kind.is_some_and(is_json) => {
            Err(Refusal::ContentType)
        }
        (false, Framing::Chunked | Framing::Length(1..)) => Err(Refusal::UnexpectedBody),
        (true, Framing::Length(_) | Framing::Chunked)
        | (false, Framing::None | Framing::Length(0)) => Ok(framing),
    }
}

fn has_word(value: &[u8], word: &[u8]) -> bool {
    value
        .split(|&byte| byte == b',')
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
}

fn is_own(host: &[u8], port: u16) -> bool {
    ["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .any(|name| host.eq_ignore_ascii_case(format!("{name}:{port}").as_bytes()))
}

fn is_json(value: &[u8]) -> bool {
    let mut parts = value.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let json = parts
        .next()
        .is_some_and(|kind| kind.eq_ignore_ascii_case(b"application/json"));
    json && parts.all(|part| part.eq_ignore_ascii_case(b"charset=utf-8"))
}

/// Returns method and path for a record, whatever the bytes are.
pub(crate) fn shown(bytes: &[u8]) -> (String, String) {
    let line = bytes.split(|&byte| byte == b'\r' || byte == b'\n').next();
    let mut words = line.unwrap_or_default().splitn(3, |&byte| byte == b' ');
    let mut word = || {
        let word = words.next().unwrap_or_default();
        let cut = &word[..word.len().min(SHOWN_BYTES_MAX)];
        cut.escape_ascii().to_string()
    };
    (word(), word())
}
