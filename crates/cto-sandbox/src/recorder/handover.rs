//! What the launcher needs to serve the recorder, handed from the init inside to the launcher outside.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Descriptors that only those inside can get.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) listener: OwnedFd,
    /// The user namespace inside, in which every process may be looked at.
    pub(crate) users: OwnedFd,
    /// The root inside.
    pub(crate) root: OwnedFd,
}

impl Handover {
    pub(crate) fn send(&self, to: &UnixStream) -> io::Result<()> {
        let fds = [self.listener.as_fd(), self.users.as_fd(), self.root.as_fd()];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut rights = SendAncillaryBuffer::new(&mut room);
        if !rights.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let data = [IoSlice::new(b"R")];
        rustix::net::sendmsg(to, &data, &mut rights, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Takes a handover. `None`: there will be none.
    pub(crate) fn receive(from: &UnixStream) -> io::Result<Option<Self>> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut rights = RecvAncillaryBuffer::new(&mut room);
        let mut byte = [0];
        let mut data = [IoSliceMut::new(&mut byte)];
        let received = rustix::net::recvmsg(from, &mut data, &mut rights, RecvFlags::CMSG_CLOEXEC)?;
        if received.bytes == 0 {
            return Ok(None);
        }
        let mut fds = Vec::new();
        for message in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        let mut fds = fds.into_iter();
        match (fds.next(), fds.next(), fds.next()) {
            (Some(listener), Some(users), Some(root)) => Ok(Some(Self {
                listener,
                users,
                root,
            })),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
