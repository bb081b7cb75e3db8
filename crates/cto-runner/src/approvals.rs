//! Requests for approvals: made from a plan, kept whole in home by digest, and read back only if they are what the ledger
//! says they were.

use std::io;
use std::path::PathBuf;

use cto_contract::approval::{
    ApprovalRequest, Bindings, NotYet, RequestId, RequestOpened, RequestSchema, TargetState,
};
use cto_contract::blocker::Blocker;
use cto_contract::event::PlanUpdated;
use cto_contract::ids::Digest;
use cto_contract::landing::DisposableTerms;
use cto_contract::outputs::{ApprovalStanding, PlanOutput, RequestRow};
use cto_contract::task::TaskContract;
use cto_contract::time::Utc;
use cto_contract::words::{MutationMode, Stage};
use cto_evidence::canonical::{CanonicalError, digest_of, sha256, to_canonical};
use cto_ledger::{Decision, LedgerError, RequestState};
use cto_rules::approval::{needs_approval, standing};
use cto_sandbox::StopToken;

use crate::eligibility::stage_asked;
use crate::harness::{ApprovalAsk, Harness, RunError, RunRequest};
use crate::requests::{self, RequestError};
use crate::task::Task;
use crate::{clock, error_chain};

/// The model of a lane that has none, in a sentence.
const NO_MODEL: &str = "none";

/// Why a request can't be made or read.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    #[error("this run needs no approval")]
    NotNeeded,
    #[error("the run could not start even with an approval")]
    Blocked(Vec<Blocker>),
    #[error("the sentence would not be plain ASCII: `{0}` has other characters")]
    NotPlain(String),
    #[error("the run can't be planned")]
    Run(#[from] RunError),
    #[error("the ledger can't be used")]
    Ledger(#[from] LedgerError),
    #[error("the request has no canonical form")]
    Canonical(#[from] CanonicalError),
    #[error("there is no request {0} in this home")]
    Unknown(RequestId),
    #[error("request {0} is not the one that was made: its document was changed or lost")]
    Changed(RequestId),
    #[error("the request could not be kept in `{path}`")]
    Keep { path: PathBuf, source: io::Error },
    #[error("how the run was asked for can't be read back")]
    Request(#[from] RequestError),
    #[error("no random bytes from the kernel")]
    Random(#[from] getrandom::Error),
}

impl ApprovalError {
    /// Machine-readable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotNeeded => "approval_not_needed",
            Self::Blocked(_) => "request_blocked",
            Self::NotPlain(_) => "sentence_not_plain",
            Self::Run(_) => "run_not_planned",
            Self::Ledger(error) => error.code(),
            Self::Canonical(_) => "request_not_encoded",
            Self::Unknown(_) => "request_unknown",
            Self::Changed(_) => "request_changed",
            Self::Keep { .. } => "request_not_kept",
            Self::Request(error) => error.code(),
            Self::Random(_) => "no_random",
        }
    }
}

/// What an approval of this run would be for.
pub(crate) fn bindings(
    task: &Task,
    (contract, contract_digest): (&TaskContract, &Digest),
    plan: &PlanUpdated,
    identity_digest: Digest,
    (stage, mutation_mode): (Stage, MutationMode),
) -> Bindings {
    let source = plan.plan.source.as_ref();
    Bindings {
        task_id: contract.task_id.clone(),
        contract_digest: contract_digest.clone(),
        target_id: target_id(task, contract),
        target_head: source.map_or_else(
            || plan.plan.baseline_tree_id.to_string(),
            |source| source.commit.to_string(),
        ),
        baseline_tree_id: plan.plan.baseline_tree_id.clone(),
        lane: plan.identity.lane,
        model: (plan.identity.model.clone()).unwrap_or_else(|| NO_MODEL.to_owned()),
        identity_digest,
        sandbox_class: plan.identity.sandbox_class,
        stage,
        mutation_mode,
    }
}

/// The name of what is worked on: the contract's, the last part of the repository's path, or the case.
pub(crate) fn target_id(task: &Task, contract: &TaskContract) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '-'
        }
    };
    match (task, &contract.target_id) {
        (Task::Case(_), _) => contract.task_id.to_string(),
        (Task::Repository(_), Some(id)) => id.clone(),
        (Task::Repository(task), None) => {
            let name = task.path.file_name().unwrap_or_default().to_string_lossy();
            name.chars().map(plain).collect()
        }
    }
}

