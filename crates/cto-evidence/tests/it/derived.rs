//! Packs whose log, report, page or trace was changed and signed again by the very same key: what they say must still follow
//! from the log.

use cto_contract::artifact::{REPORT_MD, TRACE};
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{
    AgentWords, DenialKind, EventKind, LimitHit, ReviewVerdict, SandboxDenied, Step, StepFinished,
    StepStarted,
};
use cto_contract::verification::{CanaryStatus, CommandResult};
use cto_contract::words::{Action, RunStatus};
use cto_evidence::verify::{VerifyOptions, verify};
use serde_json::Value;

use crate::sample::{self, Pack, Plan};
use crate::{check, codes};

/// Makes list and statement right again, and signs.
fn resign(pack: &Pack) {
    let report: Value =
        serde_json::from_slice(&std::fs::read(pack.file("report.json")).unwrap()).unwrap();
    pack.forge_sums();
    pack.forge_statement(&pack.key, |statement| {
        let said = &mut statement.predicate;
        let parsed = |name: &str| report[name].as_str().map(str::to_owned);
        let text = |name: &str, old: String| parsed(name).unwrap_or(old);
        said.status = text("status", said.status.to_string())
            .parse()
            .unwrap_or(said.status);
        said.run_finished_at = text("run_finished_at", said.run_finished_at.to_string())
            .parse()
            .unwrap_or(said.run_finished_at);
        said.harness_version = text("harness_version", said.harness_version.clone());
        said.conformance = report["conformance"].as_bool().unwrap_or(said.conformance);
        said.patch_tree_id = parsed("patch_tree_id").and_then(|id| id.parse().ok());
        said.approval_id = parsed("approval_id");
        said.identity_digest = parsed("identity_digest").and_then(|id| id.parse().ok());
        if let Some(digest) = parsed("contract_digest").and_then(|id| id.parse().ok()) {
            said.contract_digest = digest;
        }
    });
}

/// Every place of a document that holds no further one.
pub(crate) fn leaves(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, inner) in fields {
                leaves(inner, &format!("{at}/{}", name.replace('/', "~1")), out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (n, inner) in items.iter().enumerate() {
                leaves(inner, &format!("{at}/{n}"), out);
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => out.push(at.to_owned()),
    }
}

/// Another value of the same kind, where there is one.
pub(crate) fn turned(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => vec![true.into(), 1.into(), "x".into()],
        Value::Bool(b) => vec![(!b).into()],
        Value::Number(n) => vec![n.as_i64().map_or_else(
            || (n.as_f64().unwrap() * 2.0).into(),
            // Canonical numbers end at 2^53.
            |n| if n > 1 << 50 { n - 1 } else { n + 1 }.into(),
        )],
        Value::String(s) => {
            let near = match s.as_str() {
                "pass" => "fail",
                "fail" | "blocked" => "pass",
                "verified" => "inferred",
                "inferred" | "absent" | "self_reported" => "verified",
                "none" => "agent",
                "allowed" => "frozen",
                other => &format!("{other}x"),
            };
            // A digest, an id of a tree and a time have one shape: another of the same shape.
            let digits: String = s
                .chars()
                .map(|c| match c {
                    '0'..='8' => char::from(c as u8 + 1),
                    '9' => '0',
                    other => other,
                })
                .collect();
            vec![near.into(), digits.into()]
        }
        Value::Array(_) => vec![serde_json::json!(["x"]), serde_json::json!([{}])],
        Value::Object(_) => vec![serde_json::json!({"x": "y"})],
    }
}

#[test]
fn every_field_of_a_report_that_is_turned_is_found_although_signed() {
    for (what, plan) in [
        ("pass", sample::pass as fn() -> Plan),
        ("blocked", sample::blocked),
        ("recovered", sample::recovered),
    ] {
        let honest = serde_json::to_value(&plan().seal().sealed.report).unwrap();
        let mut places = Vec::new();
        leaves(&honest, "", &mut places);
        // Remade with every forgery, or the seal's own times, which have tests of their own.
        places.retain(|p| {
            ![
                "/artifact_paths",
                "/artifact_digests",
                "/freshness",
                "/resources/wall_seconds",
            ]
            .iter()
            .any(|own| p.starts_with(own))
        });
        assert!(places.len() > 60, "{what}: {}", places.len());
        let pack = plan().seal();
        let good = std::fs::read(pack.file("report.json")).unwrap();
        for place in places {
            for other in turned(honest.pointer(&place).unwrap()) {
                if honest.pointer(&place) == Some(&other) {
                    continue;
                }
                crate::forge::put(&pack.file("report.json"), &good);
                pack.forge_report(|r| *r.pointer_mut(&place).unwrap() = other.clone());
                resign(&pack);
                let answer = check(&pack);
                assert!(!answer.ok, "{what}: {place} can be turned into {other}");
            }
        }
        crate::forge::put(&pack.file("report.json"), &good);
        pack.forge_report(|_| {});
        resign(&pack);
        assert_eq!(codes(&check(&pack)), [] as [&str; 0], "{what}: as it was");
    }
}

