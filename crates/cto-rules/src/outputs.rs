//! What `cto init` and `cto contract check` print under `--json`: documents with proposals and advice in them.

use cto_contract::ids::{CaseId, Digest};
use cto_contract::schemars::{self, JsonSchema};
use cto_contract::task::TaskContract;
use cto_contract::{wire_const, wire_enum};
use serde::Serialize;

use crate::advice::Warning;
use crate::propose::Language;

wire_const! {
    /// Schema tag `cto.init/v1`.
    pub struct InitTag: &'static str = "cto.init/v1"
}

/// `cto init`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct InitOutput {
    pub schema_version: InitTag,
    pub directory: String,
    pub languages: Vec<Language>,
    pub files: Vec<InitFile>,
    /// The contract that was written.
    pub contract: TaskContract,
    /// Lines that `.gitignore` lacks and should have; nothing writes them unasked.
    pub proposed_ignores: Vec<String>,
    /// What a person should know before he trusts it.
    pub notes: Vec<String>,
    /// What to type next, in order.
    pub next: Vec<String>,
}

wire_enum! {
    /// What became of a file that `cto init` cares about.
    pub enum FileState { Written = "written", Replaced = "replaced", Extended = "extended", Kept = "kept" }
}

/// One file that `cto init` cares about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InitFile {
    pub path: String,
    pub state: FileState,
}

wire_const! {
    /// Schema tag `cto.contract-check/v1`.
    pub struct ContractCheckTag: &'static str = "cto.contract-check/v1"
}

/// `cto contract check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ContractCheckOutput {
    pub schema_version: ContractCheckTag,
    pub file: String,
    pub task_id: CaseId,
    /// Digest of the contract's canonical form.
    pub contract_digest: Digest,
    /// The directory that its paths were compared with; null when there was none.
    pub repository: Option<String>,
    /// Without the whole tree there is no warning about paths that are not in it.
    pub tree_complete: bool,
    pub warnings: Vec<Warning>,
}
