//! Which bound of a launch was reached: plain data.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A bound that was reached, and ended the tree or its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitHit {
    pub limit: LimitName,
    pub allowed: u64,
    /// As of the look that found it.
    pub seen: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    MemoryBytes,
    Processes,
    OpenFiles,
    FileBytes,
    CpuSeconds,
    DiskBytes,
    DiskFiles,
}

impl LimitName {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MemoryBytes => "memory_bytes",
            Self::Processes => "processes",
            Self::OpenFiles => "open_files",
            Self::FileBytes => "file_bytes",
            Self::CpuSeconds => "cpu_seconds",
            Self::DiskBytes => "disk_bytes",
            Self::DiskFiles => "disk_files",
        }
    }
}

impl fmt::Display for LimitHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, allowed, seen) = (self.limit.as_str(), self.allowed, self.seen);
        write!(f, "{limit}: {seen} seen, {allowed} allowed")
    }
}
