//! The list of layers that facts amount to, in words for a person (pure).

use crate::facts::{Applied, Facts, Fallback, LandlockFact, RootFacts, error_text};
use crate::outcome::{Class, Confinement, Layer, LayerName, Provider, Survivors};
use crate::request::{LaunchRequest, Limits, Network, Stdin, TreeLimits};

/// What a kernel says that was built or started without Landlock: ENOSYS and EOPNOTSUPP, by number because this file is
/// read on every system.
const NO_LANDLOCK: [i32; 2] = [38, 95];
/// The first version of Landlock that keeps signals and abstract sockets inside.
const SCOPES_FROM: u32 = 6;

/// The part of a request that the list of layers speaks about; `None` where it is made before any request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) tree: TreeLimits,
    pub(crate) network: Network,
    pub(crate) read_only: usize,
    pub(crate) stdin: Stdin,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(request: &'a LaunchRequest) -> Self {
        Self {
            limits: &request.limits,
            tree: request.tree,
            network: request.network,
            read_only: request.read_only_paths(),
            stdin: request.stdin,
        }
    }
}

/// Returns the confinement that these facts amount to.
pub(crate) fn confinement(
    facts: &Facts,
    asked: Option<Asked<'_>>,
    survivors: Survivors,
) -> Confinement {
    let layers = LayerName::ALL
        .iter()
        .map(|&name| {
            let (in_force, detail) = layer(name, facts, asked);
            Layer {
                name,
                in_force,
                detail,
            }
        })
        .collect();
    Confinement {
        provider: facts.by.provider,
        class: class(facts),
        layers,
        survivors,
    }
}

/// Returns how much holds in all: the highest class of which no part is missing.
fn class(facts: &Facts) -> Class {
    let RootFacts {
        root,
        landlock,
        seccomp,
        dropped: _,
        recorder: _,
    } = facts.inner;
    let landlock = match landlock.applied {
        Applied::Yes => true,
        Applied::NotAsked => false,
        // A kernel without it: the second wall is missing, the first one stands.
        Applied::Refused { errno } => NO_LANDLOCK.contains(&errno),
    };
    let layers = [
        root,
        seccomp,
        facts.network,
        facts.ipc,
        facts.uts,
        facts.own_proc,
        facts.no_capabilities,
    ];
    let all = layers.iter().all(|&applied| applied == Applied::Yes);
    match facts.class {
        Class::None | Class::Group | Class::Weak => facts.class,
        Class::Process | Class::Full if all && landlock && facts.uid != 0 => Class::Full,
        Class::Process | Class::Full => Class::Process,
    }
}

