//! The checks of each stage: a name and what must hold of the gathered runs. Pure, so that each can be shown to go red.

use cto_contract::blocker::{BlockerCode as Code, Moment};
use cto_contract::event::EventType;
use cto_contract::words::{Lane, MutationMode, RunStatus, Stage};
use cto_rules::views::proofs::copied_repo_errors;

use super::facts::{Gathered, RunFacts};

/// The honest run of a stage.
pub const PASS: &str = "pass";

/// One check.
pub struct Check {
    pub name: &'static str,
    holds: fn(&Gathered) -> Vec<String>,
}

impl Check {
    /// What does not hold, a sentence each.
    pub fn errors(&self, seen: &Gathered) -> Vec<String> {
        (self.holds)(seen)
    }
}

/// The checks of a stage.
pub fn checks(stage: Stage) -> Vec<Check> {
    let mut all: Vec<Check> = match stage.number() {
        1 => STAGE_1.iter().map(Row::check).collect(),
        2 => STAGE_2.iter().map(Row::check).collect(),
        _ => STAGE_3.iter().map(Row::check).collect(),
    };
    all.extend(EVERY.iter().map(Row::check));
    all
}

struct Row(&'static str, fn(&Gathered) -> Vec<String>);

impl Row {
    fn check(&self) -> Check {
        Check {
            name: self.0,
            holds: self.1,
        }
    }
}

/// Hold at every stage.
const EVERY: &[Row] = &[
    Row("every_run_left_a_pack", |seen| {
        let broken = seen.broken.iter();
        broken.map(|(run, why)| format!("{run}: {why}")).collect()
    }),
    Row("every_pack_verifies", |seen| {
        of_all(seen, |run| run.verify_errors.clone())
    }),
    Row("every_pack_is_conformance", |seen| {
        of_all(seen, |run| {
            need(run.report.run.conformance, "not marked as conformance")
        })
    }),
    Row("every_run_says_its_lane_and_stage", |seen| {
        let asked = |name: &str| match name {
            "fake-is-the-default" | "artifact-write-failure" | "missing-event"
                if seen.stage == Stage::FIRST =>
            {
                (Lane::Fake, Stage::FIXTURE)
            }
            "missing-stage-gate" | "provider-unavailable" if seen.stage == Stage::FIRST => {
                (seen.lane, Stage::FIXTURE)
            }
            _ => (seen.lane, seen.stage),
        };
        of_named(seen, |name, run| {
            let (lane, stage) = asked(name);
            need(
                run.report.backend.backend == lane && run.report.authority.stage == stage,
                "another lane or stage than was asked for",
            )
        })
    }),
    Row("nothing_around_the_runs_changed", |seen| {
        seen.outside.clone()
    }),
    Row("the_stage_below_holds", |seen| {
        need(seen.below_ok, "the stage below was not validated")
    }),
];

const STAGE_1: &[Row] = &[
    Row("fake_is_the_default", |seen| {
        let default = need(
            seen.known.default.as_deref() == Some(Lane::Fake.as_str()),
            "another default than `fake`",
        );
        let passed = of(seen, "fake-is-the-default", |run| {
            ends(run, RunStatus::Pass, &[], 0)
        });
        [default, passed].concat()
    }),
    Row("registry_knows_the_gate", |seen| {
        need(
            seen.known.gate == seen.lane.gate(),
            "`cto engines` does not name the lane's gate",
        )
    }),
    Row("usage_knows_the_lane", |seen| {
        need(seen.known.in_usage, "the help does not name the lane")
    }),
    Row("arguments_are_validated", |seen| {
        need(
            seen.known.unknown_refused,
            "a word that is no lane is not refused as wrong use",
        )
    }),
    Row("blocked_without_the_gate", |seen| {
        of(seen, "gate-absent", |run| {
            closed(run, &[Code::GateMissing, Code::StageGateMissing])
        })
    }),
    Row("blocked_by_another_value_of_the_gate", |seen| {
        of(seen, "gate-not-exact", |run| {
            closed(run, &[Code::GateMissing, Code::StageGateMissing])
        })
    }),
    Row("blocked_with_the_gate_alone", |seen| {
        of(seen, "gate-alone", |run| {
            closed(run, &[Code::StageGateMissing])
        })
    }),
    Row("blocked_at_stage_one", |seen| {
        of(seen, "stage-one", |run| {
            closed(run, &[Code::StageGateMissing])
        })
    }),
    Row("blocked_when_the_flag_asks_for_more", |seen| {
        of(seen, "missing-stage-gate", |run| {
            blocked(run, Code::StageGateMissing)
        })
    }),
    Row("provider_unavailable_is_closed", |seen| {
        of(seen, "provider-unavailable", |run| {
            unstarted(run, Code::ProviderUnavailable)
        })
    }),
    Row("missing_event_is_closed", |seen| {
        of(seen, "missing-event", |run| {
            failed(run, Code::MissingRequiredEvent)
        })
    }),
    Row("artifact_write_failure_is_closed", |seen| {
        of(seen, "artifact-write-failure", |run| {
            refused(run, Code::ArtifactWriteFailure)
        })
    }),
];

const STAGE_2: &[Row] = &[
    Row("pass", |seen| {
        of(seen, PASS, |run| ends(run, RunStatus::Pass, &[], 0))
    }),
    Row("pass_writes_the_copy_alone", |seen| {
        of(seen, PASS, |run| writes_a_copy(run, Stage::FIXTURE))
    }),
    Row("pass_has_every_required_event", |seen| {
        of(seen, PASS, whole_log)
    }),
    Row("fake_baseline_matches", |seen| of(seen, PASS, matches_fake)),
    Row("no_target_inspection", |seen| {
        of(seen, PASS, names_no_target)
    }),
    Row("no_diff_is_closed", |seen| {
        of(seen, "no-diff", |run| failed(run, Code::NoDiff))
    }),
    Row("disallowed_file_is_closed", |seen| {
        of(seen, "disallowed-file", |run| {
            failed(run, Code::DisallowedFileChange)
        })
    }),
    Row("failed_tests_are_closed", |seen| {
        of(seen, "failed-tests", |run| {
            failed(run, Code::VerificationFailed)
        })
    }),
    Row("missing_test_command_is_closed", |seen| {
        of(seen, "missing-test-command", |run| {
            refused(run, Code::MissingTestCommand)
        })
    }),
    Row("missing_event_is_closed", |seen| {
        of(seen, "missing-event", |run| {
            failed(run, Code::MissingRequiredEvent)
        })
    }),
    Row("provider_unavailable_is_closed", |seen| {
        of(seen, "provider-unavailable", |run| {
            unstarted(run, Code::ProviderUnavailable)
        })
    }),
    Row("missing_stage_gate_is_closed", |seen| {
        of(seen, "missing-stage-gate", |run| {
            blocked(run, Code::StageGateMissing)
        })
    }),
];

const STAGE_3: &[Row] = &[
    Row("pass", |seen| {
        of(seen, PASS, |run| ends(run, RunStatus::Pass, &[], 0))
    }),
    Row("pass_writes_the_copy_alone", |seen| {
        of(seen, PASS, |run| {
            writes_a_copy(run, Stage::COPIED_REPOSITORY)
        })
    }),
    Row("pass_has_every_required_event", |seen| {
        of(seen, PASS, whole_log)
    }),
    Row("no_target_inspection", |seen| {
        of(seen, PASS, names_no_target)
    }),
    Row("source_is_left_as_it_was", |seen| {
        of(seen, PASS, |run| match &run.copied_repo {
            None => vec!["the pack holds no proof of the copied repository".to_owned()],
            Some(proof) => {
                let said = need(proof.head.passed, "the proof says that it did not pass");
                [said, copied_repo_errors(proof)].concat()
            }
        })
    }),
    Row("dirty_source_is_closed", |seen| {
        of(seen, "dirty-source", |run| {
            unstarted(run, Code::DirtyStartingTree)
        })
    }),
    Row("dirty_copy_start_is_closed", |seen| {
        of(seen, "dirty-copy-start", |run| {
            let claimed = run
                .copied_repo
                .as_ref()
                .is_some_and(|proof| proof.head.passed);
            [
                refused(run, Code::DirtyStartingTree),
                need(!claimed, "its proof says that it passed"),
            ]
            .concat()
        })
    }),
    Row("dirty_copy_end_is_closed", |seen| {
        of(seen, "dirty-copy-end", |run| {
            let proof = run.copied_repo.as_ref();
            let claimed = proof.is_none_or(|proof| {
                proof.head.passed || proof.copied_fixture_ending_clean == Some(true)
            });
            [
                failed(run, Code::DirtyEndingTree),
                need(!claimed, "its proof says that the end was clean"),
            ]
            .concat()
        })
    }),
    Row("timeout_is_closed", |seen| {
        of(seen, "timeout", |run| refused(run, Code::Timeout))
    }),
    Row("artifact_write_failure_is_closed", |seen| {
        of(seen, "artifact-write-failure", |run| {
            refused(run, Code::ArtifactWriteFailure)
        })
    }),
    Row("disallowed_file_is_closed", |seen| {
        of(seen, "disallowed-file", |run| {
            failed(run, Code::DisallowedFileChange)
        })
    }),
    Row("failed_tests_are_closed", |seen| {
        of(seen, "failed-tests", |run| {
            failed(run, Code::VerificationFailed)
        })
    }),
    Row("missing_event_is_closed", |seen| {
        of(seen, "missing-event", |run| {
            failed(run, Code::MissingRequiredEvent)
        })
    }),
    Row("missing_stage_gate_is_closed", |seen| {
        of(seen, "missing-stage-gate", |run| {
            blocked(run, Code::StageGateMissing)
        })
    }),
];

fn need(holds: bool, sentence: &str) -> Vec<String> {
    match holds {
        true => Vec::new(),
        false => vec![sentence.to_owned()],
    }
}

/// Judges one run. One that is not there is judged by [`EVERY`] alone where it left nothing, and here where nobody ran it.
fn of(seen: &Gathered, name: &str, judge: impl Fn(&RunFacts) -> Vec<String>) -> Vec<String> {
    match seen.runs.get(name) {
        Some(run) => judge(run),
        None if seen.broken.contains_key(name) => Vec::new(),
        None => vec![format!("`{name}` was not run")],
    }
}

fn of_named(seen: &Gathered, judge: impl Fn(&str, &RunFacts) -> Vec<String>) -> Vec<String> {
    let runs = seen.runs.iter();
    runs.flat_map(|(name, run)| {
        let wrong = judge(name, run).into_iter();
        wrong.map(move |why| format!("{name}: {why}"))
    })
    .collect()
}

fn of_all(seen: &Gathered, judge: impl Fn(&RunFacts) -> Vec<String>) -> Vec<String> {
    of_named(seen, |_, run| {
        let ruler = run.fake.as_deref().map(&judge).unwrap_or_default();
        [judge(run), ruler].concat()
    })
}

/// Status, blockers and exit code.
fn ends(run: &RunFacts, status: RunStatus, codes: &[Code], exit_code: i32) -> Vec<String> {
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
fn refused(run: &RunFacts, code: Code) -> Vec<String> {
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
fn blocked(run: &RunFacts, code: Code) -> Vec<String> {
    [refused(run, code), never_started(run)].concat()
}

/// Refused once it was clear that there is nothing to start.
fn unstarted(run: &RunFacts, code: Code) -> Vec<String> {
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

fn failed(run: &RunFacts, code: Code) -> Vec<String> {
    let wrong = refused(run, code);
    let not_fail = need(
        run.report.verdict.status == RunStatus::Fail,
        "it did not fail",
    );
    [wrong, not_fail].concat()
}

/// Closed by its gates: only the blockers of the gates, no mode, no scope.
fn closed(run: &RunFacts, codes: &[Code]) -> Vec<String> {
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

fn never_started(run: &RunFacts) -> Vec<String> {
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

fn writes_a_copy(run: &RunFacts, stage: Stage) -> Vec<String> {
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

fn whole_log(run: &RunFacts) -> Vec<String> {
    let mut at = run.events.iter();
    let missing = SPINE
        .iter()
        .find(|wanted| !at.any(|event| event == *wanted));
    match missing {
        None => Vec::new(),
        Some(event) => vec![format!("`{event}` is missing or out of order")],
    }
}

fn matches_fake(run: &RunFacts) -> Vec<String> {
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

fn names_no_target(run: &RunFacts) -> Vec<String> {
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
