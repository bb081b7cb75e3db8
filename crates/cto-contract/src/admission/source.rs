//! The admission of an agent's source: where its code comes from, pinned.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AdmissionStatus, ExactVersion, GitUrl, Integrity, Note, RecordDate, first_empty};
use crate::ids::CommitId;
use crate::words::{Lane, MutationMode};

wire_const! {
    /// Schema tag of a source admission.
    pub struct SourceSchema: &'static str = "cto.admission.source/v1"
}

/// Where Case is published, and the commit of it that is known here.
const CASE_URL: &str = "https://github.com/workos/case.git";
const CASE_COMMIT: &str = "7959ac917cdeb0983b4aaa20bb9f42021747fed8";

wire_enum! {
    /// How a source is pinned.
    pub enum SourceKind { Git = "git", Registry = "registry" }
}

wire_enum! {
    /// A registry of packages.
    pub enum Registry { Npm = "npm", PyPi = "pypi", Crates = "crates" }
}

wire_enum! {
    /// How far the source may be executed.
    pub enum ExecutionMode {
        PlanningOnly = "planning-only",
        None = "none",
        CopiedFixture = "copied-fixture",
        SandboxRepo = "sandbox-repo",
        OwnedNoncriticalRepo = "owned-noncritical-repo",
        CandidateDefault = "candidate-default",
    }
}

impl ExecutionMode {
    /// The word for a mutation mode.
    pub const fn of(mode: MutationMode) -> Self {
        match mode {
            MutationMode::None => Self::None,
            MutationMode::CopiedFixture => Self::CopiedFixture,
            MutationMode::SandboxRepo => Self::SandboxRepo,
            MutationMode::OwnedNoncriticalRepo => Self::OwnedNoncriticalRepo,
            MutationMode::CandidateDefault => Self::CandidateDefault,
        }
    }
}

/// Where an agent's code comes from. `git` needs `url` and `commit`; `registry` needs `registry`, `package`, `version` and
/// `integrity`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceAdmission {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<SourceSchema>,
    pub status: AdmissionStatus,
    pub lane: Lane,
    pub kind: SourceKind,
    #[serde(default, skip_serializing_if = "GitUrl::is_empty")]
    pub url: GitUrl,
    /// A branch moves; a commit does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// Only beside its commit.
    #[serde(default, skip_serializing_if = "Note::is_empty")]
    pub tag: Note,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<Registry>,
    #[serde(default, skip_serializing_if = "Note::is_empty")]
    pub package: Note,
    #[serde(default, skip_serializing_if = "ExactVersion::is_empty")]
    pub version: ExactVersion,
    #[serde(default, skip_serializing_if = "Integrity::is_empty")]
    pub integrity: Integrity,
    /// What the licence says; empty or beginning with `unresolved` is good up to stage 4.
    #[serde(default)]
    pub licence_note: Note,
    pub retrieved_at: RecordDate,
    pub retrieval_command: Note,
    /// What the pin was compared with.
    pub integrity_reference: Note,
    pub allowed_execution_modes: BTreeSet<ExecutionMode>,
    /// What of the source nobody here may change.
    pub protected_source_boundary: Note,
    /// The pin before this one.
    #[serde(default, skip_serializing_if = "Note::is_empty")]
    pub previous_id: Note,
    #[serde(default, skip_serializing_if = "Note::is_empty")]
    pub new_id: Note,
    #[serde(default)]
    pub approval_source: Note,
    #[serde(default)]
    pub review_trigger: Note,
}

impl SourceAdmission {
    /// The skeleton of a record, which admits nothing.
    pub fn template(lane: Lane) -> Self {
        let blank = Self::blank(lane);
        if lane != Lane::Case {
            return blank;
        }
        // A known pin is no admission: whoever admits it fetches it, compares it and says what its licence allows.
        Self {
            kind: SourceKind::Git,
            url: CASE_URL.parse().unwrap_or_default(),
            commit: CASE_COMMIT.parse().ok(),
            licence_note: Note::new("unresolved"),
            retrieval_command: Note::new("git clone, then git checkout of the commit"),
            integrity_reference: Note::new("the id of the commit"),
            protected_source_boundary: Note::new(
                "the tree of the commit; a tree that was built in is none, because a build changes generated files",
            ),
            ..blank
        }
    }

    fn blank(lane: Lane) -> Self {
        Self {
            schema: Some(SourceSchema),
            status: AdmissionStatus::NotAdmitted,
            lane,
            kind: SourceKind::Registry,
            url: GitUrl::default(),
            commit: None,
            tag: Note::default(),
            registry: None,
            package: Note::default(),
            version: ExactVersion::default(),
            integrity: Integrity::default(),
            licence_note: Note::default(),
            retrieved_at: RecordDate::default(),
            retrieval_command: Note::default(),
            integrity_reference: Note::default(),
            allowed_execution_modes: BTreeSet::new(),
            protected_source_boundary: Note::default(),
            previous_id: Note::default(),
            new_id: Note::default(),
            approval_source: Note::default(),
            review_trigger: Note::default(),
        }
    }

    /// Its pin in one short text.
    pub fn pinned(&self) -> String {
        match (self.kind, &self.commit) {
            (SourceKind::Git, Some(commit)) => format!("{}@{}", self.url, &commit.as_str()[..12]),
            (SourceKind::Git, None) => self.url.to_string(),
            (SourceKind::Registry, _) => {
                let registry = self.registry.map_or("registry", Registry::as_str);
                format!("{registry}:{}@{}", self.package, self.version)
            }
        }
    }

    /// Whether somebody said what the licence allows.
    pub fn is_licence_resolved(&self) -> bool {
        let note = self.licence_note.as_str().trim().to_ascii_lowercase();
        !note.is_empty() && !note.starts_with("unresolved")
    }

    pub(super) fn first_fault(&self) -> Option<(&'static str, String)> {
        let registry_fields = [
            ("registry", self.registry.is_none()),
            ("package", self.package.is_empty()),
            ("version", self.version.is_empty()),
            ("integrity", self.integrity.is_empty()),
        ];
        let git_fields = [
            ("url", self.url.is_empty()),
            ("commit", self.commit.is_none()),
        ];
        let (own, foreign) = match self.kind {
            SourceKind::Git => (&git_fields[..], &registry_fields[..]),
            SourceKind::Registry => (&registry_fields[..], &git_fields[..]),
        };
        if let Some((field, _)) = foreign.iter().find(|(_, is_empty)| !is_empty) {
            return Some((field, format!("is no field of kind `{}`", self.kind)));
        }
        if self.kind == SourceKind::Registry && !self.tag.is_empty() {
            return Some(("tag", "is no field of kind `registry`".to_owned()));
        }
        if self.status == AdmissionStatus::NotAdmitted {
            return None;
        }
        let common = [
            ("retrieved_at", self.retrieved_at.is_empty()),
            ("retrieval_command", self.retrieval_command.is_empty()),
            ("integrity_reference", self.integrity_reference.is_empty()),
            (
                "allowed_execution_modes",
                self.allowed_execution_modes.is_empty(),
            ),
            (
                "protected_source_boundary",
                self.protected_source_boundary.is_empty(),
            ),
        ];
        first_empty(own).or_else(|| first_empty(&common))
    }
}
