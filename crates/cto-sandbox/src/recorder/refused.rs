//! What a refused call was about, in a few words.

use libc::c_long;

use crate::attempt::TARGET_BYTES_MAX;
use crate::sys::notifying::Asked;

use super::address::Address;
use super::memory::{Memory, lossy};

/// No memory is mapped below.
const POINTERS: u64 = 0x1_0000;

/// Returns what a refused call was about, as far as its registers and one path tell.
pub(super) fn target(asked: &Asked) -> String {
    let [first, second, third, ..] = asked.call.arguments;
    let memory = Memory {
        thread: asked.thread,
    };
    let path = |address| {
        let mut bytes = Vec::new();
        let read = memory.path(address, &mut bytes);
        read.ok()
            .filter(|()| !bytes.is_empty())
            .map(|()| lossy(&bytes, TARGET_BYTES_MAX))
    };
    // A pointer says nothing, and is another one each time.
    let plain = || match first {
        0..POINTERS => format!("{first:#x}"),
        _ => String::new(),
    };
    match c_long::from(asked.call.number) {
        libc::SYS_mount
        | libc::SYS_move_mount
        | libc::SYS_open_tree
        | libc::SYS_fspick
        | libc::SYS_name_to_handle_at
        | libc::SYS_mount_setattr => path(second).unwrap_or_else(plain),
        libc::SYS_umount2
        | libc::SYS_pivot_root
        | libc::SYS_chroot
        | libc::SYS_fsopen
        | libc::SYS_swapon
        | libc::SYS_swapoff
        | libc::SYS_acct => path(first).unwrap_or_else(plain),
        libc::SYS_socket => format!("family {first}, type {second:#x}, protocol {third}"),
        libc::SYS_unshare | libc::SYS_clone => format!("flags {first:#x}"),
        libc::SYS_ioctl => format!("request {second:#x}"),
        libc::SYS_setsockopt => format!("level {second}, option {third}"),
        libc::SYS_sendto => {
            let [.., to, length] = asked.call.arguments;
            let to = memory.address(to, length).unwrap_or(Address::Other);
            format!("{to}, fast open")
        }
        libc::SYS_sendmsg | libc::SYS_sendmmsg => "fast open".to_owned(),
        libc::SYS_ptrace => format!("request {first}, process {second}"),
        _ => plain(),
    }
}
