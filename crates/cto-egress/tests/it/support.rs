//! A scripted upstream, a forwarder before it, and an agent that speaks in raw bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cto_contract::words::Wire;
use cto_egress::{Budget, Deadlines, Forwarder, Route, Secret, Terms, Upstream};

pub(crate) const KEY: &str = "sk-key-of-the-operator-4711";

/// An upstream that reads one request of each connection and lets the script answer it.
pub(crate) struct Scripted {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    pub(crate) fn start(script: impl Fn(&mut TcpStream, &str) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, script) = (Arc::clone(&seen), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, log, script) =
                    (stream.unwrap(), Arc::clone(&log), Arc::clone(&script));
                std::thread::spawn(move || {
                    stream.set_nodelay(true).unwrap();
                    let request = read_request(&mut stream);
                    log.lock().unwrap().push(request.clone());
                    script(&mut stream, &request);
                });
            }
        });
        Self { port, seen }
    }

    /// Answers everything with this body.
    pub(crate) fn saying(status: u16, body: &str) -> Self {
        let answer = whole(status, body);
        Self::start(move |stream, _| stream.write_all(answer.as_bytes()).unwrap_or_default())
    }

    /// Answers everything with these bytes.
    pub(crate) fn raw(answer: &str) -> Self {
        let answer = answer.to_owned();
        Self::start(move |stream, _| stream.write_all(answer.as_bytes()).unwrap_or_default())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/base/v1", self.port)
    }

    /// All requests so far, byte by byte.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Reads head and body by Content-Length; whatever else has arrived is part of it, so that a test would see it.
fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return text;
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return text,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

pub(crate) fn whole(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nServer: hidden/1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) const EVENTS_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

pub(crate) fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

pub(crate) fn terms() -> Terms {
    Terms {
        wires: Wire::ALL.to_vec(),
        model: None,
        budget: Budget::default(),
        prices: None,
        overhears: None,
        deadlines: Deadlines::default(),
    }
}

pub(crate) fn forwarder_to(url: &str, terms: Terms) -> (Forwarder, SocketAddr) {
    let upstream = Upstream::parse(url)
        .unwrap()
        .with_key(Secret::new(KEY).ok());
    serve(Route::open(upstream).unwrap(), terms)
}

pub(crate) fn serve(route: Route, terms: Terms) -> (Forwarder, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let forwarder = Forwarder::start(vec![listener], route, terms).unwrap();
    (forwarder, address)
}

/// Sends bytes, says that they are all, and returns the whole answer.
pub(crate) fn send(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    // Only so that a fault of the forwarder is a failed test and not one that hangs.
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    // It may have been refused before the last byte.
    stream.write_all(bytes).ok();
    stream.shutdown(Shutdown::Write).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> String {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer agents-own\r\nX-Api-Key: agents-own\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        address.port(),
        body.len()
    );
    send(address, (head + body).as_bytes())
}

pub(crate) fn chat(address: SocketAddr, body: &str) -> String {
    post(address, "/v1/chat/completions", body)
}

/// Status, and the code of an error of ours.
pub(crate) fn verdict(answer: &str) -> String {
    let status = answer.split(' ').nth(1).unwrap_or("nothing");
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let code = serde_json::from_str::<serde_json::Value>(body)
        .ok()
        .and_then(|error| Some(error["error"]["code"].as_str()?.to_owned()));
    match code {
        Some(code) => format!("{status} {code}"),
        None => status.to_owned(),
    }
}
