//! What a person is asked for each kind of record, and how an answer becomes a field.

use serde_json::{Map, Value};

use super::AdmissionKind;

/// How an answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    /// Nothing said is null, not empty.
    Optional,
    /// Parts between commas.
    List,
    /// `name=value` between commas.
    Pairs,
    YesNo,
}

/// One field of a record, as a question to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldQuestion {
    /// With a dot where it lies in another.
    pub field: &'static str,
    /// What to say.
    pub about: &'static str,
    shape: Shape,
    /// Only asked where another field has this value.
    when: Option<(&'static str, &'static str)>,
}

/// An answer that can't be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` takes {expected}")]
pub struct AnswerError {
    pub field: &'static str,
    pub expected: &'static str,
}

const fn text(field: &'static str, about: &'static str) -> FieldQuestion {
    FieldQuestion {
        field,
        about,
        shape: Shape::Text,
        when: None,
    }
}

const fn of(shape: Shape, question: FieldQuestion) -> FieldQuestion {
    FieldQuestion { shape, ..question }
}

const fn when(field: &'static str, value: &'static str, question: FieldQuestion) -> FieldQuestion {
    FieldQuestion {
        when: Some((field, value)),
        ..question
    }
}

const APPROVED_BY: FieldQuestion =
    text("approval_source", "who approved it, and where that stands");
const REVIEW: FieldQuestion = text(
    "review_trigger",
    "what makes it stale; a date such as 2027-01-31 in it is checked",
);
const CREDENTIALS: FieldQuestion = text(
    "credential_source_class",
    "where the key comes from, as a class, never a value",
);
const NETWORK: FieldQuestion = text(
    "allowed_network_class",
    "which network the model is in, as a class, never an address",
);
const PROVIDER: FieldQuestion = text("provider", "who serves the model");
const MODEL: FieldQuestion = text("model", "the model's name");

const SOURCE: &[FieldQuestion] = &[
    text("kind", "git or registry"),
    when("kind", "git", text("url", "where it is fetched from")),
    when(
        "kind",
        "git",
        of(
            Shape::Optional,
            text("commit", "the pinned commit, 40 digits"),
        ),
    ),
    when("kind", "git", text("tag", "its tag, if it has one")),
    when(
        "kind",
        "registry",
        of(Shape::Optional, text("registry", "npm, pypi or crates")),
    ),
    when("kind", "registry", text("package", "the package's name")),
    when("kind", "registry", text("version", "the exact version")),
    when(
        "kind",
        "registry",
        text("integrity", "the hash that the registry publishes"),
    ),
    text("licence_note", "what the licence allows"),
    text("retrieved_at", "when it was fetched, such as 2026-06-01"),
    text("retrieval_command", "how it was fetched"),
    text("integrity_reference", "what the pin was compared with"),
    of(
        Shape::List,
        text(
            "allowed_execution_modes",
            "planning-only, none, copied-fixture, sandbox-repo, owned-noncritical-repo, candidate-default",
        ),
    ),
    text(
        "protected_source_boundary",
        "what of the source nobody here may change",
    ),
    APPROVED_BY,
    REVIEW,
];

const BINARY: &[FieldQuestion] = &[
    text("path", "the program's file, from the root, no link"),
    text("version", "what it calls itself"),
    of(Shape::Optional, text("sha256", "its digest")),
    text("build_command", "how it was built or installed"),
    of(
        Shape::Pairs,
        text("toolchain_versions", "such as node=22.1, npm=10.8"),
    ),
    of(
        Shape::Optional,
        text(
            "source_commit",
            "the commit that you built it from; leave it empty if you did not",
        ),
    ),
    text("build_started_at", "when the build began"),
    text("build_time", "when it was done"),
    text(
        "identity_check.command",
        "how you recognised it, such as `ca --help`",
    ),
    text(
        "identity_check.answer",
        "the first line of what it answered",
    ),
    text("command_shape", "how it is started"),
    APPROVED_BY,
    REVIEW,
];

const MODELS: &[FieldQuestion] = &[
    PROVIDER,
    MODEL,
    CREDENTIALS,
    NETWORK,
    APPROVED_BY,
    text("admission_timestamp", "when, such as 2026-06-01"),
    REVIEW,
];

const DECISION: &[FieldQuestion] = &[
    text(
        "decision_status",
        "not_decided, external_provider_approved or local_provider_required",
    ),
    of(
        Shape::Optional,
        text(
            "provider_class",
            "external_anthropic, external_openai_codex, external_other, local_case_compatible or local",
        ),
    ),
    PROVIDER,
    MODEL,
    text(
        "fallback_provider",
        "another one, with an admission of its own; or nothing",
    ),
    text("fallback_model", "its model; or nothing"),
    CREDENTIALS,
    NETWORK,
    of(Shape::List, text("evidence_sources", "references only")),
    text("effect", "what follows from it"),
    APPROVED_BY,
    REVIEW,
];

const TARGET: &[FieldQuestion] = &[
    text("target_repository_path", "the repository, from the root"),
    text(
        "target_id",
        "its name in packs; empty takes the path's last part",
    ),
    text("repository_owner", "whose it is"),
    text("ownership_evidence", "what shows that"),
    text("risk_classification", "only low_risk_noncritical is let in"),
    text("noncritical_rationale", "why nobody is hurt if it breaks"),
    of(
        Shape::List,
        text("allowed_paths", "what may change, such as src/, README.md"),
    ),
    of(Shape::List, text("forbidden_paths", "what never may")),
    of(Shape::List, text("forbidden_actions", "all ten")),
    APPROVED_BY,
    text("approval_timestamp", "when, such as 2026-06-01"),
    of(
        Shape::YesNo,
        text(
            "operator_outcome_required",
            "true: an operator ends every run",
        ),
    ),
    REVIEW,
];

