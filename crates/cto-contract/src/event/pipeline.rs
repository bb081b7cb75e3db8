//! What a backend with phases of its own wrote about them, as far as it may count.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// The phases whose end counts.
    pub enum PipelinePhase { Implement = "implement", Verify = "verify", Review = "review" }
}

wire_enum! {
    /// How a phase ended, by its own word.
    pub enum PhaseStatus { Completed = "completed", Failed = "failed", Blocked = "blocked" }
}

wire_enum! {
    /// Why the file that a backend writes about itself can't be relied on.
    pub enum EventFileFault {
        /// It was never there.
        Missing = "missing",
        /// It became shorter, or another file took its place.
        Rewritten = "rewritten",
        /// It could be read only in part: too large, or lines that are none.
        Unreadable = "unreadable",
        /// There was more than one.
        Several = "several",
        /// It says otherwise than the model's answers, as they passed the forwarder.
        Contradicted = "contradicted",
    }
}

/// The last end of a phase that was not skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseWords {
    pub phase: PipelinePhase,
    pub status: PhaseStatus,
    /// What it gives as its error, bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Critical findings.
    #[serde(default)]
    pub critical: u64,
    /// Categories of its rubric that did not pass, bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_rubrics: Vec<String>,
}

impl PhaseWords {
    /// Whether it speaks against the change: it did not complete, found something critical, or a category did not pass.
    pub fn is_against(&self) -> bool {
        self.status != PhaseStatus::Completed
            || self.critical > 0
            || !self.failed_rubrics.is_empty()
    }
}

/// What a backend wrote about its phases. The agent's own commands can write there too: it may turn a pass into a refusal,
/// never the reverse.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineWords {
    /// Lines that were understood.
    pub understood: u64,
    /// Lines that are no event.
    pub malformed: u64,
    /// It says that all of it has ended.
    pub ended: bool,
    pub phases: Vec<PhaseWords>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<EventFileFault>,
}
