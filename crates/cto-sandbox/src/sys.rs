//! Thin wrappers of the calls that no safe library offers. One call each, no policy.
#![expect(
    unsafe_code,
    reason = "the only home of unsafe calls: clone, exec, signals, ioctl and mount attributes have no safe wrapper"
)]

pub(crate) mod filtering;
pub(crate) mod mounting;
pub(crate) mod notifying;

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_ulong};
use std::io;
use std::mem;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::process::{Pid, Signal};

/// Highest signal number of the kernel.
const SIGNAL_MAX: c_int = 64;
/// Size of a signal set as the kernel counts it.
const KERNEL_SIGSET_BYTES: usize = 8;
/// Room for the kernel's `sigaction`: handler, flags, restorer and mask.
const KERNEL_SIGACTION_WORDS: usize = 8;
/// More capabilities than any kernel has; the walk ends at the first unknown one.
const CAPABILITY_MAX: c_ulong = 64;

/// Namespaces without which the others make no sense.
pub(crate) const BASE_NAMESPACES: c_int =
    libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID;

/// Ends this process at once, without destructors or exit handlers: they belong to the process it was forked from.
pub(crate) fn exit_now(code: u8) -> ! {
    // SAFETY: `_exit` takes no memory of ours and does not return.
    unsafe { libc::_exit(c_int::from(code)) }
}

/// Keeps a panic in a forked child from unwinding into the frames of its parent.
struct ExitOnUnwind;

impl Drop for ExitOnUnwind {
    fn drop(&mut self) {
        exit_now(101);
    }
}

/// Forks into new namespaces (`flags` may be 0) and runs `child` there; its result is the exit code.
///
/// In a process with threads, `child` must neither allocate nor lock.
pub(crate) fn fork_into(flags: c_int, child: impl FnOnce() -> u8) -> io::Result<Pid> {
    let flags = c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with a null stack this is a plain fork: the child has its own copy of all memory.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    if pid == 0 {
        let guard = ExitOnUnwind;
        let code = child();
        mem::forget(guard);
        exit_now(code);
    }
    match c_int::try_from(pid) {
        Ok(pid) if pid > 0 => Pid::from_raw(pid).ok_or_else(io::Error::last_os_error),
        Ok(_) | Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Moves this process into one more new namespace.
pub(crate) fn unshare(flag: c_int) -> io::Result<()> {
    // SAFETY: takes no pointer; the namespaces used here do not touch memory or descriptor tables.
    check(unsafe { libc::unshare(flag) })
}

/// The first descriptor that is none of the three streams.
const AFTER_STREAMS: c_uint = 3;

/// Closes every descriptor but the three streams and, if there is one, `kept`.
pub(crate) fn close_all_but(kept: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let kept = kept.and_then(|fd| c_uint::try_from(fd.as_raw_fd()).ok());
    let Some(kept) = kept.filter(|&kept| kept >= AFTER_STREAMS) else {
        return close_range(AFTER_STREAMS, c_uint::MAX, 0);
    };
    if kept > AFTER_STREAMS {
        close_range(AFTER_STREAMS, kept - 1, 0)?;
    }
    close_range(kept.saturating_add(1), c_uint::MAX, 0)
}

/// Marks every descriptor but the three streams to be closed by the next execution.
pub(crate) fn close_all_on_exec() -> io::Result<()> {
    close_range(AFTER_STREAMS, c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

fn close_range(first: c_uint, last: c_uint, flags: c_uint) -> io::Result<()> {
    // SAFETY: takes no pointer. Callers hold no descriptor in that range that they will use again (launcher at its start),
    // or only mark them.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Makes `fd` the standard input.
pub(crate) fn become_stdin(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open; number 0 is replaced, and nobody owns it as a value.
    let result = unsafe { libc::dup2(fd.as_raw_fd(), libc::STDIN_FILENO) };
    check(result.min(0))
}

/// Makes these the standard output and error.
pub(crate) fn become_output([stdout, stderr]: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    for (fd, number) in [(stdout, libc::STDOUT_FILENO), (stderr, libc::STDERR_FILENO)] {
        // SAFETY: as for standard input.
        let result = unsafe { libc::dup2(fd.as_raw_fd(), number) };
        check(result.min(0))?;
    }
    Ok(())
}

/// Returns the descriptors that every process has.
pub(crate) fn stdin() -> BorrowedFd<'static> {
    // SAFETY: the runtime opens 0, 1 and 2 before `main`, and this crate never closes them.
    unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) }
}

pub(crate) fn stdout() -> BorrowedFd<'static> {
    // SAFETY: as for standard input.
    unsafe { BorrowedFd::borrow_raw(libc::STDOUT_FILENO) }
}

pub(crate) fn stderr() -> BorrowedFd<'static> {
    // SAFETY: as for standard input.
    unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) }
}

