//! Every field of every record: right, wrong, missing, of the wrong type.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::words::Action;

/// A record of each kind that lets its subject in.
fn admitted(kind: AdmissionKind) -> Value {
    match kind {
        AdmissionKind::Source => json!({
            "schema": "cto.admission.source/v1",
            "status": "admitted",
            "lane": "codex",
            "kind": "registry",
            "registry": "npm",
            "package": "@example/agent",
            "version": "1.2.3-linux-x64",
            "integrity": format!("sha512-{}==", "A".repeat(86)),
            "licence_note": "Apache-2.0, read on 2026-06-01",
            "retrieved_at": "2026-06-01",
            "retrieval_command": "npm i @example/agent@1.2.3",
            "integrity_reference": "the registry's dist.integrity",
            "allowed_execution_modes": ["copied-fixture"],
            "protected_source_boundary": "the installed package is never written",
            "previous_id": "1.2.2",
            "new_id": "1.2.3",
            "approval_source": "the maintainer",
            "review_trigger": "before another version"
        }),
        AdmissionKind::Binary => json!({
            "schema": "cto.admission.binary/v1",
            "status": "admitted",
            "lane": "case",
            "path": "/opt/case/ca",
            "version": "0.1",
            "build_command": "bun run build",
            "toolchain_versions": { "bun": "1.3" },
            "sha256": "ab".repeat(32),
            "build_time": "2026-06-01T10:00:00Z", "build_started_at": "2026-06-01T09:58:00Z", "source_commit": "ab".repeat(20),
            "identity_check": { "command": "ca --help", "answer": "Usage: ca <command> [options]" },
            "command_shape": "ca run --task T --mode unattended",
            "approval_source": "the maintainer",
            "review_trigger": "before another build"
        }),
        AdmissionKind::Model => json!({
            "schema": "cto.admission.model/v1",
            "status": "admitted",
            "provider": "my-local",
            "model": "some-model-3.6:latest",
            "credential_source_class": "no-secret",
            "allowed_network_class": "local machine, no internet",
            "approval_source": "the maintainer, by mail",
            "admission_timestamp": "2026-06-01T00:00:00-04:00",
            "review_trigger": "before the endpoint changes",
            "evidence_expectations": ["a pass at stage 2"]
        }),
        AdmissionKind::Decision => json!({
            "schema": "cto.admission.decision/v1",
            "lane": "case",
            "decision_status": "local_provider_required",
            "provider_class": "local_case_compatible",
            "provider": "my-local",
            "model": "some-model",
            "fallback_provider": "other",
            "fallback_model": "another-model",
            "approval_source": "the maintainer",
            "credential_source_class": "no-secret",
            "allowed_network_class": "local",
            "review_trigger": "before another model",
            "evidence_sources": ["docs/decision.md"],
            "effect": "nothing else may run",
            "history": [{ "decision_status": "not_decided", "at": "2026-05-01", "note": "" }]
        }),
        AdmissionKind::Target => json!({
            "schema": "cto.admission.target/v1",
            "admission_status": "admitted",
            "target_repository_path": "/srv/work/my-target",
            "target_id": "my-target",
            "repository_owner": "me",
            "ownership_evidence": "I made it: https://forge.example.org/me/my-target",
            "risk_classification": "low_risk_noncritical",
            "noncritical_rationale": "nobody uses it",
            "allowed_paths": ["src/", "README.md"],
            "forbidden_paths": [".env", ".env.*", "secrets/", ".git/"],
            "forbidden_actions": Action::ALL,
            "approval_source": "the maintainer",
            "approval_timestamp": "2026-06-01",
            "operator_outcome_required": true,
            "review_trigger": "before another path"
        }),
    }
}

fn read(kind: AdmissionKind, document: &Value) -> Result<Admission, DocumentError> {
    let text = serde_json::to_string_pretty(document).unwrap();
    Admission::read(kind, "record.json", text.as_bytes())
}

fn message(kind: AdmissionKind, field: &str, value: Value) -> String {
    let mut document = admitted(kind);
    document[field] = value;
    read(kind, &document).map_or_else(|error| error.to_string(), |_| "ok".to_owned())
}

