//! The log as the stage proofs of a pack.

use cto_contract::eligibility::{Gate, GateOutcome};
use cto_contract::ids::Digest;
use cto_contract::report::Report;
use cto_contract::stage_proof::{
    CopiedRepoProof, CopiedRepoTag, Inspected, NoTargetProof, NoTargetTag, ProofHead,
    SourceClassification, TargetInspection, TreeStatus,
};
use cto_contract::words::{RunStatus, Stage};

use crate::lifecycle::RunState;
use crate::verdicts::can_be_proof;

/// The proofs that a pack of this log holds; none where no inspection was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackProofs {
    pub no_target: Option<NoTargetProof>,
    pub copied_repo: Option<CopiedRepoProof>,
}

/// Folds a completed log into its proofs. `report` is the log's own, `digest` that of its form without the index.
pub fn proofs(state: &RunState, report: &Report, digest: &Digest) -> PackProofs {
    let Some(plan) = &state.plan else {
        return PackProofs::default();
    };
    let Some(inspection) = &plan.plan.inspection else {
        return PackProofs::default();
    };
    let head = |errors: Vec<String>| ProofHead {
        run_id: state.run_id.clone(),
        case_id: state.case_id.clone(),
        backend: state.lane,
        stage: state.started.stage,
        status: report.verdict.status,
        identity: plan.identity.clone(),
        allowed_mutation_scope: report.authority.allowed_mutation_scope.clone(),
        report_path: format!("{}/report.json", report.artifacts.artifacts_dir),
        report_digest: digest.clone(),
        passed: errors.is_empty(),
        errors,
    };
    let no_target = NoTargetProof {
        schema_version: NoTargetTag,
        head: head(no_target_errors(inspection)),
        sought: inspection.sought.clone(),
        inspected: Inspected {
            task_contract: inspection.task_contract.clone(),
            command_arguments: inspection.command_arguments.clone(),
            runtime_inputs: inspection.runtime_inputs.clone(),
            environment: inspection.environment.clone(),
            config: inspection.config.clone(),
        },
        writable_roots: plan.plan.sandbox.writable_roots.clone(),
        target_repository_path_found: inspection.is_found(),
    };
    let is_copied = state.started.stage == Stage::COPIED_REPOSITORY;
    PackProofs {
        copied_repo: is_copied.then(|| copied_repo(state, report, inspection, &head)),
        no_target: Some(no_target),
    }
}

fn no_target_errors(inspection: &TargetInspection) -> Vec<String> {
    let places = inspection.named();
    let places = places.iter();
    let found = places.flat_map(|(place, seen)| {
        let found = seen.found.iter();
        found.map(move |what| format!("{place} names a place that a backend must not know: {what}"))
    });
    found.collect()
}

fn copied_repo(
    state: &RunState,
    report: &Report,
    inspection: &TargetInspection,
    head: &dyn Fn(Vec<String>) -> ProofHead,
) -> CopiedRepoProof {
    let source = state.source.as_ref();
    let status = |is_clean: bool| match is_clean {
        true => TreeStatus::Clean,
        false => TreeStatus::Dirty,
    };
    let mut proof = CopiedRepoProof {
        schema_version: CopiedRepoTag,
        head: head(Vec::new()),
        source_classification: classification(state),
        source_head_before: source.and_then(|s| s.head_before.clone()),
        source_head_after: source.and_then(|s| s.head_after.clone()),
        source_status_before: source.map(|s| status(s.clean_before)),
        source_status_after: source.map(|s| status(s.clean_after)),
        source_fingerprint_before: source.map(|s| s.fingerprint_before.clone()),
        source_fingerprint_after: source.map(|s| s.fingerprint_after.clone()),
        source_repository_mutated: source.map(|s| s.source_repository_mutated),
        copied_fixture_start_clean: state.workspace_start_clean,
        copied_fixture_ending_clean: ending_clean(state),
        no_target_inspection: !inspection.is_found(),
    };
    let mut errors = copied_repo_errors(&proof);
    if report.verdict.status != RunStatus::Pass {
        errors.push(format!("the run is no pass: {}", report.verdict.status));
    }
    let source_plan = state.plan.as_ref().and_then(|p| p.plan.source.as_ref());
    if !source_plan.is_some_and(can_be_proof) {
        errors.push("a run that may start from uncommitted changes proves nothing".to_owned());
    }
    proof.head = head(errors);
    proof
}

/// What of a proof does not hold, by its own fields.
pub fn copied_repo_errors(proof: &CopiedRepoProof) -> Vec<String> {
    let clean = Some(TreeStatus::Clean);
    let holds = [
        (
            proof.source_classification == Some(SourceClassification::OwnedLocal),
            "the source was not found to be owned and local",
        ),
        (
            proof.source_head_before.is_some()
                && proof.source_head_before == proof.source_head_after,
            "HEAD of the source was not seen unchanged",
        ),
        (
            proof.source_status_before == clean && proof.source_status_after == clean,
            "the source was not seen clean before and after",
        ),
        (
            proof.source_fingerprint_before.is_some()
                && proof.source_fingerprint_before == proof.source_fingerprint_after,
            "the files of the source were not seen unchanged",
        ),
        (
            proof.source_repository_mutated == Some(false),
            "it was not shown that the backend left the source alone",
        ),
        (
            proof.copied_fixture_start_clean == Some(true),
            "the copy was not seen clean when the backend started",
        ),
        (
            proof.copied_fixture_ending_clean == Some(true),
            "the copy was not seen clean when the checks had run",
        ),
        (
            proof.no_target_inspection,
            "an input of the backend names a place that it must not know",
        ),
    ];
    let broken = holds.iter().filter(|(holds, _)| !holds);
    broken.map(|(_, sentence)| (*sentence).to_owned()).collect()
}

/// Whose repository it is, by the gate that looked.
fn classification(state: &RunState) -> Option<SourceClassification> {
    let decision = &state.eligibility.as_ref()?.decision;
    let gate = decision.facts.iter().find(|f| f.gate == Gate::Repository)?;
    (gate.outcome == GateOutcome::Passed).then_some(SourceClassification::OwnedLocal)
}

/// Whether the tree of the patch was the one that was verified, with nothing left beside it.
fn ending_clean(state: &RunState) -> Option<bool> {
    let checked = state.verification.as_ref()?;
    let patch = state.patch.as_ref()?;
    let verified = checked.verified_tree_id.as_ref()?;
    Some(checked.dirty_paths.is_empty() && Some(verified) == patch.applied_tree_id.as_ref())
}
