//! The admission of a model: the authority for a pair of provider and model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AdmissionStatus, ClassWord, ModelName, Note, ProviderName, RecordDate, first_empty};

wire_const! {
    /// Schema tag of a model admission; a record may leave it out.
    pub struct ModelSchema: &'static str = "cto.admission.model/v1"
}

/// A pair of provider and model that a person let in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelAdmission {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<ModelSchema>,
    pub status: AdmissionStatus,
    pub provider: ProviderName,
    pub model: ModelName,
    /// Where the key comes from, as a class and never a value.
    pub credential_source_class: ClassWord,
    /// Which network its endpoint is in, as a class and never an address.
    pub allowed_network_class: ClassWord,
    pub approval_source: Note,
    pub admission_timestamp: RecordDate,
    /// For people; a date in it that passed makes the record stale.
    pub review_trigger: Note,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence_expectations: Vec<Note>,
}

impl ModelAdmission {
    /// Whether it is about a pair.
    pub fn is_of(&self, provider: &str, model: &str) -> bool {
        self.provider.as_str() == provider && self.model.as_str() == model
    }

    pub(super) fn first_fault(&self) -> Option<(&'static str, String)> {
        if self.status == AdmissionStatus::NotAdmitted {
            return None;
        }
        first_empty(&[
            ("provider", self.provider.is_empty()),
            ("model", self.model.is_empty()),
            (
                "credential_source_class",
                self.credential_source_class.is_empty(),
            ),
            (
                "allowed_network_class",
                self.allowed_network_class.is_empty(),
            ),
            ("approval_source", self.approval_source.is_empty()),
            ("admission_timestamp", self.admission_timestamp.is_empty()),
            ("review_trigger", self.review_trigger.is_empty()),
        ])
    }
}
