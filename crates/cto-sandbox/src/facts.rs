//! What was put in force, as observed from within, and the list of layers that follows from it (pure).

use std::io;

use serde::{Deserialize, Serialize};

use crate::outcome::{Class, Confinement, Layer, LayerName, Provider, Survivors};
use crate::request::{Limits, Network};

/// One thing that was tried, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Applied {
    Yes,
    NotAsked,
    Refused { errno: i32 },
}

/// What the kernel would not do for the namespaces that everything else rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) step: BaseStep,
    pub(crate) errno: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BaseStep {
    Create,
    DenySetgroups,
    MapUser,
    MapGroup,
    PrivateMounts,
}

impl BaseStep {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create the namespaces",
            Self::DenySetgroups => "deny setgroups",
            Self::MapUser => "map the user",
            Self::MapGroup => "map the group",
            Self::PrivateMounts => "make the mounts private",
        }
    }
}

/// Why a launch has no namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fallback {
    Refused(Refusal),
    Forced,
    /// Nothing was launched at all, so nothing holds.
    NotTried,
    /// Not on Linux.
    WrongSystem,
}

/// Everything that the list of layers is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) class: Class,
    pub(crate) fallback: Option<Fallback>,
    pub(crate) network: Applied,
    pub(crate) loopback: Applied,
    pub(crate) ipc: Applied,
    pub(crate) uts: Applied,
    pub(crate) own_proc: Applied,
    pub(crate) read_only: Applied,
    pub(crate) no_capabilities: Applied,
    pub(crate) uid: u32,
}

impl Facts {
    /// Returns the facts of a tree without namespaces; a refusal is filled in by the harness, to whom it was told.
    pub(crate) fn group(fallback: Option<Fallback>, uid: u32, no_capabilities: Applied) -> Self {
        Self {
            class: Class::Group,
            fallback,
            network: Applied::NotAsked,
            loopback: Applied::NotAsked,
            ipc: Applied::NotAsked,
            uts: Applied::NotAsked,
            own_proc: Applied::NotAsked,
            read_only: Applied::NotAsked,
            no_capabilities,
            uid,
        }
    }

    /// Returns why the base namespaces are missing, for a person who can change that.
    fn missing(&self) -> String {
        match self.fallback {
            Some(Fallback::Refused(Refusal { step, errno })) => format!(
                "the kernel refused to {}: {}; look at user.max_user_namespaces, kernel.unprivileged_userns_clone and AppArmor's userns restriction",
                step.as_str(),
                error_text(errno),
            ),
            Some(Fallback::Forced) => "switched off for this launch".to_owned(),
            Some(Fallback::NotTried) => "nothing was started".to_owned(),
            Some(Fallback::WrongSystem) => "only Linux has it".to_owned(),
            None => "not asked for".to_owned(),
        }
    }
}

/// The part of a request that the list of layers speaks about; `None` where it is made before any request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) network: Network,
    pub(crate) read_only: usize,
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
        provider: Provider::Native,
        class: facts.class,
        layers,
        survivors,
    }
}

