//! What the index knows of a run: at its seal, and as a row. What the ledger knows is in the contract.

use cto_contract::blocker::BlockerCode;
use cto_contract::ids::{CaseId, Digest, RunId};
use cto_contract::ledger::RunCreated;
use cto_contract::text;
use cto_contract::time::Utc;
use cto_contract::trust::Origin;
use cto_contract::words::{Lane, RunStatus, Stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest title in the index and the ledger; the pack holds all of it.
pub(crate) const TITLE_CHARS_MAX: usize = 200;
/// Longest reason in the index.
const REASON_CHARS_MAX: usize = 400;

/// A run whose pack is sealed: everything the index shows of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunSealed {
    pub run_id: RunId,
    pub case_id: CaseId,
    pub backend: Lane,
    pub stage: Stage,
    pub status: RunStatus,
    pub started_at: Utc,
    pub finished_at: Utc,
    /// The first blocker of the report.
    pub blocker: Option<BlockerCode>,
    pub failure_reason: Option<String>,
    pub changed_files: u64,
    pub wall_seconds: Option<f64>,
    pub pack_digest: Digest,
    pub keyid: Digest,
    pub origin: Origin,
    pub title: String,
    pub conformance: bool,
    /// It only measures another run.
    pub fake_baseline: bool,
    /// Digest of where the source repository's git directory is, as far as this home knows.
    pub repository: Option<Digest>,
}

/// One row of the index. Texts in it are cut and hold no control characters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    pub run_id: RunId,
    pub case_id: CaseId,
    pub backend: Lane,
    pub stage: Stage,
    /// Null while the run goes on.
    pub status: Option<RunStatus>,
    pub started_at: Utc,
    pub finished_at: Option<Utc>,
    pub blocker: Option<BlockerCode>,
    pub failure_reason: Option<String>,
    pub changed_files: Option<u64>,
    /// To the microsecond.
    pub wall_seconds: Option<f64>,
    pub pack_digest: Option<Digest>,
    pub keyid: Option<Digest>,
    pub origin: Option<Origin>,
    pub title: String,
    pub conformance: bool,
    /// It only measures another run.
    pub fake_baseline: bool,
    /// Its place in the listing: when it started, but never later than when it came here.
    pub listed_at: Utc,
    /// The ledger of this home created it.
    pub of_this_home: bool,
}

impl From<&RunCreated> for RunRow {
    fn from(run: &RunCreated) -> Self {
        Self {
            run_id: run.run_id.clone(),
            case_id: run.case_id.clone(),
            backend: run.backend,
            stage: run.stage,
            status: None,
            started_at: run.started_at,
            finished_at: None,
            blocker: None,
            failure_reason: None,
            changed_files: None,
            wall_seconds: None,
            pack_digest: None,
            keyid: None,
            origin: None,
            title: text::shorten(&run.title, TITLE_CHARS_MAX),
            conformance: run.conformance,
            fake_baseline: run.fake_baseline,
            listed_at: run.started_at,
            of_this_home: true,
        }
    }
}

impl From<&RunSealed> for RunRow {
    /// As it stands before the ledger was asked whether it created the run.
    fn from(run: &RunSealed) -> Self {
        Self {
            run_id: run.run_id.clone(),
            case_id: run.case_id.clone(),
            backend: run.backend,
            stage: run.stage,
            status: Some(run.status),
            started_at: run.started_at,
            finished_at: Some(run.finished_at),
            blocker: run.blocker,
            failure_reason: run
                .failure_reason
                .as_deref()
                .map(|reason| text::shorten(reason, REASON_CHARS_MAX)),
            changed_files: Some(run.changed_files),
            wall_seconds: run.wall_seconds,
            pack_digest: Some(run.pack_digest.clone()),
            keyid: Some(run.keyid.clone()),
            origin: Some(run.origin),
            title: text::shorten(&run.title, TITLE_CHARS_MAX),
            conformance: run.conformance,
            fake_baseline: run.fake_baseline,
            listed_at: run.started_at,
            of_this_home: false,
        }
    }
}
