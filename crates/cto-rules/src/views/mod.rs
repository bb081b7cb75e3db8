//! Views are pure folds of the log: live and replayed output are the same bytes.

pub mod approval;
pub mod checks;
pub mod explain;
mod hidden;
pub mod markdown;
pub mod next_lines;
pub mod progress;
pub mod proofs;
pub mod report;
pub mod trace;
