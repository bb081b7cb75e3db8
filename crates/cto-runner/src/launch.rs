//! The one place where a backend is started, and what it takes.

use cto_contract::text::shorten;
use cto_rules::eligibility::{ApprovalUse, ExecutionGrant};
use cto_sandbox::{
    End, Host, LaunchError, LaunchRequest, Launcher, Listener, Outcome, SandboxMessage, StopToken,
};

use crate::steps::{Permission, Planned};

/// Everything that a start needs besides the right to it.
pub struct BackendLaunch<'a> {
    pub launcher: &'a Launcher,
    pub request: &'a LaunchRequest,
    pub stop: &'a StopToken,
    pub listener: &'a mut Listener<'a>,
    /// Serves the one address inside, where there is one.
    pub host: Option<Host<'a>>,
}

/// Why a backend was not started, or what became of it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the run needs an approval, and none was consumed for it")]
    NotApproved,
    #[error("it could not be launched")]
    Launch(#[from] LaunchError),
}

/// Starts a backend and waits for its end. The grant is spent: it is good for one start, whatever comes of it.
///
/// Without a grant nothing starts:
/// ```compile_fail,E0061
/// fn start(launch: cto_runner::launch::BackendLaunch<'_>) {
///     let _ = cto_runner::launch::start_backend(launch);
/// }
/// ```
/// and a grant starts nothing twice:
/// ```compile_fail,E0382
/// use cto_rules::eligibility::{ApprovalUse, ExecutionGrant};
/// use cto_runner::launch::{BackendLaunch, start_backend};
/// fn start(grant: ExecutionGrant, one: BackendLaunch<'_>, two: BackendLaunch<'_>) {
///     let _ = start_backend(grant, ApprovalUse::NotRequired, one);
///     let _ = start_backend(grant, ApprovalUse::NotRequired, two);
/// }
/// ```
/// With one it compiles:
/// ```
/// use cto_rules::eligibility::{ApprovalUse, ExecutionGrant};
/// use cto_runner::launch::{BackendLaunch, start_backend};
/// fn start(grant: ExecutionGrant, launch: BackendLaunch<'_>) {
///     let _ = start_backend(grant, ApprovalUse::NotRequired, launch);
/// }
/// ```
pub fn start_backend(
    grant: ExecutionGrant,
    approval: ApprovalUse,
    launch: BackendLaunch<'_>,
) -> Result<Outcome, StartError> {
    if !grant.spend(approval) {
        return Err(StartError::NotApproved);
    }
    let BackendLaunch {
        launcher,
        request,
        stop,
        listener,
        host,
    } = launch;
    let launched = match host {
        None => launcher.launch(request, stop, listener),
        Some(host) => launcher.launch_hosted(request, stop, listener, host),
    };
    Ok(launched?)
}

/// Most of what a program tells of its version that is kept.
const VERSION_CHARS: usize = 400;

/// Asks a lane's program for its version, confined as the backend will be and without its model. A program that does not
/// answer has no version: what it is, its digest says.
pub(crate) fn probe_version(
    permission: &Permission,
    planned: &Planned,
    stop: &StopToken,
) -> Option<String> {
    let request = planned.version_request.as_ref()?;
    let mut told = Vec::new();
    let outcome = permission
        .sandbox
        .launcher
        .launch(request, stop, &mut |message, _| {
            if let SandboxMessage::Output(_, bytes) = message {
                told.extend_from_slice(bytes);
            }
        });
    outcome.ok().filter(|o| o.end == End::Exited(0))?;
    let text = String::from_utf8_lossy(&told);
    Some(shorten(text.trim(), VERSION_CHARS))
}