/// Waits to be killed.
pub(crate) fn wait_for_ever() -> ! {
    loop {
        // SAFETY: takes nothing.
        unsafe { libc::pause() };
    }
}

/// Holds back every signal that can be held back.
pub(crate) fn block_all_signals() {
    change_mask(libc::SIG_SETMASK, true);
}

/// Gives the next program what a shell would: default dispositions, nothing held back.
pub(crate) fn default_signals() {
    // The C library refuses to touch two signals that it keeps for itself, so the kernel is asked directly.
    let default = [0_u64; KERNEL_SIGACTION_WORDS];
    for signal in 1..=SIGNAL_MAX {
        // SAFETY: zeros are the default action with no flags and an empty mask, and the buffer is larger than the kernel's
        // structure on every architecture; refused numbers (KILL, STOP) have no other action than the default.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                KERNEL_SIGSET_BYTES,
            )
        };
    }
    change_mask(libc::SIG_SETMASK, false);
}

fn change_mask(how: c_int, full: bool) {
    // SAFETY: `set` is filled by sigfillset or sigemptyset before it is read.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        if full {
            libc::sigfillset(&mut set)
        } else {
            libc::sigemptyset(&mut set)
        };
        libc::sigprocmask(how, &set, ptr::null_mut());
    }
}

fn child_and_term() -> libc::sigset_t {
    // SAFETY: `set` is initialised by sigemptyset; the signal numbers are valid.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigaddset(&mut set, libc::SIGTERM);
        set
    }
}

/// Which of the two signals that a supervisor waits for has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Child,
    Term,
}

/// Waits for a child to change or for TERM; both must be blocked.
pub(crate) fn wait_notice() -> Notice {
    let set = child_and_term();
    loop {
        // SAFETY: `set` is initialised, and a null info pointer is allowed.
        match unsafe { libc::sigwaitinfo(&set, ptr::null_mut()) } {
            libc::SIGTERM => return Notice::Term,
            libc::SIGCHLD => return Notice::Child,
            _ => {}
        }
    }
}

