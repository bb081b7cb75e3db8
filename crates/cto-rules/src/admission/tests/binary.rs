//! The truth table of this record.

use cto_contract::admission::AdmissionStatus;

use super::*;

#[test]
fn a_binary_is_the_very_file_that_was_admitted() {
    type Twist = fn(&mut Records, &mut Option<ProgramSeen>);
    let table: &[(&str, u8, Twist, &str)] = &[
        ("as it is", 4, |_, _| {}, ""),
        (
            "no record",
            3,
            |r, _| r.binaries.clear(),
            "no record admits",
        ),
        (
            "another lane's",
            3,
            |r, _| r.binaries[0].record.lane = Lane::Pi,
            "no record admits",
        ),
        ("missing", 3, |_, p| *p = None, "is missing"),
        (
            "not executable",
            3,
            |_, p| p.as_mut().unwrap().is_executable = false,
            "can't be executed",
        ),
        (
            "temporary",
            3,
            |_, p| p.as_mut().unwrap().is_temporary = true,
            "temporary directory",
        ),
        (
            "digest",
            3,
            |_, p| p.as_mut().unwrap().digest = digest("ee"),
            "digest changed",
        ),
        (
            "moved",
            3,
            |_, p| p.as_mut().unwrap().path = "/opt/other".to_owned(),
            "another path",
        ),
        (
            "wrong identity",
            3,
            |r, _| {
                r.binaries[0].record.identity_check.answer =
                    "case v1: change the case of text".parse().unwrap();
            },
            "wrong identity",
        ),
        (
            "refused",
            3,
            |r, _| r.binaries[0].record.status = AdmissionStatus::NotAdmitted,
            "not admitted",
        ),
        (
            "stale",
            3,
            |r, _| r.binaries[0].record.review_trigger = "2026-05-31".parse().unwrap(),
            "2026-05-31",
        ),
        (
            "unsigned at 3",
            3,
            |r, _| r.binaries[0].seal = AdmissionSeal::Unsigned,
            "",
        ),
        (
            "unsigned at 4",
            4,
            |r, _| r.binaries[0].seal = AdmissionSeal::Unsigned,
            "signature",
        ),
        (
            "an older one beside it",
            3,
            |r, _| {
                r.binaries.insert(0, binary(Lane::Case));
                r.binaries[0].record.sha256 = Some(digest("ee"));
            },
            "",
        ),
        (
            "broken",
            3,
            |r, _| {
                r.binaries.clear();
                r.bad.push(bad(AdmissionKind::Binary, None, None));
            },
            "x.json:3:1",
        ),
    ];
    for (name, number, twist, expected) in table {
        let (mut records, mut seen) = (good(Lane::Case), Some(program()));
        twist(&mut records, &mut seen);
        let judged = judge_binary(&records, Lane::Case, seen.as_ref(), moment(*number));
        match judged {
            Ok(_) => assert_eq!(*expected, "", "{name}"),
            Err(why) => {
                assert!(
                    !expected.is_empty() && why.contains(expected),
                    "{name}: {why}"
                );
                assert!(!why.contains("/opt"), "{name} shows a path: {why}");
            }
        }
    }
}
