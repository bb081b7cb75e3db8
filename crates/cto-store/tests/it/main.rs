//! The store from outside: real files, real processes, and an attacker with raw SQL.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod crowd;
mod ledger;
mod listing;
mod opening;
mod rebuild;
mod sample;
mod seam;
mod tampering;
