//! What an operator is shown before deciding: all of it, and nothing that a terminal could read otherwise than a person.
//!
//! The digest of this text is signed. So it is never cut, and every control character and bidirectional mark is visible.

use cto_contract::addendum::Outcome;
use cto_contract::approval::ApprovalRequest;
use cto_contract::ids::Digest;
use cto_contract::report::Report;
use cto_contract::text::{neutralise, one_line};

/// A name and its value; further lines of a value are set in, so that none of them can pass for a field.
fn field(out: &mut String, name: &str, value: &str) {
    let shown = neutralise(value);
    let mut lines = shown.split('\n');
    out.push_str(&format!("{name}: {}\n", lines.next().unwrap_or_default()));
    for line in lines {
        out.push_str(&format!("    | {line}\n"));
    }
}

fn list<T: ToString>(out: &mut String, name: &str, values: impl IntoIterator<Item = T>) {
    let mut values = values.into_iter().peekable();
    if values.peek().is_none() {
        field(out, name, "none");
        return;
    }
    out.push_str(&format!("{name}:\n"));
    for value in values {
        out.push_str(&format!("  - {}\n", one_line(&value.to_string())));
    }
}

/// The whole request, as it is shown and signed.
pub fn request_text(request: &ApprovalRequest) -> String {
    let (bound, contract) = (&request.bindings, &request.contract);
    let mut out = String::new();
    let mut put = |name: &str, value: &str| field(&mut out, name, value);
    put("request", request.request_id.as_str());
    put("ledger", request.ledger.as_str());
    put("asked by", &request.requester);
    put("asked at", &request.at.to_string());
    put("expires", &request.expires_at.to_string());
    put("task", bound.task_id.as_str());
    put("title", &contract.title);
    put("instruction", &contract.instruction);
    put("lane", bound.lane.as_str());
    put("model", &bound.model);
    put("identity", bound.identity_digest.as_str());
    put("sandbox", bound.sandbox_class.as_str());
    put(
        "stage",
        &format!("{}: {}", bound.stage, bound.stage.scope()),
    );
    put("mutation mode", bound.mutation_mode.as_str());
    put("target", &bound.target_id);
    put("target head", &bound.target_head);
    put("baseline tree", bound.baseline_tree_id.as_str());
    let clean = match request.target_state.clean {
        Some(true) => "yes",
        Some(false) => "no: it has uncommitted changes, which are left out",
        None => "a case has no work tree",
    };
    put("target clean", clean);
    let admission = request.admission.as_ref();
    let admission = admission.map(|a| format!("{} sha256 {}", a.id, a.digest));
    put("admission", admission.as_deref().unwrap_or("none needed"));
    put("owner", request.owner.as_deref().unwrap_or("not recorded"));
    if let Some(plan) = &request.landing {
        put("lands on", &plan.branch);
        put("landing base", plan.base.as_str());
        put("branch update", plan.update.as_str());
        let lands_in = plan.disposable.as_ref();
        let lands_in =
            lands_in.map(|d| format!("a disposable repository, {} afterwards", d.disposal_policy));
        put(
            "lands in",
            lands_in.as_deref().unwrap_or("the target itself"),
        );
    }
    put("risk", request.risk_class.as_str());
    put("contract", bound.contract_digest.as_str());
    put("network", contract.network.as_str());
    list(&mut out, "allowed paths", &contract.allowed_paths);
    list(&mut out, "frozen paths", &contract.frozen_paths);
    list(&mut out, "forbidden paths", &request.forbidden_paths);
    list(&mut out, "forbidden actions", &request.forbidden_actions);
    list(
        &mut out,
        "permitted afterwards",
        &contract.permitted_actions,
    );
    list(&mut out, "setup commands", &contract.setup_commands);
    let checks = request.verification.iter().map(|check| &check.run);
    list(&mut out, "verification", checks);
    list(&mut out, "success criteria", &request.success_criteria);
    let rollback = request.rollback.as_deref();
    field(&mut out, "rollback", rollback.unwrap_or("not said"));
    list(&mut out, "gates to set", &request.gates_to_set);
    list(&mut out, "evidence expected", &request.evidence_expected);
    let bound_to = |b: &cto_contract::addendum::Bound| format!("{} sha256 {}", b.id, b.digest);
    list(
        &mut out,
        "proofs",
        request.proof_pointers.iter().map(bound_to),
    );
    list(&mut out, "records", request.records.iter().map(bound_to));
    field(
        &mut out,
        "next allowed action",
        &request.next_allowed_action,
    );
    field(&mut out, "sentence", &request.sentence);
    out
}

/// What is typed to deny a request.
pub fn denial_sentence(request: &ApprovalRequest) -> String {
    format!("I deny {}.", request.request_id)
}

/// What is typed to stand for a request.
pub fn asking_sentence(request: &ApprovalRequest) -> String {
    format!("I ask for {}.", request.request_id)
}

/// What is typed to accept or reject a run.
pub fn outcome_sentence(outcome: Outcome, report: &Report) -> String {
    let verb = match outcome {
        Outcome::Accepted => "accept",
        Outcome::Rejected => "reject",
    };
    format!("I {verb} run {}.", report.run.run_id)
}

/// A run, as it is shown to whoever accepts or rejects it.
pub fn outcome_text(
    report: &Report,
    pack_digest: &Digest,
    outcome: Outcome,
    note: Option<&str>,
) -> String {
    let mut out = String::new();
    let mut put = |name: &str, value: &str| field(&mut out, name, value);
    put("run", report.run.run_id.as_str());
    put("pack", pack_digest.as_str());
    put("title", &report.run.title);
    put("status", report.verdict.status.as_str());
    put("lane", report.backend.backend.as_str());
    put("stage", &report.authority.stage.to_string());
    put("contract", report.authority.contract_digest.as_str());
    let approval = report.authority.approval_id.as_deref();
    put("approval", approval.unwrap_or("none"));
    list(&mut out, "changed files", &report.change.changed_files);
    let blockers = report.verdict.blockers.iter();
    list(
        &mut out,
        "blockers",
        blockers.map(|b| format!("{}: {}", b.code, b.message)),
    );
    let claims = report.verdict.claims.iter();
    list(
        &mut out,
        "claims",
        claims.map(|c| format!("{}: {}", c.kind, c.level)),
    );
    field(&mut out, "outcome", outcome.as_str());
    field(&mut out, "note", note.unwrap_or("none"));
    out
}
