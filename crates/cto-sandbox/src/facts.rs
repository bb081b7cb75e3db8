//! What was put in force, as observed from within: plain data.

use std::io;

use serde::{Deserialize, Serialize};

use crate::outcome::{Class, Provider};

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
    /// The operator asked to do without them.
    Weak,
    /// The operator asked for no confinement at all.
    Unconfined,
    /// Nothing was launched at all, so nothing holds.
    NotTried,
    /// Not on Linux.
    WrongSystem,
}

/// Whether Landlock holds, and which version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LandlockFact {
    pub(crate) applied: Applied,
    pub(crate) abi: u32,
}

/// The layers that only a root from nothing has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RootFacts {
    pub(crate) root: Applied,
    pub(crate) landlock: LandlockFact,
    pub(crate) seccomp: Applied,
    /// The change to another user, asked for by root only.
    pub(crate) dropped: Applied,
    pub(crate) recorder: Applied,
}

impl RootFacts {
    pub(crate) const NOT_ASKED: Self = Self {
        root: Applied::NotAsked,
        landlock: LandlockFact {
            applied: Applied::NotAsked,
            abi: 0,
        },
        seccomp: Applied::NotAsked,
        dropped: Applied::NotAsked,
        recorder: Applied::NotAsked,
    };
}

/// Who built what holds the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confiner {
    pub(crate) provider: Provider,
    /// Whether the users inside are a namespace's own; a container's may be the host's.
    pub(crate) own_users: bool,
}

impl Confiner {
    pub(crate) const NATIVE: Self = Self {
        provider: Provider::Native,
        own_users: true,
    };
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
    pub(crate) inner: RootFacts,
    pub(crate) by: Confiner,
    pub(crate) endpoint: Applied,
    /// A bound of the kernel's on all memory of the tree; made and known by the harness alone.
    pub(crate) memory_group: Applied,
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
            inner: RootFacts::NOT_ASKED,
            by: Confiner::NATIVE,
            endpoint: Applied::NotAsked,
            memory_group: Applied::NotAsked,
        }
    }

    /// Returns why the base namespaces are missing, for a person who can change that.
    pub(crate) fn missing(&self) -> String {
        match self.fallback {
            Some(Fallback::Refused(Refusal { step, errno })) => format!(
                "the kernel refused to {}: {}; look at user.max_user_namespaces, kernel.unprivileged_userns_clone and AppArmor's userns restriction",
                step.as_str(),
                error_text(errno),
            ),
            Some(Fallback::Forced) => "switched off for this launch".to_owned(),
            Some(Fallback::Weak) => "the weak mode does without it".to_owned(),
            Some(Fallback::Unconfined) => "the operator asked for no sandbox".to_owned(),
            Some(Fallback::NotTried) => "nothing was started".to_owned(),
            Some(Fallback::WrongSystem) => "only Linux has it".to_owned(),
            None => "not asked for".to_owned(),
        }
    }
}

pub(crate) fn error_text(errno: i32) -> String {
    io::Error::from_raw_os_error(errno).to_string()
}
