//! Who may run: one decision from gathered facts, with every reason against it and where each fact came from.
//!
//! Same facts, same decision. A worse fact never turns a refusal into a selection, and no caller can waive a gate by
//! saying that it is not needed. The only way to an [`ExecutionGrant`] leads through [`decide`].

mod facts;
mod judgement;
#[cfg(test)]
pub(crate) mod tests;

use cto_contract::eligibility::{
    DeniedBackend, EligibilityDecision, EligibilitySchema, Gate, Selected,
};
use cto_contract::text;
use cto_contract::words::{EscalationPath, Lane, MutationMode, Stage};

pub use facts::{
    ApprovalState, EligibilityFacts, GateState, ModelState, Observed, RepositoryState,
};
use judgement::Judgement;

/// The right to run one lane once, within a mode. Only [`decide`] makes one.
#[derive(Debug, PartialEq, Eq)]
pub struct ExecutionGrant {
    lane: Lane,
    stage: Stage,
    mode: MutationMode,
    needs_approval: bool,
}

/// What stands beside a grant where a person had to approve.
#[derive(Debug, PartialEq, Eq)]
pub enum ApprovalUse {
    /// Neither stage nor contract asks for one.
    NotRequired,
    Consumed(ConsumedApproval),
}

/// An approval that was used up for one run. Only the ledger's consumption makes one.
#[derive(Debug, PartialEq, Eq)]
pub struct ConsumedApproval {
    id: String,
}

impl ConsumedApproval {
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl ExecutionGrant {
    /// Uses the grant up. False when it rests on an approval and none was consumed: then nothing may start.
    #[must_use]
    pub fn spend(self, approval: ApprovalUse) -> bool {
        match approval {
            ApprovalUse::NotRequired => !self.needs_approval,
            ApprovalUse::Consumed(_) => true,
        }
    }

    pub fn lane(&self) -> Lane {
        self.lane
    }

    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// How far the run may write.
    pub fn mode(&self) -> MutationMode {
        self.mode
    }
}

/// What was decided: the record for the pack, and the grant when nothing speaks against it.
#[derive(Debug, PartialEq, Eq)]
pub struct Decision {
    pub record: EligibilityDecision,
    pub grant: Option<ExecutionGrant>,
}

/// Decides. Collects every missing gate rather than the first, so that the operator fixes all of them in one go.
pub fn decide(facts: &EligibilityFacts) -> Decision {
    let judged: Vec<(Gate, Judgement)> = Gate::ALL
        .iter()
        .map(|gate| (*gate, judgement::judge(*gate, facts)))
        .collect();
    let gates = |wanted: fn(&Judgement) -> bool| {
        judged
            .iter()
            .filter(|(_, j)| wanted(j))
            .map(|(g, _)| *g)
            .collect::<Vec<_>>()
    };
    let reasons: Vec<_> = judged
        .iter()
        .filter_map(|(_, j)| j.refusal().cloned())
        .collect();
    let grant = match (reasons.is_empty(), facts.requested_mode) {
        (true, Some(mode)) => Some(ExecutionGrant {
            lane: facts.lane,
            stage: facts.stage,
            mode,
            needs_approval: facts.approval_required(),
        }),
        (true, None) | (false, _) => None,
    };
    let refusal = reasons
        .iter()
        .map(|b| b.message.as_str())
        .collect::<Vec<_>>()
        .join("; ");
    let denied = |lane: &Lane| match (*lane == facts.lane, grant.is_some()) {
        (true, true) => None,
        (true, false) => Some(DeniedBackend {
            backend: *lane,
            reason: text::shorten(&refusal, 1000),
        }),
        (false, _) => Some(DeniedBackend {
            backend: *lane,
            reason: "not asked for".to_owned(),
        }),
    };
    let record = EligibilityDecision {
        schema_version: EligibilitySchema,
        decision_id: facts.decision_id.clone(),
        task_id: facts.task_id.clone(),
        selected_backend: if grant.is_some() {
            facts.lane.into()
        } else {
            Selected::None
        },
        denied_backends: Lane::ALL.iter().filter_map(denied).collect(),
        risk_class: facts.risk_class,
        stage: facts.stage,
        required_gates: gates(|j| !matches!(j, Judgement::NotRequired)),
        passed_gates: gates(|j| matches!(j, Judgement::Passed)),
        missing_gates: gates(|j| matches!(j, Judgement::Missing(_))),
        allowed_mutation_mode: grant
            .as_ref()
            .map_or(MutationMode::None, ExecutionGrant::mode),
        approval_required: facts.approval_required(),
        reasons,
        // No operator's act makes a protected thing changeable.
        escalation_path: if facts.risk_class.is_protected() {
            EscalationPath::Blocked
        } else {
            EscalationPath::Operator
        },
        facts: Gate::ALL.iter().map(|gate| facts.shown(*gate)).collect(),
    };
    Decision { record, grant }
}
