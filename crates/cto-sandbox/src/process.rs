//! The launcher as a process of the harness: how it is started, and that it is never left behind.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use rustix::fs::OFlags;

use crate::error::LaunchError;
use crate::inside::LAUNCHER_NAME;

/// The launcher process. Dropping it, also by a panic in the sink, cuts the life-line and waits.
pub(crate) struct Process {
    pub(crate) child: Option<Child>,
    pub(crate) control: Option<UnixStream>,
}

impl Process {
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        let mut child = self.child.take().ok_or(io::ErrorKind::NotFound)?;
        child.wait()
    }

    /// Lets a thread wait for a launcher that hangs in the kernel, so that it leaves no zombie should it ever end.
    pub(crate) fn leave_behind(&mut self) {
        if let Some(mut child) = self.child.take() {
            std::thread::spawn(move || child.wait());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.control = None;
        if let Some(mut child) = self.child.take() {
            child.wait().ok();
        }
    }
}

pub(crate) fn io_error(what: &'static str) -> impl Fn(io::Error) -> LaunchError {
    move |source| LaunchError::Io { what, source }
}

/// Starts the launcher with an empty environment, its own process group, and nothing open but the three descriptors.
/// Returns it with the harness's end of its control socket.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where a process tree starts"
)]
pub(crate) fn spawn(
    program: &Path,
    [stdout, stderr]: [OwnedFd; 2],
) -> Result<(Child, UnixStream), LaunchError> {
    let (ours, theirs) = UnixStream::pair().map_err(io_error("make a control socket"))?;
    unblock(ours.as_fd()).map_err(io_error("make a pipe non-blocking"))?;
    let child = Command::new(program)
        .arg0(LAUNCHER_NAME)
        .env_clear()
        .process_group(0)
        .stdin(OwnedFd::from(theirs))
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .map_err(|source| LaunchError::Launcher {
            program: program.to_owned(),
            source,
        })?;
    Ok((child, ours))
}

pub(crate) fn unblock(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}