#[test]
fn a_record_reads_back_as_it_was_written_in_json_and_in_yaml() {
    for kind in AdmissionKind::ALL {
        let document = admitted(*kind);
        let record = read(*kind, &document).unwrap();
        assert_eq!((record.kind(), record.is_admitted()), (*kind, true));
        assert_eq!(serde_json::to_value(&record).unwrap(), document);
        assert_eq!(AdmissionKind::of(&document), Some(*kind));
        let mut untagged = document.clone();
        untagged.as_object_mut().unwrap().remove("schema");
        assert_eq!(AdmissionKind::of(&untagged), Some(*kind), "{kind}");
        let yaml: String = untagged
            .as_object()
            .unwrap()
            .iter()
            .fold(String::from("# a comment\n"), |text, (name, value)| {
                format!("{text}{name}: {value}\n")
            });
        let from_yaml = Admission::read(*kind, "record.yaml", yaml.as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&from_yaml).unwrap(), untagged);
    }
    assert_eq!(
        AdmissionKind::of(&json!({ "schema": "cto.harness/v1", "provider": 1, "model": 2 })),
        None
    );
    assert_eq!(AdmissionKind::of(&json!(["provider", "model"])), None);
}

#[test]
fn a_template_reads_and_admits_nothing() {
    for kind in AdmissionKind::ALL {
        let template = Admission::template(*kind, Lane::Codex);
        assert!(!template.is_admitted());
        let text = serde_json::to_string_pretty(&template).unwrap();
        let back = Admission::read(*kind, "template.json", text.as_bytes()).unwrap();
        assert_eq!(back, template);
    }
    let Admission::Target(target) = Admission::template(AdmissionKind::Target, Lane::Case) else {
        panic!("a target");
    };
    assert_eq!(target.forbidden_actions.len(), Action::ALL.len());
}

#[test]
fn the_template_of_a_source_of_case_names_the_known_pin_and_admits_nothing() {
    let template = Admission::template(AdmissionKind::Source, Lane::Case);
    assert!(!template.is_admitted());
    let text = serde_json::to_string_pretty(&template).unwrap();
    let back = Admission::read(AdmissionKind::Source, "template.json", text.as_bytes()).unwrap();
    assert_eq!(back, template);
    let Admission::Source(source) = template else {
        panic!("a source");
    };
    assert_eq!(
        source.pinned(),
        "https://github.com/workos/case.git@7959ac917cde"
    );
    assert!(!source.is_licence_resolved());
    assert!(source.allowed_execution_modes.is_empty());
    assert!(!source.retrieval_command.is_empty() && !source.protected_source_boundary.is_empty());
}

/// Fields that a record can do without.
fn is_optional(kind: AdmissionKind, field: &str) -> bool {
    let optional: &[&str] = match kind {
        AdmissionKind::Source => &[
            "licence_note",
            "previous_id",
            "new_id",
            "approval_source",
            "review_trigger",
        ],
        AdmissionKind::Binary => &[
            "source_commit",
            "build_started_at",
            "command_shape",
            "approval_source",
            "review_trigger",
        ],
        AdmissionKind::Model => &["evidence_expectations"],
        // Whether they are needed depends on the status, or each is a gate of its own.
        AdmissionKind::Decision => {
            return field != "decision_status" && !field.starts_with("fallback");
        }
        AdmissionKind::Target => return field != "target_repository_path",
    };
    field == "schema" || optional.contains(&field)
}

