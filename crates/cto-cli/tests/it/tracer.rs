//! Follows a process call by call and kills it before the write that a test names: a crash at a place, not at a time.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Stops itself until it is followed, then becomes the program.
const WAITING: &str = "kill -STOP $$; exec \"$0\" \"$@\"";

/// One change of the file system, before it was made.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    /// The file that is made or written to; none for the calls that make, move or remove names.
    pub(crate) file: Option<PathBuf>,
}

/// How a followed process ended, and the writes that it was about to make.
pub(crate) struct Followed {
    /// None when it was killed.
    pub(crate) code: Option<i32>,
    pub(crate) writes: Vec<Write>,
}

/// Runs a program and kills it before its write number `at`, counted from 1 below `root`. It ends by itself when it
/// makes fewer, or when `at` is none.
pub(crate) fn follow(command: &Command, root: &Path, at: Option<usize>) -> Followed {
    let mut waiting = Command::new("/bin/sh");
    waiting.arg("-c").arg(WAITING).arg(command.get_program());
    waiting.args(command.get_args()).env_clear();
    let set = command.get_envs();
    waiting.envs(set.filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = command.get_current_dir() {
        waiting.current_dir(dir);
    }
    // In a group of its own: who is stopped there must not wake the test's.
    let waiting = waiting.stdin(Stdio::null()).stdout(Stdio::null());
    let child = waiting.stderr(Stdio::null()).process_group(0).spawn();
    let pid = Pid::from_raw(i32::try_from(child.unwrap().id()).unwrap());
    waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(pid, options).unwrap();
    kill(pid, Signal::SIGCONT).unwrap();
    let mut follower = Follower {
        pid,
        root,
        at,
        is_started: false,
        inside: BTreeMap::new(),
        writes: Vec::new(),
    };
    let code = follower.run_out();
    Followed {
        code,
        writes: follower.writes,
    }
}

struct Follower<'a> {
    pid: Pid,
    root: &'a Path,
    at: Option<usize>,
    is_started: bool,
    /// Threads that are inside a call.
    inside: BTreeMap<Pid, bool>,
    writes: Vec<Write>,
}

impl Follower<'_> {
    fn run_out(&mut self) -> Option<i32> {
        // Of this thread's children only: other tests wait for theirs.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            match waitpid(Pid::from_raw(-1), Some(flags)).unwrap() {
                WaitStatus::Exited(pid, code) if pid == self.pid => return Some(code),
                WaitStatus::Signaled(pid, _, _) if pid == self.pid => return None,
                WaitStatus::PtraceSyscall(thread) => {
                    let inside = self.inside.entry(thread).or_default();
                    *inside = !*inside;
                    if *inside && self.is_started {
                        self.look(thread);
                    }
                    go_on(thread, None);
                }
                WaitStatus::PtraceEvent(thread, _, event) => {
                    self.is_started |= event == libc::PTRACE_EVENT_EXEC;
                    go_on(thread, None);
                }
                WaitStatus::Stopped(thread, signal) => go_on(thread, Some(signal)),
                WaitStatus::Exited(..)
                | WaitStatus::Signaled(..)
                | WaitStatus::Continued(_)
                | WaitStatus::StillAlive => {}
            }
        }
    }

    /// Notes a write, and kills the process before the one that was asked for.
    fn look(&mut self, thread: Pid) {
        let Ok(registers) = ptrace::getregs(thread) else {
            return;
        };
        let Some(file) = written(thread, &registers) else {
            return;
        };
        if file
            .as_ref()
            .is_some_and(|file| !file.starts_with(self.root))
        {
            return;
        }
        self.writes.push(Write { file });
        if Some(self.writes.len()) == self.at {
            kill(self.pid, Signal::SIGKILL).unwrap();
        }
    }
}

/// A thread that was killed meanwhile does not go on, and its end is told by the next wait.
fn go_on(thread: Pid, signal: Option<Signal>) {
    ptrace::syscall(thread, signal).ok();
}

/// What a call is about to change: none if nothing, and the file where it is one that is opened or open.
fn written(thread: Pid, registers: &libc::user_regs_struct) -> Option<Option<PathBuf>> {
    let (call, [first, second, third]) = arguments(registers);
    let open = |number: u64| std::fs::read_link(format!("/proc/{thread}/fd/{number}")).ok();
    match call {
        libc::SYS_write
        | libc::SYS_pwrite64
        | libc::SYS_writev
        | libc::SYS_sendfile
        | libc::SYS_ftruncate
        | libc::SYS_fallocate => open(first).map(Some),
        libc::SYS_copy_file_range => open(third).map(Some),
        libc::SYS_openat => {
            let flags = i32::try_from(third & 0xffff_ffff).ok()?;
            if flags & (libc::O_CREAT | libc::O_TRUNC) == 0 {
                return None;
            }
            let name = text_at(thread, second)?;
            // An absolute name stands for itself, whatever it is joined to.
            Some(Some(open(first).unwrap_or_default().join(name)))
        }
        libc::SYS_mkdirat
        | libc::SYS_unlinkat
        | libc::SYS_linkat
        | libc::SYS_symlinkat
        | libc::SYS_renameat
        | libc::SYS_renameat2 => Some(None),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_unlink
        | libc::SYS_link
        | libc::SYS_symlink
        | libc::SYS_rename => Some(None),
        _ => None,
    }
}

/// The text at an address of a process that stands still.
fn text_at(thread: Pid, address: u64) -> Option<PathBuf> {
    let memory = std::fs::File::open(format!("/proc/{thread}/mem")).ok()?;
    let mut bytes = vec![0; usize::try_from(libc::PATH_MAX).ok()?];
    let read = memory.read_at(&mut bytes, address).ok()?;
    bytes.truncate(read);
    let text = bytes.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(text)))
}

/// The number of a call, and its first three arguments.
#[cfg(target_arch = "x86_64")]
fn arguments(registers: &libc::user_regs_struct) -> (i64, [u64; 3]) {
    let call = i64::try_from(registers.orig_rax).unwrap_or(-1);
    (call, [registers.rdi, registers.rsi, registers.rdx])
}

/// The number of a call, and its first three arguments.
#[cfg(target_arch = "aarch64")]
fn arguments(registers: &libc::user_regs_struct) -> (i64, [u64; 3]) {
    let call = i64::try_from(registers.regs[8]).unwrap_or(-1);
    let [first, second, third, ..] = registers.regs;
    (call, [first, second, third])
}
