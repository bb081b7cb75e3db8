//! The weak mode: what a process can put on itself, for kernels that give it no namespaces.
//!
//! Reads, writes and executions are bounded by Landlock, sockets by the system call filter, and a subreaper leaves nobody
//! behind. What neither can hold (attributes of files, names of processes) is said in the list of layers.

use std::os::unix::net::UnixStream;

use libc::sock_filter;

use crate::building::Built;
use crate::canary::{MountTable, Plan};
use crate::facts::{Applied, Confiner, Facts, Fallback, RootFacts};
use crate::init::{self, RootSetup, say};
use crate::inside::hide_from_command;
use crate::mounts::failure;
use crate::namespaces;
use crate::outcome::{Class, Provider};
use crate::payload::{Image, Restrictions};
use crate::request::{Access, Network};
use crate::ruleset::Rules;
use crate::seccomp;
use crate::sys;
use crate::wire::{self, Failure, Message, Policy, Raw, RootPolicy, Step};

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// Runs the command to its end, or says why not.
pub(crate) fn run(control: &UnixStream, policy: &Policy, image: &Image) -> u8 {
    match prepare(control, policy) {
        Ok(setup) => init::supervise(control, image, Some(setup), Class::Weak),
        Err(failure) => {
            say(control, &Message::Failed(failure));
            wire::EXIT_ORDERLY
        }
    }
}

fn prepare(control: &UnixStream, policy: &Policy) -> Result<RootSetup, Failure> {
    let at = |step: Step| move |error: std::io::Error| failure(step, &error);
    let root = policy.root.as_ref().ok_or(Failure {
        step: Step::Prepare,
        errno: libc::EINVAL,
    })?;
    hide_from_command();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| failure(Step::Prepare, &error.into()))?;
    let uid = rustix::process::geteuid().as_raw();
    // Only uid 0 gains capabilities by executing something, once no_new_privs is set.
    let no_capabilities = match uid {
        0 => namespaces::applied(sys::empty_bounding_set()),
        _ => Applied::Yes,
    };
    let built = in_place(policy, root);
    let rules = Rules::in_place(&built).map_err(at(Step::Landlock))?;
    let landlock = rules.fact;
    if let Applied::Refused { errno } = landlock.applied {
        // Without it nothing would be weak, only open.
        return Err(Failure {
            step: Step::Landlock,
            errno,
        });
    }
    let restrictions = Restrictions {
        rules,
        filter: filter(policy.network),
        asking: None,
    };
    let plan = Plan::of(policy, root, &built, MountTable::Hosts);
    let facts = Facts {
        class: Class::Weak,
        read_only: Applied::Yes,
        inner: RootFacts {
            landlock,
            seccomp: Applied::Yes,
            ..RootFacts::NOT_ASKED
        },
        by: Confiner {
            provider: Provider::Native,
            own_users: false,
        },
        ..Facts::group(Some(Fallback::Weak), uid, no_capabilities)
    };
    say(control, &Message::Ready(facts));
    Ok(RootSetup {
        restrictions,
        plan,
        watch: None,
        recorder: None,
    })
}

/// Returns what the root would hold, at the places where the host has it.
fn in_place(policy: &Policy, root: &RootPolicy) -> Built {
    let bound = |access| {
        let binds = policy.binds.iter().filter(move |b| b.access == access);
        binds.map(|bind| bind.from.clone())
    };
    let shown = root.read_only.iter().map(|(from, _)| from.clone());
    let is_there = |place: &Raw| place.path().exists();
    Built {
        readable: shown.chain(bound(Access::ReadOnly)).collect(),
        writable: bound(Access::Writable).collect(),
        files: root
            .files
            .iter()
            .map(|(place, _)| place.clone())
            .filter(is_there)
            .collect(),
        upper: None,
    }
}

/// The usual filter, before which every socket is refused but a pair: the mounts that would hide the host's are missing.
fn filter(network: Network) -> Vec<sock_filter> {
    let usual = seccomp::filter();
    match network {
        Network::Host => usual,
        Network::None => {
            let socket = u32::try_from(libc::SYS_socket).unwrap_or(u32::MAX);
            let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
            let step = |code, k, jf| sock_filter { code, jt: 0, jf, k };
            let mut code = vec![
                step(LOAD, 0, 0),
                step(EQUAL, socket, 1),
                step(RETURN, refuse, 0),
            ];
            code.extend(usual);
            code
        }
    }
}
