//! What the forwarder adds to each piece of a streamed answer: for `cargo xtask bench egress`.
//!
//! The upstream sends a piece when the one before has arrived, so that nothing queues; each piece carries the moment of
//! its sending. Direct and forwarded streams alternate, and the medians of both are printed in nanoseconds.
#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has nothing to say"
)]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use cto_contract::words::Wire;
use cto_egress::{Budget, Deadlines, Forwarder, Route, Secret, Terms, Upstream};

const PIECES: usize = 2_000;
const ROUNDS: usize = 5;

/// Streams pieces that hold their time, each when it is asked for.
fn serve(mut stream: TcpStream, since: Instant, asked: &mpsc::Receiver<()>) {
    stream.set_nodelay(true).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..PIECES {
        asked.recv().unwrap();
        let event = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"word\"}}}}],\"at\":{:>12}}}\n\n",
            since.elapsed().as_nanos()
        );
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        stream.write_all(chunk.as_bytes()).unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
}

/// Asks for one stream and returns how long each piece took, in nanoseconds.
fn take(address: SocketAddr, since: Instant, ask: &mpsc::Sender<()>) -> Vec<u64> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let body = r#"{"stream":true}"#;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut taken = Vec::with_capacity(PIECES);
    ask.send(()).unwrap();
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        let Some((_, rest)) = line.split_once("\"at\":") else {
            continue;
        };
        let now = since.elapsed().as_nanos();
        let sent: u128 = rest.trim_end_matches('}').trim().parse().unwrap();
        taken.push(u64::try_from(now - sent).unwrap());
        if taken.len() < PIECES {
            ask.send(()).unwrap();
        }
    }
    assert_eq!(taken.len(), PIECES, "the stream was cut");
    taken
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let since = Instant::now();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let direct = upstream.local_addr().unwrap();
    let (ask, asked) = mpsc::channel();
    let asked = Arc::new(Mutex::new(asked));
    std::thread::spawn(move || {
        for stream in upstream.incoming() {
            serve(stream.unwrap(), since, &asked.lock().unwrap());
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let forwarded = listener.local_addr().unwrap();
    let endpoint = Upstream::parse(&format!("http://{direct}/v1"))
        .unwrap()
        .with_key(Secret::new("sk-measured").ok());
    let terms = Terms {
        wires: Wire::ALL.to_vec(),
        model: None,
        budget: Budget::default(),
        prices: None,
        overhears: None,
        deadlines: Deadlines::default(),
    };
    let forwarder =
        Forwarder::start(vec![listener], Route::open(endpoint).unwrap(), terms).unwrap();
    let mut out = std::io::stdout().lock();
    for _ in 0..ROUNDS {
        let left = median(take(direct, since, &ask));
        let right = median(take(forwarded, since, &ask));
        writeln!(out, "{left} {right}").unwrap();
    }
    drop(forwarder);
}
