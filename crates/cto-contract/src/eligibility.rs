//! The Eligibility Decision: written before a backend is chosen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocker::Blocker;
use crate::ids::{CaseId, DecisionId};
use crate::time::Utc;
use crate::words::{EscalationPath, Lane, MutationMode, RiskClass, Stage};

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
        AllowedPaths = "allowed_paths",
        ForbiddenActions = "forbidden_actions",
        RiskClass = "risk_class",
        MutationMode = "mutation_mode",
        Approval = "approval",
        Repository = "repository",
        StartTreeClean = "start_tree_clean",
        EvidenceInterface = "evidence_interface",
        Confinement = "confinement",
        ModelEndpoint = "model_endpoint",
        Budget = "budget",
    }
}

/// A fact and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    pub gate: Gate,
    pub value: String,
    pub source: String,
    pub checked_at: Utc,
}

/// A backend that was not chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeniedBackend {
    pub backend: Lane,
    pub reason: String,
}

wire_enum! {
    /// The chosen backend, or none.
    pub enum Selected { None = "none", Fake = "fake", Command = "command", Case = "case", Codex = "codex", Pi = "pi", Claude = "claude", Acp = "acp" }
}

impl From<Lane> for Selected {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Fake => Self::Fake,
            Lane::Command => Self::Command,
            Lane::Case => Self::Case,
            Lane::Codex => Self::Codex,
            Lane::Pi => Self::Pi,
            Lane::Claude => Self::Claude,
            Lane::Acp => Self::Acp,
        }
    }
}

/// The decision. Same facts, same decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EligibilityDecision {
    pub schema_version: EligibilitySchema,
    pub decision_id: DecisionId,
    pub task_id: CaseId,
    pub selected_backend: Selected,
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
    pub facts: Vec<Fact>,
}
