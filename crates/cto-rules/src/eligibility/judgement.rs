//! One gate, one judgement: a function of the facts about one lane.
//!
//! A refusal's subject is the gate's name, or that of the environment variable which would open it.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::eligibility::{Fact, Gate, GateOutcome};
use cto_contract::text;
use cto_contract::time::Utc;
use cto_contract::words::{Lane, NetworkClass};

use crate::admission::{Moment, TargetGate};

use super::facts::{Asked, Facts, LaneSettings, LookedUp, Probe, Seen};
use super::stage::StageAsked;
use super::{lane_gates, machine_gates, model_gates, record_gates, target_gates, task_gates};

/// Most characters of a fact's value that are shown.
const SHOWN_CHARS: usize = 200;
/// Most characters of somebody else's sentence in a message.
const QUOTED_CHARS: usize = 300;

pub(super) const TASK_CONTRACT: &str = "task contract";
pub(super) const ENVIRONMENT: &str = "environment";

/// How a gate stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judgement {
    NotRequired,
    Passed,
    Missing(Blocker),
    /// This must be looked up first.
    Unknown(Probe),
}

/// The facts about one lane.
#[derive(Clone, Copy)]
pub(super) struct LaneFacts<'a> {
    pub(super) asked: &'a Asked,
    pub(super) lane: Lane,
    pub(super) looked_up: &'a LookedUp,
}

impl<'a> LaneFacts<'a> {
    /// About the lane that was asked for.
    pub(super) fn of_asked(facts: &'a Facts) -> Self {
        Self {
            asked: &facts.asked,
            lane: facts.asked.lane,
            looked_up: &facts.looked_up,
        }
    }

    pub(super) fn settings(&self) -> &'a LaneSettings {
        static NOTHING: LaneSettings = LaneSettings::NOTHING;
        self.asked.lanes.get(&self.lane).unwrap_or(&NOTHING)
    }

    pub(super) fn stage(&self) -> StageAsked {
        let settings = self.settings();
        StageAsked::with_config(
            self.lane,
            self.asked.stage,
            settings.stage.as_deref(),
            (settings.config, self.asked.work),
        )
    }

    /// When the records are looked at.
    pub(super) fn moment(&self) -> Moment {
        Moment {
            stage: self.stage().stage,
            at: self.asked.at,
        }
    }

    /// The name that holds the address of the lane's model, if it has one.
    pub(super) fn model_name(&self) -> Option<String> {
        match self.lane.network(self.asked.contract.network) {
            NetworkClass::None => None,
            NetworkClass::Model => self.lane.base_url(),
        }
    }

    /// A gate that is judged by what was there from the beginning.
    pub(super) fn given(
        &self,
        source: &'static str,
        value: impl Into<String>,
        judgement: Judgement,
    ) -> Finding {
        Finding {
            value: Some(value.into()),
            source,
            checked_at: Some(self.asked.at),
            judgement,
        }
    }
}

/// What is shown of a gate, and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    value: Option<String>,
    source: &'static str,
    checked_at: Option<Utc>,
    judgement: Judgement,
}

impl Finding {
    /// A gate that is judged by what a probe finds; unknown until it has.
    pub(super) fn looked<T>(
        probe: Probe,
        source: &'static str,
        seen: Option<&Seen<T>>,
        judge: impl FnOnce(&T) -> (String, Judgement),
    ) -> Self {
        let Some(seen) = seen else {
            return Self {
                value: None,
                source,
                checked_at: None,
                judgement: Judgement::Unknown(probe),
            };
        };
        let (value, judgement) = judge(&seen.value);
        Self {
            value: Some(value),
            source,
            checked_at: Some(seen.at),
            judgement,
        }
    }

    pub(super) fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    /// The same gate with another end.
    pub(super) fn but(self, value: String, judgement: Judgement) -> Self {
        Self {
            value: Some(value),
            judgement,
            ..self
        }
    }

    /// The same gate, not known before another probe has answered.
    pub(super) fn until(self, probe: Probe) -> Self {
        Self {
            value: None,
            checked_at: None,
            judgement: Judgement::Unknown(probe),
            ..self
        }
    }
}

/// A judged gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) gate: Gate,
    finding: Finding,
}

impl Judged {
    pub(super) fn refusal(&self) -> Option<&Blocker> {
        match &self.finding.judgement {
            Judgement::Missing(blocker) => Some(blocker),
            Judgement::NotRequired | Judgement::Passed | Judgement::Unknown(_) => None,
        }
    }

