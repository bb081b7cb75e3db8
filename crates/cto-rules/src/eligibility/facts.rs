//! Everything that the decision may look at, gathered by others, with its provenance.

use cto_contract::eligibility::{Fact, Gate};
use cto_contract::ids::{CaseId, DecisionId};
use cto_contract::text;
use cto_contract::time::Utc;
use cto_contract::words::{
    Action, Lane, MutationMode, NetworkClass, RiskClass, SandboxClass, SourceAdmissionStatus, Stage,
};
use serde::Serialize;

/// Most characters of a fact's value or of an environment value that are shown.
const SHOWN_CHARS: usize = 200;
const GATE_VALUE_CHARS: usize = 40;

/// A value, where it came from and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Observed<T> {
    pub value: T,
    pub source: String,
    pub checked_at: Utc,
}

/// Where a gate of the environment stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum GateState {
    NotNeeded,
    Open,
    Absent {
        name: String,
    },
    /// Set to something that opens nothing; counts as absent and is shown.
    Wrong {
        name: String,
        shown: String,
    },
}

/// Where the approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ApprovalState {
    NotRequired,
    Granted,
    Missing,
    Denied,
}

/// Whether a repository can be copied from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum RepositoryState {
    Usable,
    /// Not the operator's own: what is wrong.
    NotOwned(String),
    /// The kind by name, and what it is about.
    Unsupported(String),
}

/// Whether the lane's model can be reached, as far as that is known before anything starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum ModelState {
    NotNeeded,
    Ready,
    /// The environment name that holds no base URL.
    EndpointMissing {
        name: String,
    },
    /// The same name, and what is wrong with its value; the value itself is never told.
    EndpointInvalid {
        name: String,
        why: String,
    },
    KeyUnavailable(String),
    Unusable(String),
    /// Nothing keeps the agent from other addresses here.
    Unconfined(SandboxClass),
}

/// The facts. The digest of their serialised form names the decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EligibilityFacts {
    #[serde(skip)]
    pub decision_id: DecisionId,
    pub task_id: CaseId,
    pub lane: Lane,
    pub stage: Stage,
    pub risk_class: RiskClass,
    pub requested_mode: Option<MutationMode>,
    pub lane_gate: Observed<GateState>,
    pub stage_gate: Observed<GateState>,
    /// Why the lane's program or model cannot be used, if so.
    pub lane_available: Observed<Result<(), String>>,
    pub source_admission: Observed<SourceAdmissionStatus>,
    /// How many patterns allow something.
    pub allowed_paths: Observed<usize>,
    /// Actions that the contract neither forbids nor permits.
    pub unlisted_actions: Observed<Vec<Action>>,
    pub approval: Observed<ApprovalState>,
    /// What the source repository is fit for; none when there is none.
    pub repository: Observed<Option<RepositoryState>>,
    /// None when there is no repository that could be dirty.
    pub start_tree_clean: Observed<Option<bool>>,
    /// Why a pack could not be written or signed, if so.
    pub evidence_interface: Observed<Result<(), String>>,
    pub confinement: Observed<Result<SandboxClass, String>>,
    /// What of the network the contract asks for.
    pub network: NetworkClass,
    pub model: Observed<ModelState>,
    /// Caps that nobody could hold for this lane, by name.
    pub unmeterable: Observed<Vec<String>>,
}

impl GateState {
    /// The lane's gate. Only the exact value `1` opens it.
    pub fn lane(lane: Lane, value: Option<&str>) -> Self {
        lane.gate()
            .map_or(Self::NotNeeded, |name| Self::of(name, value, |v| v == "1"))
    }

    /// The stage's gate. Only the exact digit of the stage that was asked for opens it; when none was asked for by
    /// name, the environment asks, and any stage's digit is an answer.
    pub fn stage(lane: Lane, asked: Option<Stage>, value: Option<&str>) -> Self {
        let Some(name) = lane.stage_gate() else {
            return Self::NotNeeded;
        };
        // The first stage changes nothing and has no gate besides the lane's.
        if value.is_none() && asked.is_some_and(|s| s.number() == 1) {
            return Self::NotNeeded;
        }
        Self::of(name, value, |v| match asked {
            Some(stage) => v == stage.to_string(),
            None => Stage::all().any(|s| v == s.to_string()),
        })
    }

    fn of(name: String, value: Option<&str>, opens: impl FnOnce(&str) -> bool) -> Self {
        match value {
            None => Self::Absent { name },
            Some(value) if opens(value) => Self::Open,
            Some(value) => Self::Wrong {
                name,
                shown: text::shorten(value, GATE_VALUE_CHARS),
            },
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::NotNeeded => "not needed".to_owned(),
            Self::Open => "open".to_owned(),
            Self::Absent { name } => format!("{name} is absent"),
            Self::Wrong { name, shown } => {
                format!("{name} is set to \"{shown}\", which counts as absent")
            }
        }
    }
}

