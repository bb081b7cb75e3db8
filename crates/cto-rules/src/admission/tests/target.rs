//! The truth table of this record.

use cto_contract::admission::AdmissionStatus;
use cto_contract::blocker::BlockerCode;
use cto_contract::path::PathPattern;
use cto_contract::words::TargetAdmissionStatus;

use super::*;

#[test]
fn a_target_has_one_blocker_for_each_gate() {
    use BlockerCode as B;
    use TargetAdmissionStatus as S;
    type Twist = fn(&mut Stored<TargetAdmission>);
    let table: &[(&str, Twist, &[B], S)] = &[
        ("as it is", |_| {}, &[], S::Admitted),
        (
            "refused",
            |t| t.record.admission_status = AdmissionStatus::NotAdmitted,
            &[B::TargetNotAdmitted],
            S::NotAdmitted,
        ),
        (
            "unowned",
            |t| t.record.ownership_evidence = " ".parse().unwrap(),
            &[B::UnownedRepository],
            S::Admitted,
        ),
        (
            "critical",
            |t| t.record.risk_classification = "production".parse().unwrap(),
            &[B::CriticalRepository],
            S::Admitted,
        ),
        (
            "no class",
            |t| t.record.risk_classification = "".parse().unwrap(),
            &[B::CriticalRepository],
            S::Admitted,
        ),
        (
            "no paths",
            |t| t.record.allowed_paths.clear(),
            &[B::AllowedPathsMissing, B::TargetScopeExceeded],
            S::Admitted,
        ),
        (
            "nine actions",
            |t| t.record.forbidden_actions = [cto_contract::words::Action::Push].into(),
            &[B::ForbiddenActionsMissing],
            S::Admitted,
        ),
        (
            "no source",
            |t| t.record.approval_source = "".parse().unwrap(),
            &[B::ApprovalSourceMissing],
            S::Admitted,
        ),
        (
            "no time",
            |t| t.record.approval_timestamp = "".parse().unwrap(),
            &[B::ApprovalSourceMissing],
            S::Admitted,
        ),
        (
            "no outcome",
            |t| t.record.operator_outcome_required = false,
            &[B::OperatorOutcomeRequirementMissing],
            S::Admitted,
        ),
        (
            "moved",
            |t| t.record.target_repository_path = "/srv/other".parse().unwrap(),
            &[B::TargetNotAdmitted],
            S::Stale,
        ),
        (
            "stale",
            |t| t.record.review_trigger = "2026-05-31".parse().unwrap(),
            &[B::TargetNotAdmitted],
            S::Stale,
        ),
        (
            "unsigned",
            |t| t.seal = AdmissionSeal::Unsigned,
            &[B::TargetNotAdmitted],
            S::NotAdmitted,
        ),
        (
            "narrower",
            |t| t.record.allowed_paths = vec!["src/lib/".parse().unwrap()],
            &[B::TargetScopeExceeded],
            S::Admitted,
        ),
        (
            "all of it",
            |t| t.record.allowed_paths = vec!["**".parse().unwrap()],
            &[],
            S::Admitted,
        ),
    ];
    let wanted: Vec<PathPattern> = ["src/a.py", "src/*.py", "README.md"]
        .map(|p| p.parse().unwrap())
        .into();
    let judge = |found: &NamedRecord<TargetAdmission>| {
        judge_target(TargetFacts {
            found,
            path: Some("/srv/t"),
            allowed_paths: &wanted,
            moment: moment(3),
        })
    };
    for (name, twist, expected, status) in table {
        let mut record = target();
        twist(&mut record);
        let verdict = judge(&NamedRecord::Record(Box::new(record)));
        let codes: Vec<B> = verdict.blockers.iter().map(|b| b.code).collect();
        assert_eq!(
            (codes.as_slice(), verdict.status),
            (*expected, *status),
            "{name}"
        );
        assert!(
            !verdict.blockers.iter().any(|b| b.message.contains("/srv")),
            "{name}"
        );
    }
    let alone = |found| {
        let verdict = judge(&found);
        (verdict.blockers[0].code, verdict.status)
    };
    assert_eq!(
        alone(NamedRecord::Missing),
        (B::TargetAdmissionMissing, S::Missing)
    );
    assert_eq!(
        alone(NamedRecord::Invalid("line 2".into())),
        (B::TargetAdmissionInvalid, S::Invalid)
    );
    let Admission::Target(template) = Admission::template(AdmissionKind::Target, Lane::Case) else {
        panic!()
    };
    let skeleton = Stored {
        record: template,
        digest: digest("cd"),
        seal: AdmissionSeal::Unsigned,
    };
    assert!(
        judge(&NamedRecord::Record(Box::new(skeleton)))
            .blockers
            .len()
            >= 6
    );
}
