//! The admission of an agent's binary: one file, by its digest.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AbsolutePath, AdmissionStatus, Note, RecordDate, first_empty};
use crate::ids::{CommitId, Digest};
use crate::words::Lane;

wire_const! {
    /// Schema tag of a binary admission.
    pub struct BinarySchema: &'static str = "cto.admission.binary/v1"
}

/// How the program was recognised when it was admitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdentityCheck {
    /// What was asked, such as `ca --help`.
    pub command: Note,
    /// The first line of what it answered.
    pub answer: Note,
}

/// One program file that a person let in. Another digest is another identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BinaryAdmission {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<BinarySchema>,
    pub status: AdmissionStatus,
    pub lane: Lane,
    /// The file itself, with no link left in it.
    pub path: AbsolutePath,
    pub version: Note,
    /// How it was built or installed.
    #[serde(default)]
    pub build_command: Note,
    #[serde(default)]
    pub toolchain_versions: BTreeMap<String, Note>,
    pub sha256: Option<Digest>,
    /// Of the whole tree that a script loads from; none for a program that is one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_sha256: Option<Digest>,
    /// Of the program that runs a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpreter_sha256: Option<Digest>,
    /// The commit that it was built from, where a person built it: it has to be the admitted source's.
    #[serde(default)]
    pub source_commit: Option<CommitId>,
    #[serde(default)]
    pub build_started_at: RecordDate,
    /// When the build was done.
    #[serde(default)]
    pub build_time: RecordDate,
    pub identity_check: IdentityCheck,
    /// How it is started, such as `ca run --task <stem>.task.json --mode unattended`.
    #[serde(default)]
    pub command_shape: Note,
    #[serde(default)]
    pub approval_source: Note,
    #[serde(default)]
    pub review_trigger: Note,
}

impl BinaryAdmission {
    /// The skeleton of a record, which admits nothing.
    pub fn template(lane: Lane) -> Self {
        Self {
            schema: Some(BinarySchema),
            status: AdmissionStatus::NotAdmitted,
            lane,
            path: AbsolutePath::default(),
            version: Note::default(),
            build_command: Note::default(),
            toolchain_versions: BTreeMap::new(),
            sha256: None,
            package_sha256: None,
            interpreter_sha256: None,
            source_commit: None,
            build_started_at: RecordDate::default(),
            build_time: RecordDate::default(),
            identity_check: IdentityCheck::default(),
            command_shape: Note::default(),
            approval_source: Note::default(),
            review_trigger: Note::default(),
        }
    }

    pub(super) fn first_fault(&self) -> Option<(&'static str, String)> {
        if self.status == AdmissionStatus::NotAdmitted {
            return None;
        }
        let (began, done) = (self.build_started_at.begins(), self.build_time.begins());
        if began.zip(done).is_some_and(|(began, done)| began > done) {
            return Some(("build_started_at", "lies after `build_time`".to_owned()));
        }
        let (is_built, by) = (self.source_commit.is_some(), &self.build_command);
        first_empty(&[
            ("build_command", is_built && by.is_empty()),
            (
                "toolchain_versions",
                is_built && self.toolchain_versions.is_empty(),
            ),
            ("build_time", is_built && self.build_time.is_empty()),
            ("path", self.path.is_empty()),
            ("version", self.version.is_empty()),
            ("sha256", self.sha256.is_none()),
            (
                "identity_check",
                self.identity_check.command.is_empty() || self.identity_check.answer.is_empty(),
            ),
        ])
    }
}
