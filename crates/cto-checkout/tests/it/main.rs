//! The crate against real file systems and a real git.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod baselines;
mod hostile;
mod imports;
mod landing;
mod landing_checked_out;
mod landing_rollback;
mod landing_stage;
mod layered;
mod removal;
mod repository_fingerprints;
mod repository_hostile;
mod repository_kinds;
mod repository_layers;
mod repository_special;
mod repository_stage;
mod repository_trees;
mod round_trip;
mod stage;
mod tree_ids;
mod upper;
