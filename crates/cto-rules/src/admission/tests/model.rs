//! The truth table of this record.

use cto_contract::admission::AdmissionStatus;
use cto_contract::blocker::BlockerCode;
use cto_contract::words::ModelAdmissionStatus;

use super::*;

#[test]
fn a_pair_is_admitted_by_its_record_and_by_nothing_else() {
    use ModelAdmissionStatus::{
        Admitted, InvalidAdmission, Mismatch, MissingAdmission, NotAdmitted,
    };
    type Twist = fn(&mut Records, &mut ModelRequest);
    fn file(record: Stored<ModelAdmission>) -> Option<NamedRecord<ModelAdmission>> {
        Some(NamedRecord::Record(Box::new(record)))
    }
    let table: &[(&str, Lane, u8, Twist, ModelAdmissionStatus)] = &[
        ("as it is", Lane::Codex, 4, |_, _| {}, Admitted),
        (
            "no record",
            Lane::Codex,
            2,
            |r, _| r.models.clear(),
            MissingAdmission,
        ),
        (
            "another provider",
            Lane::Codex,
            2,
            |_, q| q.provider = Some("other".into()),
            MissingAdmission,
        ),
        (
            "another model",
            Lane::Codex,
            2,
            |_, q| q.model = Some("other".into()),
            MissingAdmission,
        ),
        (
            "a fallback that nobody admitted",
            Lane::Case,
            2,
            |_, q| {
                (q.provider, q.model) =
                    (Some("anthropic".into()), Some("claude-sonnet-4-6".into()));
            },
            MissingAdmission,
        ),
        (
            "no pair, one record",
            Lane::Codex,
            2,
            |_, q| *q = ModelRequest::default(),
            Admitted,
        ),
        (
            "no pair for case",
            Lane::Case,
            2,
            |_, q| *q = ModelRequest::default(),
            MissingAdmission,
        ),
        (
            "no pair, two records",
            Lane::Codex,
            2,
            |r, q| {
                r.models.push(model());
                r.models[1].record.model = "other".parse().unwrap();
                *q = ModelRequest::default();
            },
            MissingAdmission,
        ),
        (
            "half a pair",
            Lane::Codex,
            2,
            |_, q| q.model = None,
            MissingAdmission,
        ),
        (
            "the other half",
            Lane::Codex,
            2,
            |_, q| q.provider = None,
            MissingAdmission,
        ),
        (
            "refused",
            Lane::Codex,
            2,
            |r, _| r.models[0].record.status = AdmissionStatus::NotAdmitted,
            NotAdmitted,
        ),
        (
            "one of two refuses",
            Lane::Codex,
            2,
            |r, _| {
                r.models.push(model());
                r.models[1].record.status = AdmissionStatus::NotAdmitted;
            },
            NotAdmitted,
        ),
        (
            "stale",
            Lane::Codex,
            2,
            |r, _| r.models[0].record.review_trigger = "by 2026-05-31".parse().unwrap(),
            NotAdmitted,
        ),
        (
            "unsigned at 3",
            Lane::Codex,
            3,
            |r, _| r.models[0].seal = AdmissionSeal::Unsigned,
            Admitted,
        ),
        (
            "unsigned at 4",
            Lane::Codex,
            4,
            |r, _| r.models[0].seal = AdmissionSeal::Unsigned,
            NotAdmitted,
        ),
        (
            "broken",
            Lane::Codex,
            2,
            |r, _| {
                r.models.clear();
                r.bad
                    .push(bad(AdmissionKind::Model, None, Some((PROVIDER, MODEL))));
            },
            InvalidAdmission,
        ),
        (
            "another one is broken",
            Lane::Codex,
            2,
            |r, _| {
                r.bad.push(bad(AdmissionKind::Model, None, None));
            },
            Admitted,
        ),
        (
            "another pair's is broken",
            Lane::Codex,
            2,
            |r, _| {
                r.models.clear();
                r.bad
                    .push(bad(AdmissionKind::Model, None, Some(("x", "y"))));
            },
            MissingAdmission,
        ),
        (
            "named file",
            Lane::Case,
            2,
            |r, q| {
                r.models.clear();
                q.file = file(model());
            },
            Admitted,
        ),
        (
            "named file of another pair",
            Lane::Case,
            2,
            |_, q| {
                let mut other = model();
                other.record.model = "other".parse().unwrap();
                q.file = file(other);
            },
            Mismatch,
        ),
        (
            "named file is missing",
            Lane::Case,
            2,
            |_, q| q.file = Some(NamedRecord::Missing),
            MissingAdmission,
        ),
        (
            "named file is broken",
            Lane::Case,
            2,
            |_, q| q.file = Some(NamedRecord::Invalid("line 3".into())),
            InvalidAdmission,
        ),
        (
            "named file and no pair",
            Lane::Codex,
            2,
            |_, q| {
                *q = ModelRequest {
                    file: file(model()),
                    ..ModelRequest::default()
                };
            },
            Admitted,
        ),
        (
            "the scripted model at 3",
            Lane::Codex,
            3,
            |r, q| {
                r.models[0].record.provider = SCRIPTED.parse().unwrap();
                q.provider = Some(SCRIPTED.into());
            },
            Admitted,
        ),
        (
            "the scripted model at 4",
            Lane::Codex,
            4,
            |r, q| {
                r.models[0].record.provider = SCRIPTED.parse().unwrap();
                q.provider = Some(SCRIPTED.into());
            },
            NotAdmitted,
        ),
        (
            "the bridge of case",
            Lane::Case,
            2,
            |r, q| {
                r.models[0].record.provider = "openai".parse().unwrap();
                q.provider = Some("openai".into());
            },
            NotAdmitted,
        ),
    ];
    for (name, lane, number, twist, expected) in table {
        let (mut records, mut asked) = (good(*lane), request());
        twist(&mut records, &mut asked);
        let verdict = judge_model(&records, &asked, *lane, moment(*number));
        assert_eq!(verdict.status, *expected, "{name}: {:?}", verdict.refusal);
        assert_eq!(verdict.used.is_some(), *expected == Admitted, "{name}");
        let code = verdict.refusal.map(|(code, _)| code);
        let wanted = match expected {
            Admitted => None,
            Mismatch => Some(BlockerCode::ModelAdmissionMismatch),
            InvalidAdmission => Some(BlockerCode::ModelAdmissionInvalid),
            MissingAdmission | NotAdmitted => Some(BlockerCode::ModelNotAdmitted),
        };
        assert_eq!(code, wanted, "{name}");
    }
}
