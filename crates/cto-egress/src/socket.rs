//! A socket that waits with a deadline, and never longer than the forwarder lives.

use std::fmt;
use std::io::{self, PipeReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};

/// The forwarder was stopped while something was waited for.
#[derive(Debug, thiserror::Error)]
#[error("the forwarder was stopped")]
pub(crate) struct Stopped;

/// Readable, by its end, as soon as the forwarder is to stop: all who wait see it at once.
pub(crate) type StopSign = Arc<PipeReader>;

/// Whether an error is the stop of the forwarder and not a fault of a peer.
pub(crate) fn is_stop(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Stopped>())
}

/// Waits until something can be done, a deadline passes, or the forwarder stops.
pub(crate) fn wait(
    fd: BorrowedFd<'_>,
    flags: PollFlags,
    stop: &StopSign,
    until: Instant,
) -> io::Result<()> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut fds = [
            PollFd::from_borrowed_fd(fd, flags),
            PollFd::new(&**stop, PollFlags::IN),
        ];
        let timeout = Timespec::try_from(left).ok();
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        if !fds[1].revents().is_empty() {
            return Err(io::Error::other(Stopped));
        }
        if !fds[0].revents().is_empty() {
            return Ok(());
        }
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// A connection whose reads and writes give up after some time without progress, or at a moment.
pub(crate) struct Socket {
    stream: TcpStream,
    stop: StopSign,
    patience: Duration,
    until: Option<Instant>,
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Socket")
    }
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, stop: StopSign, patience: Duration) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // A word of a stream must not wait for the next one.
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            stop,
            patience,
            until: None,
        })
    }

    /// Opens a connection.
    pub(crate) fn connect(
        address: SocketAddr,
        stop: StopSign,
        patience: Duration,
    ) -> io::Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => {}
            Err(Errno::INPROGRESS) => {
                wait(
                    socket.as_fd(),
                    PollFlags::OUT,
                    &stop,
                    Instant::now() + patience,
                )?;
                rustix::net::sockopt::socket_error(&socket)??;
            }
            Err(error) => return Err(error.into()),
        }
        Self::new(TcpStream::from(socket), stop, patience)
    }

    /// How long to wait for the next progress, from now on; no other bound.
    pub(crate) fn be_patient(&mut self, patience: Duration) {
        self.patience = patience;
        self.until = None;
    }

    /// When everything must have come, whatever the progress.
    pub(crate) fn finish_by(&mut self, until: Instant) {
        self.until = Some(until);
    }

    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let patient = Instant::now() + self.patience;
        let until = self.until.map_or(patient, |until| until.min(patient));
        wait(self.stream.as_fd(), flags, &self.stop, until)
    }

    /// Says that nothing more comes, and lets the other side take what is on its way: closing at once could take it back.
    pub(crate) fn close_gently(&mut self, bytes_max: usize, patience: Duration) {
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        self.patience = patience;
        self.until = Some(Instant::now() + patience);
        let mut bytes = [0; 4096];
        let mut left = bytes_max;
        while let Ok(count) = self.read(&mut bytes) {
            if count == 0 || count >= left {
                return;
            }
            left -= count;
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.stream.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