/// The fields that a person is asked for, in this order. One that depends on another comes after it.
pub fn questions(kind: AdmissionKind) -> &'static [FieldQuestion] {
    match kind {
        AdmissionKind::Source => SOURCE,
        AdmissionKind::Binary => BINARY,
        AdmissionKind::Model => MODELS,
        AdmissionKind::Decision => DECISION,
        AdmissionKind::Target => TARGET,
    }
}

impl FieldQuestion {
    /// Whether it is asked of this record.
    pub fn applies(&self, record: &Value) -> bool {
        self.when
            .is_none_or(|(field, value)| record.get(field).and_then(Value::as_str) == Some(value))
    }

    /// What the record has, as it would be typed; empty where it has nothing.
    pub fn held(&self, record: &Value) -> String {
        let plain = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                value.to_string()
            }
        };
        match record.pointer(&self.pointer()) {
            Some(Value::Array(parts)) => parts.iter().map(plain).collect::<Vec<_>>().join(", "),
            Some(Value::Object(pairs)) => {
                let pairs = pairs
                    .iter()
                    .map(|(name, value)| format!("{name}={}", plain(value)));
                pairs.collect::<Vec<_>>().join(", ")
            }
            Some(other) => plain(other),
            None => String::new(),
        }
    }

    fn pointer(&self) -> String {
        format!("/{}", self.field.replace('.', "/"))
    }

    fn value(&self, answer: &str) -> Result<Value, AnswerError> {
        let parts = || {
            answer
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
        };
        let wrong = |expected| AnswerError {
            field: self.field,
            expected,
        };
        Ok(match self.shape {
            Shape::Text => Value::from(answer),
            Shape::Optional if answer.is_empty() => Value::Null,
            Shape::Optional => Value::from(answer),
            Shape::List => parts().map(Value::from).collect(),
            Shape::Pairs => {
                let mut pairs = Map::new();
                for part in parts() {
                    let pair = part.split_once('=');
                    let (name, value) = pair.ok_or_else(|| wrong("name=value, name=value, …"))?;
                    pairs.insert(name.trim().to_owned(), Value::from(value.trim()));
                }
                Value::Object(pairs)
            }
            Shape::YesNo => match answer {
                "true" | "yes" => Value::Bool(true),
                "false" | "no" => Value::Bool(false),
                _ => return Err(wrong("true or false")),
            },
        })
    }
}

/// Puts an answer into a record. `-` takes out what it held; nothing typed keeps it.
pub fn put_answer(
    record: &mut Value,
    question: &FieldQuestion,
    typed: &str,
) -> Result<(), AnswerError> {
    let answer = match typed.trim() {
        "" => return Ok(()),
        "-" => "",
        answer => answer,
    };
    let value = question.value(answer)?;
    let (outer, inner) = match question.field.split_once('.') {
        Some((outer, inner)) => (Some(outer), inner),
        None => (None, question.field),
    };
    let place = match outer {
        Some(outer) => record.get_mut(outer),
        None => Some(record),
    };
    if let Some(Value::Object(fields)) = place {
        fields.insert(inner.to_owned(), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Admission;
    use super::*;
    use crate::words::Lane;
    use proptest::prelude::*;

    fn skeleton(kind: AdmissionKind) -> Value {
        serde_json::to_value(Admission::template(kind, Lane::Codex)).unwrap()
    }

    #[test]
    fn every_question_is_about_a_field_that_the_record_takes() {
        for kind in AdmissionKind::ALL {
            for question in questions(*kind) {
                let mut record = skeleton(*kind);
                if let Some((field, value)) = question.when {
                    record[field] = Value::from(value);
                }
                assert!(question.applies(&record), "{kind}: {}", question.field);
                let answer = match question.field {
                    "kind" => "git",
                    "url" => "https://forge.example.org/a.git",
                    "commit" | "source_commit" => &"ab".repeat(20),
                    "sha256" | "integrity" => &"ab".repeat(32),
                    "registry" => "npm",
                    "allowed_execution_modes" => "none, copied-fixture",
                    "decision_status" => "not_decided",
                    "provider_class" => "local",
                    "fallback_provider" | "fallback_model" => "",
                    "path" | "target_repository_path" => "/srv/x",
                    "forbidden_actions" => "push, merge",
                    "operator_outcome_required" => "yes",
                    "toolchain_versions" => "node=22.1, npm=10",
                    _ => "2026-06-01",
                };
                put_answer(&mut record, question, answer).unwrap();
                let read = Admission::from_value(*kind, &record);
                assert!(read.is_ok(), "{kind}.{}: {read:?}", question.field);
                if !answer.is_empty() {
                    assert_ne!(question.held(&record), "", "{kind}.{}", question.field);
                }
            }
        }
    }

    #[test]
    fn nothing_typed_keeps_a_field_and_a_dash_empties_it() {
        let mut record = skeleton(AdmissionKind::Target);
        let paths = questions(AdmissionKind::Target)
            .iter()
            .find(|q| q.field == "forbidden_paths")
            .unwrap();
        let before = record.clone();
        put_answer(&mut record, paths, "  ").unwrap();
        assert_eq!(record, before);
        put_answer(&mut record, paths, "-").unwrap();
        assert_eq!(record["forbidden_paths"], serde_json::json!([]));
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(kind in proptest::sample::select(AdmissionKind::ALL.to_vec()), typed in ".{0,40}") {
            let mut record = skeleton(kind);
            for question in questions(kind) {
                let _kept = put_answer(&mut record, question, &typed);
            }
            let _read = Admission::from_value(kind, &record);
        }
    }
}
