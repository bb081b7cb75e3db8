//! Calls that a filter hands to a supervisor: the listener, the answers, and a look into the memory of who called.

use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::seccomp::Call;

/// Runs caller and supervisor in turn on one processor. Newer than the library.
const SYNC_WAKE_UP: u64 = 1;
/// The kernel's structures may grow; what is beyond those known here is room only.
const ROOM: usize = 64;

/// Binds this process like [`install`](super::filtering::install), and returns the listener for the calls to be asked about.
///
/// A signal interrupts a call that waits for its answer only when it kills: a fast timer would restart it for ever.
pub(crate) fn install(filter: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: filter.as_ptr().cast_mut(),
    };
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the program points to `len` instructions, which the kernel copies before the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    match RawFd::try_from(result) {
        // SAFETY: the descriptor is new and nobody else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        Ok(_) | Err(_) => Err(io::Error::last_os_error()),
    }
}

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) id: u64,
    /// The thread, as this process numbers it.
    pub(crate) thread: u32,
    pub(crate) call: Call,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// The kernel does it.
    GoOn,
    /// Nobody does it.
    Fail(c_int),
    /// Somebody else has done it.
    Done,
}

#[repr(C)]
struct Notification {
    known: libc::seccomp_notif,
    room: [u8; ROOM],
}

#[repr(C)]
struct Response {
    known: libc::seccomp_notif_resp,
    room: [u8; ROOM],
}

/// The listener of a filter.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl Listener {
    /// Takes the descriptor of a listener. Fails where the kernel's structures are larger than the room for them.
    pub(crate) fn of(fd: OwnedFd) -> io::Result<Self> {
        let mut sizes = libc::seccomp_notif_sizes {
            seccomp_notif: 0,
            seccomp_notif_resp: 0,
            seccomp_data: 0,
        };
        // SAFETY: the kernel fills the structure that it is given.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_GET_NOTIF_SIZES,
                0,
                &raw mut sizes,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        if usize::from(sizes.seccomp_notif) > mem::size_of::<Notification>()
            || usize::from(sizes.seccomp_notif_resp) > mem::size_of::<Response>()
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // Only faster; kernels before 6.6 do not know it.
        // SAFETY: this request takes its argument by value.
        unsafe {
            libc::ioctl(
                fd.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                SYNC_WAKE_UP,
            )
        };
        Ok(Self(fd))
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Takes the next call; waits for it if there is none. `None`: who called is gone already.
    pub(crate) fn receive(&self) -> io::Result<Option<Asked>> {
        // SAFETY: all-zero is a valid value of this plain C structure, and what the kernel wants to be given.
        let mut asked: Notification = unsafe { mem::zeroed() };
        // SAFETY: the kernel fills the structure, for which there is room as checked before.
        let result = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV,
                &raw mut asked,
            )
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENOENT | libc::EINTR | libc::ENOTCONN) => Ok(None),
                Some(_) | None => Err(error),
            };
        }
        let libc::seccomp_notif { id, pid, data, .. } = asked.known;
        Ok(Some(Asked {
            id,
            thread: pid,
            call: Call {
                architecture: data.arch,
                number: data.nr.cast_unsigned(),
                arguments: data.args,
            },
        }))
    }

    /// Answers a call. One whose caller is gone needs no answer.
    pub(crate) fn answer(&self, id: u64, answer: Answer) {
        // SAFETY: all-zero is a valid value of this plain C structure.
        let mut response: Response = unsafe { mem::zeroed() };
        response.known.id = id;
        match answer {
            Answer::GoOn => response.known.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
            Answer::Fail(errno) => response.known.error = -errno,
            Answer::Done => {}
        }
        // SAFETY: the kernel reads the structure, which is as large as it wants it, as checked before.
        unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                &raw mut response,
            )
        };
    }

    /// Returns whether the caller still waits, so that what was seen under its number was its own.
    pub(crate) fn waits(&self, id: u64) -> bool {
        // SAFETY: the kernel reads one number, which lives until the call returns.
        let result = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
                &raw const id,
            )
        };
        result == 0
    }
}

/// Reads the memory of a thread into `buffer`, and returns how much of it was there.
pub(crate) fn read_memory(thread: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0)),
        iov_len: buffer.len(),
    };
    let thread = libc::pid_t::try_from(thread).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the local part is the buffer; the remote address is not of this process and may be anything.
    let count =
        unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}
