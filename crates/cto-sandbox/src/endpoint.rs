//! The one address inside: a listener made in the sandbox's own network and handed out to the harness.
//!
//! Nothing else answers there. The command is not started before the harness has taken the listener over.

use std::io;
use std::net::TcpListener;

/// An address on loopback that answers inside, and whose other side is the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The network is the sandbox's own, so every port is free; 0 is none.
    pub port: u16,
}

/// Takes the listeners of an [`Endpoint`] over, before the command starts: one for each family that there is. An error
/// means that the command is not started.
pub type Host<'h> = &'h mut dyn FnMut(Vec<TcpListener>) -> io::Result<()>;

#[cfg(target_os = "linux")]
pub(crate) use inside::{Offered, offer};
#[cfg(target_os = "linux")]
pub(crate) use outside::Reception;

#[cfg(target_os = "linux")]
mod inside {
    use std::io::{self, IoSlice, Read};
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

    use crate::wire::{HOSTED, Message};

    /// What the harness said to the listener.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Offered {
        Taken,
        /// It is gone, or wants an end: nothing is to be started.
        Declined,
    }

    /// Listens, hands the listeners out, and waits until they are taken over.
    pub(crate) fn offer(mut control: &UnixStream, port: u16) -> io::Result<Offered> {
        let mut listeners = vec![TcpListener::bind((Ipv4Addr::LOCALHOST, port))?];
        // A kernel without the newer family has nobody who would ask for it.
        listeners.extend(TcpListener::bind((Ipv6Addr::LOCALHOST, port)));
        send(control, &listeners)?;
        drop(listeners);
        let mut answer = [0];
        match control.read_exact(&mut answer) {
            Ok(()) if answer[0] == HOSTED => Ok(Offered::Taken),
            Ok(()) | Err(_) => Ok(Offered::Declined),
        }
    }

    fn send(control: &UnixStream, listeners: &[TcpListener]) -> io::Result<()> {
        let line = Message::Listening.encode()?;
        let fds: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut passed = SendAncillaryBuffer::new(&mut space);
        if !passed.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // One short line into an empty socket: it goes as a whole.
        let data = [IoSlice::new(&line)];
        let sent = rustix::net::sendmsg(control, &data, &mut passed, SendFlags::NOSIGNAL)?;
        match sent == line.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

#[cfg(target_os = "linux")]
mod outside {
    use std::io::{self, IoSliceMut};
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

    use super::Host;
    use crate::error::LaunchError;

    /// The harness's side: what came through the socket, and who takes it over.
    pub(crate) struct Reception<'h> {
        passed: Vec<OwnedFd>,
        host: Option<Host<'h>>,
    }

    impl<'h> Reception<'h> {
        pub(crate) fn new(host: Option<Host<'h>>) -> Self {
            Self {
                passed: Vec::new(),
                host,
            }
        }

        /// Reads words of the launcher, and keeps the descriptors that come with them.
        pub(crate) fn receive(
            &mut self,
            control: &UnixStream,
            bytes: &mut [u8],
        ) -> io::Result<usize> {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut data = [IoSliceMut::new(bytes)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = rustix::net::recvmsg(control, &mut data, &mut ancillary, flags)?;
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = message {
                    self.passed.extend(fds);
                }
            }
            Ok(received.bytes)
        }

        /// Hands the listeners over, once; says whether it was now.
        pub(crate) fn hand_over(&mut self) -> Result<bool, LaunchError> {
            let Some(host) = self.host.take() else {
                return Ok(false);
            };
            let listeners = self.passed.drain(..).map(TcpListener::from).collect();
            host(listeners).map_err(|source| LaunchError::Host { source })?;
            Ok(true)
        }
    }
}
