//! The second wall: Landlock rules that repeat what the mounts of a new root allow.
//!
//! Should a path out of the root be found, nothing beyond it matches a rule.

use std::io;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

use crate::building::Built;
use crate::facts::{Applied, LandlockFact};
use crate::sys;
use crate::wire::Raw;

/// The newest set of rights that the library knows; an older kernel takes what it has of them.
const NEWEST: ABI = ABI::V9;

/// Settings of programs: to be read, never executed. The directory is the root's own and holds only what was put there, so
/// that one rule does for all of it.
const SETTINGS: &str = "/etc";

/// Rules that were made, or why not.
#[derive(Debug)]
pub(crate) struct Rules {
    created: Option<RulesetCreated>,
    pub(crate) fact: LandlockFact,
}

impl Rules {
    /// Makes the rules. A kernel without Landlock is a fact, anything else that fails is an error.
    pub(crate) fn of(built: &Built) -> io::Result<Self> {
        Self::made(|| create(built))
    }

    /// Makes rules for the host's root, where nothing else stands between the command and the rest.
    pub(crate) fn in_place(built: &Built) -> io::Result<Self> {
        Self::made(|| create_in_place(built))
    }

    fn made(create: impl FnOnce() -> Result<RulesetCreated, RulesetError>) -> io::Result<Self> {
        let abi = match sys::landlock_abi() {
            Ok(abi) => abi,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::ENOSYS);
                let fact = LandlockFact {
                    applied: Applied::Refused { errno },
                    abi: 0,
                };
                return Ok(Self {
                    created: None,
                    fact,
                });
            }
        };
        let created = create().map_err(io::Error::other)?;
        Ok(Self {
            created: Some(created),
            fact: LandlockFact {
                applied: Applied::Yes,
                abi,
            },
        })
    }

    /// Binds this process. It must have `no_new_privs`.
    pub(crate) fn put_in_force(&self) -> io::Result<()> {
        match &self.created {
            None => Ok(()),
            Some(created) => {
                let status = created.try_clone()?.restrict_self();
                status.map(drop).map_err(io::Error::other)
            }
        }
    }
}

fn create(built: &Built) -> Result<RulesetCreated, RulesetError> {
    let all_of = |list: &[Raw]| -> Vec<_> { list.iter().map(|p| p.path().to_path_buf()).collect() };
    let paths = |list: &[Raw]| -> Vec<_> {
        let mut paths = all_of(list);
        paths.retain(|path| !path.starts_with(SETTINGS));
        paths
    };
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let all = AccessFs::from_all(NEWEST);
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        // Names only: the root holds nothing that its maker did not put there.
        .add_rules(path_beneath_rules(["/"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(paths(&built.files), AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(
            paths(&built.readable),
            read | AccessFs::Execute,
        ))?
        .add_rules(path_beneath_rules([SETTINGS], read))?
        // To write there is to write into the memory of another process, such as an oracle's.
        .add_rules(path_beneath_rules(["/proc"], read))?
        .add_rules(path_beneath_rules(["/dev"], read | device))?
        .add_rules(path_beneath_rules(["/dev/shm"], all))?
        .add_rules(path_beneath_rules(all_of(&built.writable), all))
}

/// Devices of the host that everybody may use; of the rest of `/dev` nothing is known.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// Names in `/` are not listed, `/proc` is only read, and `/dev/shm` and `/tmp` belong to others too.
fn create_in_place(built: &Built) -> Result<RulesetCreated, RulesetError> {
    let paths = |list: &[Raw]| -> Vec<_> { list.iter().map(|p| p.path().to_path_buf()).collect() };
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let all = AccessFs::from_all(NEWEST);
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(paths(&built.files), AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(
            paths(&built.readable),
            read | AccessFs::Execute,
        ))?
        .add_rules(path_beneath_rules(["/proc"], read))?
        .add_rules(path_beneath_rules(DEVICES, read | device))?
        .add_rules(path_beneath_rules(paths(&built.writable), all))
}
