//! How a launch by root stops being root before anything of the command exists.
//!
//! Without capabilities uid 0 still owns the machine's files and settings, so the user itself must change. What the request
//! binds or lays over belongs to root, though: it is mounted with other owners, so that on disk root stays the owner of what
//! the command makes, and inside the command owns it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use crate::mounts::failure;
use crate::sources::Sources;
use crate::sys;
use crate::wire::{Failure, Policy, RootPolicy, Step};

/// Returns whether this process is root and could stop being it.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A user namespace that shows what is root's as this user's, and is used for nothing else.
#[derive(Debug)]
pub(crate) struct Owners {
    id: u32,
    pub(crate) namespace: OwnedFd,
}

impl Owners {
    pub(crate) fn of(id: u32) -> io::Result<Self> {
        let namespace = namespace(id)?;
        Ok(Self { id, namespace })
    }
}

/// Takes hold of all sources as root, with the owners changed. Fails where a file system cannot do that.
pub(crate) fn open_for(
    policy: &Policy,
    root: &RootPolicy,
    ahead: Option<&Owners>,
) -> Result<Sources, Failure> {
    let open = |owners: &Owners| Sources::open(policy, root, Some(owners.namespace.as_fd()));
    match ahead.filter(|owners| owners.id == policy.run_as) {
        Some(owners) => open(owners),
        None => {
            let made = Owners::of(policy.run_as);
            open(&made.map_err(|error| failure(Step::DropPrivileges, &error))?)
        }
    }
}

/// Becomes another user for good.
pub(crate) fn become_user(id: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    // A program may open its own output by name, for which it must own the pipe.
    for stream in [sys::stdout(), sys::stderr()] {
        rustix::fs::fchown(stream, Some(uid), Some(gid)).ok();
    }
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    // The kernel protects a process that changed its user also from itself; the map of its next namespace must be writable.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    Ok(())
}

/// Returns a user namespace that maps root to `id`, and everybody else to himself.
fn namespace(id: u32) -> io::Result<OwnedFd> {
    let parent = rustix::process::getpid();
    let holder = sys::fork_into(libc::CLONE_NEWUSER, || {
        // Whoever started it may be killed before it can end this: then it ends by itself, also if that was before this line.
        let asked = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        if asked.is_err() || rustix::process::getppid() != Some(parent) {
            return 1;
        }
        sys::wait_for_ever()
    })?;
    let namespace = map_and_open(holder, id);
    rustix::process::kill_process(holder, Signal::KILL).ok();
    rustix::process::waitpid(Some(holder), WaitOptions::empty()).ok();
    namespace
}

fn map_and_open(holder: Pid, id: u32) -> io::Result<OwnedFd> {
    let map = map_of_owners(id);
    let process = format!("/proc/{}", holder.as_raw_nonzero());
    for file in ["uid_map", "gid_map"] {
        let path = format!("{process}/{file}");
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path.as_str(), flags, Mode::empty())?;
        rustix::io::write(&file, map.as_bytes())?;
    }
    let path = format!("{process}/ns/user");
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path.as_str(), flags, Mode::empty())?)
}

fn map_of_owners(id: u32) -> String {
    let last = u32::MAX - 1;
    let mut lines = vec![format!("0 {id} 1")];
    if id > 1 {
        lines.push(format!("1 1 {}", id - 1));
    }
    if id < last {
        lines.push(format!("{} {} {}", id + 1, id + 1, last - id));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_shown_as_the_user_and_all_others_as_themselves() {
        assert_eq!(
            map_of_owners(60777),
            "0 60777 1\n1 1 60776\n60778 60778 4294906517"
        );
        assert_eq!(map_of_owners(1), "0 1 1\n2 2 4294967293");
    }
}
