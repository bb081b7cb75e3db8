//! The part of a policy that says by which means it is enforced, as it goes over the wire.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Engine, Means};
use crate::error::LaunchError;
use crate::launcher::Launcher;
use crate::outcome::Provider;
use crate::request::LaunchRequest;
use crate::wire::{Policy, Raw};

/// Namespaces whose identity shows from within that they are not the host's.
const NAMESPACES: [&str; 6] = ["user", "mnt", "pid", "net", "ipc", "uts"];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    Native,
    Weak,
    Unconfined,
    /// To become bwrap, inside which a launcher will read the next policy.
    Bwrap(BwrapPolicy),
    /// To be the first process in what a provider built.
    Provided(Outside),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BwrapPolicy {
    pub(crate) program: Raw,
    /// This launcher as a file.
    pub(crate) launcher: Raw,
}

/// What the harness is, so that the inside can be told from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outside {
    pub(crate) provider: Provider,
    /// As whom the kernel knows the processes, where the provider gives them other numbers inside.
    pub(crate) uid: Option<u32>,
    /// Identity of each namespace by name.
    pub(crate) namespaces: BTreeMap<String, u64>,
}

impl Outside {
    pub(crate) fn of(provider: Provider, uid: Option<u32>) -> Self {
        let identity = |name: &str| {
            let stat = rustix::fs::stat(format!("/proc/self/ns/{name}")).ok()?;
            Some((name.to_owned(), stat.st_ino))
        };
        Self {
            provider,
            uid,
            namespaces: NAMESPACES.into_iter().filter_map(identity).collect(),
        }
    }
}

impl Launcher {
    /// Returns all that the launcher will read: one policy, or one for each of the two that read.
    pub(crate) fn policies(&self, request: &LaunchRequest) -> Result<Vec<u8>, LaunchError> {
        let encode = |way| {
            let policy = Policy::of(request, self.force_group, way);
            policy.encode().map_err(|source| LaunchError::Io {
                what: "encode the launch policy",
                source,
            })
        };
        let provider = self.means.provider();
        match &self.means {
            Means::Native => encode(Way::Native),
            Means::Weak => encode(Way::Weak),
            Means::None => encode(Way::Unconfined),
            Means::Bwrap { program } => {
                let outer = BwrapPolicy {
                    program: Raw::from(program),
                    launcher: Raw::from(&self.file()?),
                };
                let mut frames = encode(Way::Bwrap(outer))?;
                frames.extend(encode(Way::Provided(Outside::of(provider, None)))?);
                Ok(frames)
            }
            Means::Container(container) => {
                let uid = match container.engine {
                    Engine::Podman => Some(rustix::process::geteuid().as_raw()),
                    Engine::Docker => None,
                };
                encode(Way::Provided(Outside::of(provider, uid)))
            }
        }
    }

    /// Returns the launcher's own file, for those that must show it inside.
    pub(crate) fn file(&self) -> Result<PathBuf, LaunchError> {
        let unknown = |source| LaunchError::Launcher {
            program: self.program.clone(),
            source,
        };
        let path = match self.program == Path::new("/proc/self/exe") {
            true => std::fs::read_link(&self.program).map_err(unknown)?,
            false => std::path::absolute(&self.program).map_err(unknown)?,
        };
        match std::fs::metadata(&path) {
            Ok(_) => Ok(path),
            Err(source) => Err(unknown(source)),
        }
    }
}
