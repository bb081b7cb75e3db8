//! Operators, slots, checkpoints and files of trust against a real database, real `ssh-keygen` and a real ssh-agent.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that fails here fails the test"
)]

mod approvals;
mod checkpoints;
mod decisions;
mod home;
mod signing;
mod trust_files;
