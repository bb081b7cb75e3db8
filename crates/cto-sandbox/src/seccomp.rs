//! The system call filter: a list of calls that are refused, compiled to the kernel's byte code.
//!
//! A list of the refused and not of the allowed: honest tools use more calls than anybody has listed, and the mounts and
//! namespaces hold without it. It closes the doors to kernel code that a build never needs.
//! Written by hand rather than with a library, because some calls need their own answer (`clone3`) and the architecture
//! check must also cover x32.

use libc::{c_long, sock_filter};

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

const SOCKET_TYPE_MASK: u32 = 0xf;
const TCP_FASTOPEN: u32 = 23;
const TCP_FASTOPEN_CONNECT: u32 = 30;
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
/// Newer than the library's list; the same on every architecture.
const SYS_OPEN_TREE_ATTR: c_long = 467;

/// Refused whatever their arguments are.
const REFUSED: &[c_long] = &[
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    // Ways around the checks of other calls.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Large parts of the kernel that a build does not need.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
    #[cfg(target_arch = "x86_64")]
    libc::SYS__sysctl,
];

/// Returns the filter. It is the same for every launch.
pub(crate) fn filter() -> Vec<sock_filter> {
    let mut code = Code(Vec::new());
    code.load(ARCHITECTURE);
    code.unless(EQUAL, NATIVE, KILL);
    code.load(NUMBER);
    code.when(AT_LEAST, X32, KILL);
    for &call in REFUSED {
        code.when(EQUAL, number(call), REFUSE);
    }
    code.when(EQUAL, number(libc::SYS_clone3), UNKNOWN);
    code.for_call(libc::SYS_clone, |code| {
        code.load_argument(0);
        code.when(ANY_BIT, NEW_NAMESPACE, REFUSE);
    });
    code.for_call(libc::SYS_ioctl, |code| {
        code.load_argument(1);
        code.when(EQUAL, TIOCSTI, REFUSE);
        code.when(EQUAL, TIOCLINUX, REFUSE);
    });
    for (call, flags) in [
        (libc::SYS_sendto, 3),
        (libc::SYS_sendmsg, 2),
        (libc::SYS_sendmmsg, 3),
    ] {
        code.for_call(call, |code| {
            code.load_argument(flags);
            code.when(ANY_BIT, libc::MSG_FASTOPEN as u32, REFUSE);
        });
    }
    code.for_call(libc::SYS_setsockopt, |code| {
        code.load_argument(1);
        code.unless(EQUAL, libc::IPPROTO_TCP as u32, ALLOW);
        code.load_argument(2);
        code.when(EQUAL, TCP_FASTOPEN, REFUSE);
        code.when(EQUAL, TCP_FASTOPEN_CONNECT, REFUSE);
    });
    code.for_call(libc::SYS_socket, socket);
    code.give(ALLOW);
    code.0
}

/// Local sockets of any kind; TCP and UDP; of netlink only the routes, which `getifaddrs` reads.
fn socket(code: &mut Code) {
    code.load_argument(0);
    code.when(EQUAL, libc::AF_UNIX as u32, ALLOW);
    let netlink = code.block(|code| {
        code.load_argument(2);
        code.when(EQUAL, libc::NETLINK_ROUTE as u32, ALLOW);
        code.give(REFUSE);
    });
    code.run_when(libc::AF_NETLINK as u32, netlink);
    let internet = code.block(|code| {
        code.load_argument(1);
        code.0.push(statement(MASK, SOCKET_TYPE_MASK));
        let known = code.block(|code| {
            code.load_argument(2);
            for protocol in [0, libc::IPPROTO_TCP as u32, libc::IPPROTO_UDP as u32] {
                code.when(EQUAL, protocol, ALLOW);
            }
            code.give(REFUSE);
        });
        code.run_when(libc::SOCK_STREAM as u32, known.clone());
        code.run_when(libc::SOCK_DGRAM as u32, known);
        code.give(REFUSE);
    });
    code.run_when(libc::AF_INET as u32, internet.clone());
    code.run_when(libc::AF_INET6 as u32, internet);
    code.give(REFUSE);
}

/// Instructions in order. Jumps go forward over one answer or one block, so none can miss its target.
struct Code(Vec<sock_filter>);

impl Code {
    fn load(&mut self, offset: u32) {
        self.0.push(statement(LOAD, offset));
    }

    /// Loads the lower half, which is all that the kernel looks at in these arguments.
    fn load_argument(&mut self, index: u32) {
        let low = if cfg!(target_endian = "big") { 4 } else { 0 };
        self.load(ARGUMENTS + 8 * index + low);
    }

    fn give(&mut self, answer: u32) {
        self.0.push(statement(RETURN, answer));
    }

    fn when(&mut self, test: u16, value: u32, answer: u32) {
        self.0.push(jump(test, value, 0, 1));
        self.give(answer);
    }

    fn unless(&mut self, test: u16, value: u32, answer: u32) {
        self.0.push(jump(test, value, 1, 0));
        self.give(answer);
    }

    fn block(&self, fill: impl FnOnce(&mut Self)) -> Vec<sock_filter> {
        let mut block = Self(Vec::new());
        fill(&mut block);
        block.0
    }

    /// Runs a block, which must answer, when the loaded value is this one.
    fn run_when(&mut self, value: u32, block: Vec<sock_filter>) {
        let over = u8::try_from(block.len()).unwrap_or(u8::MAX);
        assert!(usize::from(over) == block.len(), "a block is short");
        self.0.push(jump(EQUAL, value, 0, over));
        self.0.extend(block);
    }

