//! Calls that the mover does, and who waits for them.

use std::os::fd::{AsFd, OwnedFd};

use rustix::net::RecvFlags;

use crate::mover::{REPLY_BYTES, Reply, Request};
use crate::sys::notifying::{Answer, Listener};

use super::places::{Place, Places};

/// Most calls that wait for the mover at a time; it does one after the other.
const WAITING_MAX: usize = 16;

/// A rename of a directory, as it was asked for.
#[derive(Clone, Debug)]
pub(super) struct Rename {
    thread: u32,
    folders: [Option<i32>; 2],
    request: Request,
}

impl Rename {
    pub(super) fn of(id: u64, from: Place<'_>, to: Place<'_>, flags: u32) -> Self {
        Self {
            thread: from.thread,
            folders: [from.folder, to.folder],
            request: Request {
                id,
                flags,
                old: from.path.to_vec(),
                new: to.path.to_vec(),
            },
        }
    }
}

#[derive(Debug)]
pub(super) struct Movers {
    socket: OwnedFd,
    waiting: Vec<u64>,
}

impl Movers {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            waiting: Vec::new(),
        }
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.socket
    }

    /// Hands a call over. `false`: it is still to be answered.
    pub(super) fn take(&mut self, places: &Places, rename: &Rename) -> bool {
        if self.waiting.len() >= WAITING_MAX {
            return false;
        }
        let [Some(old), Some(new)] = rename
            .folders
            .map(|folder| places.open_folder(rename.thread, folder))
        else {
            return false;
        };
        let sent = rename
            .request
            .send(self.socket.as_fd(), [old.as_fd(), new.as_fd()]);
        if sent.is_ok() {
            self.waiting.push(rename.request.id);
        }
        sent.is_ok()
    }

    /// Passes on what has been done. `false`: the mover is gone, and who waited is told what the kernel would have said.
    pub(super) fn pass_on(&mut self, listener: &Listener) -> bool {
        let mut bytes = [0; REPLY_BYTES];
        let received = rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT);
        match received.map(|(count, _)| Reply::decode(&bytes[..count])) {
            Ok(Some(Reply { id, errno })) => {
                self.waiting.retain(|&waiting| waiting != id);
                let answer = match errno {
                    0 => Answer::Done,
                    errno => Answer::Fail(errno),
                };
                listener.answer(id, answer);
                true
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => true,
            Ok(None) | Err(_) => {
                for id in self.waiting.drain(..) {
                    listener.answer(id, Answer::Fail(libc::EXDEV));
                }
                false
            }
        }
    }
}
