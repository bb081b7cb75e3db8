//! The Eligibility Decision: written before a backend is chosen.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::admission::AdmissionKind;
use crate::blocker::Blocker;
use crate::ids::{CaseId, DecisionId, Digest};
use crate::time::Utc;
use crate::words::{
    AdmissionSeal, EscalationPath, Lane, ModelAdmissionStatus, MutationMode, RiskClass,
    SourceAdmissionStatus, Stage, TargetAdmissionStatus, UnknownWord,
};

wire_const! {
    /// Schema tag of `eligibility.json`.
    pub struct EligibilitySchema: &'static str = "cto.eligibility/v1"
}

wire_enum! {
    /// The gates that a decision looks at, in the order in which they are shown.
    pub enum Gate {
        LaneGate = "lane_gate",
        StageGate = "stage_gate",
        LaneAvailable = "lane_available",
        SourceAdmission = "source_admission",
        BinaryAdmission = "binary_admission",
        ModelAdmission = "model_admission",
        ProviderDecision = "provider_decision",
        AllowedPaths = "allowed_paths",
        ForbiddenActions = "forbidden_actions",
        RiskClass = "risk_class",
        MutationMode = "mutation_mode",
        Approval = "approval",
        TargetAdmission = "target_admission",
        TargetOwnership = "target_ownership",
        TargetRisk = "target_risk",
        TargetPaths = "target_paths",
        TargetActions = "target_actions",
        TargetApproval = "target_approval",
        TargetOutcome = "target_outcome",
        TargetScope = "target_scope",
        Repository = "repository",
        StartTreeClean = "start_tree_clean",
        EvidenceInterface = "evidence_interface",
        Ledger = "ledger",
        Trust = "trust",
        Confinement = "confinement",
        ModelEndpoint = "model_endpoint",
        ModelAccess = "model_access",
        ModelAnswer = "model_answer",
        Budget = "budget",
    }
}

wire_enum! {
    /// What came of a gate.
    pub enum GateOutcome {
        Passed = "passed",
        Missing = "missing",
        NotRequired = "not_required",
        /// Required and not looked at. It lets nothing through.
        Unknown = "unknown",
    }
}

/// What is known about a gate, where that came from, and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    pub gate: Gate,
    /// Null when it was not looked at.
    pub value: Option<String>,
    pub source: String,
    /// Null when it was not looked at.
    pub checked_at: Option<Utc>,
    pub outcome: GateOutcome,
    /// Why the gate is missing; absent unless it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Blocker>,
}

/// A backend that was not chosen, and everything that is known to stand against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeniedBackend {
    pub backend: Lane,
    /// One that was not asked for is never chosen, and nothing is looked up for it.
    pub asked_for: bool,
    pub reasons: Vec<Blocker>,
}

/// How the records of people stand for the lane that was asked for. It holds no path and no address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdmissionsSeen {
    pub source_admission_status: SourceAdmissionStatus,
    /// Absent for a lane without a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSeen>,
    /// Absent where no target is to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_repository_admission_status: Option<TargetAdmissionStatus>,
    /// The records that let the lane in, in the order of their kinds.
    pub records: Vec<UsedRecord>,
}

/// The model that a lane would ask, and whether a record admits it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelSeen {
    /// Null when nobody asked for a pair and no record names the only one.
    pub provider: Option<String>,
    pub model: Option<String>,
    pub model_admission_status: ModelAdmissionStatus,
}

/// A record that a decision rests on, by the digest of its canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsedRecord {
    pub kind: AdmissionKind,
    pub digest: Digest,
    pub seal: AdmissionSeal,
}

impl AdmissionsSeen {
    /// Signed where every record is; none where no record was needed.
    pub fn seal(&self) -> Option<AdmissionSeal> {
        let seals = self.records.iter().map(|record| record.seal);
        seals.min()
    }

    /// The pair that a record admits.
    pub fn admitted_pair(&self) -> Option<(&str, &str)> {
        let seen = self.model.as_ref()?;
        let is_admitted = seen.model_admission_status == ModelAdmissionStatus::Admitted;
        let pair = seen.provider.as_deref().zip(seen.model.as_deref());
        pair.filter(|_| is_admitted)
    }
}

/// The lane that may run. On the wire its word, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectedBackend(pub Option<Lane>);

impl SelectedBackend {
    const NONE: &'static str = "none";

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self.0 {
            Some(lane) => lane.as_str(),
            None => Self::NONE,
        }
    }
}

impl fmt::Display for SelectedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for SelectedBackend {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for SelectedBackend {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        if word == Self::NONE {
            return Ok(Self(None));
        }
        let lane = word.parse().map(Some).map(Self);
        lane.map_err(|_: UnknownWord| {
            let lanes = Lane::ALL.iter().map(|lane| lane.as_str());
            de::Error::custom(UnknownWord::new(&word, lanes.chain([Self::NONE])))
        })
    }
}

impl JsonSchema for SelectedBackend {
    fn schema_name() -> Cow<'static, str> {
        "SelectedBackend".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let lanes = Lane::ALL.iter().map(|lane| lane.as_str());
        let words: Vec<&str> = lanes.chain([Self::NONE]).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}