    pub(super) fn unknown(&self) -> Option<Probe> {
        match &self.finding.judgement {
            Judgement::Unknown(probe) => Some(*probe),
            Judgement::NotRequired | Judgement::Passed | Judgement::Missing(_) => None,
        }
    }

    pub(super) fn into_fact(self) -> Fact {
        let found = self.finding;
        let (outcome, refusal) = match found.judgement {
            Judgement::NotRequired => (GateOutcome::NotRequired, None),
            Judgement::Passed => (GateOutcome::Passed, None),
            Judgement::Missing(blocker) => (GateOutcome::Missing, Some(blocker)),
            Judgement::Unknown(_) => (GateOutcome::Unknown, None),
        };
        Fact {
            gate: self.gate,
            value: found.value.map(|value| text::shorten(&value, SHOWN_CHARS)),
            source: found.source.to_owned(),
            checked_at: found.checked_at,
            outcome,
            refusal,
        }
    }
}

/// How one gate is judged from the facts about a lane.
pub(super) type JudgeGate = fn(Gate, &LaneFacts<'_>) -> Finding;

/// Judges every gate, each no matter how the others stand.
pub(super) fn judge(facts: &LaneFacts<'_>, judge_one: JudgeGate) -> Vec<Judged> {
    let judged = |gate: &Gate| Judged {
        gate: *gate,
        finding: judge_one(*gate, facts),
    };
    Gate::ALL.iter().map(judged).collect()
}

pub(super) fn judge_one(gate: Gate, facts: &LaneFacts<'_>) -> Finding {
    match gate {
        Gate::LaneGate => lane_gates::lane_gate(facts),
        Gate::StageGate => lane_gates::stage_gate(facts),
        Gate::LaneAvailable => lane_gates::lane_available(facts),
        Gate::SourceAdmission => record_gates::source_admission(facts),
        Gate::BinaryAdmission => record_gates::binary_admission(facts),
        Gate::ModelAdmission => record_gates::model_admission(facts),
        Gate::ProviderDecision => record_gates::provider_decision(facts),
        Gate::AllowedPaths => task_gates::allowed_paths(facts),
        Gate::ForbiddenActions => task_gates::forbidden_actions(facts),
        Gate::RiskClass => task_gates::risk_class(facts),
        Gate::MutationMode => task_gates::mutation_mode(facts),
        Gate::Approval => task_gates::approval(facts),
        Gate::TargetAdmission => target_gates::target(facts, TargetGate::Admission),
        Gate::TargetOwnership => target_gates::target(facts, TargetGate::Ownership),
        Gate::TargetRisk => target_gates::target(facts, TargetGate::Risk),
        Gate::TargetPaths => target_gates::target(facts, TargetGate::Paths),
        Gate::TargetActions => target_gates::target(facts, TargetGate::Actions),
        Gate::TargetApproval => target_gates::target(facts, TargetGate::Approval),
        Gate::TargetOutcome => target_gates::target(facts, TargetGate::Outcome),
        Gate::TargetScope => target_gates::target(facts, TargetGate::Scope),
        Gate::Repository => task_gates::repository(facts),
        Gate::StartTreeClean => task_gates::start_tree_clean(facts),
        Gate::EvidenceInterface => machine_gates::evidence_interface(facts),
        Gate::Ledger => machine_gates::ledger(facts),
        Gate::Trust => machine_gates::trust(facts),
        Gate::Confinement => machine_gates::confinement(facts),
        Gate::ModelEndpoint => model_gates::model_endpoint(facts),
        Gate::ModelAccess => model_gates::model_access(facts),
        Gate::ModelAnswer => model_gates::model_answer(facts),
        Gate::Budget => model_gates::budget(facts),
    }
}

/// A refusal whose subject is the gate.
pub(super) fn refused(gate: Gate, code: BlockerCode, message: String) -> Judgement {
    refused_by(gate.as_str(), code, message)
}

/// A refusal with a subject of its own: the name of what would open the gate.
pub(super) fn refused_by(subject: &str, code: BlockerCode, message: String) -> Judgement {
    Judgement::Missing(Blocker::new(code, subject, message))
}

/// Somebody else's sentence about a gate.
pub(super) fn quoted(gate: Gate, why: &str) -> String {
    format!("`{gate}`: {}", quote(why))
}

/// Somebody else's sentence, no longer than it is worth.
pub(super) fn quote(why: &str) -> String {
    text::shorten(why, QUOTED_CHARS)
}
