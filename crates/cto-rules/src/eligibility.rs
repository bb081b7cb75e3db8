//! Who may run: one decision from facts, with every reason against it and where each fact came from.
//!
//! Same facts, same decision. A worse fact never turns a refusal into a selection, and no caller can waive a gate by
//! saying that it is not needed. What must be looked up is looked up by others: [`decide`] names the one fact it still
//! needs, the caller finds it and asks again. The only way to an [`ExecutionGrant`] leads through here.

mod facts;
mod judgement;
mod lane_gates;
mod machine_gates;
mod model_gates;
mod record_gates;
mod stage;
mod target_gates;
mod task_gates;
#[cfg(test)]
pub(crate) mod tests;

use cto_contract::approval::RequestId;
use cto_contract::blocker::Blocker;
use cto_contract::eligibility::{
    AdmissionsSeen, DecisionBasis, DeniedBackend, Derived, EligibilityDecision, EligibilitySchema,
    Fact, Gate, GateOutcome, SelectedBackend,
};
use cto_contract::ids::{DecisionId, Digest};
use cto_contract::task::TaskContract;
use cto_contract::words::{Action, EscalationPath, Lane, MutationMode, Stage};

use crate::approval::needs_approval;
pub use facts::{
    AccessState, Answer, AnswerState, ApprovalState, Asked, AuthBridge, Confinement, EndpointState,
    Facts, LaneSettings, LookedUp, NoEvidence, Probe, RepositoryState, Seen, StartTree, TrustFiles,
    Work,
};
use judgement::{JudgeGate, Judged, LaneFacts, judge, judge_one};
pub use model_gates::endpoint_hint;
pub use stage::StageAsked;

/// Makes the id of a decision from what it rests on; these rules can't hash.
pub type IdOf = fn(&DecisionBasis<'_>) -> DecisionId;

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
    id: RequestId,
    ledger_seq: u64,
}

