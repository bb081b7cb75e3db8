//! The launch pad: this binary, executed once, that forks a launcher for each launch.
//!
//! A harness with threads cannot fork itself, and to execute and link a binary costs as much as half a sandbox. The pad is
//! that execution, done before it is needed: single-threaded, with nothing open and nothing in its environment. It knows no
//! policy; what it forks is a child of the harness and begins like a launcher that was executed.

#[cfg(target_os = "linux")]
use std::sync::{Arc, Mutex};

#[cfg(target_os = "linux")]
pub(crate) use linux::{PAD_NAME, serve};

/// The pad of a launcher and of its clones; there is none until the first launch.
#[derive(Clone, Debug, Default)]
pub struct Pad {
    #[cfg(target_os = "linux")]
    open: Arc<Mutex<Option<linux::OpenPad>>>,
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, IoSlice, IoSliceMut};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::sync::PoisonError;

    use rustix::event::{PollFd, PollFlags, Timespec};
    use rustix::net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    };
    use rustix::process::{DumpableBehavior, Pid};

    use super::Pad;
    use crate::error::LaunchError;
    use crate::inside;
    use crate::request::UNPRIVILEGED_ID;
    use crate::sys;
    use crate::unprivileged::{self, Owners};

    /// `argv[0]` of a pad.
    pub(crate) const PAD_NAME: &str = "cto-launch-pad";
    /// How long a pad may take to fork. Generous: the machine may be very busy.
    const ANSWER_SECONDS: i64 = 30;
    /// Standard input, output and error of a launcher.
    const STREAMS: usize = 3;
    const ANSWER_BYTES: usize = 4;

    #[derive(Debug)]
    pub(super) struct OpenPad {
        process: Child,
        /// Its hang-up ends the pad, also when this process is killed.
        socket: OwnedFd,
    }

    impl Drop for OpenPad {
        fn drop(&mut self) {
            // Its launchers are not its children.
            self.process.kill().ok();
            self.process.wait().ok();
        }
    }

    impl Pad {
        /// Returns a new launcher with these streams, a child of this process.
        pub(crate) fn launcher(
            &self,
            program: &Path,
            streams: [BorrowedFd<'_>; STREAMS],
        ) -> Result<Pid, LaunchError> {
            let failed = |source| LaunchError::Launcher {
                program: program.to_owned(),
                source,
            };
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(pad) = open.as_ref() {
                match pad.fork(streams) {
                    Ok(launcher) => return launcher.map_err(failed),
                    // Somebody has killed it: nothing was forked, and another one can be.
                    Err(_) => *open = None,
                }
            }
            let pad = OpenPad::on(program).map_err(failed)?;
            match pad.fork(streams) {
                Ok(launcher) => {
                    *open = Some(pad);
                    launcher.map_err(failed)
                }
                Err(error) => Err(LaunchError::NoAnswer {
                    program: program.to_owned(),
                    how: if error.kind() == io::ErrorKind::TimedOut {
                        format!("nothing came in {ANSWER_SECONDS} s")
                    } else {
                        "it hung up".to_owned()
                    },
                }),
            }
        }
    }

    impl OpenPad {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place where this binary is executed again"
        )]
        fn on(program: &Path) -> io::Result<Self> {
            let (ours, theirs) = rustix::net::socketpair(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )?;
            let process = Command::new(program)
                .arg0(PAD_NAME)
                // A binary that is no launcher, such as a test, must not take this for a plain start of itself.
                .arg(PAD_NAME)
                .env_clear()
                .process_group(0)
                .stdin(theirs)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            Ok(Self {
                process,
                socket: ours,
            })
        }

        /// The outer error is the pad's end, the inner one its answer.
        fn fork(&self, streams: [BorrowedFd<'_>; STREAMS]) -> io::Result<io::Result<Pid>> {
            let socket = &self.socket;
            let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
            let mut rights = SendAncillaryBuffer::new(&mut room);
            rights.push(SendAncillaryMessage::ScmRights(&streams));
            let data = [IoSlice::new(b"L")];
            rustix::net::sendmsg(socket, &data, &mut rights, SendFlags::NOSIGNAL)?;
            let patience = Timespec {
                tv_sec: ANSWER_SECONDS,
                tv_nsec: 0,
            };
            let mut ready = [PollFd::new(socket, PollFlags::IN)];
            if rustix::event::poll(&mut ready, Some(&patience))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut answer = [0; ANSWER_BYTES];
            let (count, _) = rustix::net::recv(socket, &mut answer[..], RecvFlags::empty())?;
            if count != ANSWER_BYTES {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let number = i32::from_le_bytes(answer);
            Ok(match Pid::from_raw(number.max(0)) {
                Some(launcher) => Ok(launcher),
                None => Err(io::Error::from_raw_os_error(-number)),
            })
        }
    }

    /// Serves as pad on this socket until the harness hangs up; returns the exit code.
    pub(crate) fn serve(socket: OwnedFd) -> u8 {
        rustix::thread::set_name(c"cto-launch-pad").ok();
        sys::block_all_signals();
        inside::hide_from_command();
        // The same for every launch by root, and as costly as all that it is for.
        let owners = match unprivileged::is_root() {
            true => Owners::of(UNPRIVILEGED_ID).ok(),
            false => None,
        };
        while let Some(streams) = receive(socket.as_fd()) {
            let forked = sys::fork_into(libc::CLONE_PARENT, || {
                become_launcher(&streams, owners.as_ref())
            });
            let answer = match &forked {
                Ok(launcher) => launcher.as_raw_nonzero().get(),
                Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
            };
            drop(streams);
            let flags = SendFlags::NOSIGNAL;
            if rustix::net::send(&socket, &answer.to_le_bytes(), flags).is_err() {
                break;
            }
        }
        0
    }

    fn become_launcher(
        [control, stdout, stderr]: &[OwnedFd; STREAMS],
        owners: Option<&Owners>,
    ) -> u8 {
        // A terminal's signals are for the harness, which passes on what it wants.
        rustix::process::setpgid(None, None).ok();
        // The pad hides; a launcher must be able to write the maps of its namespaces first.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).ok();
        let output = [stdout.as_fd(), stderr.as_fd()];
        match sys::become_stdin(control.as_fd()).and_then(|()| sys::become_output(output)) {
            Ok(()) => inside::run(owners),
            Err(_) => crate::wire::EXIT_NO_POLICY,
        }
    }

    /// `None`: the harness is gone, or does not speak as it should.
    fn receive(from: BorrowedFd<'_>) -> Option<[OwnedFd; STREAMS]> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
        let mut rights = RecvAncillaryBuffer::new(&mut room);
        let mut byte = [0];
        let mut data = [IoSliceMut::new(&mut byte)];
        rustix::net::recvmsg(from, &mut data, &mut rights, RecvFlags::CMSG_CLOEXEC).ok()?;
        let mut streams = Vec::with_capacity(STREAMS);
        for message in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                streams.extend(received);
            }
        }
        streams.try_into().ok()
    }
}
