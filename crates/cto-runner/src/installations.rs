//! Where the programs of a search path are installed, as they lie on this machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use cto_rules::read_paths::{Installation, installation_of, interpreter_directory, sought};

/// Most toolchains that are shown.
const TOOLCHAINS_MAX: usize = 64;
/// Most bytes of a `pyvenv.cfg` that are read.
const PYVENV_BYTES_MAX: u64 = 64 * 1024;

/// What a search path leads to.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// Directories, as named and as they really are.
    pub(crate) directories: Vec<(PathBuf, PathBuf)>,
    pub(crate) installations: Vec<Installation>,
    /// Single files that a toolchain is set up by.
    pub(crate) files: Vec<(PathBuf, PathBuf)>,
}

impl Programs {
    /// Looks beside each directory of programs, and at rustup's toolchains.
    pub(crate) fn find(directories: Vec<PathBuf>, rustup: Option<&Path>) -> Self {
        let mut out = Self::default();
        for directory in directories {
            let Some(interpreter) = out.add(directory) else {
                continue;
            };
            // The interpreter of an environment is no environment itself.
            out.add(interpreter);
        }
        if let Some(rustup) = rustup {
            out.add_rustup(rustup);
        }
        out
    }

    /// Adds a directory, and returns where the interpreter lies of an environment that it belongs to.
    fn add(&mut self, directory: PathBuf) -> Option<PathBuf> {
        let (named, real) = both(directory)?;
        let mut interpreter = None;
        if let Some((named, real)) = installation_of(&named, &real) {
            let found = look_beside(named.to_owned(), real.to_owned());
            interpreter = found.holds.get("pyvenv.cfg").and_then(|file| {
                let mut text = String::new();
                let file = plain_file(file)?.take(PYVENV_BYTES_MAX);
                { file }.read_to_string(&mut text).ok()?;
                interpreter_directory(&text)
            });
            self.installations.push(found);
        }
        self.directories.push((named, real));
        interpreter
    }

    fn add_rustup(&mut self, rustup: &Path) {
        let toolchains = std::fs::read_dir(rustup.join("toolchains"));
        let toolchains = toolchains.into_iter().flatten().flatten();
        for toolchain in toolchains.take(TOOLCHAINS_MAX) {
            if let Some((named, real)) = both(toolchain.path()) {
                let mut found = look_beside(named, real);
                // Manuals: more files than all the rest, and nothing runs them.
                found.holds.remove("share");
                self.installations.push(found);
            }
        }
        self.files.extend(both(rustup.join("settings.toml")));
    }
}

/// A path as named and as it really is. One that leads back is seen inside where it really is.
pub(crate) fn both(named: PathBuf) -> Option<(PathBuf, PathBuf)> {
    let real = std::fs::canonicalize(&named).ok()?;
    let leads_back = named.components().any(|part| part == Component::ParentDir);
    let named = if leads_back { real.clone() } else { named };
    Some((named, real))
}

fn look_beside(named: PathBuf, real: PathBuf) -> Installation {
    let found = sought()
        .into_iter()
        .filter_map(|name| Some((name, std::fs::canonicalize(real.join(name)).ok()?)));
    let holds: BTreeMap<_, _> = found.collect();
    Installation { named, real, holds }
}

/// Opens a file that is one: a pipe by that name would never answer.
fn plain_file(path: &Path) -> Option<File> {
    let is_file = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
    is_file.then(|| File::open(path).ok()).flatten()
}
