//! Each budget hits, says which it is, and leaves its mark in the record.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use cto_egress::{Budget, BudgetName, ExchangeEnd, Terms, Traffic};

use crate::support::*;

fn capped(budget: Budget) -> Terms {
    Terms { budget, ..terms() }
}

fn hit(traffic: &Traffic) -> String {
    let hits: Vec<String> = traffic
        .hits
        .iter()
        .map(|hit| format!("{} {}/{}", hit.budget.as_str(), hit.seen, hit.allowed))
        .collect();
    hits.join(", ")
}

#[test]
fn the_budget_of_requests_stops_the_one_too_many() {
    let upstream = Scripted::saying(200, r#"{"usage":{"total_tokens":1}}"#);
    let (forwarder, address) = forwarder_to(
        &upstream.url(),
        capped(Budget {
            requests: Some(2),
            ..Budget::default()
        }),
    );
    let answers = [0, 1, 2, 3].map(|_| verdict(&chat(address, "{}")));
    assert_eq!(
        answers,
        ["200", "200", "429 budget_requests", "429 budget_requests"]
    );
    assert_eq!(upstream.seen().len(), 2);
    let refused = chat(address, "{}");
    assert!(refused.contains("x-should-retry: false"), "{refused}");
    let traffic = forwarder.stop();
    assert_eq!(hit(&traffic), "requests 3/2");
    assert_eq!((traffic.requests, traffic.refused), (2, 3));
}

#[test]
fn the_budget_of_tokens_is_held_before_the_next_request() {
    let upstream = Scripted::saying(200, r#"{"usage":{"total_tokens":60}}"#);
    let (forwarder, address) = forwarder_to(
        &upstream.url(),
        capped(Budget {
            tokens: Some(100),
            ..Budget::default()
        }),
    );
    let answers = [0, 1, 2].map(|_| verdict(&chat(address, "{}")));
    assert_eq!(answers, ["200", "200", "429 budget_tokens"]);
    let traffic = forwarder.stop();
    assert_eq!(traffic.tokens, Some(120));
    assert_eq!(hit(&traffic), "tokens 120/100");
}

#[test]
fn many_at_once_spend_no_more_tokens_than_one_after_the_other() {
    let upstream = Scripted::saying(200, r#"{"usage":{"total_tokens":60}}"#);
    let (forwarder, address) = forwarder_to(
        &upstream.url(),
        capped(Budget {
            tokens: Some(100),
            ..Budget::default()
        }),
    );
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(move || chat(address, "{}"));
        }
    });
    assert_eq!(upstream.seen().len(), 2);
    assert_eq!(forwarder.stop().tokens, Some(120));
}

#[test]
fn a_stream_that_is_cut_before_its_count_is_counted_by_its_bytes() {
    let event = "data: {\"choices\":[]}\n\n";
    let upstream = Scripted::raw(&format!("{EVENTS_HEAD}{}", chunk(event)));
    let (forwarder, address) = forwarder_to(
        &upstream.url(),
        capped(Budget {
            tokens: Some(30),
            ..Budget::default()
        }),
    );
    let body = r#"{"stream":true}"#;
    chat(address, body);
    assert_eq!(verdict(&chat(address, body)), "429 budget_tokens");
    let traffic = forwarder.stop();
    let sent = r#"{"stream":true,"stream_options":{"include_usage":true}}"#;
    let bound = (sent.len() + event.len()) as u64;
    assert_eq!((traffic.tokens, traffic.tokens_at_most), (None, bound));
    assert_eq!(traffic.exchanges[0].end, ExchangeEnd::UpstreamCut);
}

#[test]
fn the_budget_of_bytes_ends_a_stream_in_its_middle() {
    let sent = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&sent);
    let upstream = Scripted::start(move |stream, _| {
        stream.write_all(EVENTS_HEAD.as_bytes()).unwrap();
        let event = chunk(&format!("data: {}\n\n", "x".repeat(1_000)));
        // Far more than sockets hold, so that only a forwarder that stops reading ends it.
        for _ in 0..100_000 {
            if stream.write_all(event.as_bytes()).is_err() {
                return;
            }
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let (forwarder, address) = forwarder_to(
        &upstream.url(),
        capped(Budget {
            bytes: Some(50_000),
            ..Budget::default()
        }),
    );
    let answer = chat(address, r#"{"stream":true}"#);
    assert!(answer.len() < 80_000, "{}", answer.len());
    assert!(!answer.ends_with("0\r\n\r\n"));
    assert_eq!(verdict(&chat(address, "{}")), "429 budget_bytes");
    let traffic = forwarder.stop();
    assert_eq!(traffic.exchanges[0].end, ExchangeEnd::BudgetCut);
    assert_eq!(traffic.hits[0].budget, BudgetName::Bytes);
    assert!(sent.load(Ordering::Relaxed) < 100_000);
}

#[test]
fn every_cap_can_be_held_with_the_calls_that_there_are() {
    let all = Budget {
        requests: Some(1),
        bytes: Some(1),
        tokens: Some(1),
        cost: Some(1),
    };
    let unheld = |has_prices| cto_egress::unmeterable(&all, cto_egress::Api::ALL, has_prices);
    assert_eq!(unheld(true), []);
    assert_eq!(unheld(false), [BudgetName::Cost]);
}
