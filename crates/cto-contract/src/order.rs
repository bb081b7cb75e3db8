//! What can be wrong with the order of a log's events, as data. The sentence is derived.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::EventType;
use crate::text::shorten;

/// Most characters of a name that a contract gives.
const NAME_CHARS: usize = 60;

wire_enum! {
    /// What is wrong with an event.
    pub enum EventProblem {
        /// It belongs on the path of the run and is not there.
        Missing = "missing",
        /// The contract requires it, and it is not there.
        RequiredMissing = "required_missing",
        /// The contract requires a type that does not exist.
        UnknownType = "unknown_type",
        NotFirst = "not_first",
        /// `other` follows it.
        NotLast = "not_last",
        /// It stands before `other`, after which it belongs.
        OutOfOrder = "out_of_order",
        Repeated = "repeated",
        AfterRecovery = "after_recovery",
        /// It tells of a recovery in a log that was not recovered.
        NotRecovered = "not_recovered",
        /// `other` rules it out.
        Excluded = "excluded",
        /// No pass has it.
        NotInPass = "not_in_pass",
        /// An approval that nobody asked for.
        NotAskedFor = "not_asked_for",
        /// An approval of a run that was blocked for want of one.
        WithoutApproval = "without_approval",
    }
}

/// One event that is absent or out of place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventFault {
    /// The event's type; what a contract names need not be one.
    pub event: String,
    pub problem: EventProblem,
    /// The event that it collides with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<EventType>,
}

impl EventFault {
    /// A fault of one event.
    pub fn new(event: EventType, problem: EventProblem) -> Self {
        Self {
            event: event.to_string(),
            problem,
            other: None,
        }
    }

    /// A fault of an event because of another one.
    pub fn with(event: EventType, problem: EventProblem, other: EventType) -> Self {
        Self {
            other: Some(other),
            ..Self::new(event, problem)
        }
    }

    /// A type that the contract requires and that does not exist.
    pub fn unknown(name: &str) -> Self {
        Self {
            event: shorten(name, NAME_CHARS),
            problem: EventProblem::UnknownType,
            other: None,
        }
    }

    /// What is wrong, in words.
    pub fn sentence(&self) -> String {
        let event = &self.event;
        let other = self.other.map_or("another event", EventType::as_str);
        match self.problem {
            EventProblem::Missing => format!("`{event}` is missing"),
            EventProblem::RequiredMissing => {
                format!("`{event}`, which the contract requires, is missing")
            }
            EventProblem::UnknownType => format!(
                "`{event}`, which the contract requires, is missing and is no known event type"
            ),
            EventProblem::NotFirst => format!("`{event}` is not the first event"),
            EventProblem::NotLast => {
                format!("`{event}` is not the last event: `{other}` follows it")
            }
            EventProblem::OutOfOrder => format!("`{event}` comes before `{other}`"),
            EventProblem::Repeated => format!("`{event}` occurs more than once"),
            EventProblem::AfterRecovery => {
                format!("`{event}` comes after `{}`", EventType::RunRecovered)
            }
            EventProblem::NotRecovered => {
                format!("`{event}` stands in a log that was not recovered")
            }
            EventProblem::Excluded => format!("`{event}` stands in a log with `{other}`"),
            EventProblem::NotInPass => format!("a pass cannot have `{event}`"),
            EventProblem::NotAskedFor => {
                format!("`{event}` stands in the log although no approval was required")
            }
            EventProblem::WithoutApproval => {
                format!("`{event}` stands in the log of a run that had no approval")
            }
        }
    }
}
