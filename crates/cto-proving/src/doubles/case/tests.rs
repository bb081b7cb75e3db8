use serde_json::{Value, json};

use super::envelope::RoleResult;
use super::journal::{cut, stamp};
use super::pipeline::{Begun, Event};
use super::role::tool_event;
use super::*;

/// Logs of the real program.
const SAMPLES: [(&str, &str); 5] = [
    (
        "401",
        include_str!("../../../../cto-agent/tests/case-events/401.jsonl"),
    ),
    (
        "noclose",
        include_str!("../../../../cto-agent/tests/case-events/noclose.jsonl"),
    ),
    (
        "ok",
        include_str!("../../../../cto-agent/tests/case-events/ok.jsonl"),
    ),
    (
        "reviewer-critical",
        include_str!("../../../../cto-agent/tests/case-events/reviewer-critical.jsonl"),
    ),
    (
        "revision",
        include_str!("../../../../cto-agent/tests/case-events/revision.jsonl"),
    ),
];

fn lines(log: &str) -> Vec<Value> {
    let lines = log.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// An event without what differs from run to run: its type, the names of its fields, and the words that say where it
/// stands.
fn shape(line: &Value) -> String {
    let fields = line.as_object().unwrap().keys();
    let fields: Vec<&str> = fields.map(String::as_str).collect();
    let words = [
        "phase",
        "agent",
        "outcome",
        "from",
        "to",
        "source",
        "failedAgent",
    ];
    let words = words.map(|name| text(line, name));
    let numbers = ["cycle", "cycles", "sequence"].map(|name| line.get(name));
    let mut inner = line.get("result").and_then(Value::as_object).map(|result| {
        let keys = result.keys().map(String::as_str);
        keys.collect::<Vec<_>>().join(",")
    });
    inner = inner.or_else(|| {
        let plan = line.get("plan")?.as_object()?;
        Some(format!("{:?} {}", plan.keys(), plan["phases"]))
    });
    format!(
        "{} {fields:?} {words:?} {numbers:?} {inner:?}",
        text(line, "event")
    )
}

/// What each role did in a log, in order: how many tools it used, and what it came to.
fn roles(log: &[Value]) -> Vec<(usize, Value)> {
    let mut tools = 0;
    let mut roles = Vec::new();
    for line in log {
        match (text(line, "event"), text(line, "outcome")) {
            ("tool_start", _) => tools += 1,
            ("phase_end", "completed" | "failed") => {
                roles.push((std::mem::take(&mut tools), line["result"].clone()));
            }
            _ => {}
        }
    }
    roles
}

/// The result of a role as its model would have said it; the real program makes the others itself.
fn said(result: &Value) -> RoleResult {
    match text(result, "error") {
        "" => RoleResult::read(&format!("<<<AGENT_RESULT\n{result}\nAGENT_RESULT>>>")),
        _ => RoleResult::read(""),
    }
}

/// Walks through the phases with roles that use so many tools and come to these results.
fn walked(roles: Vec<(usize, RoleResult)>) -> Vec<Value> {
    let mut pipeline = Pipeline::new(Profile::Standard);
    let plan = pipeline.plan("t", "r", "now");
    let mut told: Vec<Event> = pipeline.start("t", plan);
    let mut roles = roles.into_iter();
    while let Some(Begun { events, role, .. }) = pipeline.begin() {
        told.extend(events);
        let (tools, result) = roles.next().expect("a role more than in the log");
        for _ in 0..tools {
            let event = |kind, more| tool_event(kind, role, ("c", "bash"), more);
            told.push(event("tool_start", json!({"args": ""})));
            let after = json!({"durationMs": 1, "isError": false, "result": ""});
            told.push(event("tool_end", after));
        }
        told.extend(pipeline.end(result));
    }
    assert_eq!(roles.next(), None, "a role fewer than in the log");
    told.extend(pipeline.finish(1));
    let numbered = told.into_iter().zip(1..);
    let numbered = numbered.map(|(event, sequence)| stamp(event, "now", sequence, "r"));
    numbered.collect()
}

#[test]
fn its_events_are_those_of_the_real_program_in_type_order_and_field_names() {
    for (name, log) in SAMPLES {
        let log = lines(log);
        let roles = roles(&log).into_iter();
        let told = walked(
            roles
                .map(|(tools, result)| (tools, said(&result)))
                .collect(),
        );
        let shapes = |lines: &[Value]| lines.iter().map(shape).collect::<Vec<_>>();
        assert_eq!(shapes(&told), shapes(&log), "{name}");
    }
}

fn good() -> RoleResult {
    RoleResult::of("completed", "done", None)
}

fn with_rubric(role: &str, category: &str) -> RoleResult {
    let result = json!({"status": "completed", "rubric": {"role": role, "categories": [
        {"category": category, "verdict": "fail"}, {"category": "other", "verdict": "pass"}]}});
    RoleResult::read(&format!("<<<AGENT_RESULT\n{result}\nAGENT_RESULT>>>"))
}

/// The phases that began, and how it says that it ended.
fn course(results: Vec<RoleResult>) -> String {
    let told = walked(results.into_iter().map(|result| (0, result)).collect());
    let started = told.iter().filter(|e| text(e, "event") == "phase_start");
    let started: Vec<&str> = started.map(|e| text(e, "phase")).collect();
    let end = told.last().unwrap();
    let by = text(end, "failedAgent");
    format!("{} {}{by}", started.join(" "), text(end, "outcome"))
}

#[test]
fn a_verifier_that_rejects_has_the_change_revised_before_any_review() {
    let rejected = || with_rubric("verifier", "edge-case-checked");
    let all = vec![good(), rejected(), good(), good(), good(), good(), good()];
    assert_eq!(
        course(all),
        "implement verify implement verify review close retrospective completed"
    );
    let never = [good(), rejected(), good(), rejected(), good(), rejected()];
    let never = never.into_iter().chain([good(), good(), good()]).collect();
    assert_eq!(
        course(never),
        "implement verify implement verify implement verify review close retrospective completed"
    );
}

#[test]
fn a_hard_category_of_the_review_fails_it_although_every_role_completes() {
    let hard = || with_rubric("reviewer", "scope-discipline");
    let mut results = Vec::new();
    for _ in 0..3 {
        results.extend([good(), good(), hard()]);
    }
    results.extend([good(), good()]);
    assert!(course(results).ends_with("close retrospective failedreviewer"));
}

#[test]
fn a_role_that_fails_or_is_blocked_ends_the_walk_but_for_the_last_role() {
    for status in ["failed", "blocked"] {
        let bad = RoleResult::of(status, "", Some("no"));
        assert_eq!(
            course(vec![good(), bad, good()]),
            "implement verify retrospective failedverifier"
        );
    }
}

#[test]
fn every_fault_of_an_envelope_is_told_in_the_same_words_as_by_the_real_program() {
    let error = |said: &str| RoleResult::read(said).error().to_owned();
    let inside = |inner: &str| error(&format!("<<<AGENT_RESULT\n{inner}\nAGENT_RESULT>>>"));
    assert_eq!(error("all done"), "AGENT_RESULT start delimiter not found");
    assert_eq!(
        error("<<<AGENT_RESULT\n{}"),
        "AGENT_RESULT end delimiter not found"
    );
    assert!(inside("{").starts_with("AGENT_RESULT JSON parse error"));
    assert_eq!(inside("[]"), "AGENT_RESULT is not a JSON object");
    assert_eq!(inside("{}"), "AGENT_RESULT missing required field: status");
    assert_eq!(
        inside(r#"{"status":"great"}"#),
        "AGENT_RESULT invalid status: great"
    );
    let twice = "<<<AGENT_RESULT\n{}\nAGENT_RESULT>>> and <<<AGENT_RESULT\n{\"status\":\"completed\"}\nAGENT_RESULT>>>";
    assert!(RoleResult::read(twice).is_completed());
}

#[test]
fn its_quirks_are_words_of_its_file_name() {
    let quirks = Quirk::read_all("older-build.exit-one");
    assert_eq!(quirks, Ok(vec![Quirk::OlderBuild, Quirk::ExitOne]));
    assert_eq!(Quirk::read_all("polite"), Err("polite".to_owned()));
    for (quirk, name) in Quirk::NAMES {
        assert_eq!(quirk.as_str(), name);
    }
}

#[test]
fn what_tools_are_given_and_say_is_cut() {
    assert_eq!(cut(&"ä".repeat(600)).chars().count(), 500);
    assert_eq!(Role::Close.agent(), "closer");
}
