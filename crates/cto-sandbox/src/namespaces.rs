//! From a fresh clone to a usable set of namespaces: maps, private mounts, network, IPC, host name, own `/proc`.
//!
//! Nothing here allocates: the probe runs it in a child of a process with threads.

use std::io;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};

use crate::facts::{Applied, BaseStep, Refusal};
use crate::request::Network;
use crate::sys;

/// A name that resolves everywhere, so that programs that look up their host do not wait for a name server.
const HOST_NAME: &[u8] = b"localhost";

/// The lines that map user and group to themselves, made before the fork.
#[derive(Debug)]
pub(crate) struct IdMaps {
    user: Vec<u8>,
    group: Vec<u8>,
}

impl IdMaps {
    /// Identity on purpose: a map to 0 makes git re-read every file, because its index holds other owners.
    pub(crate) fn identity() -> Self {
        let line = |id: u32| format!("{id} {id} 1").into_bytes();
        Self {
            user: line(rustix::process::geteuid().as_raw()),
            group: line(rustix::process::getegid().as_raw()),
        }
    }
}

/// Completes the namespaces that everything rests on. A refusal here means class `group`.
pub(crate) fn complete_base(maps: &IdMaps) -> Result<(), Refusal> {
    let at = |step| {
        move |error: rustix::io::Errno| Refusal {
            step,
            errno: error.raw_os_error(),
        }
    };
    overwrite(c"/proc/self/setgroups", b"deny").map_err(at(BaseStep::DenySetgroups))?;
    overwrite(c"/proc/self/uid_map", &maps.user).map_err(at(BaseStep::MapUser))?;
    overwrite(c"/proc/self/gid_map", &maps.group).map_err(at(BaseStep::MapGroup))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change(c"/", private).map_err(at(BaseStep::PrivateMounts))
}

fn overwrite(path: &std::ffi::CStr, text: &[u8]) -> rustix::io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text).map(|_| ())
}

/// What the kernel granted beyond the base; each may be missing alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extras {
    pub(crate) network: Applied,
    pub(crate) loopback: Applied,
    pub(crate) ipc: Applied,
    pub(crate) uts: Applied,
    pub(crate) own_proc: Applied,
    pub(crate) no_capabilities: Applied,
}

/// Enters whatever else the kernel grants. The caller stands in a new pid namespace as its init.
pub(crate) fn enter_extras(network: Network) -> Extras {
    let ipc = applied(sys::unshare(libc::CLONE_NEWIPC));
    let uts =
        applied(sys::unshare(libc::CLONE_NEWUTS).and_then(|()| sys::set_host_name(HOST_NAME)));
    let network = match network {
        Network::None => applied(sys::unshare(libc::CLONE_NEWNET)),
        Network::Host => Applied::NotAsked,
    };
    let loopback = match network {
        Applied::Yes => applied(sys::loopback_up()),
        Applied::NotAsked | Applied::Refused { .. } => Applied::NotAsked,
    };
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let proc = rustix::mount::mount(c"proc", c"/proc", c"proc", flags, None);
    Extras {
        network,
        loopback,
        ipc,
        uts,
        own_proc: applied(proc.map_err(io::Error::from)),
        no_capabilities: applied(sys::empty_bounding_set()),
    }
}

/// Returns how an attempt went, as a fact.
pub(crate) fn applied(result: io::Result<()>) -> Applied {
    match result {
        Ok(()) => Applied::Yes,
        Err(error) => Applied::Refused {
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        },
    }
}