#[test]
fn a_wall_clock_outside_its_own_run_is_found() {
    let pack = sample::pass().seal();
    for wall in [Value::Null, 0.into(), 500.into(), (-1).into()] {
        pack.forge_report(|r| r["resources"]["wall_seconds"] = wall.clone());
        resign(&pack);
        assert_eq!(codes(&check(&pack)), ["report_mismatch"], "{wall}");
    }
}

#[test]
fn every_line_of_the_page_and_of_the_trace_must_follow_from_the_log() {
    for name in [REPORT_MD, TRACE] {
        let pack = sample::pass().seal();
        let good = std::fs::read_to_string(pack.file(name)).unwrap();
        let lines: Vec<&str> = good.lines().collect();
        let try_it = |lines: Vec<String>, what: &str| {
            crate::forge::put(&pack.file(name), (lines.join("\n") + "\n").as_bytes());
            pack.forge_report(|_| {});
            resign(&pack);
            let answer = check(&pack);
            assert_eq!(codes(&answer), ["report_mismatch"], "{name}: {what}");
            assert_eq!(answer.errors[0].file.as_deref(), Some(name));
        };
        let owned = || lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        for n in 0..lines.len() {
            let mut without = owned();
            without.remove(n);
            try_it(without, &format!("without line {n}"));
            let mut other = owned();
            other[n].push('.');
            try_it(other, &format!("another line {n}"));
        }
        let mut more = owned();
        more.push("Accepted by the operator.".to_owned());
        try_it(more, "one more line");
    }
    // Says FAIL where the log says pass.
    let pack = sample::pass().seal();
    pack.rewrite(REPORT_MD, |b| {
        *b = String::from_utf8_lossy(b)
            .replace("# PASS", "# FAIL")
            .into_bytes();
    });
    pack.forge_report(|_| {});
    resign(&pack);
    assert_eq!(codes(&check(&pack)), ["report_mismatch"]);
}

/// Changes a fact of the log, and keeps the verdict that the harness had given without it.
fn with_fact(edit: impl Fn(&mut Vec<EventKind>)) -> Vec<&'static str> {
    let mut plan = sample::pass();
    let actors: Vec<_> = plan.events.iter().map(|(actor, _)| *actor).collect();
    let mut kinds: Vec<EventKind> = plan.events.drain(..).map(|(_, kind)| kind).collect();
    edit(&mut kinds);
    plan.events = kinds.into_iter().map(|kind| (actors[0], kind)).collect();
    let pack = plan.seal();
    let answer = verify(
        &pack.path,
        &VerifyOptions {
            integrity_only: true,
            ..VerifyOptions::default()
        },
    );
    assert!(answer.status == Some(RunStatus::Pass));
    codes(&answer)
}

fn command(kinds: &mut [EventKind], edit: impl Fn(&mut CommandResult)) {
    for kind in kinds {
        if let EventKind::VerificationCompleted(done) = kind {
            edit(&mut done.verification.commands[0]);
        }
    }
}

