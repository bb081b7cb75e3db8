//! Starts, contains, watches and kills one process tree.
//!
//! Invariants:
//! - [`Launcher::launch`] returns only after the whole tree is dead, or says in [`Survivors::Unknown`] why it cannot know.
//! - Nothing is inherited: environment, descriptors and signal dispositions are what the request says.
//! - Nothing that a command does or leaves undone stalls a launch: output is capped, and what it does not read is bounded.
//! - When the harness dies, by whatever signal, the tree dies too: its init holds a life-line to the harness.
//! - What [`Confinement`] lists as in force was put in force for that very process; nothing is assumed.
//! - No decision about a run is taken here, and no other crate of this workspace is known here.
//!
//! A binary that launches calls [`launcher_entry`] first in its `main`: the launcher is that binary, executed again, single-threaded.

mod activity;
mod attempt;
mod endpoint;
mod error;
mod expected_confinement;
mod facts;
mod launcher;
mod layers;
mod limit_hit;
mod message;
mod outcome;
mod pad;
mod probe;
mod proof;
mod provider;
mod request;
mod root;
mod stop;

#[cfg(target_os = "linux")]
mod building;
#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod canary;
#[cfg(target_os = "linux")]
mod dialogue;
#[cfg(target_os = "linux")]
mod disk_walk;
#[cfg(target_os = "linux")]
mod escalation;
#[cfg(target_os = "linux")]
mod hidden_memory;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod inside;
#[cfg(target_os = "linux")]
mod launch_failure;
#[cfg(target_os = "linux")]
mod launcher_report;
#[cfg(target_os = "linux")]
mod memory_group;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod mover;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod output;
#[cfg(target_os = "linux")]
mod payload;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod recorder;
#[cfg(target_os = "linux")]
mod root_policy;
#[cfg(target_os = "linux")]
mod ruleset;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod sources;
#[cfg(target_os = "linux")]
mod stdin;
#[cfg(target_os = "linux")]
mod supervise;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod tree_watch;
#[cfg(target_os = "linux")]
mod unprivileged;
#[cfg(target_os = "linux")]
mod wire;

pub use activity::Activity;
pub use attempt::{
    ARGUMENT_BYTES_MAX, ARGUMENTS_MAX, Attempt, AttemptKind, Recorded, Recorder, TARGET_BYTES_MAX,
};
pub use endpoint::{Endpoint, Host};
pub use error::LaunchError;
pub use expected_confinement::ExpectedConfinement;
pub use launcher::{Launcher, launcher_entry};
pub use limit_hit::{LimitHit, LimitName};
pub use message::{Listener, Replies, STDIN_WAITING_MAX, SandboxMessage, TICK_INTERVAL};
pub use outcome::{
    Class, Confinement, End, Layer, LayerName, Outcome, OutputTotals, Proof, Provider, StdinTotals,
    StopCause, Stream, Survivors,
};
pub use pad::Pad;
pub use probe::probe;
pub use proof::{Canary, CanaryAct, Expected, InsideProof};
pub use provider::{Container, Engine, Means};
pub use request::{
    Access, Bind, LaunchRequest, Limits, MemoryHold, Network, Overlay, Stdin, TreeLimits,
    UNPRIVILEGED_ID,
};
pub use root::{BuiltRoot, Root, Shown, Tmpfs};
pub use stop::StopToken;