fn layer(name: LayerName, facts: &Facts, asked: Option<Asked<'_>>) -> (bool, String) {
    match name {
        LayerName::UserNamespace => base(
            facts,
            "own user namespace, user and group mapped to themselves",
        ),
        LayerName::MountNamespace => base(
            facts,
            "own mount table, private; the host's files are still visible in it",
        ),
        LayerName::PidNamespace => {
            base(facts, "own process ids; all die with the namespace's init")
        }
        LayerName::NetworkNamespace => network(facts, asked),
        LayerName::IpcNamespace => extra(facts, facts.ipc, "own System V and POSIX queues"),
        LayerName::UtsNamespace => extra(facts, facts.uts, "own host name: localhost"),
        LayerName::OwnProc => extra(
            facts,
            facts.own_proc,
            "fresh /proc that shows this tree alone",
        ),
        LayerName::ReadOnlyPaths => read_only(facts, asked),
        LayerName::ClosedDescriptors => held(
            facts,
            "only standard input (/dev/null), output and error are open",
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
        LayerName::RootFromNothing
        | LayerName::Landlock
        | LayerName::Seccomp
        | LayerName::Recorder
        | LayerName::EgressForwarder => (false, "not part of this version".to_owned()),
        LayerName::UnprivilegedUid => match facts.uid {
            0 => (
                false,
                "runs as uid 0: files of root can be read and written".to_owned(),
            ),
            uid => held(facts, &format!("runs as uid {uid}")),
        },
    }
}

/// A layer that every launch has, of either class.
fn held(facts: &Facts, detail: &str) -> (bool, String) {
    match facts.fallback {
        Some(Fallback::NotTried | Fallback::WrongSystem) => (false, facts.missing()),
        Some(Fallback::Refused(_) | Fallback::Forced) | None => (true, detail.to_owned()),
    }
}

fn base(facts: &Facts, detail: &str) -> (bool, String) {
    match facts.class {
        Class::Process => (true, detail.to_owned()),
        Class::Group => (false, facts.missing()),
    }
}

/// A layer inside the base namespaces that the kernel may refuse on its own.
fn extra(facts: &Facts, applied: Applied, detail: &str) -> (bool, String) {
    match (facts.class, applied) {
        (Class::Group, _) => (false, facts.missing()),
        (Class::Process, Applied::Yes) => (true, detail.to_owned()),
        (Class::Process, Applied::NotAsked) => (false, "not asked for".to_owned()),
        (Class::Process, Applied::Refused { errno }) => (false, refused(errno)),
    }
}

fn network(facts: &Facts, asked: Option<Asked<'_>>) -> (bool, String) {
    if asked.is_some_and(|a| a.network == Network::Host) {
        return (false, "the request asks for the host's network".to_owned());
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
            let detail = format!("{} paths bound", asked.read_only);
            extra(facts, facts.read_only, &detail)
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
    let Some(Asked { limits, .. }) = asked else {
        return held(facts, "set by each launch");
    };
    let exempt = if facts.uid == 0 {
        " (uid 0 is exempt)"
    } else {
        ""
    };
    let set: Vec<String> = [
        ("cpu seconds", limits.cpu_seconds, ""),
        ("file bytes", limits.file_bytes, ""),
        ("open files", limits.open_files, ""),
        ("processes", limits.processes, exempt),
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

fn error_text(errno: i32) -> String {
    io::Error::from_raw_os_error(errno).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Proof;

    const EPERM: i32 = 1;
    const NOTHING: Survivors = Survivors::None {
        proof: Proof::NothingStarted,
    };

    fn full() -> Facts {
        Facts {
            class: Class::Process,
            fallback: None,
            network: Applied::Yes,
            loopback: Applied::Yes,
            ipc: Applied::Yes,
            uts: Applied::Yes,
            own_proc: Applied::Yes,
            read_only: Applied::Yes,
            no_capabilities: Applied::Yes,
            uid: 1000,
        }
    }

    fn missing(facts: &Facts) -> String {
        confinement(facts, None, NOTHING)
            .layers
            .iter()
            .filter(|l| !l.in_force)
            .map(|l| l.name.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn every_layer_is_listed_once_and_explained() {
        for facts in [
            full(),
            Facts::group(Some(Fallback::Forced), 0, Applied::Yes),
        ] {
            let listed = confinement(&facts, None, NOTHING).layers;
            let names: Vec<_> = listed.iter().map(|l| l.name).collect();
            assert_eq!(names, LayerName::ALL);
            assert!(listed.iter().all(|l| !l.detail.is_empty()));
        }
    }

    #[test]
    fn what_is_not_built_yet_is_never_in_force() {
        let later = "root_from_nothing landlock seccomp recorder egress_forwarder";
        assert_eq!(missing(&full()), later);
    }

    #[test]
    fn a_refusal_takes_away_exactly_its_layer() {
        let refused = Applied::Refused { errno: EPERM };
        let later = "root_from_nothing landlock seccomp recorder egress_forwarder";
        let of = |change: fn(&mut Facts, Applied)| {
            let mut facts = full();
            change(&mut facts, refused);
            missing(&facts)
        };
        assert_eq!(
            of(|f, a| f.network = a),
            format!("network_namespace {later}")
        );
        assert_eq!(of(|f, a| f.ipc = a), format!("ipc_namespace {later}"));
        assert_eq!(of(|f, a| f.uts = a), format!("uts_namespace {later}"));
        assert_eq!(of(|f, a| f.own_proc = a), format!("own_proc {later}"));
        assert_eq!(
            of(|f, a| f.no_capabilities = a),
            format!("no_capabilities {later}")
        );
        assert_eq!(of(|f, _| f.uid = 0), format!("{later} unprivileged_uid"));
    }

    #[test]
    fn without_namespaces_none_of_their_layers_is_in_force() {
        let refusal = Refusal {
            step: BaseStep::Create,
            errno: EPERM,
        };
        let facts = Facts::group(Some(Fallback::Refused(refusal)), 1000, Applied::Yes);
        assert_eq!(
            missing(&facts),
            "user_namespace mount_namespace pid_namespace network_namespace ipc_namespace uts_namespace own_proc \
             read_only_paths root_from_nothing landlock seccomp recorder egress_forwarder"
        );
        let first = &confinement(&facts, None, NOTHING).layers[0];
        assert!(first.detail.contains("create the namespaces"), "{first:?}");
    }

    #[test]
    fn layer_names_are_frozen() {
        let names: Vec<_> = LayerName::ALL.iter().map(|n| n.as_str()).collect();
        assert_eq!(
            names.join(" "),
            "user_namespace mount_namespace pid_namespace network_namespace ipc_namespace uts_namespace own_proc \
             read_only_paths closed_descriptors built_environment no_new_privileges no_capabilities wall_clock output_cap \
             resource_limits root_from_nothing landlock seccomp recorder egress_forwarder unprivileged_uid"
        );
    }
}
