//! What the commands of decisions print.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::addendum::Outcome;
use crate::approval::{ApprovalRequest, RequestId};
use crate::blocker::Blocker;
use crate::ids::{Digest, RunId};
use crate::operator::OperatorName;
use crate::time::Utc;
use crate::words::{Custody, Lane, Presence, RunStatus, Stage};

wire_enum! {
    /// How far a request has come.
    pub enum ApprovalPhase {
        Requested = "requested",
        Granted = "granted",
        Denied = "denied",
        Expired = "expired",
        Consumed = "consumed",
    }
}
wire_enum! {
    /// What came of a grant that was used up.
    pub enum PacketStatus {
        ConsumedByPassEvidence = "consumed_by_pass_evidence",
        ConsumedWithoutPass = "consumed_without_pass",
    }
}

/// Where a request stands: the same three words everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalStanding {
    pub phase: ApprovalPhase,
    pub required: bool,
    pub granted: bool,
    pub execution_allowed: bool,
    /// Only once it was used up.
    pub status: Option<PacketStatus>,
}

/// One request and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestRow {
    pub request_id: RequestId,
    pub standing: ApprovalStanding,
    pub task_id: String,
    pub title: String,
    pub lane: Lane,
    pub model: String,
    pub target_id: String,
    pub target_head: String,
    pub stage: Stage,
    pub at: Utc,
    pub expires_at: Utc,
    pub requester: String,
    /// The operator who signed that he asked.
    #[serde(default)]
    pub requested_by: Option<OperatorName>,
    pub decided_by: Option<OperatorName>,
    pub presence: Option<Presence>,
    pub custody: Option<Custody>,
    pub self_approved: Option<bool>,
    /// The run that used the grant up.
    pub run_id: Option<RunId>,
}

/// A run that waits for an operator's outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingOutcome {
    pub run_id: RunId,
    pub request_id: RequestId,
    pub status: RunStatus,
}

outputs! {
    /// `cto request`: what was asked for, whole, and where it stands.
    RequestOutput, RequestTag = "cto.request-output/v1" {
        pub standing: ApprovalStanding,
        pub request: ApprovalRequest,
    }
    /// `cto approve` and `cto deny`: what is in the ledger now.
    DecisionOutput, DecisionTag = "cto.decision-output/v1" {
        pub request: RequestRow,
        pub ledger_seq: u64,
        pub ledger_digest: Digest,
    }
    /// `cto outcome`: what is in the ledger and beside the pack now.
    OutcomeOutput, OutcomeTag = "cto.outcome-output/v1" {
        pub run_id: RunId,
        pub outcome: Outcome,
        pub operator: OperatorName,
        pub presence: Presence,
        pub custody: Custody,
        pub note: Option<String>,
        pub pack_digest: Digest,
        pub ledger_seq: u64,
        /// Files beside the pack, by name.
        pub addenda: Vec<String>,
        /// The landed change was to be taken back.
        pub rollback: bool,
        /// Why it was not.
        pub rollback_blocker: Option<Blocker>,
    }
    /// `cto inbox`: what waits for a person.
    InboxOutput, InboxTag = "cto.inbox/v1" {
        pub requests: Vec<RequestRow>,
        pub outcomes: Vec<PendingOutcome>,
        /// How many requests there are that were not listed.
        pub more: u64,
    }
}
