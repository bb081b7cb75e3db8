//! Contract and eligibility: what was asked for, and whether a backend may run at all.

use cto_agent::ModelPair;
use cto_contract::artifact::ELIGIBILITY;
use cto_contract::blocker::BlockerCode;
use cto_contract::event::{EligibilityDecided, EventKind, TaskContractCreated};
use cto_contract::ids::Digest;
use cto_evidence::canonical::to_canonical;
use cto_rules::eligibility::{ApprovalState, ExecutionGrant};

use crate::admissions::keep;
use crate::eligibility::{Decided, Held, Question, Reach, Target, find_out};
use crate::model::Opened;
use crate::open_run::{OpenRun, StepError};
use crate::sandbox::RunSandbox;
use crate::source::Source;
use crate::steps::approval::{foreseen, record_denial};
use crate::task::Task;

/// What the decision lets a run do.
pub(crate) struct Eligible {
    pub(crate) permission: Permission,
    /// The repository that the work is copied from; none for a case.
    pub(crate) source: Option<Box<Source>>,
}

/// The right to start one backend, and what it is started with.
pub(crate) struct Permission {
    pub(crate) grant: ExecutionGrant,
    pub(crate) sandbox: RunSandbox,
    /// The way to the model; none where the contract asks for none.
    pub(crate) model: Option<Opened>,
    /// The digest of the program that a record admits; none where none had to.
    pub(crate) program: Option<Digest>,
    /// That of the package which it loads from.
    pub(crate) package: Option<Digest>,
}

pub(crate) fn contract(run: &mut OpenRun<'_>) -> Result<(), StepError> {
    let contract_digest = run.contract_digest.clone();
    let contract = run.contract.clone();
    run.record(EventKind::TaskContractCreated(TaskContractCreated {
        contract_digest,
        contract,
    }))?;
    Ok(())
}

/// Decides whether the lane may run. None when it may not: the log says why.
pub(crate) fn eligibility(run: &mut OpenRun<'_>) -> Result<Option<Eligible>, StepError> {
    let approval = foreseen(run)?;
    let Decided {
        decision,
        held,
        facts,
    } = find_out(&question(run, approval))?;
    let Held {
        sandbox,
        model,
        model_probe,
        source,
        program,
        package,
    } = held;
    let admissions = facts.admissions();
    run.pair = admissions
        .admitted_pair()
        .map(|(provider, model)| ModelPair {
            provider: provider.to_owned(),
            model: model.to_owned(),
        });
    let asked = &facts.asked;
    let settings = asked.lanes.get(&asked.lane);
    let request = settings.map(|lane| lane.model.clone()).unwrap_or_default();
    let target = settings.and_then(|lane| lane.target.as_ref());
    keep(
        &run.harness.home,
        &asked.records,
        (&request, target),
        &admissions.records,
    )
    .map_err(|e| StepError::not_written("$CTO_HOME/admissions", &e))?;
    // From here on nothing of the key or of the address may be seen.
    if let Some(opened) = &model {
        run.hide(opened);
    }
    if let Some(probe) = model_probe {
        run.record(EventKind::ModelProbed(probe))?;
    }
    let bytes =
        to_canonical(&decision.record).map_err(|e| StepError::not_written(ELIGIBILITY, &e))?;
    run.artifact(ELIGIBILITY, &bytes)?;
    let reasons = decision.record.reasons.clone();
    run.record(EventKind::EligibilityDecided(EligibilityDecided {
        decision: decision.record,
    }))?;
    if reasons
        .iter()
        .any(|b| b.code == BlockerCode::ApprovalDenied)
    {
        record_denial(run)?;
    }
    run.record_gate(&reasons, Vec::new())?;
    let permission = decision
        .grant
        .zip(sandbox)
        .map(|(grant, sandbox)| Permission {
            grant,
            sandbox,
            model,
            program,
            package,
        });
    Ok(permission.map(|permission| Eligible { permission, source }))
}

fn question<'a>(run: &'a OpenRun<'_>, approval: ApprovalState) -> Question<'a> {
    Question {
        harness: run.harness,
        contract: &run.contract,
        contract_digest: &run.contract_digest,
        lane: run.request.lane,
        stage: run.request.stage,
        limits: &run.limits.limits,
        sandbox: run.request.sandbox,
        target: match &run.request.task {
            Task::Case(_) => Target::Case,
            Task::Repository(task) => Target::Repository {
                path: &task.path,
                contract_file: task.contract_file.as_deref(),
                rev: task.rev.as_deref(),
            },
        },
        argv: &run.request.argv,
        scratch: &run.work,
        stop: &run.stop,
        reach: match run.is_only_planned {
            true => Reach::Plan,
            false => Reach::Run,
        },
        approval,
    }
}
