//! Which directories of the machine a confined process may read: the places of the programs on `PATH`, and no more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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

/// Names of directories whose programs need what lies beside them.
const PROGRAM_DIRECTORIES: [&str; 4] = ["bin", "sbin", "shims", "libexec"];

/// What is known about the operator's search path.
#[derive(Debug, Clone, Default)]
pub struct ReadFacts {
    /// Directories of `PATH`, as named and as they really are.
    pub search_path: Vec<(PathBuf, PathBuf)>,
    /// Toolchains and `read_paths` of the configuration, as named and as they really are.
    pub named: Vec<(PathBuf, PathBuf)>,
    /// Single files that the operator named in the command line.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Where services listen: a socket answers also where nothing can be written.
    pub sockets: Vec<PathBuf>,
    pub user_home: Option<PathBuf>,
    pub harness: Vec<PathBuf>,
    pub repository: Option<PathBuf>,
}

/// What may be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadPaths {
    /// Where it is seen -> where it really lies.
    pub shown: BTreeMap<PathBuf, PathBuf>,
    /// What was asked for and is not shown, with the reason.
    pub refused: Vec<(PathBuf, InputRefusal)>,
}

/// Chooses what to show. A directory of the search path that may not be shown is left out; so is what it holds.
pub fn read_paths(facts: &ReadFacts) -> ReadPaths {
    let mut out = ReadPaths::default();
    for (named, real) in &facts.search_path {
        if is_system(real) {
            continue;
        }
        let is_program_directory = real
            .file_name()
            .is_some_and(|name| PROGRAM_DIRECTORIES.iter().any(|known| name == *known));
        // The whole installation where that shows nothing else, or else the programs alone.
        let whole = match (named.parent(), real.parent()) {
            (Some(named), Some(real)) if is_program_directory => Some((named, real)),
            _ => None,
        };
        let whole = whole.filter(|(_, real)| {
            facts.user_home.as_deref() != Some(*real) && facts.refusal(real).is_none()
        });
        let (named, real) = whole.unwrap_or((named, real));
        out.add(facts, named, real);
    }
    for (named, real) in &facts.named {
        if !is_system(real) {
            out.add(facts, named, real);
        }
    }
    for (named, real) in &facts.files {
        if !is_system(real) {
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

    fn judged(&self, real: &Path) -> Option<InputRefusal> {
        judge_input(&InputFacts {
            path: real,
            repository: self.repository.clone(),
            user_home: self.user_home.clone(),
            harness: self.harness.clone(),
            // A toolchain is often a clone of its own repository; it is only read.
            other_repository: None,
        })
    }
}

impl ReadPaths {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(search_path: &[&str]) -> ReadFacts {
        let both = |p: &&str| (PathBuf::from(p), PathBuf::from(p));
        ReadFacts {
            search_path: search_path.iter().map(both).collect(),
            named: Vec::new(),
            files: Vec::new(),
            sockets: vec!["/opt/served/run/it.sock".into()],
            user_home: Some("/home/you".into()),
            harness: vec!["/home/you/.local/state/cto".into()],
            repository: Some("/srv/app".into()),
        }
    }

    fn shown(search_path: &[&str]) -> String {
        let paths = read_paths(&facts(search_path));
        let text: Vec<String> = paths
            .shown
            .keys()
            .map(|p| p.display().to_string())
            .collect();
        text.join(" ")
    }

    #[test]
    fn a_program_is_shown_with_its_installation_unless_that_shows_more() {
        assert_eq!(shown(&["/usr/bin", "/usr/local/bin", "/bin"]), "");
        assert_eq!(
            shown(&["/home/you/.pyenv/versions/3.11/bin"]),
            "/home/you/.pyenv/versions/3.11"
        );
        assert_eq!(shown(&["/home/you/.pyenv/shims"]), "/home/you/.pyenv");
        // Credentials, the harness or everything else would come along.
        assert_eq!(shown(&["/home/you/.cargo/bin"]), "/home/you/.cargo/bin");
        assert_eq!(shown(&["/home/you/.local/bin"]), "/home/you/.local/bin");
        assert_eq!(shown(&["/home/you/bin"]), "/home/you/bin");
        assert_eq!(shown(&["/opt/tool/bin"]), "/opt/tool");
        let mut facts = facts(&[]);
        facts.files = vec![("/srv/app/agent.sh".into(), "/srv/app/agent.sh".into())];
        assert_eq!(
            read_paths(&facts).shown.len(),
            1,
            "the operator named that very file"
        );
    }

    #[test]
    fn what_may_not_be_shown_is_left_out_and_named() {
        let refused = [
            "/home/you/.ssh",
            "/",
            "/home/you",
            "/proc/self",
            "/srv/app/bin",
            "/srv/app/.venv/bin",
            "/opt/served",
            "/opt/served/run",
        ];
        let paths = read_paths(&facts(&refused));
        assert_eq!(paths.shown, BTreeMap::new());
        assert_eq!(paths.refused.len(), refused.len());
        // Beside a socket the programs alone are shown.
        assert_eq!(shown(&["/opt/served/bin"]), "/opt/served/bin");
    }
}
