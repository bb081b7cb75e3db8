//! What a lane wants started: plain data that the runner carries out, with no choice left to it.

use std::collections::BTreeMap;

use cto_contract::words::Wire;

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
    /// Such as `http://127.0.0.1:8471`, for clients that add the version themselves.
    pub origin: String,
    /// None where nobody asked for one by name.
    pub provider: Option<String>,
    pub model: Option<String>,
    /// The wire that the lane speaks; none where its program decides.
    pub wire: Option<Wire>,
}

impl ModelAddress {
    /// Such as `http://127.0.0.1:8471/v1`.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.origin)
    }
}

/// Stands where clients insist on a key. The real one is added outside.
pub const PLACEHOLDER_KEY: &str = "cto";

/// Where the process stands when it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum WorkingDirectory {
    #[default]
    Workspace,
    /// A directory of scratch, by its path there; made if no entry names it.
    Scratch(String),
}

/// Something that must lie in scratch before the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchEntry {
    /// Relative to scratch; directories above it are made.
    pub path: String,
    pub content: ScratchContent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScratchContent {
    Directory,
    File(Vec<u8>),
    /// A file that can be executed.
    Program(Vec<u8>),
}

impl ScratchEntry {
    pub fn file(path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.to_owned(),
            content: ScratchContent::File(bytes.into()),
        }
    }
}

/// Asks the program for its version, confined like the program itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionProbe {
    pub argv: Vec<String>,
}

/// Which of the two places that a lane writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectFrom {
    Workspace,
    Scratch,
}

/// Files to keep in the pack after every end, also a kill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    pub from: CollectFrom,
    /// A file or directory, relative to the place.
    pub path: String,
    /// Where they go, below `backend/`.
    pub to: String,
    /// Of all of them together; what is over is left out and counted.
    pub bytes_max: u64,
}

/// A file that the program writes about itself while it runs, read as it grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedFile {
    pub from: CollectFrom,
    /// Relative to the place.
    pub directory: String,
    /// Its name is known by how it begins and ends.
    pub prefix: String,
    pub suffix: String,
    pub bytes_max: u64,
}

/// What of the model's answers is told to the dialogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverheardAnswers {
    /// What stands before and after it.
    pub opens: String,
    pub closes: String,
    /// Texts of a request that say who asks.
    pub askers: Vec<String>,
}

/// Something that the pack shows of what the lane was given, written before the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackFile {
    /// Below `backend/`.
    pub path: String,
    /// Without a secret and without an endpoint.
    pub bytes: Vec<u8>,
}

/// Whether the process is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StdinUse {
    /// It reads nothing.
    #[default]
    Closed,
    /// The dialogue writes to it.
    Dialogue,
}

/// What to start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LanePlan {
    pub argv: Vec<String>,
    /// The whole environment; nothing is inherited.
    pub env: BTreeMap<String, String>,
    pub working_directory: WorkingDirectory,
    /// Directories of scratch that come before everything else on `PATH`.
    pub path_prefix: Vec<String>,
    pub scratch: Vec<ScratchEntry>,
    /// Files of scratch that must still be as planned when the program starts.
    pub fixed: Vec<String>,
    /// Files of scratch that the program can only read, and whose directories keep their names.
    pub read_only: Vec<String>,
    pub version_probe: Option<VersionProbe>,
    pub collect: Vec<Collection>,
    pub follow: Option<FollowedFile>,
    pub overhear: Option<OverheardAnswers>,
    pub pack_files: Vec<PackFile>,
    /// The name under which the program knows its model's provider; none where it is told no name.
    pub runtime_model_provider: Option<String>,
    pub stdin: StdinUse,
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