impl ModelState {
    pub(super) fn shown(&self) -> String {
        match self {
            Self::NotNeeded => "not needed".to_owned(),
            Self::Ready => "named".to_owned(),
            Self::EndpointMissing { name } => format!("{name} is absent"),
            Self::EndpointInvalid { name, why } => format!("{name}: {why}"),
            Self::KeyUnavailable(why) | Self::Unusable(why) => why.clone(),
            Self::Unconfined(class) => format!("confinement is {class}"),
        }
    }
}

impl EligibilityFacts {
    /// True when somebody must approve: by the mode, whatever the caller says, or by the contract.
    pub fn approval_required(&self) -> bool {
        self.requested_mode >= Some(MutationMode::SandboxRepo)
            || self.approval.value != ApprovalState::NotRequired
    }

    /// A gate's fact as the record shows it.
    pub(super) fn shown(&self, gate: Gate) -> Fact {
        // Risk class and mode are the contract's words, so they share the provenance of its paths.
        let contract = &self.allowed_paths;
        match gate {
            Gate::LaneGate => fact(gate, self.lane_gate.value.shown(), &self.lane_gate),
            Gate::StageGate => fact(gate, self.stage_gate.value.shown(), &self.stage_gate),
            Gate::LaneAvailable => fact(
                gate,
                outcome(&self.lane_available.value),
                &self.lane_available,
            ),
            Gate::SourceAdmission => fact(
                gate,
                self.source_admission.value.to_string(),
                &self.source_admission,
            ),
            Gate::AllowedPaths => fact(
                gate,
                self.allowed_paths.value.to_string(),
                &self.allowed_paths,
            ),
            Gate::ForbiddenActions => fact(
                gate,
                actions(&self.unlisted_actions.value),
                &self.unlisted_actions,
            ),
            Gate::RiskClass => fact(gate, self.risk_class.to_string(), contract),
            Gate::MutationMode => {
                let mode = self
                    .requested_mode
                    .map_or_else(|| "not chosen".to_owned(), |m| m.to_string());
                fact(gate, mode, contract)
            }
            Gate::Approval => fact(
                gate,
                approval(self.approval.value).to_owned(),
                &self.approval,
            ),
            Gate::Repository => {
                let state = match &self.repository.value {
                    None => "no repository",
                    Some(RepositoryState::Usable) => "usable",
                    Some(RepositoryState::NotOwned(why) | RepositoryState::Unsupported(why)) => why,
                };
                fact(gate, state.to_owned(), &self.repository)
            }
            Gate::StartTreeClean => {
                let clean = match self.start_tree_clean.value {
                    None => "no repository",
                    Some(true) => "clean",
                    Some(false) => "dirty",
                };
                fact(gate, clean.to_owned(), &self.start_tree_clean)
            }
            Gate::EvidenceInterface => fact(
                gate,
                outcome(&self.evidence_interface.value),
                &self.evidence_interface,
            ),
            Gate::Confinement => {
                let class = match &self.confinement.value {
                    Ok(class) => class.to_string(),
                    Err(why) => why.clone(),
                };
                fact(gate, class, &self.confinement)
            }
            Gate::ModelEndpoint => fact(gate, self.model.value.shown(), &self.model),
            Gate::Budget => {
                let caps = match self.unmeterable.value.as_slice() {
                    [] => "every cap can be held".to_owned(),
                    caps => format!("can't be held: {}", caps.join(", ")),
                };
                fact(gate, caps, &self.unmeterable)
            }
        }
    }
}

fn fact<T>(gate: Gate, value: String, observed: &Observed<T>) -> Fact {
    Fact {
        gate,
        value: text::shorten(&value, SHOWN_CHARS),
        source: text::shorten(&observed.source, SHOWN_CHARS),
        checked_at: observed.checked_at,
    }
}

fn outcome(value: &Result<(), String>) -> String {
    match value {
        Ok(()) => "ok".to_owned(),
        Err(why) => why.clone(),
    }
}

fn actions(unlisted: &[Action]) -> String {
    if unlisted.is_empty() {
        return "all listed".to_owned();
    }
    let names: Vec<&str> = unlisted.iter().map(|a| a.as_str()).collect();
    format!("not listed: {}", names.join(", "))
}

fn approval(state: ApprovalState) -> &'static str {
    match state {
        ApprovalState::NotRequired => "not required",
        ApprovalState::Granted => "granted",
        ApprovalState::Missing => "missing",
        ApprovalState::Denied => "denied",
    }
}
