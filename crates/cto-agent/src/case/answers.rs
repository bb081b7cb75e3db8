//! What the roles' model answered, as it passed the forwarder. The event file is the agent's to write; this is not.

use std::collections::BTreeMap;

use cto_contract::event::{PhaseStatus, PhaseWords, PipelinePhase, PipelineWords};
use serde_json::Value;

use super::events::words_of;
use crate::dialogue::ModelAnswer;
use crate::plan::OverheardAnswers;

/// What a role's page begins with, by the phase that it works in.
const ROLES: [(&str, PipelinePhase); 3] = [
    ("name: implementer", PipelinePhase::Implement),
    ("name: verifier", PipelinePhase::Verify),
    ("name: reviewer", PipelinePhase::Review),
];

/// How often a phase was spoken for and against.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) for_it: u64,
    pub(super) against: u64,
}

impl Ends {
    pub(super) fn note(&mut self, words: &PhaseWords) {
        match words.is_against() {
            true => self.against += 1,
            false => self.for_it += 1,
        }
    }
}

/// Which passages the forwarder keeps.
pub(super) fn wanted() -> OverheardAnswers {
    OverheardAnswers {
        opens: "<<<AGENT_RESULT".to_owned(),
        closes: "AGENT_RESULT>>>".to_owned(),
        askers: ROLES.iter().map(|(name, _)| (*name).to_owned()).collect(),
    }
}

/// Results of roles, by phase.
#[derive(Debug, Default)]
pub(super) struct Answers(BTreeMap<PipelinePhase, Ends>);

impl Answers {
    /// Takes a result. What is none speaks for nobody: Case calls its phase failed then.
    pub(super) fn hear(&mut self, answer: &ModelAnswer) {
        let Ok(result) = serde_json::from_str::<Value>(&answer.text) else {
            return;
        };
        let asker = answer.asker.as_deref();
        let named = ROLES.iter().find(|(name, _)| Some(*name) == asker);
        let phase = named
            .map(|(_, phase)| *phase)
            .or_else(|| own_phase(&result));
        if let Some(phase) = phase {
            let words = words_of(phase, Some("completed"), Some(&result));
            self.0.entry(phase).or_default().note(&words);
        }
    }

    /// Whether a file about the phases says otherwise: a phase completed whose role never answered so, or a role that judges
    /// spoke against the change more often than the file tells.
    pub(super) fn contradict(
        &self,
        words: &PipelineWords,
        told: &BTreeMap<PipelinePhase, Ends>,
    ) -> bool {
        let of = |ends: &BTreeMap<PipelinePhase, Ends>, phase: PipelinePhase| {
            ends.get(&phase).copied().unwrap_or_default()
        };
        let invented = words.phases.iter().any(|end| {
            let heard = of(&self.0, end.phase);
            end.status == PhaseStatus::Completed && heard.for_it + heard.against == 0
        });
        // An implementer that fails tries again, and only the end of it is told.
        let judging = [PipelinePhase::Verify, PipelinePhase::Review];
        let mut judging = judging.into_iter();
        invented || judging.any(|phase| of(&self.0, phase).against > of(told, phase).against)
    }
}

/// The phase that a result itself belongs to.
fn own_phase(result: &Value) -> Option<PipelinePhase> {
    match result.pointer("/rubric/role").and_then(Value::as_str) {
        Some("reviewer") => Some(PipelinePhase::Review),
        Some("verifier") => Some(PipelinePhase::Verify),
        _ => result.get("findings").map(|_| PipelinePhase::Review),
    }
}
