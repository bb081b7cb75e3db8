//! What to start and within which bounds: plain data, checked once before anything happens.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::attempt::Recorder;
use crate::endpoint::Endpoint;
use crate::error::LaunchError;
use crate::root::{Root, check_place};

/// One process tree to run. The whole environment is here; nothing is inherited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchRequest {
    /// `argv[0]` is a path (absolute, or relative to `cwd`), or a name that is searched in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    pub env: BTreeMap<OsString, OsString>,
    pub cwd: PathBuf,
    pub stdin: Stdin,
    pub binds: Vec<Bind>,
    pub overlay: Option<Overlay>,
    pub limits: Limits,
    pub network: Network,
    /// Time between TERM and KILL, when asked to stop or over the wall clock.
    pub grace: Duration,
    pub root: Root,
    pub tree: TreeLimits,
    /// User and group that a launch by root in a [`Root::Built`] changes to: a number that owns nothing.
    /// `None`: [`UNPRIVILEGED_ID`].
    pub run_as: Option<u32>,
    pub recorder: Recorder,
    /// Needs [`Network::None`], and [`Launcher::launch_hosted`](crate::Launcher::launch_hosted).
    pub endpoint: Option<Endpoint>,
}

/// What the command reads as its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// Nothing: `/dev/null`.
    #[default]
    Closed,
    /// A pipe with what the listener [tells](crate::Replies::tell).
    Written,
}

/// In a range that no distribution gives to anybody.
pub const UNPRIVILEGED_ID: u32 = 60_777;

/// Bounds of all processes together, looked at several times a second in a [`Root::Built`]. Who goes beyond ends the tree.
///
/// There, [`Limits::processes`], [`Limits::open_files`] and [`Limits::file_bytes`] are looked at as well: the kernel only
/// refuses the call that would go beyond, and tells nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeLimits {
    /// Memory of all processes, shared pages counted once, with files that have no name and System V segments. What lies in
    /// a tmpfs has its own bound.
    pub memory_bytes: Option<u64>,
    /// Who keeps the bound on memory.
    pub memory_hold: MemoryHold,
    /// Bytes on disk below the upper directory and all writable binds, what was there before included.
    pub disk_bytes: Option<u64>,
    /// Files and directories in the same places.
    pub disk_files: Option<u64>,
}

/// Who keeps the bound on the memory of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryHold {
    /// Looks at the tree, many times a second.
    #[default]
    Looks,
    /// Also a control group, where one can be made. To move a process into one may take the kernel tens of milliseconds, so
    /// it is for launches that last.
    Group,
}

/// A file or directory that is seen inside, at its own place or at another one, which must exist.
///
/// In [`Class::Group`](crate::Class::Group) nothing can be seen at another place, so such a launch fails; that a path at its
/// own place is read-only is not in force there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    pub from: PathBuf,
    pub at: PathBuf,
    pub access: Access,
}

/// What may be done through a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    ReadOnly,
    Writable,
}

impl Bind {
    /// The path at its own place, not to be written.
    pub fn read_only(path: impl Into<PathBuf>) -> Self {
        let from = path.into();
        Self {
            at: from.clone(),
            from,
            access: Access::ReadOnly,
        }
    }
}

/// An overlay file system, mounted inside before the command starts and gone when it ends.
///
/// It is mounted `volatile` (no sync at the end), which the kernel refuses to mount twice: give each launch a fresh `work`.
/// The kernel leaves a directory of mode 000 in `work`: make it accessible before removing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// Trees that nobody writes while it is mounted, the topmost first.
    pub lowers: Vec<PathBuf>,
    pub upper: PathBuf,
    pub work: PathBuf,
    /// Where the merged tree appears, usually `cwd`.
    pub at: PathBuf,
}

