//! The truth table of this record.

use cto_contract::admission::{DecisionStatus, ProviderClass};

use super::*;

#[test]
fn a_decision_fits_its_lane_its_class_and_the_admitted_pair() {
    type Twist = fn(&mut Records);
    fn external(record: &mut ProviderDecision) {
        record.decision_status = DecisionStatus::ExternalProviderApproved;
        record.provider_class = Some(ProviderClass::ExternalOpenaiCodex);
        record.credential_source_class = "oauth".parse().unwrap();
        record.allowed_network_class = "hosted".parse().unwrap();
    }
    fn with_fallback(record: &mut ProviderDecision) {
        (record.provider, record.model) = ("first".parse().unwrap(), "choice".parse().unwrap());
        record.fallback_provider = PROVIDER.parse().unwrap();
        record.fallback_model = MODEL.parse().unwrap();
    }
    let table: &[(&str, Lane, u8, Twist, &str)] = &[
        ("as it is", Lane::Case, 2, |_| {}, ""),
        (
            "none",
            Lane::Case,
            2,
            |r| r.decisions.clear(),
            "nobody decided",
        ),
        (
            "another lane's",
            Lane::Case,
            2,
            |r| r.decisions[0].record.lane = Lane::Pi,
            "nobody decided",
        ),
        (
            "broken",
            Lane::Case,
            2,
            |r| {
                r.decisions.clear();
                r.bad.push(bad(AdmissionKind::Decision, None, None));
            },
            "x.json:3:1",
        ),
        (
            "two",
            Lane::Case,
            2,
            |r| r.decisions.push(decision(Lane::Case)),
            "2 decisions",
        ),
        (
            "not decided",
            Lane::Case,
            2,
            |r| r.decisions[0].record.decision_status = DecisionStatus::NotDecided,
            "not_decided",
        ),
        (
            "no class",
            Lane::Case,
            2,
            |r| r.decisions[0].record.provider_class = None,
            "provider_class",
        ),
        (
            "class of another kind",
            Lane::Case,
            2,
            |r| {
                r.decisions[0].record.provider_class = Some(ProviderClass::ExternalAnthropic);
            },
            "does not fit",
        ),
        (
            "local but not for case",
            Lane::Case,
            2,
            |r| r.decisions[0].record.provider_class = Some(ProviderClass::Local),
            "does not fit",
        ),
        (
            "local for another",
            Lane::Codex,
            4,
            |r| r.decisions[0].record.provider_class = Some(ProviderClass::Local),
            "",
        ),
        (
            "no approval",
            Lane::Case,
            2,
            |r| r.decisions[0].record.approval_source = "".parse().unwrap(),
            "approval_source",
        ),
        (
            "another pair",
            Lane::Case,
            2,
            |r| r.decisions[0].record.model = "other".parse().unwrap(),
            "is asked for",
        ),
        (
            "no admission",
            Lane::Case,
            2,
            |r| r.models.clear(),
            "no admission",
        ),
        (
            "local, by its fallback",
            Lane::Case,
            2,
            |r| with_fallback(&mut r.decisions[0].record),
            "requires the local",
        ),
        (
            "external",
            Lane::Case,
            2,
            |r| external(&mut r.decisions[0].record),
            "",
        ),
        (
            "external, by its fallback",
            Lane::Case,
            2,
            |r| {
                external(&mut r.decisions[0].record);
                with_fallback(&mut r.decisions[0].record);
            },
            "",
        ),
        (
            "external without its network",
            Lane::Case,
            2,
            |r| {
                external(&mut r.decisions[0].record);
                r.decisions[0].record.allowed_network_class = "".parse().unwrap();
            },
            "allowed_network_class",
        ),
        (
            "external without its credentials",
            Lane::Case,
            2,
            |r| {
                external(&mut r.decisions[0].record);
                r.decisions[0].record.credential_source_class = "".parse().unwrap();
            },
            "credential_source_class",
        ),
        (
            "external without a trigger",
            Lane::Case,
            2,
            |r| {
                external(&mut r.decisions[0].record);
                r.decisions[0].record.review_trigger = "".parse().unwrap();
            },
            "review_trigger",
        ),
        (
            "external with a local class",
            Lane::Case,
            2,
            |r| {
                external(&mut r.decisions[0].record);
                r.decisions[0].record.provider_class = Some(ProviderClass::Local);
            },
            "does not fit",
        ),
        (
            "stale",
            Lane::Case,
            2,
            |r| r.decisions[0].record.review_trigger = "2026-01-01".parse().unwrap(),
            "stale",
        ),
        (
            "unsigned at 3",
            Lane::Case,
            3,
            |r| r.decisions[0].seal = AdmissionSeal::Unsigned,
            "",
        ),
        (
            "unsigned at 4",
            Lane::Codex,
            4,
            |r| r.decisions[0].seal = AdmissionSeal::Unsigned,
            "signature",
        ),
    ];
    for (name, lane, number, twist, expected) in table {
        let mut records = good(*lane);
        twist(&mut records);
        let admitted = records.models.first();
        match judge_decision(&records, *lane, admitted, moment(*number)) {
            Ok(_) => assert_eq!(*expected, "", "{name}"),
            Err(why) => assert!(
                !expected.is_empty() && why.contains(expected),
                "{name}: {why}"
            ),
        }
    }
}
