use proptest::prelude::*;

use super::*;

fn end(phase: PipelinePhase) -> PhaseWords {
    PhaseWords {
        phase,
        status: PhaseStatus::Completed,
        error: None,
        critical: 0,
        failed_rubrics: Vec::new(),
    }
}

fn good() -> PipelineWords {
    PipelineWords {
        understood: 10,
        ended: true,
        phases: PipelinePhase::ALL.iter().map(|p| end(*p)).collect(),
        ..PipelineWords::default()
    }
}

fn judged(change: impl FnOnce(&mut PipelineWords)) -> String {
    let mut words = good();
    change(&mut words);
    let blockers = phase_blockers(&words).into_iter().chain(rejection(&words));
    let shown = blockers.map(|b| format!("{} ({}): {}", b.code, b.subject, b.message));
    shown.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_backend_whose_phases_all_ended_well_is_judged_by_its_change_alone() {
    assert_eq!(judged(|_| {}), "");
    // A closer that is closed makes the whole a failure, by the backend's own word: it is not asked.
    assert_eq!(judged(|w| w.ended = false), "");
}

#[test]
fn a_reviewer_rejects_by_a_finding_a_rubric_or_its_status() {
    insta::assert_snapshot!(judged(|w| w.phases[2].critical = 2), @"reviewer_rejected (review): the backend's own review rejects the change: 2 critical findings");
    insta::assert_snapshot!(judged(|w| w.phases[2].failed_rubrics = vec!["scope-discipline".into()]), @"reviewer_rejected (review): the backend's own review rejects the change: failed: scope-discipline");
    insta::assert_snapshot!(judged(|w| w.phases[2].failed_rubrics = vec!["pattern-fit".into()]), @"reviewer_rejected (review): the backend's own review rejects the change: failed: pattern-fit");
    insta::assert_snapshot!(judged(|w| w.phases[2].status = PhaseStatus::Failed), @"reviewer_rejected (review): the backend's own review rejects the change: failed, without a reason");
    insta::assert_snapshot!(judged(|w| w.phases[1].status = PhaseStatus::Blocked), @"reviewer_rejected (verify): the backend's own verify rejects the change: blocked, without a reason");
}

#[test]
fn a_missing_envelope_is_a_failure_of_the_protocol_in_any_phase() {
    for index in 0..3 {
        let shown = judged(|w| {
            w.phases[index].status = PhaseStatus::Failed;
            w.phases[index].error = Some("AGENT_RESULT start delimiter not found".into());
        });
        assert!(shown.starts_with("agent_protocol_failed ("), "{shown}");
        assert_eq!(shown.lines().count(), 1, "{shown}");
    }
}

#[test]
fn what_is_missing_or_not_to_be_relied_on_is_a_failure() {
    insta::assert_snapshot!(judged(|w| { w.phases.pop(); }), @"backend_failed (no end of review): review never ended");
    insta::assert_snapshot!(judged(|w| { w.phases.clear(); }), @"backend_failed (no end of implement): implement never ended");
    insta::assert_snapshot!(judged(|w| w.phases[0].status = PhaseStatus::Failed), @"backend_failed (implement failed): implement failed: without a reason");
    for fault in EventFileFault::ALL {
        let shown = judged(|w| w.fault = Some(*fault));
        assert!(shown.starts_with("backend_failed (event file "), "{shown}");
    }
}

proptest! {
    #[test]
    fn only_a_whole_and_clean_file_says_nothing_against_a_change(
        status in prop::sample::select(PhaseStatus::ALL),
        index in 0_usize..3,
        critical in 0_u64..3,
        rubrics in 0_usize..3,
        fault in prop::option::of(prop::sample::select(EventFileFault::ALL)),
    ) {
        let shown = judged(|w| {
            w.phases[index].status = status;
            w.phases[index].critical = critical;
            w.phases[index].failed_rubrics = vec!["c".to_owned(); rubrics];
            w.fault = fault;
        });
        let is_good = status == PhaseStatus::Completed
            && fault.is_none()
            && (index == 0 || (critical == 0 && rubrics == 0));
        prop_assert_eq!(shown.is_empty(), is_good);
    }
}

#[test]
fn its_phases_tell_how_it_ended_once_all_is_over_or_a_result_is_missing() {
    let mut words = good();
    assert!(tells_how_it_ended(&words));
    words.ended = false;
    assert!(!tells_how_it_ended(&words), "it broke off");
    words.phases[0].status = PhaseStatus::Failed;
    assert!(!tells_how_it_ended(&words));
    words.phases[0].error = Some("AGENT_RESULT end delimiter not found".into());
    assert!(tells_how_it_ended(&words));
}
