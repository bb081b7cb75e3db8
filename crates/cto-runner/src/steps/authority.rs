//! Contract and eligibility: what was asked for, and whether a backend may run at all.

use cto_contract::artifact::ELIGIBILITY;
use cto_contract::event::{EligibilityDecided, EventKind, TaskContractCreated};
use cto_contract::ids::DecisionId;
use cto_contract::task::TaskContract;
use cto_contract::time::Utc;
use cto_contract::words::{Lane, MutationMode, SandboxClass, SourceAdmissionStatus, Stage};
use cto_evidence::canonical::{digest_of, to_canonical};
use cto_rules::eligibility::{
    ApprovalState, EligibilityFacts, ExecutionGrant, GateState, ModelState, Observed,
    RepositoryState, decide,
};
use cto_rules::paths::PathPolicy;
use cto_rules::secrets::Known;

use crate::clock;
use crate::environment::Environment;
use crate::error_chain;
use crate::harness::Harness;
use crate::model;
use crate::open_run::{OpenRun, StepError};
use crate::sandbox::RunSandbox;
use crate::source::{self, Opened, Source};
use crate::task::Task;

/// Free space below which no run begins, when the config names none.
const DISK_FLOOR_MB_DEFAULT: u64 = 64;

/// What the runner knows before a decision.
pub(crate) struct GatheredFacts<'a> {
    pub(crate) env: &'a Environment,
    pub(crate) contract: &'a TaskContract,
    pub(crate) lane: Lane,
    pub(crate) stage: Stage,
    pub(crate) asked_stage: Option<Stage>,
    pub(crate) disabled_by_config: bool,
    pub(crate) evidence: Result<(), String>,
    pub(crate) confinement: Result<SandboxClass, String>,
    pub(crate) repository: Option<RepositoryState>,
    pub(crate) start_tree_clean: Option<bool>,
    pub(crate) model: ModelState,
    pub(crate) unmeterable: Vec<String>,
    pub(crate) at: Utc,
}

/// Puts the facts into the form that the rules look at, each with where it came from.
pub(crate) fn gather(facts: GatheredFacts<'_>) -> EligibilityFacts {
    let GatheredFacts {
        env,
        contract,
        lane,
        stage,
        asked_stage,
        disabled_by_config,
        evidence,
        confinement,
        repository,
        start_tree_clean,
        model,
        unmeterable,
        at,
    } = facts;
    fn seen<T>(value: T, source: &str, checked_at: Utc) -> Observed<T> {
        Observed {
            value,
            source: source.to_owned(),
            checked_at,
        }
    }
    let gate_value = lane.gate().and_then(|n| env.get(&n).map(str::to_owned));
    let stage_value = lane
        .stage_gate()
        .and_then(|n| env.get(&n).map(str::to_owned));
    let available = if disabled_by_config {
        Err(format!("the {lane} lane is switched off in harness.yaml"))
    } else if crate::adapters::is_built_in(lane) {
        Ok(())
    } else {
        Err(format!("the {lane} lane is not part of this version"))
    };
    let needs_approval = contract.approval_required
        || contract
            .mutation_mode
            .is_some_and(|m| m >= MutationMode::SandboxRepo);
    let source = if lane == Lane::Fake {
        SourceAdmissionStatus::Admitted
    } else {
        SourceAdmissionStatus::NotAdmitted
    };
    let id_input = (
        contract,
        lane,
        stage,
        &gate_value,
        &stage_value,
        &available,
        &evidence,
        confinement
            .as_ref()
            .map_err(Clone::clone)
            .map(|c| c.as_str()),
        &repository,
        start_tree_clean,
        &model,
        &unmeterable,
    );
    let decision_id = digest_of(&id_input).map_or_else(
        |_| DecisionId::of(&cto_evidence::canonical::sha256(b"")),
        |d| DecisionId::of(&d),
    );
    EligibilityFacts {
        decision_id,
        task_id: contract.task_id.clone(),
        lane,
        stage,
        risk_class: contract.risk_class,
        requested_mode: contract.mutation_mode,
        lane_gate: seen(
            GateState::lane(lane, gate_value.as_deref()),
            "environment",
            at,
        ),
        stage_gate: seen(
            GateState::stage(lane, asked_stage, stage_value.as_deref()),
            "environment",
            at,
        ),
        lane_available: seen(available, "this binary and harness.yaml", at),
        source_admission: seen(
            source,
            if lane == Lane::Fake {
                "part of this binary"
            } else {
                "no admission record"
            },
            at,
        ),
        allowed_paths: seen(contract.allowed_paths.len(), "task contract", at),
        unlisted_actions: seen(contract.unlisted_actions(), "task contract", at),
        approval: seen(
            if needs_approval {
                ApprovalState::Missing
            } else {
                ApprovalState::NotRequired
            },
            "task contract",
            at,
        ),
        repository: seen(repository, "the repository's files, read as data", at),
        start_tree_clean: seen(start_tree_clean, "its work tree against its HEAD", at),
        evidence_interface: seen(evidence, "home directory and signing key", at),
        confinement: seen(confinement, "tried on this machine", at),
        network: contract.network,
        model: seen(model, "environment and harness.yaml", at),
        unmeterable: seen(unmeterable, "task contract and harness.yaml", at),
    }
}

