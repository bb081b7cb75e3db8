//! The approval of a run: looked up before anything is prepared, used up right before the backend starts.

use cto_contract::approval::{Bindings, ExecutionScope, RequestId};
use cto_contract::event::{Approval, ApprovalConsumed, EventKind};
use cto_contract::ledger::{Record, RunCreated};
use cto_evidence::canonical::digest_of;
use cto_ledger::{ConsumeError, Consumption, Decision, RequestState};
use cto_rules::approval::ApprovalRefusal;
use cto_rules::eligibility::{ApprovalState, ApprovalUse};
use cto_rules::lifecycle::RunState;
use cto_rules::verdicts::Fault;
use cto_store::Found;

use crate::approvals::bindings;
use crate::clock;
use crate::error_chain;
use crate::harness::ApprovalAsk;
use crate::open_run::{OpenRun, StepError};

fn unreadable(error: &dyn std::error::Error) -> StepError {
    let why = error_chain(error);
    Fault::ApprovalUnreadable { why }.into()
}

/// What is known of the approval before anything of the run is.
pub(crate) fn foreseen(run: &OpenRun<'_>) -> Result<ApprovalState, StepError> {
    let id = match &run.request.approval {
        ApprovalAsk::None => return Ok(ApprovalState::None),
        ApprovalAsk::Planned(_) => return Ok(ApprovalState::Granted),
        ApprovalAsk::Request(id) => id,
    };
    let ledger = run.harness.ledger();
    let against = ledger.foresee(id, clock::now(), &run.run_id);
    let against = against.map_err(|e| unreadable(&e))?;
    Ok(against
        .into_iter()
        .next()
        .map_or(ApprovalState::Granted, ApprovalState::Refused))
}

/// What the log says of a request, and of what was decided about it.
fn told(state: &RunState, request: &RequestState) -> (Approval, Option<EventKind>) {
    let opened = &request.opened;
    let plain = Approval {
        actor: opened.requester.clone(),
        scope: ExecutionScope::VALUE.to_owned(),
        mutation_mode: state.started.mutation_mode,
        timestamp: opened.at,
        expiry: Some(opened.expires_at),
        note: None,
        request_id: Some(opened.request_id.clone()),
        asked: None,
        grant: None,
        denial: None,
    };
    let decision = request
        .decision
        .as_ref()
        .map(|(_, decision)| match decision {
            Decision::Granted(grant) => EventKind::ApprovalGranted(Approval {
                actor: grant.statement.signer.to_string(),
                timestamp: grant.statement.at,
                grant: Some(grant.clone()),
                ..plain.clone()
            }),
            Decision::Denied(denial) => EventKind::ApprovalDenied(Approval {
                actor: denial.statement.signer.to_string(),
                timestamp: denial.statement.at,
                note: Some(denial.statement.note.clone()),
                denial: Some(denial.clone()),
                ..plain.clone()
            }),
        });
    let requested = Approval {
        asked: request.asked.clone(),
        ..plain
    };
    (requested, decision)
}

fn record_decision(run: &mut OpenRun<'_>, id: &RequestId) -> Result<(), StepError> {
    let found = run.harness.ledger().request(id);
    let found = found.map_err(|e| unreadable(&e))?;
    let missing = || Fault::NotApproved {
        against: vec![ApprovalRefusal::Missing {
            request_id: id.clone(),
        }],
    };
    let (requested, decided) = told(run.state(), &found.ok_or_else(missing)?);
    let decided = decided.ok_or_else(missing)?;
    run.record(EventKind::ApprovalRequested(requested))?;
    run.record(decided)?;
    Ok(())
}

/// Records that somebody asked, and that an operator said no.
pub(crate) fn record_denial(run: &mut OpenRun<'_>) -> Result<(), StepError> {
    match run.request.approval.clone() {
        ApprovalAsk::Request(id) => record_decision(run, &id),
        ApprovalAsk::None | ApprovalAsk::Planned(_) => Ok(()),
    }
}

/// What the run is, as it is about to start.
fn asked(run: &OpenRun<'_>) -> Result<Bindings, StepError> {
    let state = run.state();
    let plan = state
        .plan
        .as_ref()
        .ok_or_else(|| Fault::ApprovalUnreadable {
            why: "the run has no plan".to_owned(),
        })?;
    let identity_digest = digest_of(&plan.identity).map_err(|e| unreadable(&e))?;
    Ok(bindings(
        &run.request.task,
        (&run.contract, &run.contract_digest),
        plan,
        identity_digest,
        (state.started.stage, state.started.mutation_mode),
    ))
}

/// Uses the approval up, where one is needed. From here on this run is the only one that it was good for.
pub(crate) fn consume(run: &mut OpenRun<'_>) -> Result<ApprovalUse, StepError> {
    let decided = run.state().eligibility.as_ref();
    let is_required = decided.is_some_and(|e| e.decision.approval_required);
    let ApprovalAsk::Request(id) = run.request.approval.clone() else {
        return Ok(ApprovalUse::NotRequired);
    };
    if !is_required {
        return Ok(ApprovalUse::NotRequired);
    }
    let asked = asked(run)?;
    record_decision(run, &id)?;
    run.sync()?;
    let created: Option<Found<Record>> = run
        .harness
        .store()
        .find(&RunCreated::key(&run.run_id))
        .map_err(|e| unreadable(&e))?;
    let now = clock::now();
    let consumed = run.harness.ledger().consume(&Consumption {
        request_id: &id,
        run_id: &run.run_id,
        epoch: created.map_or(0, |found| found.place.seq),
        asked,
        now,
    });
    let consumed = match consumed {
        Ok(consumed) => consumed,
        Err(ConsumeError::Refused(against)) => return Err(Fault::NotApproved { against }.into()),
        Err(error @ (ConsumeError::Ledger(_) | ConsumeError::Store(_))) => {
            return Err(unreadable(&error));
        }
    };
    run.harness.mark_ledger();
    // Outside home: a home that is put back to before this moment is seen. The grant is used up, whether it can be written or not.
    run.harness.ledger().checkpoint(now).ok();
    let granted = run.state().granted.clone();
    let actor = granted
        .as_ref()
        .map_or_else(String::new, |g| g.actor.clone());
    run.record(EventKind::ApprovalConsumed(ApprovalConsumed {
        approval_id: consumed.id().to_string(),
        actor,
        scope: ExecutionScope::VALUE.to_owned(),
        mutation_mode: run.state().started.mutation_mode,
        // The moment that was judged, not a later one.
        timestamp: now,
        expiry: granted.and_then(|g| g.expiry),
        ledger_seq: consumed.ledger_seq(),
    }))?;
    Ok(ApprovalUse::Consumed(consumed))
}
