use EventType as E;
use cto_contract::event::EventType;
use proptest::prelude::*;

use super::*;

/// How a log ends.
#[derive(Debug, Clone, Copy)]
struct Ending {
    status: RunStatus,
    recovered: bool,
}

const PASS: Ending = Ending {
    status: RunStatus::Pass,
    recovered: false,
};
const FAIL: Ending = Ending {
    status: RunStatus::Fail,
    recovered: false,
};
const BLOCKED: Ending = Ending {
    status: RunStatus::Blocked,
    recovered: false,
};
const RECOVERED: Ending = Ending {
    status: RunStatus::Blocked,
    recovered: true,
};

const FULL: [E; 10] = [
    E::RunStarted,
    E::TaskContractCreated,
    E::EligibilityDecided,
    E::PlanUpdated,
    E::BackendStarted,
    E::BackendFinished,
    E::PatchApplied,
    E::GitDiffChecked,
    E::VerificationCompleted,
    E::RunCompleted,
];
const APPROVED: [E; 13] = [
    E::RunStarted,
    E::TaskContractCreated,
    E::EligibilityDecided,
    E::PlanUpdated,
    E::ApprovalRequested,
    E::ApprovalGranted,
    E::ApprovalConsumed,
    E::BackendStarted,
    E::BackendFinished,
    E::PatchApplied,
    E::GitDiffChecked,
    E::VerificationCompleted,
    E::RunCompleted,
];
const GATED: [E; 5] = [
    E::RunStarted,
    E::TaskContractCreated,
    E::EligibilityDecided,
    E::BackendGateBlocked,
    E::RunCompleted,
];
const SIDE: [E; 10] = [
    E::StepStarted,
    E::StepFinished,
    E::SandboxDenied,
    E::BackendPlan,
    E::BackendActivity,
    E::ModelProbed,
    E::ModelUsage,
    E::BackendOutputCapped,
    E::LimitExceeded,
    E::LogRewritten,
];

/// Judges a log that needs an approval exactly if it has one.
fn order(types: &[E], contract_events: &[String], ending: Ending) -> Order {
    judge(&Shape {
        types,
        contract_events,
        approval_required: types.iter().any(|e| is_approval(*e)),
        is_measured: false,
        lacks_approval: false,
        status: ending.status,
        recovered: ending.recovered,
    })
}

fn missing_events(types: &[E], contract_events: &[String], ending: Ending) -> Vec<String> {
    let faults = order(types, contract_events, ending).faults;
    faults.iter().map(EventFault::sentence).collect()
}

fn check(events: &[E], ending: Ending) -> Vec<String> {
    missing_events(events, &[], ending)
}

fn without(events: &[E], at: usize) -> Vec<E> {
    let mut kept = events.to_vec();
    kept.remove(at);
    kept
}

/// The prefix of the path, a recovery and its end.
fn recovered(prefix: &[E], superseded: bool) -> Vec<E> {
    let mut log = prefix.to_vec();
    if superseded {
        log.push(E::RunCompleted);
    }
    log.extend([
        E::StepFinished,
        E::RunRecovered,
        E::StepStarted,
        E::StepFinished,
        E::RunCompleted,
    ]);
    log
}

#[test]
fn a_pass_needs_every_event_in_order() {
    for path in [&FULL[..], &APPROVED[..]] {
        assert_eq!(check(path, PASS), Vec::<String>::new());
        for at in 0..path.len() {
            let found = check(&without(path, at), PASS);
            assert!(
                found.contains(&format!("`{}` is missing", path[at])),
                "{} dropped: {found:?}",
                path[at]
            );
        }
        for at in 0..path.len() - 1 {
            let mut swapped = path.to_vec();
            swapped.swap(at, at + 1);
            assert!(
                !check(&swapped, PASS).is_empty(),
                "{} and {} swapped",
                path[at],
                path[at + 1]
            );
            assert!(
                !check(&swapped, FAIL).is_empty(),
                "{} and {} swapped in a failure",
                path[at],
                path[at + 1]
            );
        }
        for at in 0..path.len() {
            let mut twice = path.to_vec();
            twice.insert(at, path[at]);
            assert!(!check(&twice, PASS).is_empty(), "{} twice", path[at]);
        }
    }
}

