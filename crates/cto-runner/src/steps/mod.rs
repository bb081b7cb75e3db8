//! The steps of a run. Each gathers facts, asks the rules, acts, and says what stands in the way.

mod authority;
mod backend;
mod change;
mod complete;
mod egress;
pub(crate) mod prepare;
mod setup;
mod verification;

pub(crate) use authority::{GatheredFacts, gather};
pub(crate) use change::tree_id;
pub(crate) use complete::write_missing;
