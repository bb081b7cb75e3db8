//! The JSON files of a pack as their types, and the events that must say the same.

use std::collections::BTreeSet;

use cto_contract::artifact::{ELIGIBILITY, EVENTS, REPORT_JSON, TASK_CONTRACT};
use cto_contract::eligibility::EligibilityDecision;
use cto_contract::event::{
    Approval, ApprovalConsumed, BackendStarted, DiffChecked, EligibilityDecided, EventKind,
    PatchApplied, PlanUpdated, RunCompleted, RunStarted, TaskContractCreated,
    VerificationCompleted,
};
use cto_contract::report::Report;
use cto_contract::task::TaskContract;
use cto_contract::text;
use cto_contract::verify::VerifyCode;
use cto_contract::words::{Action, ApprovalStatus};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::files::Files;
use super::findings::Findings;
use crate::chain::Log;

/// What the files hold, as far as they could be read.
#[derive(Debug, Default)]
pub(super) struct Documents {
    pub(super) report: Option<Report>,
    /// The report with the fields that this reader does not know.
    pub(super) report_value: Option<Value>,
    pub(super) contract: Option<TaskContract>,
    pub(super) contract_value: Option<Value>,
    pub(super) eligibility: Option<EligibilityDecision>,
    pub(super) log: Option<Log>,
}

/// The last event of each kind that a report rests on.
#[derive(Debug, Default)]
pub(super) struct Facts<'a> {
    pub(super) started: Option<&'a RunStarted>,
    pub(super) contract: Option<&'a TaskContractCreated>,
    pub(super) eligibility: Option<&'a EligibilityDecided>,
    pub(super) plan: Option<&'a PlanUpdated>,
    pub(super) backend_started: Option<&'a BackendStarted>,
    pub(super) patch: Option<&'a PatchApplied>,
    pub(super) diff: Option<&'a DiffChecked>,
    pub(super) verification: Option<&'a VerificationCompleted>,
    pub(super) approval_id: Option<&'a str>,
    pub(super) requested: Option<&'a Approval>,
    pub(super) granted: Option<&'a Approval>,
    pub(super) denied: Option<&'a Approval>,
    pub(super) consumed: Option<&'a ApprovalConsumed>,
    /// What was decided about an approval.
    pub(super) approval: Option<ApprovalStatus>,
    /// What the recorder took for attempts at one of the actions.
    pub(super) attempted: BTreeSet<Action>,
    pub(super) is_recovered: bool,
    /// Set only when it is the last line.
    pub(super) completed: Option<&'a RunCompleted>,
}

impl<'a> Facts<'a> {
    /// Where the approval stands, by the log alone.
    pub(super) fn approval_status(&self) -> ApprovalStatus {
        let is_required = |e: &EligibilityDecided| e.decision.approval_required;
        match (self.approval, self.eligibility.is_some_and(is_required)) {
            (Some(decided), _) => decided,
            (None, true) => ApprovalStatus::Requested,
            (None, false) => ApprovalStatus::NotRequired,
        }
    }

