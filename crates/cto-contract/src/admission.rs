//! Records by which a person lets something in: an agent's source, its binary, a model, a provider class, a target.
//!
//! They are JSON or YAML, written by people and by `cto admit`. None holds a secret or the address of a model. The record
//! says what is admitted; whether it fits a run is judged by the rules.

mod binary;
mod decision;
mod model;
mod questions;
mod source;
mod target;
#[cfg(test)]
mod tests;
mod words;

use serde::Serialize;
use serde_json::Value;

use crate::document::{self, DocumentError};
use crate::words::Lane;

pub use binary::{BinaryAdmission, BinarySchema, IdentityCheck};
pub use decision::{DecisionSchema, DecisionStatus, PastDecision, ProviderClass, ProviderDecision};
pub use model::{ModelAdmission, ModelSchema};
pub use questions::{AnswerError, FieldQuestion, put_answer, questions};
pub use source::{ExecutionMode, Registry, SourceAdmission, SourceKind, SourceSchema};
pub use target::{ForbiddenPath, TargetAdmission, TargetSchema};
pub use words::{
    AbsolutePath, ClassWord, ExactVersion, GitUrl, Integrity, ModelName, Note, ProviderName,
    RecordDate,
};

wire_enum! {
    /// What a record is about, in the order in which the gates ask for them.
    pub enum AdmissionKind {
        Source = "source",
        Binary = "binary",
        Model = "model",
        Decision = "decision",
        Target = "target",
    }
}

wire_enum! {
    /// Whether a record lets its subject in.
    #[derive(Default)]
    pub enum AdmissionStatus {
        Admitted = "admitted",
        #[default]
        NotAdmitted = "not_admitted",
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    Source(SourceAdmission),
    Binary(BinaryAdmission),
    Model(ModelAdmission),
    Decision(ProviderDecision),
    Target(TargetAdmission),
}

impl AdmissionKind {
    /// Tells by its content what a document is a record of; none where it is none.
    pub fn of(document: &Value) -> Option<Self> {
        let tag = document.get("schema").and_then(Value::as_str);
        let tagged = Self::ALL.iter().copied().find(|k| tag == Some(k.schema()));
        if tag.is_some() {
            return tagged;
        }
        let has = |names: &[&str]| names.iter().all(|name| document.get(name).is_some());
        [
            (Self::Target, &["target_repository_path"][..]),
            (Self::Decision, &["decision_status"]),
            (Self::Binary, &["lane", "sha256"]),
            (Self::Source, &["lane", "kind"]),
            (Self::Model, &["provider", "model"]),
        ]
        .into_iter()
        .find(|(_, names)| has(names))
        .map(|(kind, _)| kind)
    }

    /// The schema tag of its records.
    pub const fn schema(self) -> &'static str {
        match self {
            Self::Source => SourceSchema::VALUE,
            Self::Binary => BinarySchema::VALUE,
            Self::Model => ModelSchema::VALUE,
            Self::Decision => DecisionSchema::VALUE,
            Self::Target => TargetSchema::VALUE,
        }
    }
}

impl Admission {
    /// Reads a record of a kind from JSON or YAML: unknown fields, wrong types and words are errors at their line.
    pub fn read(kind: AdmissionKind, name: &str, bytes: &[u8]) -> Result<Self, DocumentError> {
        let record = match kind {
            AdmissionKind::Source => Self::Source(document::read(name, bytes)?),
            AdmissionKind::Binary => Self::Binary(document::read(name, bytes)?),
            AdmissionKind::Model => Self::Model(document::read(name, bytes)?),
            AdmissionKind::Decision => Self::Decision(document::read(name, bytes)?),
            AdmissionKind::Target => Self::Target(document::read(name, bytes)?),
        };
        match record.first_fault() {
            None => Ok(record),
            Some((field, why)) => {
                let (line, column) = document::place_of_key(bytes, field).unwrap_or((1, 1));
                Err(DocumentError {
                    name: name.to_owned(),
                    line,
                    column,
                    message: format!("`{field}` {why}"),
                })
            }
        }
    }

    /// Reads a record of a kind from what it looks like as JSON.
    pub fn from_value(kind: AdmissionKind, record: &Value) -> Result<Self, DocumentError> {
        let text = record.to_string();
        Self::read(kind, "record", text.as_bytes())
    }

    /// The skeleton of a record, which admits nothing.
    pub fn template(kind: AdmissionKind, lane: Lane) -> Self {
        match kind {
            AdmissionKind::Source => Self::Source(SourceAdmission::template(lane)),
            AdmissionKind::Binary => Self::Binary(BinaryAdmission::template(lane)),
            AdmissionKind::Model => Self::Model(ModelAdmission::default()),
            AdmissionKind::Decision => Self::Decision(ProviderDecision::template(lane)),
            AdmissionKind::Target => Self::Target(TargetAdmission::template()),
        }
    }