fn layer(name: LayerName, facts: &Facts, asked: Option<Asked<'_>>) -> (bool, String) {
    match name {
        LayerName::UserNamespace => match (facts.by.provider, facts.by.own_users) {
            (Provider::Podman | Provider::Docker, false) => {
                (false, "the container's users are the host's".to_owned())
            }
            (Provider::Podman | Provider::Docker, true) => {
                base(facts, "own user namespace, made by the engine")
            }
            (Provider::Native | Provider::Bwrap | Provider::None, _) => base(
                facts,
                "own user namespace, user and group mapped to themselves",
            ),
        },
        LayerName::MountNamespace => base(
            facts,
            match facts.inner.root {
                Applied::Yes => "own mount table, private",
                Applied::NotAsked | Applied::Refused { .. } => {
                    "own mount table, private; the host's files are still visible in it"
                }
            },
        ),
        LayerName::PidNamespace => {
            base(facts, "own process ids; all die with the namespace's init")
        }
        LayerName::NetworkNamespace => network(facts, asked),
        LayerName::IpcNamespace => extra(facts, facts.ipc, "own System V and POSIX queues"),
        LayerName::UtsNamespace => extra(facts, facts.uts, "own host name: localhost"),
        LayerName::OwnProc if facts.class == Class::Weak => (
            false,
            "the host's /proc: names of other processes can be read".to_owned(),
        ),
        LayerName::OwnProc => extra(
            facts,
            facts.own_proc,
            "fresh /proc that shows this tree alone",
        ),
        LayerName::ReadOnlyPaths => read_only(facts, asked),
        LayerName::ClosedDescriptors => held(
            facts,
            match asked.map(|asked| asked.stdin).unwrap_or_default() {
                Stdin::Closed => "only standard input (/dev/null), output and error are open",
                Stdin::Written => {
                    "only standard input (a pipe from the harness), output and error are open"
                }
            },
        ),
        LayerName::BuiltEnvironment => held(
            facts,
            "the environment is the request's, nothing is inherited",
        ),
        LayerName::NoNewPrivileges => {
            held(facts, "set-user-id and file capabilities have no effect")
        }
        LayerName::NoCapabilities => capabilities(facts),
        LayerName::WallClock => match asked {
            Some(asked) => held(facts, &format!("{} s", asked.limits.wall.as_secs_f64())),
            None => held(facts, "set by each launch"),
        },
        LayerName::OutputCap => match asked {
            Some(asked) => held(facts, &format!("{} bytes", asked.limits.output_bytes)),
            None => held(facts, "set by each launch"),
        },
        LayerName::ResourceLimits => limits(facts, asked),
        LayerName::RootFromNothing if facts.class == Class::Weak => (
            false,
            "the host's root; Landlock decides what of it can be read".to_owned(),
        ),
        LayerName::RootFromNothing => extra(
            facts,
            facts.inner.root,
            "own root in memory: only what was named exists in it, and the host's root is detached",
        ),
        LayerName::Landlock => {
            let LandlockFact { applied, abi } = facts.inner.landlock;
            if facts.class == Class::Weak {
                return by_fact(applied, &weak_rules(abi));
            }
            extra(
                facts,
                applied,
                &format!("version {abi}: reads and writes only where the mounts allow them"),
            )
        }
        LayerName::Seccomp if facts.class == Class::Weak => {
            let sockets = match asked.map(|asked| asked.network) {
                Some(Network::Host) => "",
                Some(Network::None) | None => ", and no socket but a pair",
            };
            let detail = format!(
                "no namespaces, mounts, io_uring, bpf, keys, tracing or special sockets{sockets}; foreign calls are killed"
            );
            by_fact(facts.inner.seccomp, &detail)
        }
        LayerName::Seccomp => extra(
            facts,
            facts.inner.seccomp,
            "no namespaces, mounts, io_uring, bpf, keys, tracing or special sockets; foreign calls are killed",
        ),
        LayerName::Recorder
            if facts.by.provider != Provider::Native || facts.class == Class::Weak =>
        {
            (
                false,
                "only a native launch in namespaces is recorded".to_owned(),
            )
        }
        LayerName::Recorder => extra(
            facts,
            facts.inner.recorder,
            "refused calls, and writes, connections and signals to the outside, are noted; so is every execution",
        ),
        LayerName::EgressForwarder => extra(
            facts,
            facts.endpoint,
            "one address answers: a listener on loopback, handed to the harness before the start",
        ),
        LayerName::UnprivilegedUid => user(facts),
    }
}

fn user(facts: &Facts) -> (bool, String) {
    match (facts.uid, facts.inner.dropped) {
        (0, Applied::Refused { errno }) => (
            false,
            format!(
                "runs as uid 0, because the workspace could not be shown to another user: {}",
                error_text(errno)
            ),
        ),
        (0, Applied::Yes | Applied::NotAsked) => (
            false,
            "runs as uid 0: files of root can be read and written".to_owned(),
        ),
        (uid, Applied::Yes) => held(facts, &format!("started by root, runs as uid {uid}")),
        (uid, Applied::NotAsked | Applied::Refused { .. }) => {
            held(facts, &format!("runs as uid {uid}"))
        }
    }
}

/// A layer that every launch has, of either class.
fn held(facts: &Facts, detail: &str) -> (bool, String) {
    match facts.fallback {
        Some(Fallback::NotTried | Fallback::WrongSystem) => (false, facts.missing()),
        Some(Fallback::Refused(_) | Fallback::Forced | Fallback::Weak | Fallback::Unconfined)
        | None => (true, detail.to_owned()),
    }
}

