//! `cto validate …`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::blocker::BlockerCode;
use crate::words::RunStatus;

outputs! {
    /// `cto validate failures`.
    ValidateFailuresOutput, ValidateFailuresTag = "cto.validate-failures/v1" {
        /// Every check of every fixture holds, and no blocker is left out without a reason.
        pub ok: bool,
        pub checked: Vec<CheckedRow>,
        pub errors: Vec<String>,
        pub not_covered: Vec<NotCovered>,
        /// Fixture to the path of its `report.json`.
        pub failure_reports: BTreeMap<String, String>,
        /// Where the fixtures and their packs are.
        pub directory: String,
    }
    /// `cto validate provider-adapter`.
    ValidateProviderAdapterOutput, ValidateProviderAdapterTag = "cto.validate-provider-adapter/v1" {
        /// Every check holds.
        pub ok: bool,
        pub checked: Vec<AdapterCheck>,
        pub errors: Vec<String>,
        /// Where the runs and their packs are.
        pub directory: String,
    }
    /// `cto validate redteam`.
    ValidateRedteamOutput, ValidateRedteamTag = "cto.validate-redteam/v1" {
        /// Every behaviour that could be tried came out as it must, and so did the controls.
        pub ok: bool,
        pub checked: Vec<CheckedBehaviour>,
        pub errors: Vec<String>,
        pub not_covered: Vec<NotTried>,
        /// Where the runs and their packs are.
        pub directory: String,
    }
}

/// One fixture and what its pack showed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CheckedRow {
    pub fixture: String,
    pub blocker: BlockerCode,
    /// Status of the report; null when there is none.
    pub status: Option<RunStatus>,
    pub checks: Checks,
    /// What does not hold, a sentence each.
    pub errors: Vec<String>,
    pub seconds: f64,
}

impl CheckedRow {
    /// Whether all of it holds.
    pub fn passed(&self) -> bool {
        self.errors.is_empty() && self.checks.all()
    }
}

/// One check of a lane's adapter, which is a run with its own pack.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AdapterCheck {
    pub check: String,
    pub passed: bool,
    /// Status of the report; null when there is none.
    pub status: Option<RunStatus>,
    /// Whether the lane's program was started; null without a report.
    pub case_process_started: Option<bool>,
    /// Path of the run's `report.json`.
    pub report: Option<String>,
    /// What does not hold, a sentence each.
    pub errors: Vec<String>,
    pub seconds: f64,
}

/// The eight checks of a fixture's pack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Checks {
    pub blocker: bool,
    pub event: bool,
    pub status: bool,
    pub exit_code: bool,
    pub artifacts: bool,
    pub digests: bool,
    pub freshness: bool,
    pub outside: bool,
}

impl Checks {
    /// Names and results, in order.
    pub fn named(&self) -> [(&'static str, bool); 8] {
        [
            ("blocker", self.blocker),
            ("event", self.event),
            ("status", self.status),
            ("exit_code", self.exit_code),
            ("artifacts", self.artifacts),
            ("digests", self.digests),
            ("freshness", self.freshness),
            ("outside", self.outside),
        ]
    }

    /// Whether every one holds.
    pub fn all(&self) -> bool {
        self.named().iter().all(|(_, holds)| *holds)
    }
}

/// A blocker that was not triggered, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotCovered {
    pub blocker: BlockerCode,
    pub reason: String,
}

wire_enum! {
    /// What became of a behaviour.
    pub enum BehaviourStatus { Pass = "pass", Fail = "fail", Skipped = "skipped" }
}

/// One behaviour and what was seen of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckedBehaviour {
    pub behaviour: u8,
    pub name: String,
    pub expected: String,
    pub seen: String,
    /// What it is tried with, and what of the kernel must hold it.
    pub needs: Vec<String>,
    pub status: BehaviourStatus,
    /// Why it failed or was not tried.
    pub reason: Option<String>,
    /// Directories of the runs in which it was tried, below `directory`.
    pub runs: Vec<String>,
}

/// A behaviour that this version does not try, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotTried {
    pub behaviour: u8,
    pub name: String,
    pub reason: String,
}
