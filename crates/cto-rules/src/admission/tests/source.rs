//! The truth table of this record.

use cto_contract::admission::{AdmissionStatus, ExecutionMode};
use cto_contract::words::{MutationMode, SourceAdmissionStatus};

use super::*;

#[test]
fn a_source_is_admitted_by_a_record_that_allows_the_mode_and_stands() {
    use SourceAdmissionStatus::{Admitted, NotAdmitted, Stale};
    type Twist = fn(&mut Records);
    let table: &[(&str, u8, Twist, SourceAdmissionStatus)] = &[
        ("as it is", 3, |_| {}, Admitted),
        ("signed above", 5, |_| {}, Admitted),
        ("none", 3, |r| r.sources.clear(), NotAdmitted),
        (
            "another lane's",
            3,
            |r| r.sources[0].record.lane = Lane::Pi,
            NotAdmitted,
        ),
        (
            "refused",
            3,
            |r| r.sources[0].record.status = AdmissionStatus::NotAdmitted,
            NotAdmitted,
        ),
        (
            "one refuses",
            3,
            |r| {
                r.sources.push(source(Lane::Codex));
                r.sources[1].record.status = AdmissionStatus::NotAdmitted;
            },
            NotAdmitted,
        ),
        (
            "planning only",
            3,
            |r| {
                r.sources[0].record.allowed_execution_modes = [ExecutionMode::PlanningOnly].into();
            },
            NotAdmitted,
        ),
        (
            "stale",
            3,
            |r| r.sources[0].record.review_trigger = "by 2026-05-01".parse().unwrap(),
            Stale,
        ),
        (
            "a second that stands",
            3,
            |r| {
                r.sources.insert(0, source(Lane::Codex));
                r.sources[0].record.review_trigger = "by 2026-05-01".parse().unwrap();
            },
            Admitted,
        ),
        (
            "unsigned at 3",
            3,
            |r| r.sources[0].seal = AdmissionSeal::Unsigned,
            Admitted,
        ),
        (
            "unsigned at 4",
            4,
            |r| r.sources[0].seal = AdmissionSeal::Unsigned,
            NotAdmitted,
        ),
        (
            "no licence at 4",
            4,
            |r| r.sources[0].record.licence_note = "unresolved: asked".parse().unwrap(),
            Admitted,
        ),
        (
            "no licence at 5",
            5,
            |r| r.sources[0].record.licence_note = "Unresolved".parse().unwrap(),
            NotAdmitted,
        ),
        (
            "broken",
            3,
            |r| {
                r.sources.clear();
                r.bad
                    .push(bad(AdmissionKind::Source, Some(Lane::Codex), None));
            },
            NotAdmitted,
        ),
    ];
    for (name, number, twist, expected) in table {
        let mut records = good(Lane::Codex);
        twist(&mut records);
        let mode = Some(stage(*number).mode());
        let verdict = judge_source(&records, Lane::Codex, mode, moment(*number));
        assert_eq!(verdict.status, *expected, "{name}: {}", verdict.why);
        let is_admitted = *expected == Admitted;
        assert_eq!(
            (verdict.used.is_some(), verdict.why.is_empty()),
            (is_admitted, is_admitted),
            "{name}"
        );
        assert_eq!(
            name == &"broken",
            verdict.why.contains("x.json:3:1"),
            "{name}"
        );
    }
    // What a contract asks for counts, not what its stage could go to.
    let mut records = good(Lane::Codex);
    records.sources[0].record.allowed_execution_modes = [ExecutionMode::CopiedFixture].into();
    let at_4 = |mode| judge_source(&records, Lane::Codex, mode, moment(4)).status;
    assert_eq!(at_4(Some(MutationMode::CopiedFixture)), Admitted);
    assert_eq!(at_4(None), NotAdmitted);
}
