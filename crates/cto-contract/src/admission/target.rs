//! The admission of a target: a repository that changes may land in.

use std::collections::BTreeSet;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{AbsolutePath, AdmissionStatus, Note, RecordDate};
use crate::path::{BadPattern, PathPattern};
use crate::words::{Action, RiskClass};

wire_const! {
    /// Schema tag of a target admission; a record may leave it out.
    pub struct TargetSchema: &'static str = "cto.admission.target/v1"
}

/// A path that nobody may change. Git's own directory may be named here, although it is never allowed anyway.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ForbiddenPath(String);

impl ForbiddenPath {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The pattern; none for git's own directory, which no pattern can name.
    pub fn pattern(&self) -> Option<PathPattern> {
        self.0.parse().ok()
    }
}

impl FromStr for ForbiddenPath {
    type Err = BadPattern;
    fn from_str(text: &str) -> Result<Self, BadPattern> {
        match text.parse::<PathPattern>() {
            Ok(_) | Err(BadPattern::GitDir(_)) => Ok(Self(text.to_owned())),
            Err(error) => Err(error),
        }
    }
}

impl<'de> Deserialize<'de> for ForbiddenPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A repository that a person owns and lets a lane change. What is left out is a gate that stays closed, each by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetAdmission {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<TargetSchema>,
    #[serde(default)]
    pub admission_status: AdmissionStatus,
    pub target_repository_path: AbsolutePath,
    /// Made from the last component of the path where it is absent.
    #[serde(default, skip_serializing_if = "Note::is_empty")]
    pub target_id: Note,
    #[serde(default)]
    pub repository_owner: Note,
    #[serde(default)]
    pub ownership_evidence: Note,
    /// Only `low_risk_noncritical` is ever let in.
    #[serde(default)]
    pub risk_classification: Note,
    #[serde(default)]
    pub noncritical_rationale: Note,
    #[serde(default)]
    pub allowed_paths: Vec<PathPattern>,
    #[serde(default)]
    pub forbidden_paths: Vec<ForbiddenPath>,
    #[serde(default)]
    pub forbidden_actions: BTreeSet<Action>,
    #[serde(default)]
    pub approval_source: Note,
    #[serde(default)]
    pub approval_timestamp: RecordDate,
    #[serde(default)]
    pub operator_outcome_required: bool,
    #[serde(default)]
    pub review_trigger: Note,
}

/// Good defaults for `forbidden_paths`.
const FORBIDDEN_DEFAULT: [&str; 16] = [
    "**/.env",
    "**/.env.*",
    "**/secrets/",
    "**/credentials/",
    "deploy/",
    "infra/",
    ".github/workflows/",
    "**/package-lock.json",
    "**/pnpm-lock.yaml",
    "**/yarn.lock",
    "**/Cargo.lock",
    "**/poetry.lock",
    "**/uv.lock",
    "**/go.sum",
    "**/node_modules/",
    "**/vendor/",
];

impl TargetAdmission {
    pub(super) fn template() -> Self {
        Self {
            schema: Some(TargetSchema),
            forbidden_paths: FORBIDDEN_DEFAULT
                .iter()
                .map(|path| ForbiddenPath((*path).to_owned()))
                .collect(),
            forbidden_actions: Action::ALL.iter().copied().collect(),
            ..Self::default()
        }
    }

    /// The name by which packs know it.
    pub fn id(&self) -> Option<String> {
        if !self.target_id.is_empty() {
            return Some(self.target_id.to_string());
        }
        let path = self.target_repository_path.as_str();
        let last = path.rsplit('/').find(|component| !component.is_empty());
        last.map(str::to_owned)
    }

    /// Whether it is of the one class that can be let in.
    pub fn is_low_risk(&self) -> bool {
        self.risk_classification.as_str() == RiskClass::LowRiskNoncritical.as_str()
    }

    pub(super) fn first_fault(&self) -> Option<(&'static str, String)> {
        let is_placed = !self.target_repository_path.is_empty();
        (self.admission_status == AdmissionStatus::Admitted && !is_placed).then(|| {
            let why = "is empty, and the record is admitted";
            ("target_repository_path", why.to_owned())
        })
    }
}