#[test]
fn any_other_ending_needs_its_beginning_without_a_gap() {
    for ending in [FAIL, BLOCKED] {
        for path in [&FULL[..], &APPROVED[..]] {
            for cut in 1..path.len() {
                let mut log = path[..cut].to_vec();
                log.push(E::RunCompleted);
                assert_eq!(
                    check(&log, ending),
                    Vec::<String>::new(),
                    "cut after {}",
                    path[cut - 1]
                );
                let is_whole = cut == path.len() - 1;
                assert_eq!(check(&log, PASS).is_empty(), is_whole);
                for (at, gap) in path.iter().enumerate().take(cut - 1) {
                    assert!(
                        !check(&without(&log, at), ending).is_empty(),
                        "{gap} is a gap"
                    );
                }
                assert!(!check(&log[..cut], ending).is_empty(), "no end");
            }
        }
    }
}

#[test]
fn a_gate_needs_its_five_events_and_forbids_what_comes_later() {
    assert_eq!(check(&GATED, BLOCKED), Vec::<String>::new());
    for (at, dropped) in GATED.iter().enumerate() {
        // Without the gate's own event the log looks like a run that stopped early; the verdict's blocker tells.
        if *dropped != E::BackendGateBlocked {
            assert!(
                !check(&without(&GATED, at), BLOCKED).is_empty(),
                "{dropped}"
            );
        }
    }
    for at in 1..GATED.len() {
        let mut swapped = GATED;
        swapped.swap(at - 1, at);
        assert!(!check(&swapped, BLOCKED).is_empty(), "{swapped:?}");
    }
    for late in &FULL[4..9] {
        let mut log = GATED.to_vec();
        log.insert(4, *late);
        assert!(!check(&log, BLOCKED).is_empty(), "{late}");
    }
    assert!(!check(&GATED, PASS).is_empty());
    let denied = [
        E::RunStarted,
        E::TaskContractCreated,
        E::EligibilityDecided,
        E::ApprovalRequested,
        E::ApprovalDenied,
        E::BackendGateBlocked,
        E::RunCompleted,
    ];
    assert_eq!(check(&denied, BLOCKED), Vec::<String>::new());
}

#[test]
fn a_denial_is_terminal() {
    let mut log = APPROVED.to_vec();
    log[5] = E::ApprovalDenied;
    let found = check(&log, FAIL);
    assert!(
        found.contains(&"`backend.started` stands in a log with `approval.denied`".to_owned()),
        "{found:?}"
    );
    assert!(
        found.contains(&"`approval.consumed` stands in a log with `approval.denied`".to_owned()),
        "{found:?}"
    );
    let ended = [&log[..6], &[E::RunCompleted]].concat();
    assert_eq!(check(&ended, BLOCKED), Vec::<String>::new());
    assert!(!check(&ended, PASS).is_empty());
    let both = [&APPROVED[..6], &[E::ApprovalDenied, E::RunCompleted]].concat();
    let sentence = "`approval.granted` stands in a log with `approval.denied`";
    assert!(check(&both, BLOCKED).contains(&sentence.to_owned()));
}

#[test]
fn side_events_may_stand_anywhere_inside() {
    for side in SIDE {
        for at in 0..=FULL.len() {
            let mut log = FULL.to_vec();
            log.insert(at, side);
            let inside = at > 0 && at < FULL.len();
            assert_eq!(check(&log, PASS).is_empty(), inside, "{side} at {at}");
        }
    }
}

