//! Views are pure folds of the log: live and replayed output are the same bytes.

pub mod explain;
pub mod markdown;
pub mod progress;
pub mod report;
pub mod trace;
