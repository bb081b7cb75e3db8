use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use crate::place::{Place, Ran, sh};

struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    id: String,
}

/// Starts a run whose check never ends, and comes back when it is checking.
fn checking(place: &Place) -> Running {
    place.case(
        "slow",
        "allowed_paths: [a.txt]\nverification_commands: [\"sleep 600\"]\n",
    );
    let mut child = place
        .command(&["run", "slow", "--cases", "cases", "--events", "-q"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut running = Running {
        child,
        lines,
        id: String::new(),
    };
    while running.id.is_empty() {
        let line = running
            .lines
            .next()
            .expect("the run gets to its checks")
            .unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["type"] == "step.started" && event["data"]["step"] == "verification" {
            event["run_id"]
                .as_str()
                .unwrap()
                .clone_into(&mut running.id);
        }
    }
    running
}

impl Running {
    /// Waits for its end; the exit code and the last event.
    fn end(mut self) -> (Option<i32>, Value) {
        let last = self
            .lines
            .by_ref()
            .map_while(Result::ok)
            .last()
            .expect("an end");
        (
            self.child.wait().unwrap().code(),
            serde_json::from_str(&last).unwrap(),
        )
    }
}

fn is_interrupted(place: &Place, id: &str, last: &Value) {
    assert_eq!(last["type"], "run.completed");
    assert!(
        last["data"]["blockers"].to_string().contains("interrupted"),
        "{last}"
    );
    place.cto(&["verify", id]).expect(0);
}

#[test]
fn stop_ends_a_live_run_with_a_sealed_pack_and_nobody_else_touches_it() {
    let place = Place::new().with_key();
    let running = checking(&place);
    let id = running.id.clone();
    let live = place.cto(&["runs", "--json"]).json();
    assert_eq!(live["live"][0]["run_id"], id.as_str());
    assert_eq!(live["rows"][0]["status"], Value::Null);
    let looked = place.cto(&["recover", "--json"]).expect(0).json();
    assert_eq!(
        looked["runs"][0]["outcome"], "live",
        "a second process leaves it alone"
    );
    assert_eq!(
        place.cto(&["show", &id, "--json"]).error(),
        "5 file_missing"
    );
    let watch = place
        .command(&["watch", &id, "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stopped = place.cto(&["stop", &id, "--json"]).expect(0).json();
    assert_eq!(stopped["sealed"], true);
    assert_eq!(stopped["status"], "blocked");
    let (code, last) = running.end();
    assert_eq!(code, Some(143));
    is_interrupted(&place, &id, &last);
    let watched = Ran::of(watch.wait_with_output().unwrap()).expect(3);
    assert_eq!(watched.out, place.cto(&["logs", &id, "--events"]).out);
    assert_eq!(
        place.cto(&["stop", &id, "--json"]).error(),
        "2 run_not_live"
    );
}

#[test]
fn an_interrupt_from_the_keyboard_leaves_a_sealed_pack() {
    let place = Place::new().with_key();
    let running = checking(&place);
    let id = running.id.clone();
    sh(
        &place.path(""),
        &format!("kill -INT {}", running.child.id()),
    );
    let (code, last) = running.end();
    assert_eq!(code, Some(130));
    is_interrupted(&place, &id, &last);
}
