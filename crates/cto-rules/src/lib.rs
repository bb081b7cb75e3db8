//! Every decision of `cto` as a pure function of gathered facts: who may run, which paths may change, what comes next.
//!
//! No file, clock, environment, process or async here; what a rule needs comes in as a value. The right to run a
//! backend is [`eligibility::ExecutionGrant`], which only [`eligibility::decide`] can make.

pub mod checks;
pub mod eligibility;
pub mod lifecycle;
pub mod order;
pub mod patch;
pub mod paths;
pub mod secrets;
pub mod views;
