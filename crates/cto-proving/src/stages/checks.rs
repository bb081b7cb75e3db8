//! The checks of each stage: a name and what must hold of the gathered runs. Pure, so that each can be shown to go red.

mod judging;

use cto_contract::blocker::BlockerCode as Code;
use cto_contract::words::{Lane, RunStatus, Stage};
use cto_rules::views::proofs::copied_repo_errors;

use super::facts::Gathered;
use judging::{
    blocked, closed, ends, failed, matches_fake, names_no_target, need, of, of_all, of_named,
    refused, unstarted, whole_log, writes_a_copy,
};

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