    pub(super) fn of(log: &'a Log) -> Self {
        let mut facts = Self::default();
        for event in &log.events {
            facts.completed = None;
            match &event.kind {
                EventKind::RunStarted(d) => facts.started = Some(d),
                EventKind::TaskContractCreated(d) => facts.contract = Some(d),
                EventKind::EligibilityDecided(d) => facts.eligibility = Some(d),
                EventKind::PlanUpdated(d) => facts.plan = Some(d),
                EventKind::BackendStarted(d) => facts.backend_started = Some(d),
                EventKind::PatchApplied(d) => facts.patch = Some(d),
                EventKind::GitDiffChecked(d) => facts.diff = Some(d),
                EventKind::VerificationCompleted(d) => facts.verification = Some(d),
                EventKind::ApprovalRequested(d) => facts.requested = Some(d),
                EventKind::ApprovalGranted(d) => {
                    facts.approval = Some(ApprovalStatus::Granted);
                    facts.granted = Some(d);
                }
                EventKind::ApprovalDenied(d) => {
                    facts.approval = Some(ApprovalStatus::Denied);
                    facts.denied = Some(d);
                }
                EventKind::ApprovalConsumed(d) => {
                    facts.approval_id = Some(&d.approval_id);
                    facts.consumed = Some(d);
                }
                EventKind::SandboxDenied(d) => facts.attempted.extend(d.action),
                EventKind::RunCompleted(d) => facts.completed = Some(d),
                EventKind::RunRecovered(_) => facts.is_recovered = true,
                EventKind::BackendGateBlocked(_)
                | EventKind::BackendPlan(_)
                | EventKind::BackendActivity(_)
                | EventKind::ModelProbed(_)
                | EventKind::ModelUsage(_)
                | EventKind::BackendOutputCapped(_)
                | EventKind::BackendFinished(_)
                | EventKind::SetupCompleted(_)
                | EventKind::BaselineCompared(_)
                | EventKind::SourceChecked(_)
                | EventKind::LimitExceeded(_)
                | EventKind::LogRewritten(_)
                | EventKind::StepStarted(_)
                | EventKind::StepFinished(_) => {}
            }
        }
        facts
    }
}

impl Documents {
    /// Reads every document; each that is not of its type is an error.
    pub(super) fn read(files: &mut Files, findings: &mut Findings) -> Self {
        let mut documents = Self::default();
        match files.log.take() {
            Some(Ok(log)) => documents.log = Some(log),
            Some(Err(error)) => findings.file(error.code, EVENTS, error.to_string()),
            None => {}
        }
        if let Some(bytes) = files.bytes_of(REPORT_JSON) {
            documents.report = parse(REPORT_JSON, bytes, findings);
            documents.report_value = serde_json::from_slice(bytes).ok();
        }
        let facts = documents.log.as_ref().map(Facts::of).unwrap_or_default();
        let excused = |file: &str| {
            documents
                .report
                .as_ref()
                .is_some_and(|r| r.verdict.not_applicable.contains_key(file))
        };
        // A run that ended before its contract or its decision has nothing to put into these files, and must say so.
        let contract_bytes = files
            .bytes_of(TASK_CONTRACT)
            .filter(|_| facts.contract.is_some() || !excused(TASK_CONTRACT));
        let eligibility_bytes = files
            .bytes_of(ELIGIBILITY)
            .filter(|_| facts.eligibility.is_some() || !excused(ELIGIBILITY));
        let contract: Option<TaskContract> =
            contract_bytes.and_then(|b| parse(TASK_CONTRACT, b, findings));
        let contract_value = contract_bytes.and_then(|b| serde_json::from_slice(b).ok());
        let eligibility: Option<EligibilityDecision> =
            eligibility_bytes.and_then(|b| parse(ELIGIBILITY, b, findings));
        if let (Some(file), Some(event)) = (&contract, facts.contract) {
            findings.need(
                *file == event.contract,
                VerifyCode::ReportMismatch,
                TASK_CONTRACT,
                "is not the contract of task.contract.created",
            );
        }
        if let (Some(file), Some(event)) = (&eligibility, facts.eligibility) {
            findings.need(
                *file == event.decision,
                VerifyCode::ReportMismatch,
                ELIGIBILITY,
                "is not the decision of eligibility.decided",
            );
        }
        documents.contract = contract;
        documents.contract_value = contract_value;
        documents.eligibility = eligibility;
        documents
    }
}

fn parse<T: DeserializeOwned>(file: &str, bytes: &[u8], findings: &mut Findings) -> Option<T> {
    match serde_json::from_slice(bytes) {
        Ok(value) => Some(value),
        Err(e) => {
            findings.file(
                VerifyCode::SchemaInvalid,
                file,
                text::shorten(&e.to_string(), 400),
            );
            None
        }
    }
}
