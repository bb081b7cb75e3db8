//! `cto cases`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::ids::CaseId;
use crate::task::TaskContract;

outputs! {
    /// `cto cases`.
    CasesOutput, CasesTag = "cto.cases/v1" {
        pub cases: Vec<CaseRow>,
    }
    /// `cto cases <id>`.
    CaseOutput, CaseTag = "cto.case-show/v1" {
        pub id: CaseId,
        pub embedded: bool,
        pub cheats: Vec<String>,
        pub contract: TaskContract,
    }
}

/// One case of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseRow {
    pub id: String,
    pub title: Option<String>,
    /// Ships with the binary.
    pub embedded: bool,
    pub allowed_paths: Vec<String>,
    pub checks: u64,
    pub cheats: u64,
    /// Why the case can't be used.
    pub problem: Option<String>,
}
