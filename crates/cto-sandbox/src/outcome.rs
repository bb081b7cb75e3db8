//! How a launch ended and what held it: facts as observed, unknown where nothing was observed.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::attempt::Recorded;
use crate::facts::Facts;
use crate::limit_hit::LimitHit;
use crate::proof::InsideProof;

/// The result of one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub end: End,
    /// `None` when the command ended by itself, also when a stop came too late to reach it.
    pub stopped_by: Option<StopCause>,
    /// Whether the command was executed. Stays `true` when it was killed in the instant of its execution.
    pub started: bool,
    /// From the start of the launcher to the proof that nothing is left.
    pub wall: Duration,
    /// User and system time of the command and of all its descendants; `None` when the sandbox died before it could tell.
    pub cpu: Option<Duration>,
    /// Resident size of the largest single process, not of the whole tree.
    pub peak_rss_bytes: Option<u64>,
    pub output: OutputTotals,
    pub stdin: StdinTotals,
    pub confinement: Confinement,
    /// The bound that ended the tree or its command, where it is known.
    pub limit_hit: Option<LimitHit>,
    /// Only a [`Root::Built`](crate::Root::Built) is tried from within.
    pub proof: Option<InsideProof>,
    /// What the confinement was made from; `None` when nothing was heard.
    pub(crate) facts: Option<Facts>,
    /// What the recorder counted; `None` where there was none, or where it was killed before it could tell.
    pub recorded: Option<Recorded>,
}

/// How the command itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Exited(i32),
    Signaled(i32),
    /// It was stopped before it was executed.
    NotStarted,
}

/// Who ended a command that did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// The wall clock limit passed.
    Wall,
    /// A [`StopToken`](crate::StopToken) was asked.
    Asked,
    /// The listener said that it is [finished](crate::Replies::finish).
    Finished,
    /// The listener told more than the command read, by more than [`STDIN_WAITING_MAX`](crate::STDIN_WAITING_MAX).
    StdinFull,
    /// The supervisor inside was killed from elsewhere, and the tree with it.
    SandboxDied,
}

/// Bytes per stream as handed to the listener, and what the cap took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputTotals {
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub dropped_bytes: u64,
    pub capped: bool,
}

/// What became of the bytes that the listener told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StdinTotals {
    /// Given to the kernel, whether or not the command read them.
    pub written_bytes: u64,
    /// Told, but not written: the standard input was closed or full, or the command was gone.
    pub dropped_bytes: u64,
}

/// Which of the two streams a chunk came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Which layers held the tree, each with what it does or why it is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    pub provider: Provider,
    pub class: Class,
    pub layers: Vec<Layer>,
    pub survivors: Survivors,
}

impl Confinement {
    /// Returns whether the layer held.
    #[must_use]
    pub fn in_force(&self, name: LayerName) -> bool {
        self.layers.iter().any(|l| l.name == name && l.in_force)
    }
}

/// Who does the confining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// This crate, on the kernel's own means.
    Native,
    Bwrap,
    Podman,
    Docker,
    /// Nobody: the operator switched it off.
    None,
}

impl Provider {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Podman => "podman",
            Self::Docker => "docker",
            Self::None => "none",
        }
    }
}

/// How the tree is held together. Ordered: the later holds more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The same as a group, because the operator switched confinement off.
    None,
    /// Process group and subreaper: nothing survives, but nothing is hidden either.
    Group,
    /// A group whose reads, writes and sockets Landlock and a filter of system calls bound; the host is still visible.
    Weak,
    /// Own namespaces: the kernel kills every descendant with the namespace's init.
    Process,
    /// Also a root from nothing, no network, another user than root, Landlock where the kernel has it, and a filter of
    /// system calls.
    Full,
}

impl Class {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Group => "group",
            Self::Weak => "weak",
            Self::Process => "process",
            Self::Full => "full",
        }
    }

    /// Whether the tree has an init of its own, with which the kernel kills all of it.
    #[must_use]
    pub fn has_init(self) -> bool {
        match self {
            Self::None | Self::Group | Self::Weak => false,
            Self::Process | Self::Full => true,
        }
    }
}

/// One means of confinement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    pub name: LayerName,
    pub in_force: bool,
    pub detail: String,
}

macro_rules! layer_names {
    ($($variant:ident = $name:literal,)*) => {
        /// Every layer that a confinement reports on, in force or not. Closed, so that none is forgotten.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum LayerName {
            $(#[serde(rename = $name)] $variant,)*
        }

        impl LayerName {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

layer_names! {
    UserNamespace = "user_namespace",
    MountNamespace = "mount_namespace",
    PidNamespace = "pid_namespace",
    NetworkNamespace = "network_namespace",
    IpcNamespace = "ipc_namespace",
    UtsNamespace = "uts_namespace",
    OwnProc = "own_proc",
    ReadOnlyPaths = "read_only_paths",
    ClosedDescriptors = "closed_descriptors",
    BuiltEnvironment = "built_environment",
    NoNewPrivileges = "no_new_privileges",
    NoCapabilities = "no_capabilities",
    WallClock = "wall_clock",
    OutputCap = "output_cap",
    ResourceLimits = "resource_limits",
    RootFromNothing = "root_from_nothing",
    Landlock = "landlock",
    Seccomp = "seccomp",
    Recorder = "recorder",
    EgressForwarder = "egress_forwarder",
    UnprivilegedUid = "unprivileged_uid",
}

impl fmt::Display for LayerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether anything of the tree can still be alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Survivors {
    None { proof: Proof },
    Unknown { reason: String },
}

/// Why it is known that nothing survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// The pid namespace's init was waited for, and the kernel lets it end only after all others.
    InitWaited,
    /// The subreaper, to which every orphan of the tree falls, had no child left.
    SubreaperEmpty,
    /// The container's init has ended, and its engine knows no container of that name any more.
    ContainerGone,
    NothingStarted,
}
