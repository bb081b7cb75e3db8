//! The first process in what another provider built: looks whether it is what was asked for, then does the rest.
//!
//! Nothing that a provider says is taken for true. A namespace is own when its identity is not the harness's; the root is
//! tried by the same canaries as a native one.

use std::os::unix::net::UnixStream;

use crate::building::Built;
use crate::canary::{MountTable, Plan};
use crate::facts::{Applied, Confiner, Facts, RootFacts};
use crate::init::{self, RootSetup, say};
use crate::inside::{hide_from_command, open_endpoint};
use crate::mounts::failure;
use crate::namespaces;
use crate::outcome::Class;
use crate::payload::{Image, Restrictions};
use crate::provider::Outside;
use crate::request::{Access, Network};
use crate::ruleset::Rules;
use crate::seccomp;
use crate::sys;
use crate::tree_watch::TreeWatch;
use crate::wire::{self, Failure, Message, Policy, Raw, RootPolicy, Step};

/// Runs the command to its end, or says why not.
pub(crate) fn run(control: &UnixStream, policy: &Policy, image: Image, outside: &Outside) -> u8 {
    rustix::thread::set_name(c"cto-init").ok();
    let own_users = is_own("user", outside);
    let image = match own_users {
        true => image,
        false => image.without_process_limit(),
    };
    match prepare(control, policy, outside) {
        Ok(Some(setup)) => init::supervise(control, &image, Some(setup), Class::Process),
        // The harness is gone or wants an end.
        Ok(None) => wire::EXIT_ORDERLY,
        Err(failure) => {
            say(control, &Message::Failed(failure));
            wire::EXIT_ORDERLY
        }
    }
}

fn prepare(
    control: &UnixStream,
    policy: &Policy,
    outside: &Outside,
) -> Result<Option<RootSetup>, Failure> {
    let root = policy
        .root
        .as_ref()
        .ok_or_else(|| unproven("no root was named"))?;
    look_around(policy, outside)?;
    hide_from_command();
    let built = as_asked(policy, root);
    let rules = Rules::of(&built).map_err(|error| failure(Step::Landlock, &error))?;
    let landlock = rules.fact;
    let restrictions = Restrictions {
        rules,
        filter: seccomp::filter(),
        // The recorder looks from outside, where only a native launch has a process.
        asking: None,
    };
    let plan = Plan::of(policy, root, &built, MountTable::Own);
    let watch = TreeWatch::of(policy, built).map_err(|error| failure(Step::SetLimits, &error))?;
    let network = match policy.network {
        Network::None => Applied::Yes,
        Network::Host => Applied::NotAsked,
    };
    let Some(endpoint) = open_endpoint(control, policy, network)? else {
        return Ok(None);
    };
    let inside = rustix::process::geteuid().as_raw();
    let own_users = is_own("user", outside);
    let facts = Facts {
        class: Class::Process,
        fallback: None,
        network,
        loopback: loopback(),
        ipc: Applied::Yes,
        uts: Applied::Yes,
        own_proc: Applied::Yes,
        read_only: Applied::Yes,
        no_capabilities: no_capabilities(inside),
        uid: outside.uid.filter(|_| own_users).unwrap_or(inside),
        inner: RootFacts {
            root: Applied::Yes,
            landlock,
            seccomp: Applied::Yes,
            dropped: Applied::NotAsked,
            recorder: Applied::NotAsked,
        },
        endpoint,
        memory_group: Applied::NotAsked,
        by: Confiner {
            provider: outside.provider,
            own_users,
        },
    };
    say(control, &Message::Ready(facts));
    Ok(Some(RootSetup {
        restrictions,
        plan,
        watch,
        recorder: None,
    }))
}

fn unproven(what: &str) -> Failure {
    Failure {
        step: Step::Prove(what.to_owned()),
        errno: libc::EPERM,
    }
}

