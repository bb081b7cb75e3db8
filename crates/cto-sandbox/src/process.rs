//! The launcher as a process of the harness: how it is started, and that it is never left behind.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions};

use crate::error::LaunchError;
use crate::launcher::Launcher;

/// The launcher process. Dropping it, also by a panic in the listener, cuts the life-line and waits.
pub(crate) struct Process {
    /// A child of this process that was not waited for yet.
    pub(crate) pid: Option<Pid>,
    pub(crate) control: Option<UnixStream>,
}

impl Process {
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        wait(self.pid.take().ok_or(io::ErrorKind::NotFound)?)
    }

    /// Lets a thread wait for a launcher that hangs in the kernel, so that it leaves no zombie should it ever end.
    pub(crate) fn leave_behind(&mut self) {
        if let Some(pid) = self.pid.take() {
            std::thread::spawn(move || wait(pid));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.control = None;
        if let Some(pid) = self.pid.take() {
            wait(pid).ok();
        }
    }
}

fn wait(pid: Pid) -> io::Result<ExitStatus> {
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

pub(crate) fn io_error(what: &'static str) -> impl Fn(io::Error) -> LaunchError {
    move |source| LaunchError::Io { what, source }
}

/// Starts a launcher with an empty environment, its own process group, and nothing open but the three descriptors.
/// Returns it with the harness's end of its control socket.
pub(crate) fn spawn(
    launcher: &Launcher,
    [stdout, stderr]: [OwnedFd; 2],
) -> Result<(Pid, UnixStream), LaunchError> {
    let (ours, theirs) = UnixStream::pair().map_err(io_error("make a control socket"))?;
    unblock(ours.as_fd()).map_err(io_error("make a pipe non-blocking"))?;
    let streams = [theirs.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let pid = launcher.pad.launcher(&launcher.program, streams)?;
    Ok((pid, ours))
}

pub(crate) fn unblock(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}
