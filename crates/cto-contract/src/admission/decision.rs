//! The decision about a lane's provider: which class, and which one pair of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClassWord, ModelName, Note, ProviderName, RecordDate};
use crate::words::Lane;

wire_const! {
    /// Schema tag of a provider decision; a record may leave it out.
    pub struct DecisionSchema: &'static str = "cto.admission.decision/v1"
}

wire_enum! {
    /// What was decided. While nothing is, nothing runs.
    pub enum DecisionStatus {
        NotDecided = "not_decided",
        ExternalProviderApproved = "external_provider_approved",
        LocalProviderRequired = "local_provider_required",
    }
}

wire_enum! {
    /// Which kind of provider.
    pub enum ProviderClass {
        ExternalAnthropic = "external_anthropic",
        ExternalOpenaiCodex = "external_openai_codex",
        LocalCaseCompatible = "local_case_compatible",
        ExternalOther = "external_other",
        Local = "local",
    }
}

impl ProviderClass {
    /// Whether its models run on machines of the operator's.
    pub const fn is_local(self) -> bool {
        match self {
            Self::LocalCaseCompatible | Self::Local => true,
            Self::ExternalAnthropic | Self::ExternalOpenaiCodex | Self::ExternalOther => false,
        }
    }
}

/// What was decided before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PastDecision {
    pub decision_status: DecisionStatus,
    #[serde(default)]
    pub at: RecordDate,
    #[serde(default)]
    pub note: Note,
}

/// One decision for one lane. Only a person changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderDecision {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<DecisionSchema>,
    /// The lane that it is about; `case` where it names none.
    #[serde(default = "case")]
    pub lane: Lane,
    pub decision_status: DecisionStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_class: Option<ProviderClass>,
    #[serde(default)]
    pub provider: ProviderName,
    #[serde(default)]
    pub model: ModelName,
    #[serde(default)]
    pub fallback_provider: ProviderName,
    #[serde(default)]
    pub fallback_model: ModelName,
    #[serde(default)]
    pub approval_source: Note,
    #[serde(default)]
    pub credential_source_class: ClassWord,
    #[serde(default)]
    pub allowed_network_class: ClassWord,
    #[serde(default)]
    pub review_trigger: Note,
    /// References only.
    #[serde(default)]
    pub evidence_sources: Vec<Note>,
    #[serde(default)]
    pub effect: Note,
    #[serde(default)]
    pub history: Vec<PastDecision>,
}

fn case() -> Lane {
    Lane::Case
}

impl ProviderDecision {
    pub(super) fn template(lane: Lane) -> Self {
        Self {
            schema: Some(DecisionSchema),
            lane,
            decision_status: DecisionStatus::NotDecided,
            provider_class: None,
            provider: ProviderName::default(),
            model: ModelName::default(),
            fallback_provider: ProviderName::default(),
            fallback_model: ModelName::default(),
            approval_source: Note::default(),
            credential_source_class: ClassWord::default(),
            allowed_network_class: ClassWord::default(),
            review_trigger: Note::default(),
            evidence_sources: Vec::new(),
            effect: Note::default(),
            history: Vec::new(),
        }
    }

    pub(super) fn first_fault(&self) -> Option<(&'static str, String)> {
        let is_half = self.fallback_provider.is_empty() != self.fallback_model.is_empty();
        is_half.then(|| {
            let why = "and `fallback_model` are a pair: name both or neither";
            ("fallback_provider", why.to_owned())
        })
    }
}
