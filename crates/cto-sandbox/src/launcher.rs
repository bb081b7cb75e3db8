//! The harness's side of a launch: which binary is the launcher, and how to start it.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::endpoint::Host;
use crate::error::LaunchError;
use crate::message::Listener;
use crate::outcome::Outcome;
use crate::pad::Pad;
use crate::provider::Means;
use crate::request::LaunchRequest;
use crate::stop::StopToken;

/// Runs as launcher if this process was started as one, and returns its exit code.
///
/// Call it first in `main`, before any thread or runtime: the launcher forks.
#[must_use]
pub fn launcher_entry() -> Option<ExitCode> {
    #[cfg(target_os = "linux")]
    {
        crate::inside::entry().map(ExitCode::from)
    }
    #[cfg(not(target_os = "linux"))]
    {
        None
    }
}

/// Starts process trees through a binary whose `main` begins with [`launcher_entry`].
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The binary that is executed as launcher.
    pub program: PathBuf,
    /// Does without namespaces even where the kernel has them: for tests of the fallback.
    #[doc(hidden)]
    pub force_group: bool,
    /// Who confines what is launched.
    pub means: Means,
    /// Where launchers start from; clones share it.
    #[doc(hidden)]
    pub pad: Pad,
}

impl Launcher {
    /// Uses the running binary itself, also when its file was replaced or removed meanwhile.
    #[must_use]
    pub fn current_exe() -> Self {
        Self::at("/proc/self/exe")
    }

    /// Uses the binary at this path.
    #[must_use]
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            force_group: false,
            means: Means::Native,
            pad: Pad::default(),
        }
    }

    /// Removes what harnesses that were killed have left in the kernel: groups without anybody in them.
    pub fn sweep() {
        #[cfg(target_os = "linux")]
        crate::memory_group::sweep();
    }

    /// Runs one process tree to its end. Blocks; output goes to `listener` in chunks of bounded size as it comes,
    /// and so does what the recorder sees. What it answers goes to the command's standard input, or ends the tree.
    ///
    /// Returns an error only when the command was not executed. Either way the whole tree is dead when this returns,
    /// or [`Survivors`](crate::Survivors) says why that is not known.
    pub fn launch(
        &self,
        request: &LaunchRequest,
        stop: &StopToken,
        listener: &mut Listener<'_>,
    ) -> Result<Outcome, LaunchError> {
        self.launch_with(request, stop, listener, None)
    }

    /// The same for a request with an endpoint, whose listeners go to `host` before the command starts.
    pub fn launch_hosted(
        &self,
        request: &LaunchRequest,
        stop: &StopToken,
        listener: &mut Listener<'_>,
        host: Host<'_>,
    ) -> Result<Outcome, LaunchError> {
        self.launch_with(request, stop, listener, Some(host))
    }

    #[cfg(target_os = "linux")]
    fn launch_with(
        &self,
        request: &LaunchRequest,
        stop: &StopToken,
        listener: &mut Listener<'_>,
        host: Option<Host<'_>>,
    ) -> Result<Outcome, LaunchError> {
        request.check()?;
        self.means.check(request)?;
        if request.endpoint.is_some() && host.is_none() {
            return Err(LaunchError::Invalid {
                what: "an endpoint without a host".to_owned(),
            });
        }
        crate::supervise::launch(self, request, stop, listener, host)
    }

    #[cfg(not(target_os = "linux"))]
    fn launch_with(
        &self,
        request: &LaunchRequest,
        _stop: &StopToken,
        _listener: &mut Listener<'_>,
        _host: Option<Host<'_>>,
    ) -> Result<Outcome, LaunchError> {
        request.check()?;
        self.means.check(request)?;
        Err(LaunchError::Unavailable {
            reason: "it needs Linux".to_owned(),
        })
    }
}
