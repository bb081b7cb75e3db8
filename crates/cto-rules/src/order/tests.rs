use EventType as E;
use cto_contract::event::EventType;

use super::*;

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
const SIDE: [E; 7] = [
    E::StepStarted,
    E::StepFinished,
    E::SandboxDenied,
    E::BackendPlan,
    E::BackendOutputCapped,
    E::LimitExceeded,
    E::LogRewritten,
];

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
    assert!(check(&both, BLOCKED).contains(&"the approval was both granted and denied".to_owned()));
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