/// Bounds of one launch. `None` leaves the limit of the harness in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub wall: Duration,
    /// Both streams together; what comes beyond is read, counted and thrown away.
    pub output_bytes: u64,
    /// Per process: SIGXCPU at this many seconds, SIGKILL one second later.
    pub cpu_seconds: Option<u64>,
    /// Largest file any process may write.
    pub file_bytes: Option<u64>,
    pub open_files: Option<u64>,
    /// Processes of this user inside the namespace. The kernel exempts uid 0.
    pub processes: Option<u64>,
}

/// What of the network the tree can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// An own network namespace: loopback, up, and nothing else.
    None,
    /// The host's network, unchanged.
    Host,
}

impl LaunchRequest {
    /// Returns how many paths are bound, in a root from nothing those that cannot be written.
    pub(crate) fn read_only_paths(&self) -> usize {
        let frozen = self.binds.iter().filter(|b| b.access == Access::ReadOnly);
        match &self.root {
            Root::Host => self.binds.len(),
            Root::Built(root) => root.read_only.len() + frozen.count(),
        }
    }

    /// Refuses what the kernel could not even be asked, so that the launcher sees only well-formed requests.
    pub(crate) fn check(&self) -> Result<(), LaunchError> {
        let invalid = |what: String| Err(LaunchError::Invalid { what });
        match self.argv.first() {
            None => return invalid("the command line is empty".to_owned()),
            Some(program) if program.is_empty() => {
                return invalid("the program name is empty".to_owned());
            }
            Some(_) => {}
        }
        for (index, argument) in self.argv.iter().enumerate() {
            if has_nul(argument) {
                return invalid(format!("argument {index} holds a NUL byte"));
            }
        }
        for (name, value) in &self.env {
            if name.is_empty() || has_nul(name) || name.as_encoded_bytes().contains(&b'=') {
                return invalid(format!("environment name {name:?} is not a name"));
            }
            if has_nul(value) {
                return invalid(format!("environment value of {name:?} holds a NUL byte"));
            }
        }
        if self.overlay.as_ref().is_some_and(|o| o.lowers.is_empty()) {
            return invalid("an overlay has no lower tree".to_owned());
        }
        let overlay = self
            .overlay
            .iter()
            .flat_map(|o| o.lowers.iter().chain([&o.upper, &o.work, &o.at]));
        for path in std::iter::once(&self.cwd)
            .chain(self.binds.iter().flat_map(|b| [&b.from, &b.at]))
            .chain(overlay)
        {
            check_path(path)?;
        }
        match (self.endpoint, self.network) {
            (Some(Endpoint { port: 0 }), _) => {
                return invalid("an endpoint has no port".to_owned());
            }
            (Some(_), Network::Host) => {
                return invalid("an endpoint needs a network of its own".to_owned());
            }
            (Some(_) | None, Network::None) | (None, Network::Host) => {}
        }
        if self.run_as == Some(0) {
            return invalid("to run as uid 0 is no drop of privileges".to_owned());
        }
        match &self.root {
            Root::Host if self.tree != TreeLimits::default() => {
                invalid("limits of the whole tree need a root of its own".to_owned())
            }
            Root::Host if self.recorder != Recorder::Off => {
                invalid("the recorder needs a root of its own".to_owned())
            }
            Root::Host => Ok(()),
            Root::Built(root) => {
                let overlay = self.overlay.iter().map(|overlay| &overlay.at);
                for at in self.binds.iter().map(|bind| &bind.at).chain(overlay) {
                    check_place(at)?;
                }
                root.check()
            }
        }
    }
}

pub(crate) fn check_path(path: &Path) -> Result<(), LaunchError> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(LaunchError::Invalid {
            what: format!("path `{shown}` is not absolute"),
        });
    }
    if has_nul(path.as_os_str()) {
        return Err(LaunchError::Invalid {
            what: format!(
                "path `{}` holds a NUL byte",
                shown.to_string().escape_debug()
            ),
        });
    }
    Ok(())
}

fn has_nul(text: &OsStr) -> bool {
    text.as_encoded_bytes().contains(&0)
}