#[test]
fn every_field_is_refused_by_name_where_it_is_missing_or_of_the_wrong_type() {
    for kind in AdmissionKind::ALL {
        let whole = admitted(*kind);
        for field in whole.as_object().unwrap().keys() {
            let mut without = whole.clone();
            without.as_object_mut().unwrap().remove(field);
            match read(*kind, &without) {
                Ok(_) => assert!(is_optional(*kind, field), "{kind}.{field} is not missed"),
                Err(error) => {
                    assert!(!is_optional(*kind, field), "{kind}.{field}: {error}");
                    assert!(
                        error.message.contains("fallback")
                            || error.message.contains(field.as_str()),
                        "{kind}.{field}: {error}"
                    );
                }
            }
            for wrong in [
                json!(7),
                json!([[1]]),
                json!({ "a": { "b": 1 } }),
                json!(null),
            ] {
                let mut document = whole.clone();
                document[field] = wrong.clone();
                let text = serde_json::to_string_pretty(&document).unwrap();
                let read = Admission::read(*kind, "r", text.as_bytes());
                if wrong.is_null() || (field == "toolchain_versions" && wrong.is_object()) {
                    continue;
                }
                // YAML has no types of its own for plain words: 7 is a text where one is wanted.
                if wrong == json!(7) && read.is_ok() {
                    continue;
                }
                let error = read.expect_err(&format!("{kind}.{field} = {wrong}"));
                let line = text
                    .lines()
                    .position(|l| l.contains(&format!("\"{field}\":")))
                    .unwrap() as u64
                    + 1;
                assert!(
                    error.line >= line && error.line <= line + 6,
                    "{kind}.{field}: {error}"
                );
            }
        }
        let mut more = whole.clone();
        more["surprise"] = json!("x");
        let error = read(*kind, &more).unwrap_err();
        assert!(error.message.contains("surprise"), "{error}");
    }
}

#[test]
fn an_admitted_record_has_no_empty_field_that_counts() {
    insta::assert_snapshot!(message(AdmissionKind::Model, "provider", json!("")), @"record.json:10:3: `provider` is empty, and the record is admitted");
    insta::assert_snapshot!(message(AdmissionKind::Model, "approval_source", json!(" ")), @"record.json:4:3: `approval_source` is empty, and the record is admitted");
    insta::assert_snapshot!(message(AdmissionKind::Binary, "sha256", json!(null)), @"record.json:15:3: `sha256` is empty, and the record is admitted");
    insta::assert_snapshot!(message(AdmissionKind::Binary, "build_started_at", json!("2027-01-01")), @"record.json:4:3: `build_started_at` lies after `build_time`");
    insta::assert_snapshot!(message(AdmissionKind::Target, "target_repository_path", json!("")), @"record.json:35:3: `target_repository_path` is empty, and the record is admitted");
    insta::assert_snapshot!(message(AdmissionKind::Source, "commit", json!("ab".repeat(20))), @"record.json:6:3: `commit` is no field of kind `registry`");
    insta::assert_snapshot!(message(AdmissionKind::Decision, "fallback_model", json!("")), @"record.json:11:3: `fallback_provider` and `fallback_model` are a pair: name both or neither");
}

#[test]
fn a_source_is_pinned_and_never_moves() {
    let version = |text: &str| message(AdmissionKind::Source, "version", json!(text)) == "ok";
    for good in [
        "1.2.3",
        "0.169.0",
        "v2.1.326",
        "1.0.0-rc.1+build",
        "2026.6.1",
        "1!2.0",
    ] {
        assert!(version(good), "{good}");
    }
    for bad in [
        "latest", "^1.2.3", "~1", "1.x", "*", ">=1", "1.2 || 2", "next", "1..2",
    ] {
        assert!(!version(bad), "{bad}");
    }
    let mut git = admitted(AdmissionKind::Source);
    for field in ["registry", "package", "version", "integrity"] {
        git.as_object_mut().unwrap().remove(field);
    }
    git["kind"] = json!("git");
    git["url"] = json!("https://forge.example.org/case.git");
    git["commit"] = json!("ab".repeat(20));
    git["tag"] = json!("v1");
    assert!(read(AdmissionKind::Source, &git).is_ok());
    for (field, bad) in [
        ("commit", "main"),
        ("commit", ""),
        ("url", "https://user:pass@forge.example.org/case.git"),
        ("url", "forge.example.org/case.git"),
        ("branch", "main"),
    ] {
        let mut moving = git.clone();
        moving[field] = json!(bad);
        assert!(
            read(AdmissionKind::Source, &moving).is_err(),
            "{field}: {bad}"
        );
    }
    git.as_object_mut().unwrap().remove("commit");
    let error = read(AdmissionKind::Source, &git).unwrap_err();
    assert_eq!(
        error.message,
        "`commit` is empty, and the record is admitted"
    );
}

