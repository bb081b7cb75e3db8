//! The proofs of the stages at which a change lands: what ledger, log and report say, put side by side. Made again from the
//! same, they are the same bytes.

use cto_contract::addendum::{Body, Bound, Outcome, ProofFile};
use cto_contract::admission::{AdmissionKind, TargetAdmission};
use cto_contract::approval::ExecutionScope;
use cto_contract::artifact::REPORT_JSON;
use cto_contract::event::{EventKind, RunEvent};
use cto_contract::ids::CommitId;
use cto_contract::landing::{
    DisposablePlan, DisposableProof, DisposableProofTag, Disposal, LandingPlan, NoRemote,
    OwnedProof, OwnedProofTag, ProofHead, ProvenAdmission, ProvenApproval, ProvenDisposable,
    RecordedPolicy,
};
use cto_contract::words::{NeverActive, NotPromoted, TargetAdmissionStatus};
use cto_evidence::addendum::proof;
use cto_evidence::canonical::sha256;
use cto_ledger::RequestState;
use cto_rules::landing::{ProofFacts, proof_errors};

use super::LandError;
use super::subject::Subject;
use crate::addenda::AddendaError;
use crate::harness::Harness;

/// The file of the pack that shows that no input of the lane named a target.
const NO_TARGET: &str = "stage2-no-target-inspection.json";

fn seq_of(events: &[RunEvent], is_it: impl Fn(&EventKind) -> bool) -> Option<u64> {
    let mut found = events.iter().filter(|event| is_it(&event.kind));
    found.next().map(|event| event.seq)
}

/// Whether the approval was used up before anything could change.
fn approved_first(events: &[RunEvent]) -> bool {
    let consumed = seq_of(events, |kind| {
        matches!(kind, EventKind::ApprovalConsumed(_))
    });
    let started = seq_of(events, |kind| matches!(kind, EventKind::BackendStarted(_)));
    consumed
        .zip(started)
        .is_some_and(|(consumed, started)| consumed < started)
}

fn approval(subject: &Subject) -> Option<ProvenApproval> {
    let state = subject.request.as_ref()?;
    let (_, grant) = RequestState::grant(state)?;
    Some(ProvenApproval {
        request_id: state.opened.request_id.clone(),
        requested_at: state.opened.at,
        decided_at: grant.statement.at,
        decision: "granted".to_owned(),
        actor: grant.statement.signer.to_string(),
        scope: ExecutionScope::VALUE.to_owned(),
        mutation_mode: grant.statement.bindings.mutation_mode,
        expiry: grant.statement.expires_at,
    })
}

fn policy(subject: &Subject) -> RecordedPolicy {
    let LandingPlan {
        branch,
        base,
        update,
        ..
    } = subject.plan.clone();
    RecordedPolicy {
        branch,
        base,
        update,
        remote: NoRemote,
        recorded_at: subject.planned_at,
    }
}

fn head(subject: &Subject, errors: Vec<String>) -> Result<ProofHead, LandError> {
    let report = &subject.report;
    let digest = report.artifacts.artifact_digests.get(REPORT_JSON);
    Ok(ProofHead {
        run_id: subject.run_id.clone(),
        case_id: report.run.case_id.clone(),
        backend: report.backend.backend,
        identity: Some(subject.identity.clone()),
        allowed_mutation_scope: report.authority.allowed_mutation_scope.clone(),
        report_path: format!("$CTO_HOME/harness-runs/{}/{REPORT_JSON}", subject.run_id),
        report_digest: digest
            .cloned()
            .ok_or_else(|| LandError::Log(subject.run_id.clone()))?,
        passed: errors.is_empty(),
        errors,
        runtime_default_activation: NeverActive,
        core_promotion_status: NotPromoted,
    })
}

fn facts(subject: &Subject) -> ProofFacts {
    let report = &subject.report;
    ProofFacts {
        status: report.verdict.status,
        approval_before_mutation: approved_first(&subject.events),
        has_grant: approval(subject).is_some(),
        forbidden_actions: report.authority.forbidden_actions_attempted.clone(),
        allowed_writes_passed: report.change.allowed_writes_passed,
        forbidden_paths_passed: report.change.forbidden_paths_passed,
        dirty_source: report
            .source
            .source
            .as_ref()
            .map(|source| source.dirty_source),
    }
}

fn body(file: ProofFile, payload: serde_json::Value) -> Result<Body, LandError> {
    let (body, _) = proof(file, payload).map_err(AddendaError::from)?;
    Ok(body)
}

