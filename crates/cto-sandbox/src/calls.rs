//! The system calls that the filter knows: those that it refuses, and those that the recorder is told about.
//!
//! Reading is never told: an honest build opens thousands of files for every one that it writes.

use libc::c_long;

/// Missing in the library's list for this architecture.
#[cfg(target_arch = "x86_64")]
const SYS_RENAMEAT: c_long = libc::SYS_renameat;
#[cfg(target_arch = "aarch64")]
const SYS_RENAMEAT: c_long = 38;
/// Newer than the library's list; the same on every architecture.
const SYS_FCHMODAT2: c_long = 452;
const SYS_SETXATTRAT: c_long = 463;
const SYS_REMOVEXATTRAT: c_long = 466;
const SYS_OPEN_TREE_ATTR: c_long = 467;

/// Refused whatever their arguments are, with their names.
pub(crate) const REFUSED: &[(c_long, &str)] = &[
    // Namespaces and mounts.
    (libc::SYS_unshare, "unshare"),
    (libc::SYS_setns, "setns"),
    (libc::SYS_mount, "mount"),
    (libc::SYS_umount2, "umount2"),
    (libc::SYS_pivot_root, "pivot_root"),
    (libc::SYS_chroot, "chroot"),
    (libc::SYS_fsopen, "fsopen"),
    (libc::SYS_fsconfig, "fsconfig"),
    (libc::SYS_fsmount, "fsmount"),
    (libc::SYS_fspick, "fspick"),
    (libc::SYS_open_tree, "open_tree"),
    (SYS_OPEN_TREE_ATTR, "open_tree_attr"),
    (libc::SYS_move_mount, "move_mount"),
    (libc::SYS_mount_setattr, "mount_setattr"),
    // Ways around the checks of other calls.
    (libc::SYS_io_uring_setup, "io_uring_setup"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_io_uring_register, "io_uring_register"),
    (libc::SYS_open_by_handle_at, "open_by_handle_at"),
    (libc::SYS_name_to_handle_at, "name_to_handle_at"),
    // Large parts of the kernel that a build does not need.
    (libc::SYS_bpf, "bpf"),
    (libc::SYS_perf_event_open, "perf_event_open"),
    (libc::SYS_add_key, "add_key"),
    (libc::SYS_request_key, "request_key"),
    (libc::SYS_keyctl, "keyctl"),
    (libc::SYS_userfaultfd, "userfaultfd"),
    (libc::SYS_fanotify_init, "fanotify_init"),
    (libc::SYS_fanotify_mark, "fanotify_mark"),
    // Other processes.
    (libc::SYS_ptrace, "ptrace"),
    (libc::SYS_process_vm_readv, "process_vm_readv"),
    (libc::SYS_process_vm_writev, "process_vm_writev"),
    (libc::SYS_process_madvise, "process_madvise"),
    (libc::SYS_pidfd_getfd, "pidfd_getfd"),
    (libc::SYS_kcmp, "kcmp"),
    // The machine.
    (libc::SYS_kexec_load, "kexec_load"),
    (libc::SYS_init_module, "init_module"),
    (libc::SYS_finit_module, "finit_module"),
    (libc::SYS_delete_module, "delete_module"),
    (libc::SYS_swapon, "swapon"),
    (libc::SYS_swapoff, "swapoff"),
    (libc::SYS_reboot, "reboot"),
    (libc::SYS_quotactl, "quotactl"),
    (libc::SYS_acct, "acct"),
    (libc::SYS_settimeofday, "settimeofday"),
    (libc::SYS_clock_settime, "clock_settime"),
    (libc::SYS_clock_adjtime, "clock_adjtime"),
    (libc::SYS_adjtimex, "adjtimex"),
    (libc::SYS_sethostname, "sethostname"),
    (libc::SYS_setdomainname, "setdomainname"),
    (libc::SYS_syslog, "syslog"),
    (libc::SYS_vhangup, "vhangup"),
    (libc::SYS_nfsservctl, "nfsservctl"),
    (libc::SYS_lookup_dcookie, "lookup_dcookie"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_kexec_file_load, "kexec_file_load"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_iopl, "iopl"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_ioperm, "ioperm"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_modify_ldt, "modify_ldt"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_uselib, "uselib"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_ustat, "ustat"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_sysfs, "sysfs"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS__sysctl, "_sysctl"),
];

/// Refused only with some of their arguments.
const REFUSED_IN_PART: &[(c_long, &str)] = &[
    (libc::SYS_clone, "clone"),
    (libc::SYS_clone3, "clone3"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_sendmmsg, "sendmmsg"),
    (libc::SYS_setsockopt, "setsockopt"),
    (libc::SYS_socket, "socket"),
];

/// Returns the name of a call that can be refused.
pub(crate) fn refused_name(call: c_long) -> Option<&'static str> {
    let mut all = REFUSED.iter().chain(REFUSED_IN_PART);
    all.find(|(number, _)| *number == call)
        .map(|(_, name)| *name)
}

/// A call that goes on after the recorder has looked at it. Numbers are indexes of arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    pub(crate) call: c_long,
    pub(crate) what: &'static str,
    pub(crate) when: When,
    pub(crate) look: Look,
}