impl ConsumedApproval {
    pub(crate) fn new(id: RequestId, ledger_seq: u64) -> Self {
        Self { id, ledger_seq }
    }

    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// Where its consumption stands.
    pub fn ledger_seq(&self) -> u64 {
        self.ledger_seq
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

/// What was decided: the record for the pack, and the grant when every required gate is passed.
#[derive(Debug, PartialEq, Eq)]
pub struct Decision {
    pub record: EligibilityDecision,
    pub grant: Option<ExecutionGrant>,
}

/// The answer of [`decide`].
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This is to be looked up first.
    Needs(Probe),
    Decided(Box<Decision>),
}

/// Decides, or names the fact that is still needed.
///
/// Collects every missing gate rather than the first, so that the operator fixes all of them in one go. What is dear to
/// look up is asked for only when nothing else stands in the way.
pub fn decide(facts: &Facts, id_of: IdOf) -> Verdict {
    decide_by(judge_one, facts, id_of)
}

fn decide_by(judge_one: JudgeGate, facts: &Facts, id_of: IdOf) -> Verdict {
    let lane_facts = LaneFacts::of_asked(facts);
    let judged = judge(&lane_facts, judge_one);
    if let Some(probe) = next_probe(facts, &judged) {
        return Verdict::Needs(probe);
    }
    let asked = &facts.asked;
    let about = About {
        contract: &asked.contract,
        contract_digest: &asked.contract_digest,
        lane: asked.lane,
        stage: lane_facts.stage().stage,
    };
    let shown = judged.into_iter().map(Judged::into_fact).collect();
    let seen = (shown, Some(record_gates::seen(&lane_facts)));
    let record = about.record(seen, |lane| against(asked, lane, judge_one), id_of);
    let grant = record
        .selected_backend
        .0
        .zip(asked.contract.mutation_mode)
        .map(|(lane, mode)| ExecutionGrant {
            lane,
            stage: record.stage,
            mode,
            needs_approval: record.approval_required,
        });
    Verdict::Decided(Box::new(Decision { record, grant }))
}

impl Facts {
    /// How the records stand for the lane that was asked for, by what is known so far.
    pub fn admissions(&self) -> AdmissionsSeen {
        record_gates::seen(&LaneFacts::of_asked(self))
    }
}

/// The record of a run that ended before a decision: nothing was looked at, and nothing may run.
pub fn undecided(
    contract: &TaskContract,
    contract_digest: &Digest,
    (lane, stage): (Lane, Stage),
    id_of: IdOf,
) -> EligibilityDecision {
    let about = About {
        contract,
        contract_digest,
        lane,
        stage,
    };
    let fact = |gate: &Gate| Fact {
        gate: *gate,
        value: None,
        source: "the run ended before a decision".to_owned(),
        checked_at: None,
        outcome: GateOutcome::Unknown,
        refusal: None,
    };
    let facts = Gate::ALL.iter().map(fact).collect();
    about.record((facts, None), |_| Vec::new(), id_of)
}

/// The cheapest fact that is missing and may be asked for.
fn next_probe(facts: &Facts, judged: &[Judged]) -> Option<Probe> {
    let is_refused = judged.iter().any(|j| j.refusal().is_some());
    let is_dear = |probe: &Probe| facts.asked.is_dear(*probe);
    judged
        .iter()
        .filter_map(Judged::unknown)
        .filter(|probe| !facts.is_left_out(*probe))
        .filter(|probe| !is_refused || !is_dear(probe))
        .min_by_key(|probe| (is_dear(probe), *probe))
}

/// What stands against a lane that was not asked for, by what is known without looking.
fn against(asked: &Asked, lane: Lane, judge_one: JudgeGate) -> Vec<Blocker> {
    let lane_facts = LaneFacts {
        asked,
        lane,
        looked_up: &LookedUp::default(),
    };
    let judged = judge(&lane_facts, judge_one);
    judged.iter().filter_map(Judged::refusal).cloned().collect()
}

/// Where a refusal goes next.
fn escalation(contract: &TaskContract) -> EscalationPath {
    // No operator's act makes a protected thing changeable.
    if contract.risk_class.is_protected() {
        return EscalationPath::Blocked;
    }
    let is_core = contract.mutation_mode == Some(MutationMode::CandidateDefault)
        || contract
            .permitted_actions
            .contains(&Action::CortexCoreMutation);
    if is_core {
        EscalationPath::CoreRoute
    } else {
        EscalationPath::Operator
    }
}

/// What a decision is about.
struct About<'a> {
    contract: &'a TaskContract,
    contract_digest: &'a Digest,
    lane: Lane,
    stage: Stage,
}

impl About<'_> {
    fn record(
        &self,
        (facts, admissions): (Vec<Fact>, Option<AdmissionsSeen>),
        against: impl Fn(Lane) -> Vec<Blocker>,
        id_of: IdOf,
    ) -> EligibilityDecision {
        let derived = Derived::from_facts(&facts);
        let contract = self.contract;
        let mode = contract.mutation_mode.filter(|_| derived.is_eligible);
        let selected = mode.map(|_| self.lane);
        let denied = Lane::ALL
            .iter()
            .copied()
            .filter(|lane| Some(*lane) != selected);
        let denied = denied.map(|lane| DeniedBackend {
            backend: lane,
            asked_for: lane == self.lane,
            reasons: if lane == self.lane {
                derived.reasons.clone()
            } else {
                against(lane)
            },
        });
        let mut record = EligibilityDecision {
            schema_version: EligibilitySchema,
            // Replaced below: the id rests on all the rest.
            decision_id: DecisionId::of(self.contract_digest),
            task_id: contract.task_id.clone(),
            contract_digest: self.contract_digest.clone(),
            requested_backend: self.lane,
            selected_backend: SelectedBackend(selected),
            denied_backends: denied.collect(),
            risk_class: contract.risk_class,
            stage: self.stage,
            required_gates: derived.required_gates,
            passed_gates: derived.passed_gates,
            missing_gates: derived.missing_gates,
            allowed_mutation_mode: mode.unwrap_or(MutationMode::None),
            approval_required: needs_approval(contract, self.stage),
            reasons: derived.reasons,
            escalation_path: escalation(contract),
            facts,
            admissions,
        };
        record.decision_id = id_of(&record.basis());
        record
    }
}
