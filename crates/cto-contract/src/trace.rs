//! `trace.jsonl`: the harness's own actions and checks, folded from the log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocker::BlockerCode;
use crate::time::Utc;

wire_const! {
    /// Schema tag of a trace line.
    pub struct TraceSchema: &'static str = "cto.trace/v1"
}

wire_enum! {
    /// How an action or check ended.
    pub enum TraceOutcome { Ok = "ok", Refused = "refused", Interrupted = "interrupted" }
}

/// One action or check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceEntry {
    pub schema_version: TraceSchema,
    /// A step, or `check` and `limit` for what happened inside one.
    pub action: String,
    pub started_at: Utc,
    /// Null for a step that a crash cut off.
    pub finished_at: Option<Utc>,
    pub outcome: TraceOutcome,
    pub blockers: Vec<BlockerCode>,
    pub detail: String,
}
