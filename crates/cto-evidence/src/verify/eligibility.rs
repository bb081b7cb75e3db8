//! Whether an Eligibility Decision follows from its own facts, and belongs to the run.

use cto_contract::artifact::ELIGIBILITY;
use cto_contract::eligibility::{Derived, EligibilityDecision, Gate, GateOutcome};
use cto_contract::verify::VerifyCode;
use cto_contract::words::MutationMode;

use super::documents::{Documents, Facts};
use super::findings::Findings;
use crate::canonical::decision_id;
use crate::chain::Log;

/// Checks the decision that the log holds; a run without one has nothing to follow from.
pub(super) fn check(log: &Log, facts: &Facts<'_>, documents: &Documents, findings: &mut Findings) {
    let (Some(decision), Some(_)) = (&documents.eligibility, facts.eligibility) else {
        return;
    };
    let mut need = |holds: bool, message: &str| {
        findings.need(holds, VerifyCode::ReportMismatch, ELIGIBILITY, message)
    };
    need(
        decision.decision_id == decision_id(&decision.basis()),
        "decision_id is not that of its facts",
    );
    // Not all gates of this version: an earlier one had fewer.
    need(
        decision.facts.is_sorted_by(|a, b| a.gate < b.gate),
        "its facts are not one for each gate, in order",
    );
    for fact in &decision.facts {
        let is_unknown = fact.outcome == GateOutcome::Unknown;
        let is_missing = fact.outcome == GateOutcome::Missing;
        need(
            fact.value.is_none() == is_unknown && fact.checked_at.is_none() == is_unknown,
            "a fact has a value exactly when it was looked at",
        );
        need(
            fact.refusal.is_some() == is_missing,
            "a fact has a refusal exactly when its gate is missing",
        );
    }
    need(
        follows(decision),
        "its gates, reasons or backends do not follow from its facts",
    );
    need(
        decision.task_id == log.case_id && decision.requested_backend == log.backend,
        "is about another task or backend than the log",
    );
    need(
        facts.started.is_none_or(|s| s.stage == decision.stage),
        "is about another stage than run.started",
    );
    let digest = facts.contract.map(|created| &created.contract_digest);
    need(
        digest.is_none_or(|digest| *digest == decision.contract_digest),
        "is about another contract than task.contract.created",
    );
}

/// Whether everything that rests on the facts is what they say.
fn follows(decision: &EligibilityDecision) -> bool {
    let derived = Derived::from_facts(&decision.facts);
    let lane = decision.requested_backend;
    let selected = derived.is_eligible.then_some(lane);
    let approval = decision.facts.iter().find(|f| f.gate == Gate::Approval);
    let denied = &decision.denied_backends;
    let asked = denied.iter().find(|denied| denied.asked_for);
    decision.required_gates == derived.required_gates
        && decision.passed_gates == derived.passed_gates
        && decision.missing_gates == derived.missing_gates
        && decision.reasons == derived.reasons
        && decision.selected_backend.0 == selected
        && denied.is_sorted_by(|a, b| a.backend < b.backend)
        && denied.iter().all(|d| d.asked_for == (d.backend == lane))
        && asked.is_none() == derived.is_eligible
        && asked.is_none_or(|asked| asked.reasons == derived.reasons)
        && (derived.is_eligible || decision.allowed_mutation_mode == MutationMode::None)
        && approval.is_none_or(|fact| match fact.outcome {
            GateOutcome::NotRequired => !decision.approval_required,
            GateOutcome::Passed | GateOutcome::Missing => decision.approval_required,
            GateOutcome::Unknown => true,
        })
}
