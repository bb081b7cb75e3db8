//! What the facts of a step come to: each function takes what the runner saw and returns what the log will say of it,
//! blockers included. The runner makes no blocker of its own.

mod change;
mod faults;
mod limits;
mod setup;
mod source;
#[cfg(test)]
mod tests;
mod verification;

pub use change::{Application, ChangeFacts, ExposedSecret, change, may_apply};
pub use faults::{Commands, Fault, clock_went_back, fault, interrupted};
pub use limits::{LimitFact, limit_hit};
pub use setup::setup;
pub use source::{SourceFacts, SourceLook, source};
pub use verification::{CheckFacts, NotChecked, checked, not_checked, nothing_to_check};
