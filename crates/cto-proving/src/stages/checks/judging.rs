//! What must hold of a run, in small sentences that the tables put together.

use cto_contract::blocker::{BlockerCode as Code, Moment};
use cto_contract::event::EventType;
use cto_contract::words::{Lane, MutationMode, RunStatus, Stage};

use super::super::facts::{Gathered, RunFacts};

pub(super) fn need(holds: bool, sentence: &str) -> Vec<String> {
    match holds {
        true => Vec::new(),
        false => vec![sentence.to_owned()],
    }
}

/// Judges one run. One that is not there is judged by [`EVERY`] alone where it left nothing, and here where nobody ran it.
pub(super) fn of(
    seen: &Gathered,
    name: &str,
    judge: impl Fn(&RunFacts) -> Vec<String>,
) -> Vec<String> {
    match seen.runs.get(name) {
        Some(run) => judge(run),
        None if seen.broken.contains_key(name) => Vec::new(),
        None => vec![format!("`{name}` was not run")],
    }
}

pub(super) fn of_named(
    seen: &Gathered,
    judge: impl Fn(&str, &RunFacts) -> Vec<String>,
) -> Vec<String> {
    let runs = seen.runs.iter();
    runs.flat_map(|(name, run)| {
        let wrong = judge(name, run).into_iter();
        wrong.map(move |why| format!("{name}: {why}"))
    })
    .collect()
}

pub(super) fn of_all(seen: &Gathered, judge: impl Fn(&RunFacts) -> Vec<String>) -> Vec<String> {
    of_named(seen, |_, run| {
        let ruler = run.fake.as_deref().map(&judge).unwrap_or_default();
        [judge(run), ruler].concat()
    })
}

/// Status, blockers and exit code.
pub(super) fn ends(
    run: &RunFacts,
    status: RunStatus,
    codes: &[Code],
    exit_code: i32,
) -> Vec<String> {
    let verdict = &run.report.verdict;
    let told: Vec<String> = verdict
        .blockers
        .iter()
        .map(|b| format!("{}: {}", b.code, b.message))
        .collect();
    let is_so = verdict.status == status && run.codes() == codes;
    [
        match is_so {
            true => Vec::new(),
            false => vec![format!("{} with [{}]", verdict.status, told.join("; "))],
        },
        need(
            run.exit_code == Some(exit_code),
            "another exit code than its status has",
        ),
    ]
    .concat()
}

/// Ended with this blocker, first and with the status of its row.
pub(super) fn refused(run: &RunFacts, code: Code) -> Vec<String> {
    let started = run.report.backend.backend_process_started;
    let moment = match started {
        true => Moment::AfterStart,
        false => Moment::BeforeStart,
    };
    let status = code.status_at(moment);
    let is_first = run.codes().first() == Some(&code);
    let verdict = &run.report.verdict;
    let told: Vec<&str> = verdict.blockers.iter().map(|b| b.code.as_str()).collect();
    [
        match verdict.status == status && is_first {
            true => Vec::new(),
            false => vec![format!(
                "{} with {told:?}, not {status} with {code}",
                verdict.status
            )],
        },
        need(
            run.exit_code == Some(i32::from(verdict.status.exit_code())),
            "another exit code than its status has",
        ),
    ]
    .concat()
}

/// Refused by a gate: nothing was started, nothing changed.
pub(super) fn blocked(run: &RunFacts, code: Code) -> Vec<String> {
    [refused(run, code), never_started(run)].concat()
}

/// Refused once it was clear that there is nothing to start.
pub(super) fn unstarted(run: &RunFacts, code: Code) -> Vec<String> {
    let report = &run.report;
    [
        refused(run, code),
        need(
            report.verdict.status == RunStatus::Blocked,
            "it is not blocked",
        ),
        need(
            !report.backend.case_process_started,
            "a process was started",
        ),
        need(
            !run.events.contains(&EventType::BackendStarted),
            "`backend.started` is in the log",
        ),
        need(report.change.changed_files.is_empty(), "something changed"),
    ]
    .concat()
}

pub(super) fn failed(run: &RunFacts, code: Code) -> Vec<String> {
    let wrong = refused(run, code);
    let not_fail = need(
        run.report.verdict.status == RunStatus::Fail,
        "it did not fail",
    );
    [wrong, not_fail].concat()
}

