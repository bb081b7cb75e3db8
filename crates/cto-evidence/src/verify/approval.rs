//! The approval in a log: who asked, what an operator signed, and whether it was for this run. Recomputed from the signed
//! statements and the rest of the pack; what the events say beside them must be the same.

use cto_contract::approval::{
    Bindings, DenialStatement, ExecutionScope, GrantStatement, RequesterStatement,
};
use cto_contract::artifact::{ELIGIBILITY, EVENTS};
use cto_contract::eligibility::{Gate, GateOutcome};
use cto_contract::event::{Approval, ApprovalConsumed};
use cto_contract::operator::Signed;
use cto_contract::task::TaskContract;
use cto_contract::verify::{SignedKind, VerifyCode};
use cto_rules::approval::{differing, needs_approval, policy_faults};
use cto_rules::operators::{floor, meets};

use super::documents::{Documents, Facts};
use super::findings::Findings;
use super::signatures::Signatures;
use crate::canonical::digest_of;

const CODE: VerifyCode = VerifyCode::ApprovalInvalid;

/// The grant of a log.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) grant: Box<Signed<GrantStatement>>,
    /// The log says that it was used up. A harness that died may have used it up and not said so.
    pub(super) is_used: bool,
}

/// Checks everything about the approval. Gives the grant, for what stands beside the pack.
pub(super) fn check(
    facts: &Facts<'_>,
    documents: &Documents,
    signatures: &mut Signatures<'_>,
    findings: &mut Findings,
) -> Option<Granted> {
    check_need(facts, documents, findings);
    let mut wrong: Vec<String> = Vec::new();
    let mut need = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_owned());
        }
    };
    let requested = facts.requested;
    if let Some(requested) = requested {
        plain(requested, facts, "approval.requested", &mut need);
        need(
            requested.grant.is_none() && requested.denial.is_none() && requested.note.is_none(),
            "approval.requested holds a decision",
        );
    }
    let asked = requested.and_then(|event| event.asked.as_deref());
    if let (Some(event), Some(asked)) = (requested, asked) {
        need(
            event.request_id.as_ref() == Some(&asked.statement.request_id),
            "the operator who asked signed for another request",
        );
    }
    if let Some(event) = facts.granted {
        granted(event, requested, asked, facts, &mut need);
    }
    if let Some(event) = facts.denied {
        denied(event, requested, asked, facts, &mut need);
    }
    if let Some(event) = facts.consumed {
        consumed(event, facts, asked, &mut need);
    }
    for what in wrong {
        findings.file(CODE, EVENTS, what);
    }
    if let Some(asked) = asked {
        signatures.take(SignedKind::Requester, asked, (CODE, EVENTS), findings);
    }
    let grant = facts.granted.and_then(|event| event.grant.clone());
    if let Some(grant) = &grant {
        signatures.take(SignedKind::Grant, grant, (CODE, EVENTS), findings);
    }
    if let Some(denial) = facts.denied.and_then(|event| event.denial.as_deref()) {
        signatures.take(SignedKind::Denial, denial, (CODE, EVENTS), findings);
    }
    grant.map(|grant| Granted {
        grant,
        is_used: facts.consumed.is_some(),
    })
}

/// Whether somebody had to approve follows from the contract and the stage; no decision may say less.
fn check_need(facts: &Facts<'_>, documents: &Documents, findings: &mut Findings) {
    let (Some(decided), Some(contract), Some(started)) =
        (facts.eligibility, &documents.contract, facts.started)
    else {
        return;
    };
    let decision = &decided.decision;
    let fact = decision.facts.iter().find(|f| f.gate == Gate::Approval);
    let is_lifted = fact.is_some_and(|fact| fact.outcome == GateOutcome::NotRequired)
        || !decision.approval_required && decision.selected_backend.0.is_some();
    findings.need(
        !is_lifted || !needs_approval(contract, started.stage),
        CODE,
        ELIGIBILITY,
        "says that no approval is required, and contract and stage ask for one",
    );
}

/// Takes what must hold, and what to say if it does not.
type Need<'n> = &'n mut dyn FnMut(bool, &str);

/// What every event of an approval says alike.
fn plain(event: &Approval, facts: &Facts<'_>, name: &str, need: Need<'_>) {
    let mode = facts.started.map(|started| started.mutation_mode);
    let holds = event.scope == ExecutionScope::VALUE
        && Some(event.mutation_mode) == mode
        && event.request_id.is_some()
        && event.expiry.is_some();
    need(
        holds,
        &format!("{name}: scope, mode, request or expiry are not those of this run's request"),
    );
}