    /// Looks at the arguments of one call; what the block does not answer is allowed.
    fn for_call(&mut self, call: c_long, fill: impl FnOnce(&mut Self)) {
        let mut block = self.block(fill);
        block.push(statement(RETURN, ALLOW));
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs the filter as the kernel does.
    fn answer_on(architecture: u32, call: u32, arguments: [u64; 6]) -> u32 {
        let code = filter();
        let word = |offset: u32| match offset {
            NUMBER => call,
            ARCHITECTURE => architecture,
            _ => {
                let bytes = arguments.map(u64::to_ne_bytes).concat();
                let at = usize::try_from(offset - ARGUMENTS).unwrap();
                u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
            }
        };
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = code[at];
            at += 1;
            let skip = |yes: bool| usize::from(if yes { jt } else { jf });
            match code {
                LOAD => value = word(k),
                MASK => value &= k,
                EQUAL => at += skip(value == k),
                AT_LEAST => at += skip(value >= k),
                ANY_BIT => at += skip(value & k != 0),
                RETURN => return k,
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    fn answer(call: c_long, arguments: &[i32]) -> u32 {
        let mut all = [0; 6];
        for (place, argument) in all.iter_mut().zip(arguments) {
            *place = u64::from(argument.cast_unsigned());
        }
        answer_on(NATIVE, number(call), all)
    }

    #[test]
    fn sockets_are_local_or_tcp_or_udp_or_ask_for_routes() {
        let socket =
            |domain, kind, protocol| match answer(libc::SYS_socket, &[domain, kind, protocol]) {
                ALLOW => true,
                REFUSE => false,
                other => panic!("{other:#x}"),
            };
        let stream = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        assert!(socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0));
        assert!(socket(libc::AF_INET, stream, 0));
        assert!(socket(libc::AF_INET6, stream, libc::IPPROTO_TCP));
        assert!(socket(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_UDP));
        assert!(socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_ROUTE
        ));
        assert!(!socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_NETFILTER
        ));
        assert!(!socket(libc::AF_INET, stream, libc::IPPROTO_MPTCP));
        assert!(!socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP));
        assert!(!socket(
            libc::AF_INET6,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            0
        ));
        assert!(!socket(libc::AF_INET, libc::SOCK_DCCP, 0));
        for domain in [
            libc::AF_PACKET,
            libc::AF_VSOCK,
            libc::AF_ALG,
            libc::AF_BLUETOOTH,
            0,
            -1,
        ] {
            assert!(!socket(domain, libc::SOCK_STREAM, 0), "{domain}");
        }
    }

    #[test]
    fn a_fork_is_allowed_and_a_namespace_is_not() {
        assert_eq!(answer(libc::SYS_clone, &[libc::SIGCHLD]), ALLOW);
        let thread = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_SETTLS;
        assert_eq!(answer(libc::SYS_clone, &[thread]), ALLOW);
        for flag in [libc::CLONE_NEWUSER, libc::CLONE_NEWNET, libc::CLONE_NEWNS] {
            assert_eq!(answer(libc::SYS_clone, &[libc::SIGCHLD | flag]), REFUSE);
        }
        assert_eq!(answer(libc::SYS_clone3, &[]), UNKNOWN);
        assert_eq!(answer(libc::SYS_unshare, &[libc::CLONE_NEWUSER]), REFUSE);
    }

    #[test]
    fn single_flags_are_refused_and_their_calls_are_not() {
        assert_eq!(answer(libc::SYS_ioctl, &[0, TIOCSTI.cast_signed()]), REFUSE);
        assert_eq!(answer(libc::SYS_ioctl, &[0, 0x5401]), ALLOW);
        assert_eq!(
            answer(libc::SYS_sendto, &[3, 0, 0, libc::MSG_FASTOPEN]),
            REFUSE
        );
        assert_eq!(
            answer(libc::SYS_sendto, &[3, 0, 0, libc::MSG_NOSIGNAL]),
            ALLOW
        );
        assert_eq!(
            answer(libc::SYS_sendmsg, &[3, 0, libc::MSG_FASTOPEN]),
            REFUSE
        );
        assert_eq!(
            answer(libc::SYS_setsockopt, &[3, libc::IPPROTO_TCP, 30]),
            REFUSE
        );
        assert_eq!(
            answer(libc::SYS_setsockopt, &[3, libc::SOL_SOCKET, 30]),
            ALLOW
        );
    }

    proptest! {
        #[test]
        fn the_upper_half_of_an_argument_hides_nothing(upper in any::<u32>()) {
            let argument = |low: u32| (u64::from(upper) << 32) | u64::from(low);
            let ioctl = [0, argument(TIOCSTI), 0, 0, 0, 0];
            prop_assert_eq!(answer_on(NATIVE, number(libc::SYS_ioctl), ioctl), REFUSE);
            let socket = [argument(libc::AF_VSOCK as u32), 1, 0, 0, 0, 0];
            prop_assert_eq!(answer_on(NATIVE, number(libc::SYS_socket), socket), REFUSE);
        }

        #[test]
        fn every_call_gets_an_answer_and_foreign_ones_die(
            architecture in any::<u32>(),
            call in any::<u32>(),
            arguments in any::<[u64; 6]>(),
        ) {
            let native = answer_on(NATIVE, call, arguments);
            prop_assert_eq!(native == KILL, call >= X32);
            prop_assert!([ALLOW, KILL, REFUSE, UNKNOWN].contains(&native));
            let foreign = answer_on(architecture, call, arguments);
            prop_assert!(architecture == NATIVE || foreign == KILL);
        }
    }
}
