//! A case: a task contract with its own small workspace.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{self, DocumentError};
use crate::ids::CaseId;
use crate::input::Input;
use crate::path::PathPattern;
use crate::task::{
    ApprovalPolicy, ContractSchema, EvidenceExpectations, Limits, TaskContract, VerificationCommand,
};
use crate::words::{Action, DirtySource, HistoryClass, MutationMode, NetworkClass, RiskClass};

wire_const! {
    /// Schema tag of `case.yaml`.
    pub struct CaseSchema: &'static str = "cto.case/v1"
}

/// Most files that one `fill` entry may ask for.
pub const FILL_FILES_MAX: u32 = 200_000;

/// Files made by rule, so that a case can be large without shipping its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// Path with `{n}` (running number, five digits) and `{dir}` (`n / per_dir`, three digits).
    pub path: String,
    #[schemars(range(min = 1, max = 200_000))]
    pub count: u32,
    #[serde(default = "hundred")]
    pub per_dir: u32,
    /// Content with the same two placeholders.
    pub content: String,
}

fn hundred() -> u32 {
    100
}

impl Fill {
    /// The files: path and content.
    pub fn files(&self) -> impl Iterator<Item = (String, String)> + '_ {
        (0..self.count).map(|n| {
            let number = format!("{n:05}");
            let dir = format!("{:03}", n / self.per_dir.max(1));
            let put = |text: &str| text.replace("{n}", &number).replace("{dir}", &dir);
            (put(&self.path), put(&self.content))
        })
    }
}

/// `case.yaml` as a person writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    pub schema: CaseSchema,
    pub id: CaseId,
    pub title: String,
    pub instruction: String,
    #[serde(default)]
    pub risk_class: Option<RiskClass>,
    #[serde(default, alias = "allowed_writes")]
    pub allowed_paths: Vec<PathPattern>,
    #[serde(default)]
    pub forbidden_paths: Vec<PathPattern>,
    #[serde(default)]
    pub frozen_paths: Vec<PathPattern>,
    #[serde(default)]
    pub forbidden_actions: BTreeSet<Action>,
    #[serde(default)]
    pub permitted_actions: BTreeSet<Action>,
    #[serde(default)]
    pub setup_commands: Vec<String>,
    #[serde(default)]
    pub inputs: Vec<Input>,
    #[serde(default)]
    pub verification_commands: Vec<VerificationCommand>,
    #[serde(default)]
    pub no_test_rationale: Option<String>,
    #[serde(default)]
    pub diff_required: Option<bool>,
    #[serde(default)]
    pub success_criteria: Vec<String>,
    #[serde(default)]
    pub rollback_expectation: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval_required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<ApprovalPolicy>,
    #[serde(default)]
    pub evidence_expectations: EvidenceExpectations,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub network: Option<NetworkClass>,
    #[serde(default)]
    pub fill: Vec<Fill>,
}

impl CaseFile {
    /// Reads `case.yaml` and checks what its parts say together.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, DocumentError> {
        let case: Self = document::read(name, bytes)?;
        for fill in &case.fill {
            if fill.count > FILL_FILES_MAX || !fill.path.contains("{n}") {
                return Err(DocumentError::whole(
                    name,
                    format!(
                        "fill `{}` needs `{{n}}` in its path and at most {FILL_FILES_MAX} files",
                        crate::text::shorten(&fill.path, 80)
                    ),
                ));
            }
            fill.path
                .replace("{n}", "0")
                .replace("{dir}", "0")
                .parse::<PathPattern>()
                .map_err(|e| DocumentError::whole(name, e.to_string()))?;
        }
        Ok(case)
    }

    /// The contract that a backend gets for this case.
    pub fn contract(&self) -> TaskContract {
        TaskContract {
            schema: ContractSchema,
            task_id: self.id.clone(),
            title: self.title.clone(),
            instruction: self.instruction.clone(),
            target_id: None,
            authority_basis: None,
            route: None,
            risk_class: self.risk_class.unwrap_or(RiskClass::Artificial),
            allowed_paths: self.allowed_paths.clone(),
            forbidden_paths: self.forbidden_paths.clone(),
            frozen_paths: self.frozen_paths.clone(),
            readable_paths: Vec::new(),
            forbidden_actions: self.forbidden_actions.clone(),
            permitted_actions: self.permitted_actions.clone(),
            mutation_mode: Some(MutationMode::CopiedFixture),
            approval_required: self.approval_required,
            approval_policy: self.approval_policy.clone(),
            setup_commands: self.setup_commands.clone(),
            inputs: self.inputs.clone(),
            verification_commands: self.verification_commands.clone(),
            no_test_rationale: self.no_test_rationale.clone(),
            diff_required: self.diff_required.unwrap_or(true),
            success_criteria: self.success_criteria.clone(),
            rollback_expectation: self.rollback_expectation.clone(),
            evidence_expectations: self.evidence_expectations.clone(),
            branch_policy: None,
            dirty_source: DirtySource::Refused,
            history: HistoryClass::None,
            limits: self.limits,
            network: self.network.unwrap_or(NetworkClass::None),
        }
    }
}