fn granted(
    event: &Approval,
    requested: Option<&Approval>,
    asked: Option<&Signed<RequesterStatement>>,
    facts: &Facts<'_>,
    need: Need<'_>,
) {
    plain(event, facts, "approval.granted", need);
    let (Some(grant), None) = (event.grant.as_deref(), &event.denial) else {
        need(
            false,
            "approval.granted holds no grant that an operator signed",
        );
        return;
    };
    let GrantStatement {
        request_id,
        request_digest,
        sentence,
        bindings,
        expires_at,
        requester,
        self_approved,
        signer,
        at,
        ..
    } = &grant.statement;
    let same = event.request_id.as_ref() == Some(request_id)
        && event.actor == signer.as_str()
        && event.timestamp == *at
        && event.expiry == Some(*expires_at)
        && event.note.is_none()
        && event.asked.is_none();
    need(same, "approval.granted says other things than its grant");
    need(
        requested.is_some_and(|r| {
            r.request_id.as_ref() == Some(request_id)
                && r.actor == *requester
                && r.expiry == Some(*expires_at)
        }),
        "the grant is for another request than approval.requested",
    );
    need(
        *sentence == bindings.sentence(*expires_at),
        "the sentence is not that of what the grant binds",
    );
    need(at < expires_at, "the grant was given after it had expired");
    let by = asked.map(|asked| &asked.statement);
    need(
        by.is_none_or(|by| by.request_digest == *request_digest),
        "the operator who asked signed for another request than was granted",
    );
    need(
        *self_approved == by.is_none_or(|by| by.signer == *signer),
        "self_approved is not what the signatures show",
    );
}

fn denied(
    event: &Approval,
    requested: Option<&Approval>,
    asked: Option<&Signed<RequesterStatement>>,
    facts: &Facts<'_>,
    need: Need<'_>,
) {
    plain(event, facts, "approval.denied", need);
    let (Some(denial), None) = (event.denial.as_deref(), &event.grant) else {
        need(
            false,
            "approval.denied holds no denial that an operator signed",
        );
        return;
    };
    let DenialStatement {
        request_id,
        request_digest,
        note,
        signer,
        at,
        ..
    } = &denial.statement;
    let same = event.request_id.as_ref() == Some(request_id)
        && event.actor == signer.as_str()
        && event.timestamp == *at
        && event.note.as_ref() == Some(note)
        && event.asked.is_none();
    need(same, "approval.denied says other things than its denial");
    need(
        requested.is_some_and(|r| r.request_id.as_ref() == Some(request_id)),
        "the denial is of another request than approval.requested",
    );
    need(
        asked.is_none_or(|asked| asked.statement.request_digest == *request_digest),
        "the operator who asked signed for another request than was denied",
    );
}

/// A grant that was used up was for exactly this run, by somebody who could give it.
fn consumed(
    event: &ApprovalConsumed,
    facts: &Facts<'_>,
    asked: Option<&Signed<RequesterStatement>>,
    need: Need<'_>,
) {
    let Some(grant) = facts.granted.and_then(|event| event.grant.as_deref()) else {
        need(false, "approval.consumed without a grant");
        return;
    };
    let statement = &grant.statement;
    let mode = facts.started.map(|started| started.mutation_mode);
    let same = event.approval_id == statement.request_id.as_str()
        && event.actor == statement.signer.as_str()
        && event.scope == ExecutionScope::VALUE
        && Some(event.mutation_mode) == mode
        && event.expiry == Some(statement.expires_at)
        && event.ledger_seq > 0;
    need(same, "approval.consumed says other things than the grant");
    need(
        event.timestamp < statement.expires_at,
        "the grant was used after it had expired",
    );
    let contract = facts.contract.map(|created| &created.contract);
    match this_run(facts, contract, &statement.bindings) {
        None => need(false, "the grant was used without a plan"),
        Some(this) => {
            let what = differing(&statement.bindings, &this);
            let message = format!("the grant is for something else: {}", what.join(", "));
            need(what.is_empty(), &message);
        }
    }
    let policy = contract.and_then(|contract| contract.approval_policy.as_ref());
    let by = asked.map(|asked| &asked.statement.signer);
    for fault in policy_faults(policy, &statement.signer, by) {
        need(false, &fault.to_string());
    }
    let floor = floor(statement.bindings.stage, None);
    need(
        meets(grant.signature.presence, floor),
        "the grant shows less presence than its stage needs",
    );
}

/// What the run is, by its log. Of a repository that the contract gives no name the log tells none: it lies in the path.
fn this_run(
    facts: &Facts<'_>,
    contract: Option<&TaskContract>,
    granted: &Bindings,
) -> Option<Bindings> {
    let (plan, started, created) = (facts.plan?, facts.started?, facts.contract?);
    let contract = contract?;
    let source = plan.plan.source.as_ref();
    let identity = &plan.identity;
    Some(Bindings {
        task_id: contract.task_id.clone(),
        contract_digest: created.contract_digest.clone(),
        target_id: match (source, &contract.target_id) {
            (None, _) => contract.task_id.to_string(),
            (Some(_), Some(id)) => id.clone(),
            (Some(_), None) => granted.target_id.clone(),
        },
        target_head: source.map_or_else(
            || plan.plan.baseline_tree_id.to_string(),
            |source| source.commit.to_string(),
        ),
        baseline_tree_id: plan.plan.baseline_tree_id.clone(),
        lane: identity.lane,
        model: identity.model.clone().unwrap_or_else(|| "none".to_owned()),
        identity_digest: digest_of(identity).ok()?,
        sandbox_class: identity.sandbox_class,
        stage: started.stage,
        mutation_mode: started.mutation_mode,
    })
}
