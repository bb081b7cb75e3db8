//! Which places of the machine a confined process may read: the programs on `PATH` with what they load, and no more.

mod closed;
mod installations;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cto_contract::plan::HiddenReason;

pub use closed::{ClosedBy, ClosedPlace, Look, PlaceKind};
pub use installations::{Installation, installation_of, interpreter_directory, sought};

use crate::inputs::{InputFacts, InputRefusal, judge_input};

/// Where the system's own programs and libraries are. They are always there, so nothing below them is listed again.
pub const SYSTEM_ROOTS: [&str; 8] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
];

/// What is known about the operator's search path.
#[derive(Debug, Clone, Default)]
pub struct ReadFacts {
    /// Directories of `PATH`, as named and as they really are.
    pub search_path: Vec<(PathBuf, PathBuf)>,
    /// Directories that a program's package lies in, as named and as they really are.
    pub packages: Vec<(PathBuf, PathBuf)>,
    /// The installations that they belong to, and other toolchains.
    pub installations: Vec<Installation>,
    /// `read_paths` of the configuration, as named and as they really are.
    pub named: Vec<(PathBuf, PathBuf)>,
    /// Single files that the operator named in the command line, or that a toolchain is set up by.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Where services listen: a socket answers also where nothing can be written.
    pub sockets: Vec<PathBuf>,
    /// The homes of who runs this: as the environment says, and as the system knows it.
    pub user_homes: Vec<PathBuf>,
    pub harness: Vec<PathBuf>,
    pub repository: Option<PathBuf>,
}

/// What may be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadPaths {
    /// Where it is seen -> where it really lies.
    pub shown: BTreeMap<PathBuf, PathBuf>,
    /// Places in them that are covered with something empty.
    pub masked: BTreeMap<PathBuf, PlaceKind>,
    /// What was asked for and is not shown, with the reason.
    pub refused: Vec<(PathBuf, InputRefusal)>,
    /// What lies in or beside what is shown, and is not.
    pub hidden: Vec<(PathBuf, HiddenReason)>,
    /// Which of the real places the operator named himself.
    named: BTreeSet<PathBuf>,
}

/// Chooses what to show. A directory of the search path that may not be shown is left out; so is what it holds.
pub fn read_paths(facts: &ReadFacts) -> ReadPaths {
    let mut out = ReadPaths::default();
    for (named, real) in &facts.search_path {
        if !is_system(real) {
            out.add(facts, named, real);
        }
    }
    for (named, real) in &facts.packages {
        if !is_system(real) {
            out.add_judged(facts.package_refusal(real), named, real);
        }
    }
    for installation in &facts.installations {
        let is_whole_home = facts.user_homes.contains(&installation.real);
        if !is_whole_home && !is_system(&installation.real) {
            out.add_parts(facts, installation);
        }
    }
    for (named, real) in &facts.named {
        if !is_system(real) {
            out.named.insert(real.clone());
            out.add(facts, named, real);
        }
    }
    for (named, real) in &facts.files {
        if !is_system(real) {
            out.named.insert(real.clone());
            out.add_judged(facts.judged(real), named, real);
        }
    }
    out
}

impl ReadFacts {
    /// A directory shows all that is in it: none of the source's, of which there is a copy, and no socket.
    fn refusal(&self, real: &Path) -> Option<InputRefusal> {
        let in_source = self
            .repository
            .as_ref()
            .is_some_and(|top| real.starts_with(top));
        if in_source {
            return Some(InputRefusal::OwnRepository);
        }
        let socket = self.sockets.iter().find(|socket| socket.starts_with(real));
        socket
            .map(|socket| InputRefusal::HoldsSocket(socket.clone()))
            .or_else(|| self.judged(real))
    }

    /// A package may lie in the source's own `node_modules`, which is no part of what is worked on.
    fn package_refusal(&self, real: &Path) -> Option<InputRefusal> {
        let socket = self.sockets.iter().find(|socket| socket.starts_with(real));
        let socket = socket.map(|socket| InputRefusal::HoldsSocket(socket.clone()));
        socket.or_else(|| self.judged(real))
    }

    fn judged(&self, real: &Path) -> Option<InputRefusal> {
        judge_input(&InputFacts {
            path: real,
            repository: self.repository.clone(),
            user_homes: self.user_homes.clone(),
            harness: self.harness.clone(),
            // A toolchain is often a clone of its own repository; it is only read.
            other_repository: None,
        })
    }
}

impl ReadPaths {
    /// Shows what programs load. A link is followed where it stays in the installation: elsewhere may lie anything.
    fn add_parts(&mut self, facts: &ReadFacts, installation: &Installation) {
        for (name, real) in installation.parts() {
            let named = installation.named.join(name);
            if is_system(real) {
                self.link(named, real);
            } else if !real.starts_with(&installation.real) {
                self.hidden.push((named, HiddenReason::LeavesInstallation));
            } else if facts.refusal(real).is_none() {
                self.add(facts, &named, real);
                self.link(installation.real.join(name), real);
            }
        }
    }

    fn link(&mut self, at: PathBuf, real: &Path) {
        self.shown.insert(at, real.to_owned());
    }

    fn add(&mut self, facts: &ReadFacts, named: &Path, real: &Path) {
        self.add_judged(facts.refusal(real), named, real);
    }

    fn add_judged(&mut self, refusal: Option<InputRefusal>, named: &Path, real: &Path) {
        match refusal {
            Some(why) => self.refused.push((named.to_owned(), why)),
            None => {
                self.shown.insert(named.to_owned(), real.to_owned());
                self.shown.insert(real.to_owned(), real.to_owned());
            }
        }
    }
}

fn is_system(path: &Path) -> bool {
    SYSTEM_ROOTS.iter().any(|root| path.starts_with(root))
}
