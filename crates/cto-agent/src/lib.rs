//! Lanes: a contract becomes a launch request, an agent's bytes become typed events. No I/O, so it can be fuzzed.
//!
//! A lane never decides that it may run and never judges itself: the runner launches, watches and judges.

mod brief;
mod command;
mod decode;
mod fake;

use std::collections::BTreeMap;

use cto_contract::words::Lane;

pub use brief::{Brief, brief};
pub use command::{CONTRACT_VARIABLE, CommandCall, TASK_VARIABLE};
pub use decode::{
    AGENT_SCHEMA, AgentLine, Decoder, KEPT_BYTES_MAX, LINE_BYTES_MAX, LINES_KEPT_MAX,
    ReviewVerdict, Tally,
};
pub use fake::FakeChange;

/// Where things are inside the sandbox. Paths as the launched process sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    pub workspace: String,
    pub scratch: String,
    pub home: String,
}

/// Where a launched process finds its model: an address inside, whose other side is the harness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelAddress {
    /// Such as `http://127.0.0.1:8471/v1`.
    pub base_url: String,
}

/// Stands where clients insist on a key. The real one is added outside.
pub const PLACEHOLDER_KEY: &str = "cto";

/// What to start: plain data that the runner carries out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchSpec {
    pub argv: Vec<String>,
    /// The whole environment; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Files to lay into scratch before the start: name and bytes.
    pub scratch_files: Vec<(String, Vec<u8>)>,
}

/// A lane that this build can run.
#[derive(Debug, Clone)]
pub enum Engine {
    Fake(FakeChange),
    Command(CommandCall),
}

impl Engine {
    pub const fn lane(&self) -> Lane {
        match self {
            Self::Fake(_) => Lane::Fake,
            Self::Command(_) => Lane::Command,
        }
    }

    /// Raised whenever argv, config or decoding of the lane changes: earlier proofs become stale.
    pub const fn adapter_revision(&self) -> u32 {
        match self {
            Self::Fake(_) | Self::Command(_) => 1,
        }
    }

    /// Turns the task into what is to be started.
    pub fn launch_spec(
        &self,
        places: &Places,
        path: &str,
        brief: &Brief,
        model: Option<&ModelAddress>,
    ) -> LaunchSpec {
        match self {
            Self::Fake(change) => fake::launch_spec(change, places, path),
            Self::Command(call) => command::launch_spec(call, places, path, brief, model),
        }
    }
}

/// Lanes that are known and those that this build can run.
pub const fn is_built_in(lane: Lane) -> bool {
    match lane {
        Lane::Fake | Lane::Command => true,
        Lane::Case | Lane::Codex | Lane::Pi | Lane::Claude | Lane::Acp => false,
    }
}

/// The environment that every process of a run gets, built from nothing.
pub fn base_environment(places: &Places, path: &str) -> BTreeMap<String, String> {
    let xdg = |name: &str| format!("{}/{name}", places.home);
    [
        ("PATH", path.to_owned()),
        ("HOME", places.home.clone()),
        ("TMPDIR", format!("{}/tmp", places.scratch)),
        ("XDG_CONFIG_HOME", xdg(".config")),
        ("XDG_CACHE_HOME", xdg(".cache")),
        ("XDG_DATA_HOME", xdg(".local/share")),
        ("XDG_STATE_HOME", xdg(".local/state")),
        ("LANG", "C.UTF-8".to_owned()),
        ("LC_ALL", "C.UTF-8".to_owned()),
        ("TZ", "UTC".to_owned()),
        ("USER", "cto".to_owned()),
        ("LOGNAME", "cto".to_owned()),
        ("SHELL", "/bin/sh".to_owned()),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ("GIT_TERMINAL_PROMPT", "0".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
