//! What a confined process sees of this machine: a root built from nothing, the programs on `PATH`, and its own trees.

use std::path::{Path, PathBuf};

use cto_contract::words::Lane;
use cto_rules::read_paths::{ReadFacts, read_paths};
use cto_sandbox::{BuiltRoot, Shown};

use crate::harness::Harness;

/// Where every backend, setup and check sees its tree.
pub(crate) const WORKSPACE: &str = "/cto/workspace";
/// Its `HOME` and what it may throw away.
pub(crate) const SCRATCH: &str = "/cto/scratch";
/// What only the checks that name it see.
pub(crate) const ORACLE: &str = "/cto/oracle";
/// The files that the fake lane lays over the tree.
pub(crate) const FAKE: &str = "/cto/fake";

/// A root and what of the operator's own it shows.
#[derive(Debug, Clone)]
pub(crate) struct Inside {
    pub(crate) root: BuiltRoot,
    /// Names for a pack: below home by `~`.
    pub(crate) shown: Vec<String>,
    /// Where rustup's toolchains are, when they are shown.
    pub(crate) rustup: Option<PathBuf>,
}

impl Inside {
    /// Finds what programs of this search path, and this command line, need to be there.
    pub(crate) fn find(
        harness: &Harness,
        path: &str,
        lane: Lane,
        argv: &[String],
        repository: Option<&Path>,
    ) -> Self {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        let both = |path: PathBuf| real(&path).map(|found| (path, found));
        let user_home = harness.env.get("HOME").map(PathBuf::from);
        let rustup = harness
            .env
            .get("RUSTUP_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(user_home.as_ref()?.join(".rustup")))
            .filter(|dir| dir.is_dir());
        let words = match lane {
            Lane::Command => argv,
            Lane::Fake | Lane::Case | Lane::Codex | Lane::Pi | Lane::Acp => &[],
        };
        // A program that is named by its path brings its installation, as one on `PATH` would.
        let program = words.first().map(Path::new).and_then(Path::parent);
        let program = program.filter(|dir| dir.is_absolute());
        let is_program_directory =
            |dir: &&Path| dir.file_name().is_some_and(|n| n == "bin" || n == "shims");
        let files = words
            .iter()
            .map(PathBuf::from)
            .filter(|word| word.is_absolute() && word.is_file());
        let configured = harness.config.harness.read_paths.iter().map(PathBuf::from);
        let facts = ReadFacts {
            search_path: path
                .split(':')
                .map(PathBuf::from)
                .chain(program.filter(is_program_directory).map(Path::to_owned))
                .filter_map(both)
                .collect(),
            named: rustup
                .iter()
                .cloned()
                .chain(configured)
                .filter_map(both)
                .collect(),
            files: files.filter_map(both).collect(),
            sockets: listening(),
            user_home: user_home.as_deref().and_then(real),
            harness: [harness.home.root(), harness.config.dir.as_path()]
                .into_iter()
                .filter_map(real)
                .collect(),
            repository: repository.and_then(real),
        };
        let chosen = read_paths(&facts);
        let mut root = BuiltRoot::system();
        for (at, from) in without_nested(&chosen.shown) {
            let from = from.clone();
            root.read_only.push(Shown {
                from,
                at: at.clone(),
            });
        }
        let name = |path: &PathBuf| match user_home.as_ref().map(|home| path.strip_prefix(home)) {
            Some(Ok(below)) => format!("~/{}", below.display()),
            Some(Err(_)) | None => path.display().to_string(),
        };
        Self {
            root,
            shown: chosen.shown.keys().map(name).collect(),
            rustup: rustup.filter(|dir| chosen.shown.contains_key(dir)),
        }
    }
}

/// The named sockets that this machine's processes have open.
fn listening() -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let names = table
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(7));
    names
        .filter(|name| name.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// Leaves out what lies in a directory that is shown at its own place already.
fn without_nested(
    shown: &std::collections::BTreeMap<PathBuf, PathBuf>,
) -> Vec<(&PathBuf, &PathBuf)> {
    let covered = |at: &Path, from: &Path| {
        at.ancestors().skip(1).any(|above| {
            shown.get(above).is_some_and(|real| {
                at.strip_prefix(above)
                    .map(|rest| real.join(rest))
                    .as_deref()
                    == Ok(from)
            })
        })
    };
    shown
        .iter()
        .filter(|(at, from)| !covered(at, from))
        .collect()
}