fn base(facts: &Facts, detail: &str) -> (bool, String) {
    match facts.class.has_init() {
        true => (true, detail.to_owned()),
        false => (false, facts.missing()),
    }
}

/// A layer that a process puts on itself, with or without namespaces.
fn by_fact(applied: Applied, detail: &str) -> (bool, String) {
    match applied {
        Applied::Yes => (true, detail.to_owned()),
        Applied::NotAsked => (false, "not asked for".to_owned()),
        Applied::Refused { errno } => (false, refused(errno)),
    }
}

/// What Landlock holds alone, and what it leaves open.
fn weak_rules(abi: u32) -> String {
    let signals = match abi {
        SCOPES_FROM.. => "",
        _ => ", nor signals to other processes of this user",
    };
    format!(
        "version {abi}: writes only in workspace and scratch, reads only there and in the paths that are shown; not held: mode, owner, times and attributes of other files of this user{signals}"
    )
}

/// A layer inside the base namespaces that the kernel may refuse on its own.
fn extra(facts: &Facts, applied: Applied, detail: &str) -> (bool, String) {
    match facts.class.has_init() {
        false => (false, facts.missing()),
        true => by_fact(applied, detail),
    }
}

fn network(facts: &Facts, asked: Option<Asked<'_>>) -> (bool, String) {
    if asked.is_some_and(|a| a.network == Network::Host) {
        return (false, "the request asks for the host's network".to_owned());
    }
    if facts.class == Class::Weak {
        let detail = "the host's; only the system call filter refuses sockets";
        return (false, detail.to_owned());
    }
    let detail = match facts.loopback {
        Applied::Yes => "loopback only, up".to_owned(),
        Applied::NotAsked => "loopback only, down".to_owned(),
        Applied::Refused { errno } => format!("loopback only, down: {}", error_text(errno)),
    };
    extra(facts, facts.network, &detail)
}

fn read_only(facts: &Facts, asked: Option<Asked<'_>>) -> (bool, String) {
    match asked {
        Some(Asked { read_only: 0, .. }) => (false, "no path was asked for".to_owned()),
        Some(asked) => {
            let count = asked.read_only;
            match facts.class {
                Class::Weak => {
                    let detail = format!("{count} paths can be read, by Landlock");
                    by_fact(facts.read_only, &detail)
                }
                Class::None | Class::Group | Class::Process | Class::Full => {
                    extra(facts, facts.read_only, &format!("{count} paths bound"))
                }
            }
        }
        None => base(facts, "set by each launch"),
    }
}

fn capabilities(facts: &Facts) -> (bool, String) {
    match facts.no_capabilities {
        Applied::Yes => held(facts, "all capabilities are dropped, also for uid 0"),
        Applied::NotAsked => (false, facts.missing()),
        Applied::Refused { errno } => (false, refused(errno)),
    }
}

fn limits(facts: &Facts, asked: Option<Asked<'_>>) -> (bool, String) {
    let Some(Asked { limits, tree, .. }) = asked else {
        return held(facts, "set by each launch");
    };
    let exempt = if facts.uid == 0 {
        " (uid 0 is exempt)"
    } else {
        ""
    };
    let memory = match facts.memory_group {
        Applied::Yes => " (looked at, and held by a control group)",
        Applied::NotAsked | Applied::Refused { .. } => " (looked at)",
    };
    let set: Vec<String> = [
        ("cpu seconds", limits.cpu_seconds, ""),
        ("file bytes", limits.file_bytes, ""),
        ("open files", limits.open_files, ""),
        ("processes", limits.processes, exempt),
        ("memory bytes", tree.memory_bytes, memory),
        ("disk bytes", tree.disk_bytes, " (looked at)"),
        ("disk files", tree.disk_files, " (looked at)"),
    ]
    .into_iter()
    .filter_map(|(what, limit, note)| Some(format!("{what} {}{note}", limit?)))
    .collect();
    if set.is_empty() {
        return (false, "none was asked for".to_owned());
    }
    held(facts, &set.join(", "))
}

fn refused(errno: i32) -> String {
    format!("the kernel refused: {}", error_text(errno))
}

#[cfg(test)]
mod tests;
