//! What the end of a backend says against a pass: its model, its phases, what it left behind. A stranger finds it as we do.

use cto_contract::event::{
    AgentWords, BackendFinished, BackendStop, EventFileFault, EventKind, ModelTraffic, PhaseStatus,
    PhaseWords, PipelinePhase, PipelineWords, ProviderFault, ReviewVerdict, RootsCheck, SaidEnd,
};

use crate::events::concluded;
use crate::sample::{self, Plan};
use crate::stranger::agree;

fn traffic() -> ModelTraffic {
    // As it stands in a log: what is left out there has its default.
    serde_json::from_value(serde_json::json!({
        "requests": 3, "refused": 0, "bytes_up": 100, "bytes_down": 200,
        "tokens": 30, "tokens_at_most": 30, "models": ["m"], "exchanges_dropped": 0,
        "answered_by": ["m", "m-2026-01-31"], "pinned_model": "m", "model_mismatches": 0,
        // Recovered from: a good answer came after it.
        "faults": {"server_error": 1},
    }))
    .unwrap()
}

fn phases() -> PipelineWords {
    let completed = |phase| PhaseWords {
        phase,
        status: PhaseStatus::Completed,
        error: None,
        critical: 0,
        failed_rubrics: Vec::new(),
    };
    PipelineWords {
        understood: 9,
        malformed: 0,
        ended: true,
        phases: PipelinePhase::ALL.iter().copied().map(completed).collect(),
        fault: None,
    }
}

fn agent(review: ReviewVerdict) -> AgentWords {
    AgentWords {
        understood: 1,
        review: Some(review),
        ..AgentWords::default()
    }
}

type Edit = Box<dyn Fn(&mut BackendFinished)>;

fn edit(what: &str, edit: impl Fn(&mut BackendFinished) + 'static) -> (String, Edit) {
    (what.to_owned(), Box::new(edit))
}

fn with_model(what: &str, change: fn(&mut ModelTraffic)) -> (String, Edit) {
    edit(what, move |end| {
        change(end.model_traffic.insert(traffic()));
    })
}

fn with_phases(what: &str, change: fn(&mut PipelineWords)) -> (String, Edit) {
    edit(what, move |end| change(end.pipeline.insert(phases())))
}

fn passed_with(edit: &Edit) -> Plan {
    let mut plan = sample::pass();
    for (_, kind) in &mut plan.events {
        if let EventKind::BackendFinished(end) = kind {
            edit(end);
        }
    }
    plan
}

fn against() -> Vec<(String, Edit)> {
    vec![
        with_model("a fault that stands", |t| {
            t.standing_fault = Some(ProviderFault::ServerError);
        }),
        with_model("another model that answered", |t| {
            t.answered_by.push("m-mini".to_owned());
        }),
        with_model("requests for another model", |t| t.model_mismatches = 1),
        with_phases("a file about phases that was rewritten", |p| {
            p.fault = Some(EventFileFault::Rewritten);
        }),
        with_phases("a phase that is missing", |p| {
            p.phases
                .retain(|phase| phase.phase != PipelinePhase::Verify);
        }),
        with_phases("a phase that is blocked", |p| {
            p.phases[0].status = PhaseStatus::Blocked;
        }),
        with_phases("a role without a result", |p| {
            p.phases[2].status = PhaseStatus::Failed;
            p.phases[2].error = Some("AGENT_RESULT is missing".to_owned());
        }),
        edit("a program that was replaced", |end| {
            end.program_replaced = true;
        }),
        edit("a protected root that changed", |end| {
            end.protected_roots = Some(RootsCheck {
                changed: 1,
                names: vec!["a".to_owned()],
                unreadable: None,
            });
        }),
        edit("a program that says it failed", |end| {
            end.agent = Some(AgentWords {
                end: Some(SaidEnd::Failed),
                ..AgentWords::default()
            });
        }),
        edit("a program without a word about its end", |end| {
            end.agent = Some(AgentWords {
                end: Some(SaidEnd::Unsaid),
                ..AgentWords::default()
            });
        }),
        edit("a signal", |end| end.signal = Some(9)),
        edit("input that was not read", |end| {
            end.stopped_by = Some(BackendStop::InputUnread);
        }),
    ]
}

/// What also changes the blockers of the checks, and so is not concluded here.
fn rejections() -> Vec<(String, Edit)> {
    vec![
        with_phases("a review with a critical finding", |p| {
            p.phases[2].critical = 1;
        }),
        with_phases("a verification whose rubric fails", |p| {
            p.phases[1].failed_rubrics.push("tests".to_owned());
        }),
        edit("a reviewer that rejects", |end| {
            end.agent = Some(agent(ReviewVerdict::Reject));
        }),
    ]
}

#[test]
fn a_pass_that_the_end_of_its_backend_speaks_against_is_refused_by_both() {
    let wrong = against().into_iter().chain(rejections());
    let wrong: Vec<_> = wrong
        .map(|(what, edit)| (what, passed_with(&edit).seal()))
        .collect();
    agree(&wrong, false);
}

#[test]
fn the_verdict_that_such_an_end_gives_is_accepted_by_both() {
    let right: Vec<_> = against()
        .into_iter()
        .map(|(what, edit)| (what, concluded(passed_with(&edit)).seal()))
        .collect();
    agree(&right, true);
}

#[test]
fn an_end_that_speaks_against_nothing_is_accepted_by_both() {
    let fine = [
        with_model("a fault that was recovered from", |_| {}),
        with_model("no model that was named", |t| {
            t.pinned_model = None;
            t.answered_by.push("another".to_owned());
        }),
        with_phases("all phases completed", |_| {}),
        edit("an exit code of phases that ended", |end| {
            end.pipeline = Some(phases());
            end.exit_code = Some(1);
        }),
        edit("a reviewer that accepts", |end| {
            end.agent = Some(agent(ReviewVerdict::Accept));
        }),
        edit("a lane that said it had finished", |end| {
            end.stopped_by = Some(BackendStop::Finished);
            end.exit_code = None;
            end.signal = Some(15);
        }),
    ];
    let fine: Vec<_> = fine
        .into_iter()
        .map(|(what, edit)| (what, passed_with(&edit).seal()))
        .collect();
    agree(&fine, true);
}
