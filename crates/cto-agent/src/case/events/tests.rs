use proptest::prelude::*;

use super::*;

const OK: &str = include_str!("../../../tests/case-events/ok.jsonl");
const CLOSED_CLOSER: &str = include_str!("../../../tests/case-events/noclose.jsonl");
const CRITICAL: &str = include_str!("../../../tests/case-events/reviewer-critical.jsonl");
const REVISION: &str = include_str!("../../../tests/case-events/revision.jsonl");
const UNAUTHORISED: &str = include_str!("../../../tests/case-events/401.jsonl");

fn decode(chunks: &[&[u8]]) -> (Vec<CaseNews>, PipelineWords) {
    let mut events = CaseEvents::default();
    let news = chunks.iter().flat_map(|chunk| events.feed(chunk)).collect();
    (news, events.finish())
}

fn words(text: &str) -> PipelineWords {
    decode(&[text.as_bytes()]).1
}

/// The words in short: phases with what speaks against them, then the faults.
fn short(text: &str) -> String {
    let words = words(text);
    let phases = words.phases.iter().map(|p| {
        let mut line = format!("{} {}", p.phase, p.status);
        if p.critical > 0 {
            line += &format!(" critical={}", p.critical);
        }
        for rubric in &p.failed_rubrics {
            line += &format!(" !{rubric}");
        }
        if let Some(error) = &p.error {
            line += &format!(" ({error})");
        }
        line
    });
    let end = match words.ended {
        true => "ended",
        false => "not ended",
    };
    let fault = words.fault.map(|fault| fault.to_string());
    let parts: Vec<String> = phases.chain([end.to_owned()]).chain(fault).collect();
    parts.join("; ")
}

#[test]
fn the_recorded_runs_give_the_last_end_of_each_phase() {
    insta::assert_snapshot!(short(OK), @"implement completed; verify completed; review completed; ended");
    insta::assert_snapshot!(short(CLOSED_CLOSER), @"implement completed; verify completed; review completed; ended");
    insta::assert_snapshot!(short(CRITICAL), @"implement completed; verify completed; review completed critical=1; ended");
    insta::assert_snapshot!(short(REVISION), @"implement completed; verify completed; review completed !pattern-fit; ended");
    insta::assert_snapshot!(short(UNAUTHORISED), @"implement failed (AGENT_RESULT start delimiter not found); ended");
}

#[test]
fn a_watcher_is_told_the_plan_the_phases_and_the_revisions() {
    let (news, _) = decode(&[REVISION.as_bytes()]);
    let plan = ["implement", "verify", "review", "close", "retrospective"];
    assert_eq!(news[0], CaseNews::Plan(plan.map(str::to_owned).into()));
    assert_eq!(news[1], CaseNews::PhaseStarted("implement".to_owned()));
    let revisions = news
        .iter()
        .filter(|n| matches!(n, CaseNews::RevisionRequested(_)));
    assert_eq!(revisions.count(), 2);
}

#[test]
fn findings_of_any_shape_count_unless_they_are_plainly_none() {
    let critical = |value: &str| {
        let line = format!(
            r#"{{"event":"phase_end","phase":"review","outcome":"completed","result":{{"status":"completed","findings":{{"critical":{value}}}}}}}"#
        );
        words(&format!("{line}\n")).phases[0].critical
    };
    for none in ["0", "0.0", "null", "false", "\"0\"", "\"\"", "[]"] {
        assert_eq!(critical(none), 0, "{none}");
    }
    for some in [
        "1", "-1", "0.5", "\"2\"", "\"none\"", "true", "{}", "[1]", "1e99",
    ] {
        assert!(critical(some) > 0, "{some}");
    }
}

#[test]
fn a_verdict_that_is_no_pass_counts_as_failed() {
    let failed = |verdict: &str| {
        let line = format!(
            r#"{{"event":"phase_end","phase":"review","outcome":"completed","result":{{"status":"completed","rubric":{{"categories":[{{"category":"c","verdict":{verdict}}}]}}}}}}"#
        );
        !words(&format!("{line}\n")).phases[0]
            .failed_rubrics
            .is_empty()
    };
    for passing in ["\"pass\"", "\"na\"", "\"N/A\"", "\" Pass \""] {
        assert!(!failed(passing), "{passing}");
    }
    for failing in ["\"fail\"", "\"failed\"", "\"\"", "null", "1", "{}"] {
        assert!(failed(failing), "{failing}");
    }
}

#[test]
fn a_cut_an_overlong_and_a_broken_line_make_the_file_unreadable() {
    let cut = &OK[..OK.len() - 20];
    let overlong = format!("{{\"event\":\"{}\"}}\n{OK}", "x".repeat(EVENT_BYTES_MAX));
    for text in [cut, &overlong, &format!("nonsense\n{OK}"), "{}\n"] {
        let words = words(text);
        assert_eq!(words.fault, Some(EventFileFault::Unreadable));
        assert!(words.malformed > 0);
    }
}

#[test]
fn a_file_that_does_not_begin_at_its_beginning_took_the_place_of_another() {
    assert_eq!(words(OK).fault, None);
    for gone in [1, 2, 10] {
        let rest: Vec<&str> = OK.lines().skip(gone).collect();
        let rest = format!("{}\n", rest.join("\n"));
        assert_eq!(
            words(&rest).fault,
            Some(EventFileFault::Rewritten),
            "{gone}"
        );
    }
}

#[test]
fn a_phase_that_says_nothing_of_its_result_has_failed() {
    let line = r#"{"event":"phase_end","phase":"review","outcome":"completed"}"#;
    assert_eq!(
        words(&format!("{line}\n")).phases[0].status,
        PhaseStatus::Failed
    );
    let line = r#"{"event":"phase_end","phase":"review","outcome":"failed","result":{"status":"completed"}}"#;
    assert_eq!(
        words(&format!("{line}\n")).phases[0].status,
        PhaseStatus::Failed
    );
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same(cuts in proptest::collection::vec(0_usize..OK.len(), 0..8)) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut chunks = Vec::new();
        let mut from = 0;
        for cut in cuts {
            chunks.push(&OK.as_bytes()[from..cut]);
            from = cut;
        }
        chunks.push(&OK.as_bytes()[from..]);
        prop_assert_eq!(decode(&chunks), decode(&[OK.as_bytes()]));
    }

    #[test]
    fn any_bytes_are_read_without_panic_and_kept_within_bounds(
        bytes in proptest::collection::vec(any::<u8>(), 0..2_000),
    ) {
        let (_, words) = decode(&[&bytes]);
        prop_assert!(words.phases.len() <= 3);
    }

    #[test]
    fn what_follows_never_takes_back_that_the_file_can_not_be_relied_on(
        before in "[a-z]{1,20}",
    ) {
        let text = format!("{before}\n{OK}");
        prop_assert_eq!(words(&text).fault, Some(EventFileFault::Unreadable));
    }
}