/// Returns a descriptor that is readable while a child change or TERM waits.
pub(crate) fn notice_fd() -> io::Result<OwnedFd> {
    let set = child_and_term();
    // SAFETY: `set` is initialised; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    check(fd.min(0))?;
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes one waiting notice.
pub(crate) fn read_notice(fd: &OwnedFd) -> Option<Notice> {
    let mut info = [0_u8; mem::size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::read(fd, &mut info[..]).ok()?;
    let number = info.get(..4).filter(|_| read >= 4)?;
    let number = u32::from_ne_bytes(number.try_into().ok()?);
    match c_int::try_from(number) {
        Ok(libc::SIGTERM) => Some(Notice::Term),
        _ => Some(Notice::Child),
    }
}

/// Kills every process that this one may signal but itself: for the init of a pid namespace, all others in it.
///
/// The kernel walks all of them under the lock that a fork needs, so none escapes by forking.
pub(crate) fn kill_all_others() {
    // SAFETY: takes no pointer. Called by the init of a pid namespace only.
    unsafe { libc::kill(-1, Signal::KILL.as_raw()) };
}

/// Executes `program`; returns only to tell why not.
pub(crate) fn exec(program: &CStr, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |list: &[CString]| -> Vec<*const c_char> {
        list.iter()
            .map(|text| text.as_ptr())
            .chain([ptr::null()])
            .collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both lists end with a null pointer and their strings outlive the call.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Takes every capability out of the bounding set, so that no execution can bring one back, also not as uid 0.
///
/// Fails when one is left that could not be taken out.
pub(crate) fn empty_bounding_set() -> io::Result<()> {
    for capability in 0..CAPABILITY_MAX {
        // SAFETY: takes numbers only.
        let dropped = check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) });
        let Err(error) = dropped else { continue };
        // SAFETY: takes numbers only.
        match unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) } {
            0 => {}
            1 => return Err(error),
            // There is no such capability, nor any after it.
            _ => break,
        }
    }
    Ok(())
}

/// Makes everything mounted at and below `path` read-only, keeping all other flags.
pub(crate) fn mount_read_only(path: &CStr) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: `path` ends with NUL, and the structure's size is told with it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            mem::size_of::<libc::mount_attr>(),
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Returns the version of Landlock that the kernel has.
pub(crate) fn landlock_abi() -> io::Result<u32> {
    const VERSION: c_uint = 1;
    // SAFETY: with this flag the kernel takes no attributes.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    };
    u32::try_from(version).map_err(|_| io::Error::last_os_error())
}

/// Tries to connect without waiting: also a connection that has only begun is one.
pub(crate) fn connect_now(to: SocketAddrV4) -> rustix::io::Result<()> {
    let last = || rustix::io::Errno::from_raw_os_error(last_errno());
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointer.
    let fd = unsafe { libc::socket(libc::AF_INET, kind, 0) };
    check(fd.min(0)).map_err(|_| last())?;
    // SAFETY: the descriptor is new and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all-zero is a valid value of this plain C structure.
    let mut address: libc::sockaddr_in = unsafe { mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_port = to.port().to_be();
    address.sin_addr.s_addr = u32::from(*to.ip()).to_be();
    // SAFETY: the address lives until the call returns, and its size is told with it.
    let result = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            mem::size_of::<libc::sockaddr_in>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ if last_errno() == libc::EINPROGRESS => Ok(()),
        _ => Err(last()),
    }
}

fn last_errno() -> c_int {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

/// Returns the size of a page of memory.
pub(crate) fn page_bytes() -> u64 {
    // SAFETY: takes a number only.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Brings the loopback interface of the current network namespace up.
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: takes no pointer.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    check(fd.min(0))?;
    // SAFETY: the descriptor is new and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all-zero is a valid value of this plain C structure.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes_with_nul()) {
        *to = c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which lives until the call returns.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) })
}

/// Names the host of the current UTS namespace.
pub(crate) fn set_host_name(name: &[u8]) -> io::Result<()> {
    // SAFETY: the length is the slice's own.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })
}

/// What all children that were waited for have used together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChildrenUsage {
    pub(crate) cpu_micros: u64,
    pub(crate) peak_rss_bytes: u64,
}

pub(crate) fn children_usage() -> ChildrenUsage {
    // SAFETY: all-zero is a valid value of this plain C structure.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: the kernel fills the structure that it is given.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) } < 0 {
        return ChildrenUsage::default();
    }
    let micros = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds
            .saturating_mul(1_000_000)
            .saturating_add(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    ChildrenUsage {
        cpu_micros: micros(usage.ru_utime).saturating_add(micros(usage.ru_stime)),
        peak_rss_bytes: u64::try_from(usage.ru_maxrss)
            .unwrap_or(0)
            .saturating_mul(1024),
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
