//! Nobody who is slow, silent or many can hold the end of a run.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use cto_egress::{Deadlines, ExchangeEnd, Refusal, Terms};

use crate::support::*;

#[test]
fn a_stop_ends_slow_senders_slow_takers_and_silent_upstreams_at_once() {
    let (reached, at_work) = mpsc::channel();
    let reached = Mutex::new(reached);
    let upstream = Scripted::start(move |stream, request| {
        reached.lock().unwrap().send(()).ok();
        if request.contains("flood") {
            stream.write_all(EVENTS_HEAD.as_bytes()).ok();
            let event = chunk(&"x".repeat(60_000));
            while stream.write_all(event.as_bytes()).is_ok() {}
        } else {
            stream.read_to_end(&mut Vec::new()).ok();
        }
    });
    let (forwarder, address) = forwarder_to(&upstream.url(), terms());
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(b"POST /v1/chat/compl").unwrap();
    let ask = |body: &str| {
        let mut agent = TcpStream::connect(address).unwrap();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        agent.write_all(request.as_bytes()).unwrap();
        agent
    };
    let mut silent = ask("{}");
    let mut flooded = ask(r#"{"flood":1}"#);
    at_work.recv().unwrap();
    at_work.recv().unwrap();
    // The first byte is here, and nobody takes the rest.
    flooded.read_exact(&mut [0; 1]).unwrap();
    let traffic = forwarder.stop();
    // All threads are gone: their sockets are closed.
    for stream in [&mut slow, &mut silent, &mut flooded] {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).ok();
    }
    assert_eq!(traffic.exchanges.len(), 3);
    let stopped = traffic
        .exchanges
        .iter()
        .all(|exchange| exchange.end == ExchangeEnd::Stopped);
    assert!(stopped, "{traffic:?}");
}

#[test]
fn a_sender_who_dawdles_is_refused_by_the_clock_and_not_by_his_progress() {
    let upstream = Scripted::saying(200, "{}");
    let strict = Terms {
        deadlines: Deadlines {
            head: Duration::from_millis(40),
            ..Deadlines::default()
        },
        ..terms()
    };
    let (forwarder, address) = forwarder_to(&upstream.url(), strict);
    let mut agent = TcpStream::connect(address).unwrap();
    agent.write_all(b"POST /v1/chat").unwrap();
    let mut answer = String::new();
    agent.read_to_string(&mut answer).ok();
    assert_eq!(verdict(&answer), "408 too_slow");
    drop(forwarder);
    assert_eq!(upstream.seen().len(), 0);
}

#[test]
fn one_connection_too_many_is_turned_away_and_others_go_on() {
    let upstream = Scripted::saying(200, "{}");
    let (forwarder, address) = forwarder_to(&upstream.url(), terms());
    let held: Vec<TcpStream> = (0..32)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    // They were accepted in order, so all of them are held when this one comes.
    assert_eq!(verdict(&chat(address, "{}")), "503 too_many_connections");
    drop(held);
    // A thread whose visitor has left ends by itself; until then there is no room.
    let mut seen = String::new();
    for _ in 0..10_000 {
        seen = verdict(&chat(address, "{}"));
        if seen == "200" {
            break;
        }
    }
    assert_eq!(seen, "200");
    drop(forwarder);
}

#[test]
fn the_port_is_free_again_after_a_stop() {
    let upstream = Scripted::saying(200, "{}");
    let (forwarder, address) = forwarder_to(&upstream.url(), terms());
    drop(forwarder.stop());
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_crowd_of_large_requests_is_refused_before_it_costs_the_memory() {
    let upstream = Scripted::saying(200, "{}");
    let (forwarder, address) = forwarder_to(&upstream.url(), terms());
    let (tell, told) = mpsc::channel();
    let senders: Vec<_> = (0..6)
        .map(|_| {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let mut agent = TcpStream::connect(address).unwrap();
                let size = 32 * 1024 * 1024;
                let head = format!(
                    "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
                );
                agent.write_all(head.as_bytes()).unwrap();
                // All but the last byte: each of them is held until it is complete.
                agent.write_all(&vec![b' '; size - 1]).ok();
                let mut answer = String::new();
                agent.read_to_string(&mut answer).ok();
                tell.send(()).ok();
            })
        })
        .collect();
    // The answer itself may be lost on a sender who is still sending.
    told.recv().unwrap();
    let refusals = forwarder.stop().exchanges.into_iter();
    let refusals: Vec<_> = refusals.filter_map(|exchange| exchange.refusal).collect();
    assert!(
        refusals.contains(&Refusal::TooManyConnections),
        "{refusals:?}"
    );
    for sender in senders {
        sender.join().unwrap();
    }
    assert_eq!(upstream.seen().len(), 0);
}