/// Closed by its gates: only the blockers of the gates, no mode, no scope.
pub(super) fn closed(run: &RunFacts, codes: &[Code]) -> Vec<String> {
    let authority = &run.report.authority;
    let is_none = authority.mutation_mode == MutationMode::None
        && authority.allowed_mutation_scope == Stage::FIRST.scope();
    // Records that a closed lane would need too stand beside the gates.
    let gates: Vec<Code> = run
        .codes()
        .into_iter()
        .filter(|code| matches!(code, Code::GateMissing | Code::StageGateMissing))
        .collect();
    [
        need(
            run.report.verdict.status == RunStatus::Blocked,
            "it is not blocked",
        ),
        need(run.exit_code == Some(3), "another exit code than 3"),
        need(
            gates == codes,
            "other gates than the closed ones are missing",
        ),
        need(is_none, "mode or scope is not `none`"),
        never_started(run),
    ]
    .concat()
}

pub(super) fn never_started(run: &RunFacts) -> Vec<String> {
    let report = &run.report;
    let has = |event: EventType| run.events.contains(&event);
    [
        need(
            !report.backend.case_process_started,
            "a process was started",
        ),
        need(run.has_gate_log, "the log of the gate is missing"),
        need(
            has(EventType::BackendGateBlocked),
            "`backend.gate.blocked` is missing",
        ),
        need(
            !has(EventType::PlanUpdated),
            "something was copied and planned",
        ),
        need(
            !has(EventType::BackendStarted),
            "`backend.started` is in the log",
        ),
        need(
            report.change.baseline_tree_id.is_none(),
            "a tree was copied",
        ),
        need(report.change.changed_files.is_empty(), "something changed"),
    ]
    .concat()
}

pub(super) fn writes_a_copy(run: &RunFacts, stage: Stage) -> Vec<String> {
    let authority = &run.report.authority;
    [
        need(
            authority.mutation_mode == MutationMode::CopiedFixture,
            "another mutation mode",
        ),
        need(
            authority.allowed_mutation_scope == stage.scope(),
            "another scope",
        ),
        need(
            run.report.change.allowed_writes_passed == Some(true),
            "writes were not in bounds",
        ),
        need(
            run.report.backend.case_process_started,
            "no process was started",
        ),
    ]
    .concat()
}

/// The required order, as page 2 has it.
const SPINE: [EventType; 10] = [
    EventType::RunStarted,
    EventType::TaskContractCreated,
    EventType::EligibilityDecided,
    EventType::PlanUpdated,
    EventType::BackendStarted,
    EventType::BackendFinished,
    EventType::PatchApplied,
    EventType::GitDiffChecked,
    EventType::VerificationCompleted,
    EventType::RunCompleted,
];

pub(super) fn whole_log(run: &RunFacts) -> Vec<String> {
    let mut at = run.events.iter();
    let missing = SPINE
        .iter()
        .find(|wanted| !at.any(|event| event == *wanted));
    match missing {
        None => Vec::new(),
        Some(event) => vec![format!("`{event}` is missing or out of order")],
    }
}

pub(super) fn matches_fake(run: &RunFacts) -> Vec<String> {
    let Some(compared) = &run.report.authority.baseline_comparison else {
        return vec!["it was not compared with `fake`".to_owned()];
    };
    let Some(fake) = run.fake.as_deref() else {
        return vec!["the run of `fake` left no pack".to_owned()];
    };
    let differs = compared.differences();
    let report = &fake.report;
    let is_child = report.run.parent_run_id.as_ref() == Some(&run.report.run.run_id)
        && report.run.case_id == run.report.run.case_id
        && report.backend.backend == Lane::Fake
        && report.verdict.status == RunStatus::Pass;
    [
        need(
            is_child,
            "the run of `fake` is not a passed child on the same case",
        ),
        match differs.is_empty() {
            true => Vec::new(),
            false => vec![format!("differs from `fake` in {}", differs.join(", "))],
        },
    ]
    .concat()
}

pub(super) fn names_no_target(run: &RunFacts) -> Vec<String> {
    let Some(proof) = &run.no_target else {
        return vec!["the pack holds no inspection".to_owned()];
    };
    let inspected = &proof.inspected;
    [
        need(
            proof.head.passed && proof.head.errors.is_empty(),
            "the inspection did not pass",
        ),
        need(!proof.target_repository_path_found, "a target is named"),
        need(!proof.sought.is_empty(), "nothing was looked for"),
        need(
            !inspected.task_contract.searched.is_empty(),
            "the contract was not searched",
        ),
        need(
            !inspected.command_arguments.searched.is_empty(),
            "the arguments were not searched",
        ),
        need(
            !inspected.environment.searched.is_empty(),
            "the environment was not searched",
        ),
        need(
            !proof.writable_roots.is_empty(),
            "no writable roots are named",
        ),
    ]
    .concat()
}
