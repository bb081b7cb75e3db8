//! The words of `cto`: ids, statuses, blockers, events and every file format, parsed once at the edge.
//!
//! Nothing here reads a file, a clock or the environment. Every wire name is frozen by a snapshot test;
//! changing one needs a new schema version.

#[macro_use]
mod macros;

pub mod addendum;
pub mod admission;
pub mod approval;
pub mod artifact;
pub mod attestation;
pub mod authority;
pub mod blocker;
pub mod case;
pub mod checkpoint;
pub mod claim;
pub mod comparison;
pub mod config;
pub mod document;
pub mod eligibility;
pub mod event;
pub mod identity;
pub mod ids;
pub mod input;
pub mod ladder;
pub mod landing;
pub mod lanes;
pub mod ledger;
pub mod model_script;
pub mod operator;
pub mod order;
pub mod outputs;
pub mod path;
pub mod plan;
pub mod receipt;
pub mod report;
pub mod sandbox;
pub mod stage_proof;
pub mod task;
pub mod text;
pub mod time;
pub mod tombstone;
pub mod trace;
pub mod trust;
pub mod verification;
pub mod verify;
pub mod words;

pub use schemars;