#[test]
fn a_pass_that_its_own_log_speaks_against_is_found() {
    let blocker = || Blocker::new(BlockerCode::LimitExceeded, "disk_mb", "too much");
    type Edit = Box<dyn Fn(&mut Vec<EventKind>)>;
    let facts: Vec<(&str, Edit)> = vec![
        (
            "a check that failed",
            Box::new(|k| command(k, |c| c.exit_code = Some(1))),
        ),
        (
            "a check that did not pass",
            Box::new(|k| command(k, |c| c.passed = false)),
        ),
        (
            "a check over its time",
            Box::new(|k| command(k, |c| c.timed_out = true)),
        ),
        (
            "a check that was killed",
            Box::new(|k| command(k, |c| c.signal = Some(9))),
        ),
        (
            "a runner that ran no test",
            Box::new(|k| {
                command(k, |c| c.tests.as_mut().unwrap().passed = 0);
            }),
        ),
        (
            "a runner without a count",
            Box::new(|k| command(k, |c| c.tests = None)),
        ),
        (
            "a level that nothing supports",
            Box::new(|k| {
                command(k, |c| c.level = cto_contract::words::ClaimLevel::Verified);
            }),
        ),
        (
            "another command",
            Box::new(|k| command(k, |c| c.command = "true".to_owned())),
        ),
        (
            "a planted test that was swallowed",
            Box::new(|k| {
                for kind in k {
                    if let EventKind::VerificationCompleted(done) = kind {
                        let canary = done.verification.commands[0].canary.as_mut();
                        canary.unwrap().status = CanaryStatus::Swallowed;
                    }
                }
            }),
        ),
        (
            "a test that was lost",
            Box::new(|k| {
                for kind in k {
                    if let EventKind::VerificationCompleted(done) = kind {
                        let before = done.verification.baseline[0].tests.as_mut();
                        before.unwrap().passed_names.push("t".to_owned());
                    }
                }
            }),
        ),
        (
            "a baseline that is said to have failed",
            Box::new(|k| {
                for kind in k {
                    if let EventKind::VerificationCompleted(done) = kind {
                        done.verification.baseline[0].exit_code = Some(0);
                    }
                }
            }),
        ),
        (
            "checks that changed the tree",
            Box::new(|k| {
                for kind in k {
                    if let EventKind::VerificationCompleted(done) = kind {
                        done.dirty_paths.push("a.py".to_owned());
                    }
                }
            }),
        ),
        (
            "a backend that failed",
            Box::new(|k| {
                for kind in k {
                    if let EventKind::BackendFinished(end) = kind {
                        end.exit_code = Some(3);
                    }
                }
            }),
        ),
        (
            "a backend that was over its time",
            Box::new(|k| {
                for kind in k {
                    if let EventKind::BackendFinished(end) = kind {
                        end.timed_out = true;
                    }
                }
            }),
        ),
        (
            "something that survived",
            Box::new(|k| {
                for kind in k {
                    if let EventKind::BackendFinished(end) = kind {
                        end.no_survivors = false;
                    }
                }
            }),
        ),
        (
            "a reviewer that rejects",
            Box::new(|k| {
                for kind in k {
                    if let EventKind::BackendFinished(end) = kind {
                        end.agent = Some(AgentWords {
                            understood: 1,
                            review: Some(ReviewVerdict::Reject),
                            ..AgentWords::default()
                        });
                    }
                }
            }),
        ),
        (
            "a blocker of a step",
            Box::new(move |k| {
                let end = k.pop().unwrap();
                k.push(EventKind::StepStarted(StepStarted {
                    step: Step::Complete,
                }));
                k.push(EventKind::StepFinished(StepFinished {
                    step: Step::Complete,
                    blockers: vec![blocker()],
                }));
                k.push(end);
            }),
        ),
        (
            "a limit",
            Box::new(move |k| {
                let end = k.pop().unwrap();
                k.push(EventKind::LimitExceeded(LimitHit {
                    step: Step::Backend,
                    limit: "disk_mb".to_owned(),
                    allowed: 1,
                    blocker: blocker(),
                }));
                k.push(end);
            }),
        ),
        (
            "a blocker of the patch",
            Box::new(move |k| {
                for kind in k {
                    if let EventKind::PatchApplied(patch) = kind {
                        patch.blockers.push(blocker());
                    }
                }
            }),
        ),
        (
            "a blocker of the paths",
            Box::new(move |k| {
                for kind in k {
                    if let EventKind::GitDiffChecked(diff) = kind {
                        diff.blockers.push(blocker());
                    }
                }
            }),
        ),
        (
            "a blocker of the checks",
            Box::new(move |k| {
                for kind in k {
                    if let EventKind::VerificationCompleted(done) = kind {
                        done.blockers.push(blocker());
                    }
                }
            }),
        ),
        (
            "a push that was tried",
            Box::new(|k| {
                let denied = SandboxDenied {
                    step: Step::Backend,
                    kind: DenialKind::Denied,
                    what: "exec".to_owned(),
                    target: "git push".to_owned(),
                    process: "sh".to_owned(),
                    action: Some(Action::Push),
                    count: 1,
                };
                k.insert(7, EventKind::SandboxDenied(denied));
            }),
        ),
    ];
    for (what, edit) in facts {
        let found = with_fact(edit);
        assert!(!found.is_empty(), "{what} is not found");
    }
    assert_eq!(with_fact(|_| {}), [] as [&str; 0]);
}