/// Who asks: the name of the account, as far as the environment tells.
fn requester(harness: &Harness) -> String {
    let name = harness
        .env
        .get("USER")
        .or_else(|| harness.env.get("LOGNAME"));
    let uid = rustix::process::getuid().as_raw();
    let plain: String = name
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_graphic())
        .take(64)
        .collect();
    format!("{plain}({uid})")
}

impl Harness {
    fn request_path(&self, id: &RequestId) -> PathBuf {
        self.home.requests().join(format!("{id}.request.json"))
    }

    /// Plans the run that is asked for, and enters a request to approve it for so many minutes.
    pub fn request_approval(
        &self,
        request: &RunRequest,
        minutes: i64,
        disposable: Option<DisposableTerms>,
        stop: &StopToken,
    ) -> Result<(RequestState, ApprovalRequest), ApprovalError> {
        let request = &*self.bounded(request);
        let asked = stage_asked(self, request.lane, request.stage, request.task.work());
        let stage = asked.stage;
        let contract = request.task.contract();
        if !needs_approval(&contract, stage) {
            return Err(ApprovalError::NotNeeded);
        }
        let planned = RunRequest {
            approval: ApprovalAsk::Planned(disposable.clone()),
            ..request.clone()
        };
        let output = self.plan(&planned, stop)?;
        let PlanOutput {
            plan: Some(plan),
            identity: Some(identity),
            ..
        } = output
        else {
            return Err(ApprovalError::Blocked(output.blockers));
        };
        let contract_digest = digest_of(&contract)?;
        let updated = PlanUpdated { plan, identity };
        let mode = asked.mode(contract.mutation_mode);
        let bindings = bindings(
            &request.task,
            (&contract, &contract_digest),
            &updated,
            digest_of(&updated.identity)?,
            (stage, mode),
        );
        for part in [&bindings.target_id, &bindings.model] {
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(ApprovalError::NotPlain(part.clone()));
            }
        }
        let (now, id) = (clock::now(), RequestId::from_bytes(clock::random()?));
        requests::keep_for(&self.home, id.as_str(), request).map_err(|source| {
            ApprovalError::Keep {
                path: self.home.requests(),
                source,
            }
        })?;
        let ledger = self.ledger();
        let until = now.plus_seconds(60 * minutes).at_minute();
        let ledger_id = ledger.id()?;
        ledger.open_request(&bindings, until, |expires_at| {
            let document = self.document(
                (request, &contract, disposable.as_ref()),
                (&bindings, &updated),
                (id.clone(), ledger_id),
                (now, expires_at),
            );
            let bytes = to_canonical(&document)?;
            // Before the ledger tells of it: a request without its document could never be decided about.
            requests::write_private(&self.request_path(&id), &bytes).map_err(|source| {
                LedgerError::Draft {
                    path: self.request_path(&id),
                    source,
                }
            })?;
            Ok(RequestOpened {
                request_id: id.clone(),
                ledger: document.ledger.clone(),
                request_digest: sha256(&bytes),
                sentence: document.sentence.clone(),
                bindings: bindings.clone(),
                requester: document.requester.clone(),
                policy: contract.approval_policy.clone(),
                records: document.records.clone(),
                at: now,
                expires_at,
            })
        })?;
        self.mark_ledger();
        self.approval_request(&id)
    }

    fn document(
        &self,
        (request, contract, disposable): (&RunRequest, &TaskContract, Option<&DisposableTerms>),
        (bindings, updated): (&Bindings, &PlanUpdated),
        (request_id, ledger): (RequestId, Digest),
        (at, expires_at): (Utc, Utc),
    ) -> ApprovalRequest {
        let lane = request.lane;
        let gate = lane.gate().map(|name| format!("{name}=1"));
        let stage = lane
            .stage_gate()
            .map(|name| format!("{name}={}", bindings.stage));
        ApprovalRequest {
            schema: RequestSchema,
            requester: requester(self),
            approval_granted: NotYet,
            execution_allowed: NotYet,
            sentence: bindings.sentence(expires_at),
            bindings: bindings.clone(),
            identity: updated.identity.clone(),
            contract: contract.clone(),
            admission: None,
            owner: disposable.map(|terms| terms.owner.clone()),
            disposable: disposable.cloned(),
            landing: updated.plan.landing.clone(),
            risk_class: contract.risk_class,
            target_state: TargetState {
                head: bindings.target_head.clone(),
                clean: updated.plan.source.as_ref().map(|s| s.dirty_count == 0),
            },
            forbidden_paths: contract.forbidden_paths.clone(),
            forbidden_actions: contract.forbidden_actions.clone(),
            success_criteria: contract.success_criteria.clone(),
            verification: contract.verification_commands.clone(),
            rollback: contract.rollback_expectation.clone(),
            gates_to_set: gate.into_iter().chain(stage).collect(),
            evidence_expected: contract.evidence_expectations.required_events.clone(),
            proof_pointers: Vec::new(),
            records: Vec::new(),
            next_allowed_action: format!("cto approve {request_id}"),
            request_id,
            ledger,
            at,
            expires_at,
        }
    }

    /// A request of this home: what the ledger says, and the document that it names.
    pub fn approval_request(
        &self,
        id: &RequestId,
    ) -> Result<(RequestState, ApprovalRequest), ApprovalError> {
        let state = self.ledger().request(id)?;
        let state = state.ok_or_else(|| ApprovalError::Unknown(id.clone()))?;
        let changed = || ApprovalError::Changed(id.clone());
        let bytes = requests::read_private(&self.request_path(id)).map_err(|_| changed())?;
        if sha256(&bytes) != state.opened.request_digest {
            return Err(changed());
        }
        let document = serde_json::from_slice(&bytes).map_err(|_| changed())?;
        Ok((state, document))
    }

    /// The run that a request asks for, to be run now.
    pub fn requested_run(&self, id: &RequestId) -> Result<RunRequest, ApprovalError> {
        let (_, document) = self.approval_request(id)?;
        let request = requests::kept_run(&self.home, id.as_str(), document.contract)?;
        Ok(RunRequest {
            approval: ApprovalAsk::Request(id.clone()),
            ..request
        })
    }

    /// Where a request stands now.
    pub fn approval_standing(&self, state: &RequestState) -> ApprovalStanding {
        let consumed = state.consumed.as_ref().map(|(_, consumed)| {
            let row = self.store().get(&consumed.run_id).ok().flatten();
            row.and_then(|row| row.status)
        });
        let ends = (clock::now(), state.opened.expires_at);
        standing(&state.decided(), ends, consumed)
    }

    /// A request as lists show it. Its title comes from the document, if that is still the one.
    pub fn request_row(&self, state: &RequestState) -> RequestRow {
        let opened = &state.opened;
        let document = self.approval_request(&opened.request_id).ok();
        let (signer, signature, self_approved) = match &state.decision {
            None => (None, None, None),
            Some((_, Decision::Granted(g))) => (
                Some(g.statement.signer.clone()),
                Some(&g.signature),
                Some(g.statement.self_approved),
            ),
            Some((_, Decision::Denied(d))) => {
                (Some(d.statement.signer.clone()), Some(&d.signature), None)
            }
        };
        RequestRow {
            request_id: opened.request_id.clone(),
            standing: self.approval_standing(state),
            task_id: opened.bindings.task_id.to_string(),
            title: document.map_or_else(
                || "(its document was changed or lost)".to_owned(),
                |(_, d)| d.contract.title,
            ),
            lane: opened.bindings.lane,
            model: opened.bindings.model.clone(),
            target_id: opened.bindings.target_id.clone(),
            target_head: opened.bindings.target_head.clone(),
            stage: opened.bindings.stage,
            at: opened.at,
            expires_at: opened.expires_at,
            requester: opened.requester.clone(),
            requested_by: state.requested_by().cloned(),
            decided_by: signer,
            presence: signature.map(|s| s.presence),
            custody: signature.map(|s| s.custody),
            self_approved,
            run_id: state.consumed.as_ref().map(|(_, c)| c.run_id.clone()),
        }
    }
}

impl From<ApprovalError> for String {
    fn from(error: ApprovalError) -> Self {
        error_chain(&error)
    }
}
