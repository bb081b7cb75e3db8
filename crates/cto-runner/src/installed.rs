//! A lane's program as it is installed here: found, its links and shebang followed, and what of it must be seen inside.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cto_contract::lanes::ProgramSource;
use cto_contract::words::Lane;
use cto_rules::programs::{
    HEAD_BYTES, Interpreter, NodePackage, ProgramKind, ProgramProblem, behind_shim, kind_of,
    natives, package_of,
};
use cto_rules::verdicts::Fault;

use crate::environment::Environment;
use crate::sandbox::find_program;

const OTHERS_READ: u32 = 0o004;
const EXECUTE: u32 = 0o111;

/// A program and what it takes to start it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InstalledProgram {
    /// The file whose digest is the identity.
    pub(crate) program: PathBuf,
    /// What runs it, where it is a script.
    pub(crate) interpreter: Option<PathBuf>,
    /// The tree that it loads from, where it is a script of a package.
    pub(crate) tree: Option<PathBuf>,
    /// The package that people install, where npm brought it.
    pub(crate) package: Option<NodePackage>,
    pub(crate) places: ProgramPlaces,
}

/// Where a program and what it loads lie, as named and as they really are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProgramPlaces {
    pub(crate) files: Vec<(PathBuf, PathBuf)>,
    pub(crate) packages: Vec<PathBuf>,
    /// Directories of programs, whose installations are shown.
    pub(crate) directories: Vec<PathBuf>,
}

impl InstalledProgram {
    /// The words that start it.
    pub(crate) fn command(&self) -> Vec<String> {
        let words = self.interpreter.iter().chain([&self.program]);
        words.map(|path| path.display().to_string()).collect()
    }
}

/// Finds the program of a lane that has an installed one.
pub(crate) fn find(env: &Environment, lane: Lane) -> Result<InstalledProgram, Fault> {
    let ProgramSource::Installed(name) = lane.traits().program else {
        return Err(Fault::NothingToStart {
            why: format!("the {lane} lane has no program of its own"),
        });
    };
    let variable = format!("CTO_HARNESS_{}_BIN", lane.as_str().to_ascii_uppercase());
    let named = env.get(&variable).map(PathBuf::from);
    let named = named.or_else(|| find_program(env, name));
    let shown = named.as_ref().map(|path| path.display().to_string());
    let shown = shown.unwrap_or_else(|| name.to_owned());
    let found = named.ok_or(ProgramProblem::Missing);
    let found = found.and_then(|named| resolve(env, lane, &named));
    found.map_err(|problem| Fault::ProgramUnusable {
        lane,
        program: shown,
        problem,
    })
}

fn resolve(
    env: &Environment,
    lane: Lane,
    named: &Path,
) -> Result<InstalledProgram, ProgramProblem> {
    if !named.is_absolute() {
        return Err(ProgramProblem::NotAFile);
    }
    let mut named = named.to_owned();
    let mut real = followed(&named)?;
    if let Some(behind) = first_file(behind_shim(lane, &named, &real)) {
        real = followed(&behind)?;
        named = behind;
    }
    let package = package_of(&real);
    let native = package
        .as_ref()
        .map(|package| natives(lane, package, std::env::consts::ARCH));
    let is_published = native.as_ref().is_some_and(|places| !places.is_empty());
    if let Some(binary) = first_file(native.unwrap_or_default()) {
        return Ok(InstalledProgram {
            package,
            ..native_program(&named, &followed(&binary)?)?
        });
    }
    match kind_of(&head(&real)?) {
        ProgramKind::Native => native_program(&named, &real),
        ProgramKind::Script(interpreter) if interpreter.is_shell() => {
            Err(ProgramProblem::ShellScript)
        }
        // It only starts the binary, and there is none.
        ProgramKind::Script(_) | ProgramKind::Other if is_published => {
            Err(ProgramProblem::NativeMissing)
        }
        ProgramKind::Script(interpreter) => script(env, &named, &real, &interpreter, package),
        ProgramKind::Other => Err(ProgramProblem::NoProgram),
    }
}

fn native_program(named: &Path, real: &Path) -> Result<InstalledProgram, ProgramProblem> {
    checked(real)?;
    let package = package_of(real);
    let root = package.as_ref().map(|package| package.root.clone());
    Ok(InstalledProgram {
        program: real.to_owned(),
        interpreter: None,
        tree: None,
        package,
        places: ProgramPlaces {
            files: vec![(real.to_owned(), real.to_owned())],
            packages: root.into_iter().collect(),
            directories: named.parent().map(Path::to_owned).into_iter().collect(),
        },
    })
}