    pub const fn kind(&self) -> AdmissionKind {
        match self {
            Self::Source(_) => AdmissionKind::Source,
            Self::Binary(_) => AdmissionKind::Binary,
            Self::Model(_) => AdmissionKind::Model,
            Self::Decision(_) => AdmissionKind::Decision,
            Self::Target(_) => AdmissionKind::Target,
        }
    }

    /// Whether it says that its subject is let in. A decision is no admission: it says what was decided.
    pub fn is_admitted(&self) -> bool {
        match self {
            Self::Source(record) => record.status == AdmissionStatus::Admitted,
            Self::Binary(record) => record.status == AdmissionStatus::Admitted,
            Self::Model(record) => record.status == AdmissionStatus::Admitted,
            Self::Decision(record) => record.decision_status != DecisionStatus::NotDecided,
            Self::Target(record) => record.admission_status == AdmissionStatus::Admitted,
        }
    }

    /// What it is about, in one short text without a path.
    pub fn subject(&self) -> String {
        match self {
            Self::Source(record) => format!("{}: {}", record.lane, record.pinned()),
            Self::Binary(record) => format!("{}: {}", record.lane, record.version),
            Self::Model(record) => format!("{}/{}", record.provider, record.model),
            Self::Decision(record) => {
                let (provider, model) = (&record.provider, &record.model);
                format!("{}: {provider}/{model}", record.lane)
            }
            Self::Target(record) => record.id().unwrap_or_default(),
        }
    }

    /// What it is about, for those who keep one record for each thing: of two about the same the later one counts.
    pub fn about(&self) -> String {
        match self {
            Self::Source(record) => record.lane.to_string(),
            Self::Binary(record) => record.lane.to_string(),
            Self::Model(record) => format!("{}/{}", record.provider, record.model),
            Self::Decision(record) => record.lane.to_string(),
            Self::Target(record) => record.target_repository_path.as_str().to_owned(),
        }
    }

    /// The days on which something was done, by field: none of them can lie ahead.
    pub fn dates(&self) -> Vec<(&'static str, &RecordDate)> {
        match self {
            Self::Source(record) => vec![("retrieved_at", &record.retrieved_at)],
            Self::Binary(record) => vec![
                ("build_started_at", &record.build_started_at),
                ("build_time", &record.build_time),
            ],
            Self::Model(record) => vec![("admission_timestamp", &record.admission_timestamp)],
            Self::Decision(_) => Vec::new(),
            Self::Target(record) => vec![("approval_timestamp", &record.approval_timestamp)],
        }
    }

    /// The name of its file: what it is about, in letters that every file system takes. Two records about different things
    /// may come to the same name.
    pub fn file_name(&self) -> String {
        let (what, about) = match self {
            Self::Source(record) => ("SOURCE-ADMISSION", record.lane.to_string()),
            Self::Binary(record) => ("BINARY-ADMISSION", record.lane.to_string()),
            Self::Model(record) => (
                "MODEL-PROVIDER-ADMISSION",
                format!("{}-{}", record.provider, record.model),
            ),
            Self::Decision(record) => ("PROVIDER-DECISION", record.lane.to_string()),
            Self::Target(record) => ("TARGET-ADMISSION", record.id().unwrap_or_default()),
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let about = about.chars().map(|c| if allowed(c) { c } else { '_' });
        let about: String = about.take(150).collect();
        format!("{what}.{about}.json")
    }

    /// What no type could refuse: fields that contradict each other. The field, and what is wrong with it.
    fn first_fault(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Source(record) => record.first_fault(),
            Self::Binary(record) => record.first_fault(),
            Self::Model(record) => record.first_fault(),
            Self::Decision(record) => record.first_fault(),
            Self::Target(record) => record.first_fault(),
        }
    }
}

/// Written as the record itself.
impl Serialize for Admission {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Source(record) => record.serialize(serializer),
            Self::Binary(record) => record.serialize(serializer),
            Self::Model(record) => record.serialize(serializer),
            Self::Decision(record) => record.serialize(serializer),
            Self::Target(record) => record.serialize(serializer),
        }
    }
}

/// The first field of an admitted record that is empty and may not be.
fn first_empty(fields: &[(&'static str, bool)]) -> Option<(&'static str, String)> {
    let empty = fields.iter().find(|(_, is_empty)| *is_empty)?;
    Some((empty.0, "is empty, and the record is admitted".to_owned()))
}
