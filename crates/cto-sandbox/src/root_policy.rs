//! The part of a policy that speaks of a root from nothing, as it goes over the wire.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::request::TreeLimits;
use crate::root::BuiltRoot;
use crate::wire::Raw;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RootPolicy {
    pub(crate) read_only: Vec<(Raw, Raw)>,
    pub(crate) links: Vec<(Raw, Raw)>,
    pub(crate) files: Vec<(Raw, Raw)>,
    pub(crate) tmpfs: Vec<TmpfsPolicy>,
    pub(crate) shm_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TmpfsPolicy {
    pub(crate) at: Raw,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TreePolicy {
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) disk_bytes: Option<u64>,
    pub(crate) disk_files: Option<u64>,
}

impl RootPolicy {
    pub(crate) fn of(root: &BuiltRoot) -> Self {
        let paths = |list: &[(PathBuf, PathBuf)]| {
            let pair = |(at, to): &(PathBuf, PathBuf)| (Raw::from(at), Raw::from(to));
            list.iter().map(pair).collect()
        };
        let shown = root.read_only.iter();
        Self {
            read_only: shown
                .map(|s| (Raw::from(&s.from), Raw::from(&s.at)))
                .collect(),
            links: paths(&root.links),
            files: root
                .files
                .iter()
                .map(|(at, bytes)| (Raw::from(at), Raw(bytes.clone())))
                .collect(),
            tmpfs: root
                .tmpfs
                .iter()
                .map(|tmpfs| TmpfsPolicy {
                    at: Raw::from(&tmpfs.at),
                    bytes: tmpfs.bytes,
                    files: tmpfs.files,
                })
                .collect(),
            shm_bytes: root.shm_bytes,
        }
    }
}

impl TreePolicy {
    pub(crate) fn of(tree: TreeLimits) -> Self {
        Self {
            memory_bytes: tree.memory_bytes,
            disk_bytes: tree.disk_bytes,
            disk_files: tree.disk_files,
        }
    }
}
