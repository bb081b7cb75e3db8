//! What the launcher needs to serve the recorder, handed from the init inside to the launcher outside.

use std::io::{self, IoSlice, IoSliceMut, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use crate::mover;
use crate::payload::{Image, Restrictions};
use crate::sys;

/// Where the recorder waits, and what it needs from inside.
pub(crate) struct RecorderSetup {
    pub(crate) launcher: UnixStream,
    pub(crate) users: OwnedFd,
    pub(crate) root: OwnedFd,
    pub(crate) has_overlay: bool,
}

impl RecorderSetup {
    /// Starts the mover, where there is something for it to do. Without one, directories stay where they are.
    pub(crate) fn mover(&self, image: &Image, restrictions: &Restrictions) -> Option<OwnedFd> {
        if !self.has_overlay {
            return None;
        }
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .ok()?;
        let served = sys::fork_into(0, || mover::serve(image, restrictions, &theirs));
        served.ok().map(|_| ours)
    }
}

/// Fetches the listener from the child, which waits at its execution for somebody to answer, and gives it to the launcher.
pub(crate) fn hand_over(
    payload: Pid,
    number: &mut PipeReader,
    recorder: RecorderSetup,
    mover: Option<OwnedFd>,
) -> io::Result<()> {
    let mut bytes = [0; 4];
    match number.read_exact(&mut bytes) {
        Ok(()) => {}
        // It never came that far, and its report says why.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
        Err(error) => return Err(error),
    }
    let child = rustix::process::pidfd_open(payload, PidfdFlags::empty())?;
    let fd = i32::from_le_bytes(bytes);
    let listener = rustix::process::pidfd_getfd(child, fd, PidfdGetfdFlags::empty())?;
    let handover = Handover {
        listener,
        users: recorder.users,
        root: recorder.root,
        mover,
    };
    handover.send(&recorder.launcher)
}

/// Descriptors that only those inside can get.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) listener: OwnedFd,
    /// The user namespace inside, in which every process may be looked at.
    pub(crate) users: OwnedFd,
    /// The root inside.
    pub(crate) root: OwnedFd,
    /// The mover's.
    pub(crate) mover: Option<OwnedFd>,
}

impl Handover {
    pub(crate) fn send(&self, to: &UnixStream) -> io::Result<()> {
        let first = [&self.listener, &self.users, &self.root];
        let fds: Vec<_> = first
            .into_iter()
            .chain(&self.mover)
            .map(AsFd::as_fd)
            .collect();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
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
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
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
                mover: fds.next(),
            })),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
