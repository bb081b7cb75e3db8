//! What the launcher could not do, as the error that the harness gets.

use std::io;

use crate::error::LaunchError;
use crate::request::LaunchRequest;
use crate::wire::{Failure, Step};

pub(crate) fn failure_error(failure: &Failure, request: &LaunchRequest) -> LaunchError {
    let source = io::Error::from_raw_os_error(failure.errno);
    let name = request
        .argv
        .first()
        .map(|name| name.to_string_lossy().into_owned());
    let command = name.unwrap_or_default();
    match &failure.step {
        Step::FindCommand => LaunchError::NotFound { command },
        Step::FindInterpreter => LaunchError::InterpreterNotFound { command },
        Step::Execute => LaunchError::Execute { command, source },
        Step::EnterDirectory => LaunchError::WorkingDirectory {
            path: request.cwd.clone(),
            source,
        },
        Step::EndpointNeedsNamespaces => LaunchError::Unavailable {
            reason: "an endpoint needs a network of its own, and the kernel refuses it".to_owned(),
        },
        Step::OverlayNeedsNamespaces | Step::BindNeedsNamespaces(_) | Step::RootNeedsNamespaces => {
            LaunchError::Unavailable {
                reason: "mounts need a namespace of their own, and the kernel refuses it"
                    .to_owned(),
            }
        }
        Step::BecomeProvider(program) => LaunchError::ProviderMissing {
            provider: program.path().to_owned(),
            source,
        },
        Step::Prove(what) => LaunchError::Unproven { what: what.clone() },
        step @ (Step::Prepare
        | Step::BuildRoot(_)
        | Step::EnterRoot
        | Step::Landlock
        | Step::Seccomp
        | Step::Recorder
        | Step::OpenOverlayPart(_)
        | Step::MountOverlay(_)
        | Step::OpenBind(_)
        | Step::Bind(_)
        | Step::Listen
        | Step::Fork
        | Step::Session
        | Step::SetLimits
        | Step::DropPrivileges) => LaunchError::Setup {
            step: step.words(),
            source,
        },
    }
}