/// The proof of stage 4.
pub(super) fn disposable(
    subject: &Subject,
    plan: &DisposablePlan,
    landed_commit: CommitId,
) -> Result<Body, LandError> {
    let report = &subject.report;
    let unknown = || LandError::Unknown(subject.run_id.clone());
    let proof = DisposableProof {
        schema_version: DisposableProofTag,
        head: head(subject, proof_errors(&facts(subject)))?,
        disposable_repository: ProvenDisposable {
            owner: plan.owner.clone(),
            creation_source: plan.creation_source.clone(),
            disposal_policy: plan.disposal_policy,
            disposal_note: match plan.disposal_policy {
                Disposal::Delete => "removed by the harness after the landing".to_owned(),
                Disposal::Retain => format!("retained by its owner's wish at {}", plan.directory),
            },
        },
        approval: approval(subject).ok_or_else(unknown)?,
        branch_policy: policy(subject),
        landed_commit,
        approval_before_mutation: approved_first(&subject.events),
        forbidden_actions_attempted: (report.authority.forbidden_actions_attempted.iter())
            .copied()
            .collect(),
        no_target_inspection: (report.artifacts.artifact_digests.get(NO_TARGET)).map(|digest| {
            Bound {
                id: NO_TARGET.to_owned(),
                digest: digest.clone(),
            }
        }),
    };
    body(ProofFile::DisposableSandbox, serde_json::to_value(proof)?)
}

/// The admission of the target that the decision rested on, as it was kept then.
fn admission(harness: &Harness, subject: &Subject) -> Option<ProvenAdmission> {
    let decided = subject.events.iter().find_map(|event| {
        let EventKind::EligibilityDecided(decided) = &event.kind else {
            return None;
        };
        decided.decision.admissions.as_ref()
    })?;
    let used = decided
        .records
        .iter()
        .find(|used| used.kind == AdmissionKind::Target)?;
    let path = harness
        .home
        .admissions()
        .join(format!("{}.json", used.digest));
    let bytes = std::fs::read(path).ok()?;
    let record: TargetAdmission = serde_json::from_slice(&bytes).ok()?;
    if sha256(&bytes) != used.digest {
        return None;
    }
    Some(ProvenAdmission {
        status: TargetAdmissionStatus::Admitted,
        repository_owner: record.repository_owner.as_str().to_owned(),
        risk_classification: record.risk_classification.as_str().to_owned(),
        ownership_evidence: record.ownership_evidence.as_str().to_owned(),
        approval_source: record.approval_source.as_str().to_owned(),
        digest: used.digest.clone(),
    })
}

/// The proof of stage 5, for a change that an operator has accepted.
pub(super) fn owned(
    harness: &Harness,
    subject: &Subject,
    (landed_commit, is_clean): (CommitId, bool),
    outcome: Outcome,
) -> Result<Body, LandError> {
    let report = &subject.report;
    let unknown = || LandError::Unknown(subject.run_id.clone());
    let admission = admission(harness, subject);
    let mut errors = proof_errors(&facts(subject));
    if admission.is_none() {
        errors.push("target_repository_admission is missing".to_owned());
    }
    let start_clean = report
        .source
        .source
        .as_ref()
        .map(|source| source.dirty_count == 0);
    if start_clean != Some(true) {
        errors.push("target_repository_start_clean is not true".to_owned());
    }
    let approval = approval(subject).ok_or_else(unknown)?;
    let contract = subject.request.as_ref();
    let contract = contract.and_then(|state| {
        let request = harness.approval_request(&state.opened.request_id);
        request.ok().map(|(_, document)| document.contract)
    });
    let proof = OwnedProof {
        schema_version: OwnedProofTag,
        head: head(subject, errors)?,
        target_id: subject.target_id(),
        approval_source: admission.as_ref().map(|a| a.approval_source.clone()),
        target_repository_admission: admission,
        baseline_head: subject.plan.base.clone(),
        landed_commit,
        branch_policy: policy(subject),
        changed_files: report.change.changed_files.clone(),
        allowed_paths: contract.map(|c| c.allowed_paths).unwrap_or_default(),
        allowed_paths_passed: (report.change.allowed_paths_passed)
            .or(report.change.allowed_writes_passed),
        forbidden_paths_passed: report.change.forbidden_paths_passed,
        forbidden_actions_attempted: (report.authority.forbidden_actions_attempted.iter())
            .copied()
            .collect(),
        target_repository_start_clean: start_clean,
        target_repository_ending_clean: is_clean,
        grant_id: approval.request_id.to_string(),
        approval,
        verification: report.checks.verification.clone(),
        operator_outcome: outcome,
    };
    body(ProofFile::OwnedRepository, serde_json::to_value(proof)?)
}
