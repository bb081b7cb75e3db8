//! The files of a pack, by name, and when each was written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::Nonce;
use crate::time::Utc;

pub const REPORT_JSON: &str = "report.json";
pub const REPORT_MD: &str = "report.md";
pub const EVENTS: &str = "events.normalized.jsonl";
pub const TRACE: &str = "trace.jsonl";
pub const PATCH: &str = "patch.diff";
pub const TEST_LOG: &str = "test.log";
pub const BACKEND_DIR: &str = "backend";
/// What held the backend, as it was tried from within.
pub const SANDBOX_PROOF: &str = "backend/sandbox.json";
/// What lay in the upper directory of an overlay when the backend had ended, a line for each entry.
pub const UPPER_DIRECTORY: &str = "backend/upper-directory.jsonl";
pub const ELIGIBILITY: &str = "eligibility.json";
pub const TASK_CONTRACT: &str = "task-contract.json";
pub const SHA256SUMS: &str = "SHA256SUMS";
pub const ATTESTATION: &str = "attestation.dsse.json";
/// The attestation before it has its name. A pack that holds it is not sealed.
pub const ATTESTATION_DRAFT: &str = ".attestation.tmp";

/// First words of the stub that stands in for a patch in quarantine.
pub const QUARANTINED: &str = "quarantined by cto";

/// The files that every pack holds, sealed or blocked.
pub const REQUIRED: [&str; 10] = [
    REPORT_JSON,
    REPORT_MD,
    EVENTS,
    TRACE,
    PATCH,
    TEST_LOG,
    ELIGIBILITY,
    TASK_CONTRACT,
    SHA256SUMS,
    ATTESTATION,
];

/// The proof files of later stages, frozen here because their names are contracts.
pub const STAGE_PROOFS: [&str; 6] = [
    crate::stage_proof::NO_TARGET_PROOF,
    crate::stage_proof::COPIED_REPO_PROOF,
    "stage4-disposable-sandbox-proof.json",
    "stage5-owned-repo-proof.json",
    "stage6-candidate-default-comparison.json",
    "stage6-real-governed-refresh-comparison.json",
];

wire_enum! {
    /// Whether this run made the artifact or only checked one that was there.
    pub enum FreshnessSource { Written = "written", Checked = "checked" }
}

/// When an artifact came to be, by the run's own clocks. File times are never consulted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Freshness {
    pub source: FreshnessSource,
    /// Nanoseconds of the boot clock since `run.started`.
    pub monotonic_ns: u64,
    pub wall: Utc,
    pub nonce: Nonce,
}

/// Freshness by path in the pack.
pub type FreshnessMap = BTreeMap<String, Freshness>;