#[test]
fn an_integrity_hash_is_one_that_a_registry_publishes_or_says_that_it_is_none() {
    let is = |text: &str| text.parse::<Integrity>().is_ok();
    let (hex, b64) = ("ab".repeat(32), format!("{}=", "A".repeat(43)));
    for good in [
        hex.clone(),
        "ab".repeat(20),
        format!("sha256:{hex}"),
        format!("sha256-{b64}"),
        format!("tree-sha256:{hex}"),
    ] {
        assert!(is(&good), "{good}");
    }
    for bad in [
        "md5:abc",
        "sha256:ab",
        "sha512-!!",
        "tree-ab",
        &format!("tree-sha1:{hex}"),
        "none",
    ] {
        assert!(!is(bad), "{bad}");
    }
    assert!(Integrity::of_tree(&hex.parse().unwrap()).is_of_tree());
}

#[test]
fn an_endpoint_is_refused_where_only_a_class_is_allowed_and_in_every_note() {
    for field in [
        "allowed_network_class",
        "credential_source_class",
        "provider",
    ] {
        for bad in [
            "http://10.0.0.1:8000/v1",
            "10.0.0.1",
            "host:8000",
            "~/.pi/models.json",
            "https://api.example.com",
        ] {
            // A name with dots may be a provider; an address with a scheme or a port is none.
            if field == "provider" && bad == "10.0.0.1" {
                continue;
            }
            assert_ne!(
                message(AdmissionKind::Model, field, json!(bad)),
                "ok",
                "{field}: {bad}"
            );
        }
    }
    for bad in [
        "ask http://spark.local:8000 first",
        "http://127.0.0.1/",
        "see https://localhost",
        "https://models.example.com/v1/chat",
        "http://[::1]:80",
        "ftp://x@10.1.2.3",
    ] {
        for field in ["approval_source", "review_trigger"] {
            assert_ne!(
                message(AdmissionKind::Model, field, json!(bad)),
                "ok",
                "{bad}"
            );
        }
    }
    for good in [
        "https://tracker.example.org/T-1 (a ticket)",
        "mail of 2026-06-01",
        "a://",
    ] {
        assert_eq!(
            message(AdmissionKind::Model, "approval_source", json!(good)),
            "ok",
            "{good}"
        );
    }
}

#[test]
fn a_target_may_forbid_gits_own_directory_and_has_a_name_without_saying_one() {
    let Admission::Target(mut target) =
        read(AdmissionKind::Target, &admitted(AdmissionKind::Target)).unwrap()
    else {
        panic!("a target");
    };
    assert_eq!(target.forbidden_paths.last().unwrap().pattern(), None);
    assert_eq!(
        target
            .forbidden_paths
            .iter()
            .filter_map(ForbiddenPath::pattern)
            .count(),
        3
    );
    target.target_id = Note::default();
    target.target_repository_path = "/srv/work/other/".parse().unwrap();
    assert_eq!(target.id().as_deref(), Some("other"));
    for bad in ["relative/path", "/a/../b", "/a\u{7}b"] {
        assert_ne!(
            message(AdmissionKind::Target, "target_repository_path", json!(bad)),
            "ok",
            "{bad}"
        );
    }
    assert_ne!(
        message(AdmissionKind::Target, "allowed_paths", json!([".git/"])),
        "ok"
    );
    assert_ne!(
        message(AdmissionKind::Target, "forbidden_paths", json!(["/etc"])),
        "ok"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in proptest::sample::select(AdmissionKind::ALL.to_vec())) {
        let _read = Admission::read(kind, "x", &bytes);
    }

    #[test]
    fn words_never_panic_and_read_back(text in ".{0,60}") {
        if let Ok(note) = text.parse::<Note>() { prop_assert_eq!(note.as_str(), &text); }
        let _other = (text.parse::<GitUrl>(), text.parse::<Integrity>(), text.parse::<RecordDate>(), text.parse::<ExactVersion>(), text.parse::<ModelName>());
        let note = Note::new(&text);
        prop_assert!(note.is_empty() || note.as_str().parse::<Note>().is_ok());
    }
}
