//! The task contract: the bounded request that a backend gets.

use std::collections::BTreeSet;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::document::{self, DocumentError};
use crate::ids::CaseId;
use crate::input::Input;
use crate::path::PathPattern;
use crate::words::{Action, DirtySource, HistoryClass, MutationMode, NetworkClass, RiskClass};

wire_const! {
    /// Schema tag of a task contract.
    pub struct ContractSchema: &'static str = "cto.contract/v1"
}

/// Caps on what a run may use. Absent means: the harness's default, or no cap where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_mb: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_mb: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// What a verification command must show besides its exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The exit code that counts as success.
    #[serde(default)]
    pub exit: i32,
    /// A JUnit XML file, relative to the workspace, that the command writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub junit: Option<PathPattern>,
    /// At least so many tests must pass; skipped is not passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_tests: Option<u64>,
    /// Tests that must pass, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<String>,
    /// Tests that may be gone or skipped after the change, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_tests: Vec<String>,
}

/// One command of the verification, run by `/bin/sh -c`. A plain string is a command with the defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerificationCommand {
    pub run: String,
    pub expect: Expect,
    /// It must fail on the untouched baseline.
    pub must_fail_before: bool,
    /// How many times it must pass in a row.
    pub repeat: u32,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VerificationCommandFields {
    run: String,
    #[serde(default)]
    expect: Expect,
    #[serde(default)]
    must_fail_before: bool,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    repeat: u32,
}

fn one() -> u32 {
    1
}

impl<'de> Deserialize<'de> for VerificationCommand {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CommandVisitor;
        impl<'de> Visitor<'de> for CommandVisitor {
            type Value = VerificationCommand;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a command line, or a map with `run`")
            }
            fn visit_str<E: de::Error>(self, run: &str) -> Result<Self::Value, E> {
                VerificationCommand {
                    run: run.to_owned(),
                    expect: Expect::default(),
                    must_fail_before: false,
                    repeat: 1,
                }
                .checked()
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let f = VerificationCommandFields::deserialize(MapAccessDeserializer::new(map))?;
                VerificationCommand {
                    run: f.run,
                    expect: f.expect,
                    must_fail_before: f.must_fail_before,
                    repeat: f.repeat,
                }
                .checked()
            }
        }
        deserializer.deserialize_any(CommandVisitor)
    }
}

impl VerificationCommand {
    fn checked<E: de::Error>(self) -> Result<Self, E> {
        if self.run.trim().is_empty() {
            return Err(E::custom("a verification command is empty"));
        }
        if self.run.contains('\0') {
            return Err(E::custom("a verification command holds a NUL character"));
        }
        if !(1..=100).contains(&self.repeat) {
            return Err(E::custom("`repeat` must be between 1 and 100"));
        }
        Ok(self)
    }
}

impl JsonSchema for VerificationCommand {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "VerificationCommand".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fields = generator.subschema_for::<VerificationCommandFields>();
        json_schema!({ "anyOf": [{ "type": "string", "minLength": 1 }, fields] })
    }
}

/// Who must approve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalPolicy {
    #[serde(default)]
    pub approvers: Vec<String>,
    #[serde(default)]
    pub four_eyes: bool,
    #[serde(default = "one")]
    pub quorum: u32,
}

/// What the pack must show besides the standard set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvidenceExpectations {
    /// Event types that must occur in the log.
    #[serde(default)]
    pub required_events: Vec<String>,
}

wire_enum! {
    /// Whether the landing branch may be one that somebody works on.
    pub enum BranchUpdate { RefOnly = "ref-only", CheckedOut = "checked-out" }
}

/// The branch a change may land on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BranchPolicy {
    pub branch: String,
    pub base: String,
    pub update: BranchUpdate,
}

/// The bounded request. Its canonical JSON is `task-contract.json`, and its digest is what approvals bind to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskContract {
    pub schema: ContractSchema,
    pub task_id: CaseId,
    pub title: String,
    pub instruction: String,
    #[serde(default)]
    pub target_id: Option<String>,
    #[serde(default)]
    pub authority_basis: Option<String>,
    #[serde(default)]
    pub route: Option<String>,
    #[serde(default = "artificial")]
    pub risk_class: RiskClass,
    #[serde(default, alias = "allowed_writes")]
    pub allowed_paths: Vec<PathPattern>,
    #[serde(default)]
    pub forbidden_paths: Vec<PathPattern>,
    #[serde(default)]
    pub frozen_paths: Vec<PathPattern>,
    /// Forbidden paths that the backend and the checks may see; the others are absent from the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readable_paths: Vec<PathPattern>,
    #[serde(default)]
    pub forbidden_actions: BTreeSet<Action>,
    #[serde(default)]
    pub permitted_actions: BTreeSet<Action>,
    #[serde(default)]
    pub mutation_mode: Option<MutationMode>,
    #[serde(default)]
    pub approval_required: bool,
    #[serde(default)]
    pub approval_policy: Option<ApprovalPolicy>,
    #[serde(default)]
    pub setup_commands: Vec<String>,
    #[serde(default)]
    pub inputs: Vec<Input>,
    #[serde(default)]
    pub verification_commands: Vec<VerificationCommand>,
    #[serde(default)]
    pub no_test_rationale: Option<String>,
    #[serde(default = "yes")]
    pub diff_required: bool,
    #[serde(default)]
    pub success_criteria: Vec<String>,
    #[serde(default)]
    pub rollback_expectation: Option<String>,
    #[serde(default)]
    pub evidence_expectations: EvidenceExpectations,
    #[serde(default = "refused", skip_serializing_if = "is_refused")]
    pub dirty_source: DirtySource,
    #[serde(default)]
    pub branch_policy: Option<BranchPolicy>,
    #[serde(default = "no_history")]
    pub history: HistoryClass,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default = "no_network")]
    pub network: NetworkClass,
}

fn artificial() -> RiskClass {
    RiskClass::Artificial
}
fn yes() -> bool {
    true
}
fn refused() -> DirtySource {
    DirtySource::Refused
}
fn is_refused(word: &DirtySource) -> bool {
    *word == DirtySource::Refused
}
fn no_history() -> HistoryClass {
    HistoryClass::None
}
fn no_network() -> NetworkClass {
    NetworkClass::None
}

impl TaskContract {
    /// Reads a contract from YAML or JSON.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, DocumentError> {
        document::read(name, bytes)
    }

    /// Actions of the ten that are neither forbidden nor permitted: an incomplete contract.
    pub fn unlisted_actions(&self) -> Vec<Action> {
        Action::ALL
            .iter()
            .copied()
            .filter(|a| !self.forbidden_actions.contains(a) && !self.permitted_actions.contains(a))
            .collect()
    }
}
