//! The one place where a process tree starts.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use crate::inside::LAUNCHER_NAME;

/// Starts the launcher with an empty environment, its own process group, and nothing open but the three descriptors.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where a process tree starts"
)]
pub(crate) fn spawn(
    program: &Path,
    control: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
) -> io::Result<Child> {
    Command::new(program)
        .arg0(LAUNCHER_NAME)
        .env_clear()
        .process_group(0)
        .stdin(control)
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
}
