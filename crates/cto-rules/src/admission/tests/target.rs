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
            &[B::AllowedPathsMissing],
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
        let codes: Vec<B> = verdict.refusals.iter().map(|(_, code, _)| *code).collect();
        assert_eq!(
            (codes.as_slice(), verdict.status),
            (*expected, *status),
            "{name}"
        );
        assert!(
            !verdict
                .refusals
                .iter()
                .any(|(_, _, why)| why.contains("/srv")),
            "{name}"
        );
    }
    let alone = |found| {
        let verdict = judge(&found);
        (verdict.refusals[0].1, verdict.status)
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
            .refusals
            .len()
            >= 6
    );
}

#[test]
fn the_record_about_a_path_is_found_and_one_that_refuses_outweighs_one_that_admits() {
    let at = |path: &str, status, seal| {
        let mut found = target();
        found.record.target_repository_path = path.parse().unwrap();
        found.record.admission_status = status;
        found.seal = seal;
        found
    };
    use AdmissionSeal::{Signed, Unsigned};
    use AdmissionStatus::{Admitted, NotAdmitted};
    let find = |targets: Vec<Stored<TargetAdmission>>, id: Option<&str>| {
        let records = Records {
            targets,
            ..Records::default()
        };
        match find_target(&records, None, (Some("/srv/t"), id)) {
            NamedRecord::Missing => "missing".to_owned(),
            NamedRecord::Invalid(why) => why,
            NamedRecord::Record(found) => format!(
                "{} {} {}",
                found.record.target_repository_path, found.record.admission_status, found.seal
            ),
        }
    };
    let good = || at("/srv/t", Admitted, Signed);
    assert_eq!(find(vec![], None), "missing");
    assert_eq!(find(vec![at("/srv/u", Admitted, Signed)], None), "missing");
    assert_eq!(
        find(vec![at("/srv/t/", Admitted, Unsigned), good()], None),
        "/srv/t admitted signed"
    );
    assert_eq!(
        find(vec![good(), at("/srv/t", NotAdmitted, Unsigned)], None),
        "/srv/t not_admitted unsigned"
    );
    // By its name, where the repository moved: that record is stale then.
    assert_eq!(
        find(vec![at("/old/t", Admitted, Signed)], Some("t")),
        "/old/t admitted signed"
    );
    let records = Records {
        bad: vec![bad(AdmissionKind::Target, None, None)],
        ..Records::default()
    };
    let NamedRecord::Invalid(why) = find_target(&records, None, (Some("/srv/t"), None)) else {
        panic!()
    };
    assert!(
        why.starts_with("x.json:3:1") && !why.contains("unknown field"),
        "{why}"
    );
    // A file that the environment names is the only one.
    let named = NamedRecord::Missing;
    let records = Records {
        targets: vec![good()],
        ..Records::default()
    };
    assert_eq!(
        find_target(&records, Some(&named), (Some("/srv/t"), None)),
        named
    );
}

#[test]
fn what_the_owner_forbids_joins_what_the_contract_forbids_and_nothing_is_taken_away() {
    use cto_contract::words::Action;
    let mut contract = crate::eligibility::tests::contract(Stage::OWNED.mode());
    contract.forbidden_paths = vec!["src/own/".parse().unwrap()];
    contract.forbidden_actions = [Action::Push].into();
    let mut record = target().record;
    record.forbidden_paths = [".git/", "deploy/", "src/own/"]
        .map(|p| p.parse().unwrap())
        .into();
    bound_by_target(&mut contract, &record);
    let paths: Vec<&str> = contract
        .forbidden_paths
        .iter()
        .map(PathPattern::as_str)
        .collect();
    assert_eq!(paths, ["src/own/", "deploy/"]);
    assert_eq!(contract.forbidden_actions.len(), Action::ALL.len());
    let once = contract.clone();
    bound_by_target(&mut contract, &record);
    assert_eq!(contract, once, "the same bounds twice are the same");
}