/// Refuses to go on where the provider left something of the host's in place.
fn look_around(policy: &Policy, outside: &Outside) -> Result<(), Failure> {
    let network = match policy.network {
        Network::None => Some("net"),
        Network::Host => None,
    };
    for name in ["mnt", "pid", "ipc", "uts"].into_iter().chain(network) {
        if !is_own(name, outside) {
            return Err(unproven(&format!(
                "the {name} namespace is still the host's"
            )));
        }
    }
    if network.is_some() && !only_loopback() {
        return Err(unproven("there is more than the loopback interface"));
    }
    let itself = std::fs::read_link("/proc/self").ok();
    if std::process::id() != 1 || itself.as_deref() != Some(std::path::Path::new("1")) {
        return Err(unproven(
            "the launcher is not the first process, or /proc is not its own",
        ));
    }
    Ok(())
}

/// An identity that cannot be read is not known to be another one.
fn is_own(name: &str, outside: &Outside) -> bool {
    let seen = rustix::fs::stat(format!("/proc/self/ns/{name}"));
    match (seen, outside.namespaces.get(name)) {
        (Ok(seen), Some(&host)) => seen.st_ino != host,
        (Ok(_) | Err(_), _) => false,
    }
}

fn only_loopback() -> bool {
    let Ok(table) = std::fs::read_to_string("/proc/self/net/dev") else {
        return false;
    };
    interfaces(&table).all(|name| name == "lo")
}

fn interfaces(table: &str) -> impl Iterator<Item = &str> {
    let rows = table.lines().skip(2);
    rows.filter_map(|row| Some(row.split_once(':')?.0.trim()))
}

fn loopback() -> Applied {
    let nobody = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 9);
    match sys::connect_now(nobody) {
        Ok(()) | Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::INPROGRESS) => {
            Applied::Yes
        }
        Err(error) => Applied::Refused {
            errno: error.raw_os_error(),
        },
    }
}

/// With no_new_privs only uid 0 gains capabilities by executing something, and not beyond the bounding set.
fn no_capabilities(uid: u32) -> Applied {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if uid != 0 || has_empty_bounding_set(&status) {
        return Applied::Yes;
    }
    namespaces::applied(sys::empty_bounding_set())
}

fn has_empty_bounding_set(status: &str) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    set.is_some_and(|set| !set.trim().is_empty() && set.trim().chars().all(|c| c == '0'))
}

/// Returns what the root holds if the provider did as it was told; the canaries try it.
fn as_asked(policy: &Policy, root: &RootPolicy) -> Built {
    let bound = |access| {
        let binds = policy.binds.iter().filter(move |b| b.access == access);
        binds.map(|bind| bind.at.clone())
    };
    let shown = root.read_only.iter().map(|(_, at)| at.clone());
    let tmpfs = root.tmpfs.iter().map(|tmpfs| tmpfs.at.clone());
    Built {
        readable: shown.chain(bound(Access::ReadOnly)).collect(),
        writable: bound(Access::Writable).chain(tmpfs).collect(),
        files: root
            .files
            .iter()
            .map(|(place, _)| place.clone())
            .collect::<Vec<Raw>>(),
        upper: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_from_the_kernels_table() {
        let head = "Inter-|   Receive\n face |bytes\n";
        let names = |rows: &str| {
            let table = format!("{head}{rows}");
            interfaces(&table).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(names("    lo: 0 0\n"), ["lo"]);
        assert_eq!(names("    lo: 0 0\n  eth0: 5 1\n"), ["lo", "eth0"]);
        assert!(names("").is_empty());
    }

    #[test]
    fn only_a_bounding_set_of_zeros_is_empty() {
        let empty = |line: &str| has_empty_bounding_set(&format!("Name:\tx\n{line}\n"));
        assert_eq!(
            [
                "CapBnd:\t0000000000000000",
                "CapBnd:\t0000000000000001",
                "CapBnd:\t",
                "CapEff:\t0"
            ]
            .map(empty),
            [true, false, false, false]
        );
    }
}
