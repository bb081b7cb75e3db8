//! Who confines a launch. Every provider gets the same request, and what it really put in force is observed from within.
//!
//! `bwrap`, `podman` and `docker` only build the root and the namespaces. This crate's launcher is the first process in
//! them: it looks whether they are what was asked for, adds Landlock, the system call filter and the limits, tries the
//! canaries, and supervises. A provider that delivers less than it should starts nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::LaunchError;
use crate::outcome::Provider;
use crate::request::LaunchRequest;
use crate::root::Root;

#[cfg(target_os = "linux")]
pub(crate) mod bwrap;
#[cfg(target_os = "linux")]
pub(crate) mod bwrap_arguments;
#[cfg(target_os = "linux")]
pub(crate) mod container;
#[cfg(target_os = "linux")]
mod container_arguments;
#[cfg(target_os = "linux")]
pub(crate) mod provided;
#[cfg(target_os = "linux")]
pub(crate) mod provider_stderr;
#[cfg(target_os = "linux")]
mod way;
#[cfg(target_os = "linux")]
pub(crate) mod weak;

#[cfg(target_os = "linux")]
pub(crate) use way::{BwrapPolicy, Outside, Way};

/// Where the launcher is seen inside the root of another provider.
#[cfg(target_os = "linux")]
pub(crate) const LAUNCHER_INSIDE: &str = "/.cto/cto-launcher";
/// Where a container finds its harness.
#[cfg(target_os = "linux")]
pub(crate) const CONTROL_INSIDE: &str = "/.cto/control";

/// By which means a launch is confined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Means {
    /// Namespaces and a root of this crate's own making.
    #[default]
    Native,
    /// Landlock, a filter of system calls and a subreaper, without namespaces: for kernels that refuse them.
    ///
    /// The request names a [`Root::Built`] all the same; what it shows and binds is allowed at its own place, and nothing
    /// else can be read or written. Links, files and tmpfs of that root are not made.
    Weak,
    Bwrap {
        program: PathBuf,
    },
    Container(Container),
    /// Nothing but an own group, environment, output cap and clock, on the host's root.
    None,
}

/// A container for each launch, by the command line of its engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub engine: Engine,
    pub program: PathBuf,
    /// The engine's own environment: where its state and its service are. Nothing of it is seen inside.
    pub env: BTreeMap<OsString, OsString>,
    /// A directory for the sockets of launches, private to this user.
    pub room: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Podman,
    Docker,
}

impl Engine {
    /// The program's usual name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

impl Means {
    #[must_use]
    pub fn provider(&self) -> Provider {
        match self {
            Self::Native | Self::Weak => Provider::Native,
            Self::Bwrap { .. } => Provider::Bwrap,
            Self::Container(container) => match container.engine {
                Engine::Podman => Provider::Podman,
                Engine::Docker => Provider::Docker,
            },
            Self::None => Provider::None,
        }
    }

    /// Refuses what these means cannot do, before anything is started.
    pub(crate) fn check(&self, request: &LaunchRequest) -> Result<(), LaunchError> {
        let unavailable = |reason: String| Err(LaunchError::Unavailable { reason });
        let (name, needs_root) = match self {
            Self::Native => return Ok(()),
            Self::Weak => ("the weak mode", true),
            Self::Bwrap { .. } => ("bwrap", true),
            Self::Container(_) => ("a container", true),
            Self::None => ("a launch without a sandbox", false),
        };
        if request.overlay.is_some() {
            return unavailable(format!("{name} has no overlays"));
        }
        if request.endpoint.is_some() && matches!(self, Self::Weak | Self::None) {
            return unavailable(format!("{name} has no network of its own for an endpoint"));
        }
        let moved = request.binds.iter().find(|bind| bind.from != bind.at);
        match (self, moved) {
            (Self::Weak | Self::None, Some(bind)) => {
                let at = bind.at.display();
                return unavailable(format!("{name} has no mounts, and `{at}` needs one"));
            }
            (
                Self::Native | Self::Bwrap { .. } | Self::Container(_) | Self::Weak | Self::None,
                _,
            ) => {}
        }
        match (&request.root, needs_root) {
            (Root::Host, true) => unavailable(format!("{name} needs a root that is named")),
            (Root::Built(_), false) => unavailable(format!("{name} has no root of its own")),
            (Root::Built(_), true) | (Root::Host, false) => Ok(()),
        }
    }
}
