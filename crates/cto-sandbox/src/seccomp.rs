//! The system call filter: a list of calls that are refused, compiled to the kernel's byte code.
//!
//! A list of the refused and not of the allowed: honest tools use more calls than anybody has listed, and the mounts and
//! namespaces hold without it. It closes the doors to kernel code that a build never needs.
//! Written by hand rather than with a library, because some calls need their own answer (`clone3`) and the architecture
//! check must also cover x32.

use libc::{c_long, sock_filter};

use crate::calls::{REFUSED, WATCHED, Watched, When};

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const ANY_BIT: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
const MASK: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// Offsets in the kernel's `seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
/// Asks the recorder, or refuses with ENOSYS where it is gone.
const ASK: u32 = libc::SECCOMP_RET_USER_NOTIF;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
/// What an older kernel says: the C library then uses `clone`, whose flags can be looked at.
const UNKNOWN: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
const NATIVE: u32 = 0xc000_00f3;

/// Numbers from here on are x32 calls; no architecture has so many of its own.
const X32: u32 = 0x4000_0000;

const NEW_NAMESPACE: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// As `clone3` takes it; in the flags of `clone` the same bit is part of a signal's number.
const NEW_TIME: u32 = libc::CLONE_NEWTIME as u32;
/// The first version of what `clone3` is given; the kernel reads nothing of a shorter one.
const CLONE_ARGUMENTS_BYTES_MIN: u64 = 64;

const SOCKET_TYPE_MASK: u32 = 0xf;
const TCP_FASTOPEN: u32 = 23;
const TCP_FASTOPEN_CONNECT: u32 = 30;
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
/// Returns the filter that answers all calls itself. It is the same for every launch.
pub(crate) fn filter() -> Vec<sock_filter> {
    build(Answers {
        refuse: REFUSE,
        unknown: UNKNOWN,
        foreign: KILL,
        watched: &[],
    })
}

/// Returns the filter that asks the recorder about every call that the other one does not allow, and about some more.
pub(crate) fn asking_filter() -> Vec<sock_filter> {
    build(Answers {
        refuse: ASK,
        unknown: ASK,
        foreign: ASK,
        watched: WATCHED,
    })
}

/// Returns a filter that allows everything, to try whether one with a listener can be had.
pub(crate) fn allowing_filter() -> [sock_filter; 1] {
    [statement(RETURN, ALLOW)]
}

#[derive(Clone, Copy)]
struct Answers {
    refuse: u32,
    /// To a call that this kernel is said not to have.
    unknown: u32,
    foreign: u32,
    watched: &'static [Watched],
}

impl Answers {
    fn watch_of(&self, call: c_long) -> Option<&'static Watched> {
        self.watched.iter().find(|watched| watched.call == call)
    }
}

fn build(answers: Answers) -> Vec<sock_filter> {
    let Answers {
        refuse,
        unknown,
        foreign,
        watched: _,
    } = answers;
    let mut code = Code {
        list: Vec::new(),
        answers,
    };
    code.load(ARCHITECTURE);
    code.unless(EQUAL, NATIVE, foreign);
    code.load(NUMBER);
    code.when(AT_LEAST, X32, foreign);
    for &(call, _) in REFUSED {
        code.when(EQUAL, number(call), refuse);
    }
    // Its flags lie in memory, where a filter can't look.
    code.when(EQUAL, number(libc::SYS_clone3), unknown);
    code.for_call(libc::SYS_clone, |code| {
        code.load_argument(0);
        code.when(ANY_BIT, NEW_NAMESPACE, refuse);
    });
    code.for_call(libc::SYS_ioctl, |code| {
        code.load_argument(1);
        code.when(EQUAL, TIOCSTI, refuse);
        code.when(EQUAL, TIOCLINUX, refuse);
    });
    let sends = [
        (libc::SYS_sendto, 3),
        (libc::SYS_sendmsg, 2),
        (libc::SYS_sendmmsg, 3),
    ];
    for (call, flags) in sends {
        code.for_call(call, |code| {
            code.load_argument(flags);
            code.when(ANY_BIT, libc::MSG_FASTOPEN as u32, refuse);
        });
    }
    code.for_call(libc::SYS_setsockopt, |code| {
        code.load_argument(1);
        code.unless(EQUAL, libc::IPPROTO_TCP as u32, ALLOW);
        code.load_argument(2);
        code.when(EQUAL, TCP_FASTOPEN, refuse);
        code.when(EQUAL, TCP_FASTOPEN_CONNECT, refuse);
    });
    code.for_call(libc::SYS_socket, |code| socket(code, refuse));
    for watched in answers.watched {
        if sends.iter().all(|(call, _)| *call != watched.call) {
            code.for_call(watched.call, |_| {});
        }
    }
    code.give(ALLOW);
    code.list
}

/// What the kernel tells a filter about a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) architecture: u32,
    pub(crate) number: u32,
    pub(crate) arguments: [u64; 6],
}

impl Call {
    /// Returns whether the caller asks to become another program.
    pub(crate) fn is_execution(&self) -> bool {
        let number = c_long::from(self.number);
        number == libc::SYS_execve || number == libc::SYS_execveat
    }
}

/// What a filter wants done with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allow,
    Refuse,
    /// Refuse it as a kernel does that does not have it.
    Unknown,
    Kill,
}

/// Returns what the filter that answers itself says of a call. Anything unexpected is a refusal.
pub(crate) fn verdict(filter: &[sock_filter], call: &Call) -> Verdict {
    match run(filter, call) {
        Some(ALLOW) => Verdict::Allow,
        Some(KILL) => Verdict::Kill,
        Some(UNKNOWN) => Verdict::Unknown,
        Some(_) | None => Verdict::Refuse,
    }
}