/// For which arguments a call is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Always,
    AnyBit(u32, u32),
    NotZero(u32),
    Is(u32, u32),
}

/// What of a call decides whether it is likely to be refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    /// The file, or the place where it would be made; flags by value, or those of `creat`.
    Open(At, Option<usize>),
    /// As before; flags in memory.
    OpenHow(At, usize),
    /// The directory of a name.
    Entry(At),
    /// The directory of a name that is to be new; many programs make every directory on their way, and most are there.
    NewEntry(At),
    /// The directories of two names.
    Entries(At, At),
    /// As before; and where the flags are, if there are any.
    Rename(At, At, Option<usize>),
    /// The file itself, or its link.
    File(At, Links),
    /// An open file.
    Descriptor(usize),
    /// A socket address: pointer and length.
    Address(usize, usize),
    /// The address in a message header.
    Message(usize),
    /// The addresses in a list of message headers.
    Messages(usize),
    Exec(At, usize),
    Signal(usize),
    /// Nothing: the call itself is worth a note.
    Itself,
}

/// A path: the argument with its directory, if there is one, and that of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At(pub(crate) Option<usize>, pub(crate) usize);

/// Whether a link at the end of a path is followed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Links {
    Followed,
    Kept,
    /// As the flags in this argument say.
    Flags(usize),
}

const WRITES: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u32;
/// The init inside.
const INIT: u32 = 1;

const fn watched(call: c_long, what: &'static str, look: Look) -> Watched {
    Watched {
        call,
        what,
        when: When::Always,
        look,
    }
}

const fn watched_when(call: c_long, what: &'static str, when: When, look: Look) -> Watched {
    Watched {
        call,
        what,
        when,
        look,
    }
}

const OPEN: &str = "open for writing";