#[test]
fn a_recovered_log_is_a_beginning_and_two_more_lines() {
    for path in [&FULL[..9], &APPROVED[..12], &GATED[..4]] {
        for cut in 1..=path.len() {
            for superseded in [false, true] {
                let log = recovered(&path[..cut], superseded);
                assert_eq!(check(&log, RECOVERED), Vec::<String>::new(), "{log:?}");
                assert!(
                    !check(&log, BLOCKED).is_empty(),
                    "recovered without saying so"
                );
                assert!(
                    !check(&log[..log.len() - 1], RECOVERED).is_empty(),
                    "no end"
                );
                for (at, gap) in path.iter().enumerate().take(cut - 1) {
                    assert!(
                        !check(&without(&log, at), RECOVERED).is_empty(),
                        "{gap} is a gap"
                    );
                }
                for late in &FULL[..9] {
                    let mut more = log.clone();
                    more.insert(log.len() - 1, *late);
                    assert!(
                        !check(&more, RECOVERED).is_empty(),
                        "{late} after the recovery"
                    );
                }
            }
        }
    }
    assert!(
        !check(&FULL, RECOVERED).is_empty(),
        "said to be recovered, but is not"
    );
    let pass = Ending {
        status: RunStatus::Pass,
        recovered: true,
    };
    assert!(check(&recovered(&FULL[..9], false), pass).is_empty());
    assert!(!check(&recovered(&FULL[..8], false), pass).is_empty());
    let mut two_ends = recovered(&FULL[..9], false);
    two_ends.push(E::RunCompleted);
    assert!(!check(&two_ends, RECOVERED).is_empty());
}