/// Returns whether the kernel would look at what this `clone3` is given, and so at its flags.
pub(crate) fn has_flags(call: &Call) -> bool {
    call.arguments[1] >= CLONE_ARGUMENTS_BYTES_MIN
}

/// Returns whether a `clone3` with these flags wants a namespace of its own.
pub(crate) fn wants_namespace(flags: u64) -> bool {
    flags & u64::from(NEW_NAMESPACE | NEW_TIME) != 0
}

/// Runs a filter as the kernel does.
fn run(filter: &[sock_filter], call: &Call) -> Option<u32> {
    let word = |offset: u32| match offset {
        NUMBER => Some(call.number),
        ARCHITECTURE => Some(call.architecture),
        _ => {
            let offset = usize::try_from(offset.checked_sub(ARGUMENTS)?).ok()?;
            let bytes = call.arguments.get(offset / 8)?.to_ne_bytes();
            let half = bytes.get(offset % 8..offset % 8 + 4)?;
            Some(u32::from_ne_bytes(half.try_into().ok()?))
        }
    };
    let (mut at, mut value) = (0, 0);
    loop {
        let &sock_filter { code, jt, jf, k } = filter.get(at)?;
        at += 1;
        let skip = |yes: bool| usize::from(if yes { jt } else { jf });
        match code {
            LOAD => value = word(k)?,
            MASK => value &= k,
            EQUAL => at += skip(value == k),
            AT_LEAST => at += skip(value >= k),
            ANY_BIT => at += skip(value & k != 0),
            RETURN => return Some(k),
            _ => return None,
        }
    }
}

/// Local sockets of any kind; TCP and UDP; of netlink only the routes, which `getifaddrs` reads.
fn socket(code: &mut Code, refuse: u32) {
    code.load_argument(0);
    code.when(EQUAL, libc::AF_UNIX as u32, ALLOW);
    let netlink = code.block(|code| {
        code.load_argument(2);
        code.when(EQUAL, libc::NETLINK_ROUTE as u32, ALLOW);
        code.give(refuse);
    });
    code.run_when(libc::AF_NETLINK as u32, netlink);
    let internet = code.block(|code| {
        code.load_argument(1);
        code.list.push(statement(MASK, SOCKET_TYPE_MASK));
        let known = code.block(|code| {
            code.load_argument(2);
            for protocol in [0, libc::IPPROTO_TCP as u32, libc::IPPROTO_UDP as u32] {
                code.when(EQUAL, protocol, ALLOW);
            }
            code.give(refuse);
        });
        code.run_when(libc::SOCK_STREAM as u32, known.clone());
        code.run_when(libc::SOCK_DGRAM as u32, known);
        code.give(refuse);
    });
    code.run_when(libc::AF_INET as u32, internet.clone());
    code.run_when(libc::AF_INET6 as u32, internet);
    code.give(refuse);
}

/// Instructions in order. Jumps go forward over one answer or one block, so none can miss its target.
struct Code {
    list: Vec<sock_filter>,
    answers: Answers,
}

impl Code {
    fn load(&mut self, offset: u32) {
        self.list.push(statement(LOAD, offset));
    }

    /// Loads the lower half, which is all that the kernel looks at in these arguments.
    fn load_argument(&mut self, index: u32) {
        let low = if cfg!(target_endian = "big") { 4 } else { 0 };
        self.load(ARGUMENTS + 8 * index + low);
    }

    fn ask_when(&mut self, when: When) {
        match when {
            When::Always => self.give(ASK),
            When::AnyBit(argument, bits) => {
                self.load_argument(argument);
                self.when(ANY_BIT, bits, ASK);
            }
            // Also a pointer: both halves.
            When::NotZero(argument) => {
                for half in [0, 4] {
                    self.load(ARGUMENTS + 8 * argument + half);
                    self.unless(EQUAL, 0, ASK);
                }
            }
            When::Is(argument, value) => {
                self.load_argument(argument);
                self.when(EQUAL, value, ASK);
            }
        }
    }

    fn give(&mut self, answer: u32) {
        self.list.push(statement(RETURN, answer));
    }

    fn when(&mut self, test: u16, value: u32, answer: u32) {
        self.list.push(jump(test, value, 0, 1));
        self.give(answer);
    }

    fn unless(&mut self, test: u16, value: u32, answer: u32) {
        self.list.push(jump(test, value, 1, 0));
        self.give(answer);
    }

    fn block(&self, fill: impl FnOnce(&mut Self)) -> Vec<sock_filter> {
        let mut block = Self {
            list: Vec::new(),
            answers: self.answers,
        };
        fill(&mut block);
        block.list
    }

    /// Runs a block, which must answer, when the loaded value is this one.
    fn run_when(&mut self, value: u32, block: Vec<sock_filter>) {
        let over = u8::try_from(block.len()).unwrap_or(u8::MAX);
        assert!(usize::from(over) == block.len(), "a block is short");
        self.list.push(jump(EQUAL, value, 0, over));
        self.list.extend(block);
    }

    /// Looks at the arguments of one call; what the block does not answer is asked about or allowed.
    fn for_call(&mut self, call: c_long, fill: impl FnOnce(&mut Self)) {
        let block = self.block(|code| {
            fill(code);
            if let Some(watched) = code.answers.watch_of(call) {
                code.ask_when(watched.when);
            }
            code.give(ALLOW);
        });
        self.run_when(number(call), block);
    }
}

fn number(call: c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

fn statement(code: u16, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests;