/// The decision. Same facts, same decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EligibilityDecision {
    pub schema_version: EligibilitySchema,
    /// `ed-` and the first sixteen digits of the digest of [`DecisionBasis`].
    pub decision_id: DecisionId,
    pub task_id: CaseId,
    pub contract_digest: Digest,
    /// The lane that was asked for; the facts are about it.
    pub requested_backend: Lane,
    pub selected_backend: SelectedBackend,
    /// Every lane but the selected one.
    pub denied_backends: Vec<DeniedBackend>,
    pub risk_class: RiskClass,
    pub stage: Stage,
    pub required_gates: Vec<Gate>,
    pub passed_gates: Vec<Gate>,
    pub missing_gates: Vec<Gate>,
    pub allowed_mutation_mode: MutationMode,
    pub approval_required: bool,
    /// Every reason, not the first.
    pub reasons: Vec<Blocker>,
    pub escalation_path: EscalationPath,
    /// One for each gate, in the order of the gates.
    pub facts: Vec<Fact>,
    /// Absent where the run ended before a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admissions: Option<AdmissionsSeen>,
}

/// What of a decision follows from its facts alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    pub required_gates: Vec<Gate>,
    pub passed_gates: Vec<Gate>,
    pub missing_gates: Vec<Gate>,
    pub reasons: Vec<Blocker>,
    pub approval_required: bool,
    /// Every required gate is passed.
    pub is_eligible: bool,
}

impl Derived {
    /// Reads it off the facts.
    pub fn from_facts(facts: &[Fact]) -> Self {
        let gates = |wanted: fn(GateOutcome) -> bool| {
            let of = facts.iter().filter(|fact| wanted(fact.outcome));
            of.map(|fact| fact.gate).collect::<Vec<_>>()
        };
        let required_gates = gates(|outcome| outcome != GateOutcome::NotRequired);
        let passed_gates = gates(|outcome| outcome == GateOutcome::Passed);
        Self {
            is_eligible: required_gates == passed_gates,
            approval_required: required_gates.contains(&Gate::Approval),
            missing_gates: gates(|outcome| outcome == GateOutcome::Missing),
            reasons: facts
                .iter()
                .filter_map(|fact| fact.refusal.clone())
                .collect(),
            required_gates,
            passed_gates,
        }
    }
}

/// What the id of a decision is the digest of: all that was found, and not when. Same facts, same id.
#[derive(Debug, Serialize)]
pub struct DecisionBasis<'a> {
    task_id: &'a CaseId,
    contract_digest: &'a Digest,
    requested_backend: Lane,
    stage: Stage,
    facts: Vec<BasisFact<'a>>,
    denied_backends: &'a [DeniedBackend],
    #[serde(skip_serializing_if = "Option::is_none")]
    admissions: Option<&'a AdmissionsSeen>,
}

/// A fact without its time.
#[derive(Debug, Serialize)]
struct BasisFact<'a> {
    gate: Gate,
    value: Option<&'a str>,
    source: &'a str,
    outcome: GateOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a Blocker>,
}

impl EligibilityDecision {
    /// What its id must be the digest of.
    pub fn basis(&self) -> DecisionBasis<'_> {
        let facts = self.facts.iter().map(|fact| BasisFact {
            gate: fact.gate,
            value: fact.value.as_deref(),
            source: &fact.source,
            outcome: fact.outcome,
            refusal: fact.refusal.as_ref(),
        });
        DecisionBasis {
            task_id: &self.task_id,
            contract_digest: &self.contract_digest,
            requested_backend: self.requested_backend,
            stage: self.stage,
            facts: facts.collect(),
            denied_backends: &self.denied_backends,
            admissions: self.admissions.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unsigned_record_makes_all_of_them_unsigned() {
        let seen = |seals: &[AdmissionSeal]| {
            let records = seals.iter().map(|seal| UsedRecord {
                kind: AdmissionKind::Model,
                digest: "ab".repeat(32).parse().unwrap(),
                seal: *seal,
            });
            let seen = AdmissionsSeen {
                source_admission_status: SourceAdmissionStatus::NotAdmitted,
                model: None,
                target_repository_admission_status: None,
                records: records.collect(),
            };
            seen.seal()
        };
        use AdmissionSeal::{Signed, Unsigned};
        assert_eq!(seen(&[]), None);
        assert_eq!(seen(&[Signed]), Some(Signed));
        assert_eq!(seen(&[Signed, Unsigned]), Some(Unsigned));
        assert_eq!(seen(&[Unsigned, Signed]), Some(Unsigned));
    }

    #[test]
    fn a_selected_backend_is_the_word_of_a_lane_or_none() {
        for lane in Lane::ALL.iter().copied().map(Some).chain([None]) {
            let text = serde_json::to_string(&SelectedBackend(lane)).unwrap();
            let word = lane.map_or("none", Lane::as_str);
            assert_eq!(text, format!("\"{word}\""));
            let back: SelectedBackend = serde_json::from_str(&text).unwrap();
            assert_eq!(back, SelectedBackend(lane));
        }
        let error = serde_json::from_str::<SelectedBackend>("\"None\"").unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    }
}
