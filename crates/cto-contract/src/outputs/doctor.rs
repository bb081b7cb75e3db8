//! `cto doctor`.

use schemars::JsonSchema;
use serde::Serialize;

outputs! {
    /// `cto doctor`.
    DoctorOutput, DoctorTag = "cto.doctor/v1" {
        pub ok: bool,
        pub checks: Vec<DoctorCheck>,
    }
}

wire_enum! {
    /// How a check of `cto doctor` ended.
    pub enum Health { Ok = "ok", Warn = "warn", Fail = "fail" }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DoctorCheck {
    pub name: String,
    pub state: Health,
    pub detail: String,
    pub remedy: Option<String>,
}
