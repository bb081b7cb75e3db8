//! What was tried inside a finished sandbox before the command: plain data for whoever wants to see that it held.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes of the mount table that are kept.
#[cfg(target_os = "linux")]
pub(crate) const MOUNTS_BYTES_MAX: usize = 24 * 1024;

/// The sandbox as a process in it saw it, through all of its layers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsideProof {
    /// The lines of `/proc/self/mountinfo`.
    pub mounts: Vec<String>,
    /// Whether lines are missing at the end.
    pub mounts_cut: bool,
    pub canaries: Vec<Canary>,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    pub act: CanaryAct,
    pub target: String,
    pub expected: Expected,
    /// The error number; `None` when it worked.
    pub errno: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CanaryAct {
    Read,
    Create,
    Connect,
    Unshare,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// An attempt to get out.
    Refused,
    /// A control: without it, a sandbox in which nothing works would look like one that holds.
    Allowed,
}

impl Canary {
    /// Returns whether it came out as it had to.
    #[must_use]
    pub fn holds(&self) -> bool {
        match self.expected {
            Expected::Refused => self.errno.is_some(),
            Expected::Allowed => self.errno.is_none(),
        }
    }
}

impl CanaryAct {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Connect => "connect",
            Self::Unshare => "unshare",
            Self::Write => "write",
        }
    }
}

impl fmt::Display for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (act, target) = (self.act.as_str(), &self.target);
        match self.errno {
            None => write!(f, "{act} `{target}` was allowed"),
            Some(errno) => write!(f, "{act} `{target}` was refused (error {errno})"),
        }
    }
}