fn script(
    env: &Environment,
    named: &Path,
    real: &Path,
    interpreter: &Interpreter,
    package: Option<NodePackage>,
) -> Result<InstalledProgram, ProgramProblem> {
    checked(real)?;
    let missing = || ProgramProblem::InterpreterMissing(interpreter.name().to_owned());
    let runs_it = interpreter_of(env, interpreter, package.as_ref()).ok_or_else(missing)?;
    let runs_it_really = followed(&runs_it)?;
    checked(&runs_it_really)?;
    let mut directories: Vec<PathBuf> = Vec::new();
    // The environment of a Python program is known by where its interpreter is named.
    for file in [named, real, runs_it.as_path(), runs_it_really.as_path()] {
        directories.extend(file.parent().map(Path::to_owned));
    }
    Ok(InstalledProgram {
        program: real.to_owned(),
        interpreter: Some(runs_it.clone()),
        tree: package.as_ref().map(tree_of),
        package: package.clone(),
        places: ProgramPlaces {
            files: vec![
                (real.to_owned(), real.to_owned()),
                (runs_it, runs_it_really),
            ],
            packages: package.map(|package| package.top).into_iter().collect(),
            directories,
        },
    })
}

/// All that a package loads: itself where it brings its dependencies along, else the `node_modules` that they share.
fn tree_of(package: &NodePackage) -> PathBuf {
    match package.root.join("node_modules").is_dir() {
        true => package.root.clone(),
        false => package.top.clone(),
    }
}

/// The program that runs a script: the one that its own `node_modules` brings along, else as the shebang says.
fn interpreter_of(
    env: &Environment,
    interpreter: &Interpreter,
    package: Option<&NodePackage>,
) -> Option<PathBuf> {
    match interpreter {
        Interpreter::At(path) => Some(path.clone()),
        Interpreter::Named(name) => {
            let own = package.map(|package| package.top.join(".bin").join(name));
            let own = own.filter(|path| interpreter.is_node() && path.is_file());
            own.or_else(|| find_program(env, name))
        }
    }
}

/// What the first word of a command line brings along: its package, and the environment that its shebang names.
pub(crate) fn places_of(env: &Environment, word: &str) -> ProgramPlaces {
    let named = match word.contains('/') {
        true => Some(PathBuf::from(word)).filter(|path| path.is_absolute()),
        false => find_program(env, word),
    };
    let followed = named.and_then(|named| Some((followed(&named).ok()?, named)));
    let Some((real, named)) = followed else {
        return ProgramPlaces::default();
    };
    let package = package_of(&real);
    let found = match head(&real).map(|head| kind_of(&head)) {
        Ok(ProgramKind::Script(interpreter)) => {
            script(env, &named, &real, &interpreter, package).ok()
        }
        Ok(ProgramKind::Native) => native_program(&named, &real).ok(),
        Ok(ProgramKind::Other) | Err(_) => None,
    };
    let mut places = found.map(|found| found.places).unwrap_or_default();
    // Who names a file that others may not read means that one, and not what it leads to.
    places.files.retain(|(_, real)| checked(real).is_ok());
    places
}

/// Follows all links. A circle and a link to nothing lead nowhere.
fn followed(path: &Path) -> Result<PathBuf, ProgramProblem> {
    let real = fs::canonicalize(path).map_err(|_| ProgramProblem::LeadsNowhere)?;
    match real.is_file() {
        true => Ok(real),
        false => Err(ProgramProblem::NotAFile),
    }
}

fn checked(real: &Path) -> Result<(), ProgramProblem> {
    let mode = fs::metadata(real).map_err(|_| ProgramProblem::NotAFile)?;
    let mode = mode.permissions().mode();
    if mode & EXECUTE == 0 {
        return Err(ProgramProblem::NotExecutable);
    }
    match mode & OTHERS_READ {
        0 => Err(ProgramProblem::ClosedToOthers),
        _ => Ok(()),
    }
}

fn first_file(places: Vec<PathBuf>) -> Option<PathBuf> {
    places.into_iter().find(|path| path.is_file())
}

fn head(path: &Path) -> Result<Vec<u8>, ProgramProblem> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| {
        let limit = u64::try_from(HEAD_BYTES).unwrap_or(u64::MAX);
        file.take(limit).read_to_end(&mut head)
    });
    // What this user may not read, nobody is shown.
    read.map(|_| head)
        .map_err(|_| ProgramProblem::ClosedToOthers)
}

#[cfg(test)]
mod tests;
