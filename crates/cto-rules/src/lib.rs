//! Every decision of `cto` as a pure function of gathered facts: who may run, which paths may change, what comes next.
//!
//! No file, clock, environment, process or async here; what a rule needs comes in as a value. The right to run a
//! backend is [`eligibility::ExecutionGrant`], which only [`eligibility::decide`] can make.

pub mod actions;
pub mod admission;
pub mod advice;
pub mod approval;
pub mod authority;
pub mod checks;
pub mod claims;
pub mod comparison;
pub mod credential;
pub mod doctor;
pub mod eligibility;
pub mod engines;
pub mod gate;
pub mod gate_lines;
pub mod inputs;
pub mod inspection;
pub mod ladder;
pub mod landing;
pub mod leftovers;
pub mod lifecycle;
pub mod lingering;
pub mod operators;
pub mod order;
pub mod outputs;
pub mod packages;
pub mod patch;
pub mod paths;
pub mod programs;
pub mod project;
pub mod propose;
pub mod read_paths;
pub mod residue;
pub mod sandbox_choice;
pub mod secrets;
pub mod signatures;
pub mod standing;
pub mod verdicts;
pub mod views;
pub mod why;
