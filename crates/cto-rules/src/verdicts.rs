//! What the facts of a step come to: each function takes what the runner saw and returns what the log will say of it,
//! blockers included. The runner makes no blocker of its own.

mod backend;
mod change;
mod exposed;
mod faults;
mod limits;
mod pipeline;
mod provider;
mod setup;
mod source;
#[cfg(test)]
mod tests;
mod verification;

pub(crate) use backend::{backend_blockers, left_behind};
pub use change::{Application, ChangeFacts, CloneFacts, ExposedSecret, change, may_apply};
pub(crate) use exposed::log_rewritten;
pub use exposed::{ExposedFile, exposed};
pub use faults::{Commands, DiskUnit, Fault, clock_went_back, fault, interrupted};
pub use limits::{LimitFact, limit_hit};
pub(crate) use provider::{another_model, is_same_model, preflight_fault, provider_fault};
pub use setup::setup;
pub use source::{SourceFacts, SourceLook, can_be_proof, source};
pub use verification::{
    CheckFacts, NotChecked, checked, checks_again, not_checked, nothing_to_check,
};
