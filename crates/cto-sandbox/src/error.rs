//! Why a launch did not happen. A command that ran and failed is an [`Outcome`](crate::Outcome), not an error.

use std::io;
use std::path::PathBuf;

/// A launch that did not come to the execution of its command. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    #[error("invalid launch request: {what}")]
    Invalid { what: String },
    #[error("command `{command}` was not found")]
    NotFound { command: String },
    #[error("the interpreter of command `{command}` was not found")]
    InterpreterNotFound { command: String },
    #[error("could not execute command `{command}`")]
    Execute { command: String, source: io::Error },
    #[error("could not enter working directory `{path}`")]
    WorkingDirectory { path: PathBuf, source: io::Error },
    #[error("could not {step}")]
    Setup { step: String, source: io::Error },
    #[error("could not start launcher `{program}`")]
    Launcher { program: PathBuf, source: io::Error },
    /// Mostly a binary whose `main` does not begin with [`launcher_entry`](crate::launcher_entry).
    #[error("launcher `{program}` did not answer ({how})")]
    NoAnswer { program: PathBuf, how: String },
    #[error("the launcher said something that is not understood: {what}")]
    Protocol { what: String },
    #[error("could not {what}")]
    Io {
        what: &'static str,
        source: io::Error,
    },
    #[error("the endpoint inside could not be taken over")]
    Host { source: io::Error },
    /// An attempt to get out succeeded, or a control failed: nothing was started.
    #[error("the sandbox does not hold: {what}")]
    Unproven { what: String },
    /// Another program that should have built the sandbox: what it said, or how it ended.
    #[error("`{provider}` could not build the sandbox: {said}")]
    Provider { provider: PathBuf, said: String },
    #[error("could not execute `{provider}`")]
    ProviderMissing {
        provider: PathBuf,
        source: io::Error,
    },
    #[error("process confinement is not available here: {reason}")]
    Unavailable { reason: String },
}
