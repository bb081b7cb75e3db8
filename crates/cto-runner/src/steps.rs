//! The steps of a run, one function each. A step gathers facts, asks the rules, acts, records, and hands on what it made.

pub(crate) mod approval;
mod authority;
mod backend;
mod baseline;
mod change;
mod complete;
mod egress;
mod fake_baseline;
mod inspection;
mod landing_plan;
mod plan;
mod prepare;
mod setup;
mod supervision;
mod verification;

pub(crate) use authority::{Eligible, Permission, contract, eligibility};
pub(crate) use backend::backend;
pub(crate) use baseline::baseline;
pub(crate) use change::{change, policy};
pub(crate) use complete::{complete, write_missing};
pub(crate) use fake_baseline::{FakeBaseline, fake_baseline};
pub(crate) use plan::{Planned, plan};
pub(crate) use prepare::prepare;
pub(crate) use setup::setup;
pub(crate) use verification::verification;