/// Whether there is room for a run: below the floor nothing is begun that might not be finished.
fn enough_space(harness: &Harness) -> Result<(), String> {
    let floor = harness
        .config
        .harness
        .disk_floor_mb
        .unwrap_or(DISK_FLOOR_MB_DEFAULT);
    let free = rustix::fs::statvfs(harness.home.root())
        .map(|s| s.f_bavail.saturating_mul(s.f_frsize) >> 20)
        .map_err(|e| format!("free space could not be read: {e}"))?;
    if free < floor {
        return Err(format!(
            "{free} MiB are free in the home directory, fewer than the floor of {floor} MiB"
        ));
    }
    Ok(())
}

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
    pub(crate) model: Option<cto_egress::Route>,
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
    let lane = run.request.lane;
    let sandbox = find_sandbox(run);
    let confinement = sandbox
        .as_ref()
        .map(|s| s.general_plan(&run.limits.limits).class)
        .map_err(Clone::clone);
    let has_endpoint = sandbox.as_ref().is_ok_and(|s| s.has_endpoint);
    let disabled = run
        .harness
        .config
        .harness
        .engines
        .get(lane.as_str())
        .is_some_and(|e| e.disabled);
    let at = clock::now();
    let network = run.contract.network;
    let class = confinement.clone().unwrap_or(SandboxClass::None);
    let (mut model, upstream) = model::look(run.harness, lane, network, (class, has_endpoint));
    let decide_with = |repository, start_tree_clean, model: &ModelState| {
        decide(&gather(GatheredFacts {
            env: &run.harness.env,
            contract: &run.contract,
            lane,
            stage: run.stage,
            asked_stage: run.request.stage,
            disabled_by_config: disabled,
            // That home can be written and the key loaded was shown by coming this far: the log is being written.
            evidence: enough_space(run.harness),
            confinement: confinement.clone(),
            repository,
            start_tree_clean,
            model: model.clone(),
            unmeterable: model::unmeterable(lane, network, &run.limits.limits),
            at,
        }))
    };
    let mut decision = decide_with(None, None, &model);
    let mut source = None;
    let mut opened = None;
    // A key is asked for only when nothing else stands in the way.
    if let Some(upstream) = upstream
        && decision.grant.is_some()
    {
        match model::open(run.harness, lane, upstream, &run.stop) {
            Ok(found) => opened = Some(found),
            Err(state) => {
                model = state;
                decision = decide_with(None, None, &model);
            }
        }
    }
    // A repository is looked at only when nothing else stands in the way.
    if let Task::Repository(task) = &run.request.task
        && decision.grant.is_some()
    {
        let (home, scratch) = (&run.harness.home, run.work.join("source"));
        match source::open(home, &task.path, task.rev.as_deref(), &scratch)? {
            Opened::Refused(state) => decision = decide_with(Some(state), None, &model),
            Opened::Source(found) => {
                let clean = !found.dirty_in_scope(&PathPolicy::new(&run.contract));
                decision = decide_with(Some(RepositoryState::Usable), Some(clean), &model);
                source = Some(found);
            }
        }
    }
    let mut route = None;
    if let Some(opened) = opened {
        let secrets = run.harness.env.secrets().into_iter();
        run.secrets = Known::new(secrets.chain(opened.secrets).collect());
        route = Some(opened.route);
    }
    let bytes =
        to_canonical(&decision.record).map_err(|e| StepError::not_written(ELIGIBILITY, &e))?;
    run.artifact(ELIGIBILITY, &bytes)?;
    let reasons = decision.record.reasons.clone();
    run.record(EventKind::EligibilityDecided(EligibilityDecided {
        decision: decision.record,
    }))?;
    run.record_gate(&reasons)?;
    Ok(match (decision.grant, sandbox) {
        (Some(grant), Ok(sandbox)) => Some(Eligible {
            permission: Permission {
                grant,
                sandbox,
                model: route,
            },
            source,
        }),
        _ => None,
    })
}

/// Finds out what the chosen provider does here, before anybody is let run in it.
fn find_sandbox(run: &OpenRun<'_>) -> Result<RunSandbox, String> {
    let chosen = run
        .harness
        .sandbox(run.request.sandbox)
        .map_err(|error| error_chain(&error))?;
    RunSandbox::find(run.harness, chosen, &run.work)
}
