use proptest::prelude::*;

use super::*;

fn answer_on(architecture: u32, call: u32, arguments: [u64; 6]) -> u32 {
    let call = Call {
        architecture,
        number: call,
        arguments,
    };
    run(&filter(), &call).unwrap()
}

fn asking_answer(call: u32, arguments: [u64; 6]) -> u32 {
    let call = Call {
        architecture: NATIVE,
        number: call,
        arguments,
    };
    run(&asking_filter(), &call).unwrap()
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
    let socket = |domain, kind, protocol| match answer(libc::SYS_socket, &[domain, kind, protocol])
    {
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
fn a_clone3_is_asked_about_and_never_allowed() {
    let clone3 = |arguments| Call {
        architecture: NATIVE,
        number: number(libc::SYS_clone3),
        arguments,
    };
    for arguments in [[0; 6], [0x7fff_0000, 88, 0, 0, 0, 0], [u64::MAX; 6]] {
        assert_eq!(asking_answer(number(libc::SYS_clone3), arguments), ASK);
        assert_eq!(verdict(&filter(), &clone3(arguments)), Verdict::Unknown);
    }
    assert!(has_flags(&clone3([0, 64, 0, 0, 0, 0])));
    assert!(!has_flags(&clone3([0, 63, 0, 0, 0, 0])));
}

#[test]
fn each_kind_of_namespace_is_known_by_its_flag_and_nothing_else_is() {
    let wanted = (0..64).filter(|bit| wants_namespace(1 << bit));
    // time, mnt, cgroup, uts, ipc, user, pid, net
    assert_eq!(wanted.collect::<Vec<_>>(), [7, 17, 25, 26, 27, 28, 29, 30]);
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

    #[test]
    fn the_recorder_is_asked_about_all_that_is_not_allowed(call in 0_u32..600, arguments in any::<[u64; 6]>()) {
        let asked = asking_answer(call, arguments);
        prop_assert!([ALLOW, ASK].contains(&asked));
        if answer_on(NATIVE, call, arguments) != ALLOW {
            prop_assert_eq!(asked, ASK);
        }
    }
}

#[test]
fn writing_is_told_and_reading_is_not() {
    let asks = |call: c_long, arguments: &[i32]| {
        let mut all = [0; 6];
        for (place, argument) in all.iter_mut().zip(arguments) {
            *place = u64::from(argument.cast_unsigned());
        }
        asking_answer(number(call), all) == ASK
    };
    let open = |flags| asks(libc::SYS_openat, &[libc::AT_FDCWD, 1, flags]);
    assert!(!open(libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECTORY));
    assert!(open(libc::O_WRONLY) && open(libc::O_RDWR) && open(libc::O_CREAT));
    assert!(open(libc::O_RDONLY | libc::O_TRUNC));
    assert!(asks(libc::SYS_renameat2, &[]) && asks(libc::SYS_execve, &[]));
    assert!(!asks(libc::SYS_sendto, &[3, 1, 1, 0, 0]));
    assert!(asks(libc::SYS_sendto, &[3, 1, 1, 0, 1]));
    assert!(asks(libc::SYS_sendto, &[3, 1, 1, libc::MSG_FASTOPEN, 0]));
    assert!(!asks(libc::SYS_kill, &[9, 0]) && asks(libc::SYS_kill, &[9, 15]));
    assert!(!asks(libc::SYS_tgkill, &[9, 9, 15]) && asks(libc::SYS_tgkill, &[1, 1, 15]));
    assert!(!asks(libc::SYS_read, &[0, 1, 1]) && !asks(libc::SYS_clone, &[libc::SIGCHLD]));
}
