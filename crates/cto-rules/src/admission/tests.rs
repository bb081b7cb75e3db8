//! Truth tables: a record that fits, and everything that can be wrong with it.

mod binary;
mod decision;
mod model;
mod secrets;
mod source;
mod target;

use cto_contract::admission::{
    BinaryAdmission, ModelAdmission, ProviderDecision, SourceAdmission, TargetAdmission,
};
use serde_json::{Value, json};

use super::*;

pub(crate) const PROVIDER: &str = "my-local";
pub(crate) const MODEL: &str = "some-model";
pub(crate) const TARGET: &str = "/srv/t";
const PROGRAM: &str = "/opt/agent/agent";

pub(super) fn stage(number: u8) -> Stage {
    Stage::try_from(number).unwrap()
}

fn moment(number: u8) -> Moment {
    Moment {
        stage: stage(number),
        at: "2026-06-01T10:52:22Z".parse().unwrap(),
    }
}

fn digest(byte: &str) -> Digest {
    byte.repeat(32).parse().unwrap()
}

fn stored<T: serde::de::DeserializeOwned>(value: Value) -> Stored<T> {
    Stored {
        record: serde_json::from_value(value).unwrap(),
        digest: digest("cd"),
        seal: AdmissionSeal::Signed,
    }
}

pub(crate) fn source(lane: Lane) -> Stored<SourceAdmission> {
    stored(json!({
        "status": "admitted", "lane": lane, "kind": "registry", "registry": "npm", "package": "agent",
        "version": "1.2.3", "integrity": "ab".repeat(32), "licence_note": "MIT", "retrieved_at": "2026-06-01",
        "retrieval_command": "npm i agent@1.2.3", "integrity_reference": "the registry",
        "allowed_execution_modes": ["none", "copied-fixture", "sandbox-repo", "owned-noncritical-repo", "candidate-default"],
        "protected_source_boundary": "never written", "review_trigger": "before another version",
    }))
}

pub(crate) fn program() -> ProgramSeen {
    ProgramSeen {
        path: PROGRAM.to_owned(),
        is_executable: true,
        is_temporary: false,
        digest: digest("ab"),
        package: None,
        interpreter: None,
    }
}

pub(crate) fn binary(lane: Lane) -> Stored<BinaryAdmission> {
    let word = lane.traits().identity_word;
    stored(json!({
        "status": "admitted", "lane": lane, "path": PROGRAM, "version": "1.2.3", "sha256": digest("ab"),
        "identity_check": { "command": "agent --help", "answer": format!("{word} agent 1.2.3") },
        "review_trigger": "before another build",
    }))
}

pub(crate) fn model() -> Stored<ModelAdmission> {
    stored(json!({
        "status": "admitted", "provider": PROVIDER, "model": MODEL, "credential_source_class": "none",
        "allowed_network_class": "local", "approval_source": "me", "admission_timestamp": "2026-06-01",
        "review_trigger": "before another model",
    }))
}

pub(crate) fn decision(lane: Lane) -> Stored<ProviderDecision> {
    stored(json!({
        "lane": lane, "decision_status": "local_provider_required", "provider_class": "local_case_compatible",
        "provider": PROVIDER, "model": MODEL, "approval_source": "me", "review_trigger": "before another model",
    }))
}

pub(crate) fn target() -> Stored<TargetAdmission> {
    stored(json!({
        "admission_status": "admitted", "target_repository_path": TARGET, "ownership_evidence": "mine",
        "risk_classification": "low_risk_noncritical", "allowed_paths": ["src/", "README.md", "a*.py"],
        "forbidden_actions": cto_contract::words::Action::ALL, "approval_source": "me",
        "approval_timestamp": "2026-06-01", "operator_outcome_required": true, "review_trigger": "before another path",
    }))
}

/// Records that nothing speaks against, about one lane.
pub(crate) fn good(lane: Lane) -> Records {
    Records {
        sources: vec![source(lane)],
        binaries: vec![binary(lane)],
        models: vec![model()],
        decisions: vec![decision(lane)],
        targets: vec![target()],
        bad: Vec::new(),
    }
}

pub(crate) fn request() -> ModelRequest {
    ModelRequest {
        provider: Some(PROVIDER.to_owned()),
        model: Some(MODEL.to_owned()),
        file: None,
    }
}

fn bad(kind: AdmissionKind, lane: Option<Lane>, pair: Option<(&str, &str)>) -> BadRecord {
    BadRecord {
        kind,
        place: "x.json:3:1".to_owned(),
        why: "x.json:3:1: unknown field".to_owned(),
        lane,
        pair: pair.map(|(p, m)| (p.to_owned(), m.to_owned())),
    }
}