#[test]
fn a_contract_may_ask_for_more() {
    let extra = [
        "backend.plan".to_owned(),
        "no.such\u{1b}event".to_owned(),
        "run.started".to_owned(),
    ];
    insta::assert_debug_snapshot!(missing_events(&FULL, &extra, PASS), @r#"
    [
        "`backend.plan`, which the contract requires, is missing",
        "`no.such\\u{1b}event`, which the contract requires, is missing and is no known event type",
    ]
    "#);
    assert_eq!(
        missing_events(&FULL, &extra, FAIL).len(),
        2,
        "the answer must not change with the verdict it causes"
    );
    assert_eq!(
        missing_events(&GATED, &extra, BLOCKED),
        Vec::<String>::new()
    );
    let mut log = FULL.to_vec();
    log.insert(5, E::BackendPlan);
    assert_eq!(
        missing_events(&log, &extra[..1], PASS),
        Vec::<String>::new()
    );
}

#[test]
fn sentences_name_what_is_wrong() {
    let mut swapped = FULL.to_vec();
    swapped.swap(6, 7);
    insta::assert_debug_snapshot!(check(&swapped, PASS), @r#"
    [
        "`git.diff.checked` comes before `patch.applied`",
    ]
    "#);
    insta::assert_debug_snapshot!(check(&[], BLOCKED), @r#"
    [
        "`run.completed` is missing",
        "`run.started` is missing",
    ]
    "#);
}

#[test]
fn a_fault_names_its_event_as_data() {
    let found = order(&without(&FULL, 7), &["no.such".to_owned()], PASS).faults;
    insta::assert_snapshot!(serde_json::to_string(&found).unwrap(), @r#"[{"event":"git.diff.checked","problem":"missing"},{"event":"no.such","problem":"unknown_type"}]"#);
    let denied = [
        &APPROVED[..5],
        &[E::ApprovalDenied, E::BackendStarted, E::RunCompleted],
    ]
    .concat();
    let found = order(&denied, &[], FAIL).faults;
    insta::assert_snapshot!(serde_json::to_string(&found).unwrap(), @r#"[{"event":"backend.started","problem":"excluded","other":"approval.denied"}]"#);
}

#[test]
fn an_approval_needs_to_be_asked_for_and_given() {
    let shape = |types| Shape {
        types,
        contract_events: &[],
        approval_required: false,
        is_measured: false,
        lacks_approval: false,
        status: RunStatus::Pass,
        recovered: false,
    };
    let problems = |shape: Shape<'_>| -> Vec<EventProblem> {
        judge(&shape).faults.iter().map(|f| f.problem).collect()
    };
    assert_eq!(problems(shape(&APPROVED)), [EventProblem::NotAskedFor]);
    let needed = Shape {
        approval_required: true,
        ..shape(&FULL)
    };
    assert_eq!(problems(needed), [EventProblem::Missing; 3]);
    let lacking = Shape {
        approval_required: true,
        lacks_approval: true,
        ..shape(&APPROVED)
    };
    assert_eq!(problems(lacking), [EventProblem::WithoutApproval]);
}

#[test]
fn a_measured_run_passes_only_with_its_comparison_and_else_says_why_it_has_none() {
    let shape = |types, status| Shape {
        types,
        contract_events: &[],
        approval_required: false,
        is_measured: true,
        lacks_approval: false,
        status,
        recovered: false,
    };
    let sentences = |shape: &Shape<'_>| -> Vec<String> {
        judge(shape)
            .faults
            .iter()
            .map(EventFault::sentence)
            .collect()
    };
    assert_eq!(
        sentences(&shape(&FULL, RunStatus::Pass)),
        ["`baseline.compared` is missing"]
    );
    let compared = [&FULL[..9], &[E::BaselineCompared, E::RunCompleted]].concat();
    assert_eq!(sentences(&shape(&compared, RunStatus::Pass)), [""; 0]);
    let early = [&FULL[..6], &[E::BaselineCompared, E::RunCompleted]].concat();
    assert_eq!(sentences(&shape(&early, RunStatus::Fail)), [""; 0]);
    let blocked = judge(&shape(&GATED, RunStatus::Blocked));
    assert!(blocked.faults.is_empty());
    let omitted = blocked.omitted.last().map(|o| o.event);
    assert_eq!(omitted, Some(E::BaselineCompared));
}

#[test]
fn the_contracts_own_events_are_not_looked_for_in_a_run_that_stopped_early() {
    let extra = ["sandbox.denied".to_owned()];
    assert_eq!(order(&GATED, &extra, BLOCKED).passed(), None);
    assert_eq!(order(&GATED, &[], BLOCKED).passed(), Some(true));
    assert_eq!(order(&FULL, &extra, PASS).passed(), Some(false));
    assert_eq!(
        order(&without(&GATED, 1), &extra, BLOCKED).passed(),
        Some(false)
    );
    let with = [&FULL[..9], &[E::SandboxDenied, E::RunCompleted]].concat();
    assert_eq!(order(&with, &extra, PASS).passed(), Some(true));
}

fn any_log() -> impl Strategy<Value = Vec<E>> {
    proptest::collection::vec(proptest::sample::select(E::ALL.to_vec()), 0..14)
}

proptest! {
    #[test]
    fn every_event_of_the_path_is_there_missing_or_omitted_and_only_one_of_them(
        types in any_log(),
        status in proptest::sample::select(RunStatus::ALL.to_vec()),
        recovered in any::<bool>(),
        required in any::<bool>(),
    ) {
        let shape = Shape {
            types: &types,
            contract_events: &[],
            approval_required: required,
            is_measured: false,
        lacks_approval: false,
            status,
            recovered,
        };
        let order = judge(&shape);
        prop_assert_eq!(order.passed(), Some(order.faults.is_empty()));
        for event in PATH {
            let is_missing = order.faults.contains(&EventFault::new(event, EventProblem::Missing));
            let is_omitted = order.omitted.iter().any(|o| o.event == event);
            prop_assert!(!(is_missing && is_omitted), "{}", event);
            prop_assert!(types.contains(&event) || is_missing || is_omitted, "{}", event);
        }
        prop_assert!(status != RunStatus::Pass || order.omitted.is_empty());
    }
}