/// Told to the recorder, the most frequent first.
pub(crate) const WATCHED: &[Watched] = &[
    watched_when(
        libc::SYS_openat,
        OPEN,
        When::AnyBit(2, WRITES),
        Look::Open(At(Some(0), 1), Some(2)),
    ),
    #[cfg(target_arch = "x86_64")]
    watched_when(
        libc::SYS_open,
        OPEN,
        When::AnyBit(1, WRITES),
        Look::Open(At(None, 0), Some(1)),
    ),
    #[cfg(target_arch = "x86_64")]
    watched(libc::SYS_unlink, "remove", Look::Entry(At(None, 0))),
    watched(libc::SYS_unlinkat, "remove", Look::Entry(At(Some(0), 1))),
    #[cfg(target_arch = "x86_64")]
    watched(
        libc::SYS_rename,
        "rename",
        Look::Rename(At(None, 0), At(None, 1), None),
    ),
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    watched(
        SYS_RENAMEAT,
        "rename",
        Look::Rename(At(Some(0), 1), At(Some(2), 3), None),
    ),
    watched(
        libc::SYS_renameat2,
        "rename",
        Look::Rename(At(Some(0), 1), At(Some(2), 3), Some(4)),
    ),
    #[cfg(target_arch = "x86_64")]
    watched(
        libc::SYS_link,
        "link",
        Look::Entries(At(None, 0), At(None, 1)),
    ),
    watched(
        libc::SYS_linkat,
        "link",
        Look::Entries(At(Some(0), 1), At(Some(2), 3)),
    ),
    #[cfg(target_arch = "x86_64")]
    watched(
        libc::SYS_mkdir,
        "make directory",
        Look::NewEntry(At(None, 0)),
    ),
    watched(
        libc::SYS_mkdirat,
        "make directory",
        Look::NewEntry(At(Some(0), 1)),
    ),
    #[cfg(target_arch = "x86_64")]
    watched(libc::SYS_rmdir, "remove", Look::Entry(At(None, 0))),
    watched(libc::SYS_execve, "exec", Look::Exec(At(None, 0), 1)),
    watched(libc::SYS_execveat, "exec", Look::Exec(At(Some(0), 1), 2)),
    #[cfg(target_arch = "x86_64")]
    watched(libc::SYS_creat, OPEN, Look::Open(At(None, 0), None)),
    watched(libc::SYS_openat2, OPEN, Look::OpenHow(At(Some(0), 1), 2)),
    #[cfg(target_arch = "x86_64")]
    watched(libc::SYS_symlink, "symlink", Look::Entry(At(None, 1))),
    watched(libc::SYS_symlinkat, "symlink", Look::Entry(At(Some(1), 2))),
    #[cfg(target_arch = "x86_64")]
    watched(libc::SYS_mknod, "make node", Look::Entry(At(None, 0))),
    watched(libc::SYS_mknodat, "make node", Look::Entry(At(Some(0), 1))),
    watched(
        libc::SYS_truncate,
        "truncate",
        Look::File(At(None, 0), Links::Followed),
    ),
    // Attributes.
    #[cfg(target_arch = "x86_64")]
    watched(
        libc::SYS_chmod,
        "change mode",
        Look::File(At(None, 0), Links::Followed),
    ),
    watched(
        libc::SYS_fchmodat,
        "change mode",
        Look::File(At(Some(0), 1), Links::Followed),
    ),
    watched(
        SYS_FCHMODAT2,
        "change mode",
        Look::File(At(Some(0), 1), Links::Flags(3)),
    ),
    watched(libc::SYS_fchmod, "change mode", Look::Descriptor(0)),
    #[cfg(target_arch = "x86_64")]
    watched(
        libc::SYS_chown,
        "change owner",
        Look::File(At(None, 0), Links::Followed),
    ),
    #[cfg(target_arch = "x86_64")]
    watched(
        libc::SYS_lchown,
        "change owner",
        Look::File(At(None, 0), Links::Kept),
    ),
    watched(
        libc::SYS_fchownat,
        "change owner",
        Look::File(At(Some(0), 1), Links::Flags(4)),
    ),
    watched(libc::SYS_fchown, "change owner", Look::Descriptor(0)),
    #[cfg(target_arch = "x86_64")]
    watched(
        libc::SYS_utime,
        "change times",
        Look::File(At(None, 0), Links::Followed),
    ),
    #[cfg(target_arch = "x86_64")]
    watched(
        libc::SYS_utimes,
        "change times",
        Look::File(At(None, 0), Links::Followed),
    ),
    #[cfg(target_arch = "x86_64")]
    watched(
        libc::SYS_futimesat,
        "change times",
        Look::File(At(Some(0), 1), Links::Followed),
    ),
    watched(
        libc::SYS_utimensat,
        "change times",
        Look::File(At(Some(0), 1), Links::Flags(3)),
    ),
    watched(
        libc::SYS_setxattr,
        "set attribute",
        Look::File(At(None, 0), Links::Followed),
    ),
    watched(
        libc::SYS_lsetxattr,
        "set attribute",
        Look::File(At(None, 0), Links::Kept),
    ),
    watched(libc::SYS_fsetxattr, "set attribute", Look::Descriptor(0)),
    watched(
        SYS_SETXATTRAT,
        "set attribute",
        Look::File(At(Some(0), 1), Links::Flags(2)),
    ),
    watched(
        libc::SYS_removexattr,
        "remove attribute",
        Look::File(At(None, 0), Links::Followed),
    ),
    watched(
        libc::SYS_lremovexattr,
        "remove attribute",
        Look::File(At(None, 0), Links::Kept),
    ),
    watched(
        libc::SYS_fremovexattr,
        "remove attribute",
        Look::Descriptor(0),
    ),
    watched(
        SYS_REMOVEXATTRAT,
        "remove attribute",
        Look::File(At(Some(0), 1), Links::Flags(2)),
    ),
    // Addresses. A send on a connected socket has none, and is not told.
    watched(libc::SYS_connect, "connect", Look::Address(1, 2)),
    watched(libc::SYS_bind, "bind", Look::Address(1, 2)),
    watched_when(
        libc::SYS_sendto,
        "send",
        When::NotZero(4),
        Look::Address(4, 5),
    ),
    watched(libc::SYS_sendmsg, "send", Look::Message(1)),
    watched(libc::SYS_sendmmsg, "send", Look::Messages(1)),
    // A filter of its own can answer before this one asks, and so hide from the recorder what it refuses.
    watched_when(
        libc::SYS_seccomp,
        "own filter",
        When::Is(0, libc::SECCOMP_SET_MODE_FILTER),
        Look::Itself,
    ),
    watched_when(
        libc::SYS_prctl,
        "own filter",
        When::Is(0, libc::PR_SET_SECCOMP as u32),
        Look::Itself,
    ),
    // Other processes. Threads signal each other all the time, so there only the init counts.
    watched_when(libc::SYS_kill, "signal", When::NotZero(1), Look::Signal(0)),
    watched_when(
        libc::SYS_tgkill,
        "signal",
        When::Is(0, INIT),
        Look::Signal(0),
    ),
    watched_when(
        libc::SYS_tkill,
        "signal",
        When::Is(0, INIT),
        Look::Signal(0),
    ),
];

/// Returns how the recorder looks at a call.
pub(crate) fn watch_of(call: c_long) -> Option<&'static Watched> {
    WATCHED.iter().find(|watched| watched.call == call)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::attempt::Attempt;

    #[test]
    fn every_call_stands_in_its_list_once_and_has_a_known_word() {
        let refused: BTreeSet<_> = REFUSED.iter().map(|(call, _)| *call).collect();
        assert_eq!(refused.len(), REFUSED.len());
        let watched: BTreeSet<_> = WATCHED.iter().map(|watched| watched.call).collect();
        assert_eq!(watched.len(), WATCHED.len());
        assert!(refused.is_disjoint(&watched));
        for Watched { what, .. } in WATCHED {
            assert!(Attempt::WORDS.contains(what), "{what}");
        }
    }

    #[test]
    fn names_are_those_of_the_kernel() {
        assert_eq!(refused_name(libc::SYS_mount), Some("mount"));
        assert_eq!(refused_name(libc::SYS_socket), Some("socket"));
        assert_eq!(refused_name(libc::SYS_read), None);
    }
}
