//! What a confined process sees of this machine: a root built from nothing, the programs on `PATH`, and its own trees.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use cto_contract::plan::HiddenPath;
use cto_rules::inputs::InputRefusal;
use cto_rules::read_paths::{ClosedBy, PlaceKind, ReadFacts, ReadPaths, SYSTEM_ROOTS, read_paths};
use cto_rules::secrets::Known;
use cto_sandbox::{BuiltRoot, Shown};

use crate::closed::look_at;
use crate::environment::user_homes;
use crate::harness::Harness;
use crate::installations::{Programs, both};
use crate::installed::{InstalledProgram, ProgramPlaces, places_of};

/// Where every backend, setup and check sees its tree.
pub(crate) const WORKSPACE: &str = "/cto/workspace";
/// Its `HOME` and what it may throw away.
pub(crate) const SCRATCH: &str = "/cto/scratch";
/// What only the checks that name it see.
pub(crate) const ORACLE: &str = "/cto/oracle";

/// A root and what of the operator's own it shows.
#[derive(Debug, Clone)]
pub(crate) struct Inside {
    pub(crate) root: BuiltRoot,
    /// Names for a pack: below home by `~`.
    pub(crate) shown: Vec<String>,
    pub(crate) hidden: Vec<HiddenPath>,
    /// Where rustup's toolchains are, when they are shown.
    pub(crate) rustup: Option<PathBuf>,
}

/// Whose files are shown, and to whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Viewer<'a> {
    /// The directories of programs, as `PATH` has them.
    pub(crate) path: &'a str,
    /// The words of the command line.
    pub(crate) words: &'a [String],
    /// The lane's own program, where it has an installed one.
    pub(crate) program: Option<&'a InstalledProgram>,
    pub(crate) repository: Option<&'a Path>,
    /// As whom the commands run.
    pub(crate) id: u32,
    pub(crate) closed_by: ClosedBy,
}

impl Inside {
    /// Finds what programs of this search path need to be there, and what these words of a command line name. What is
    /// masked gets something empty of `masks`.
    pub(crate) fn find(harness: &Harness, viewer: Viewer<'_>, masks: &Path) -> io::Result<Self> {
        let user_home = harness.env.get("HOME").map(PathBuf::from);
        let rustup = harness
            .env
            .get("RUSTUP_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(user_home.as_ref()?.join(".rustup")))
            .filter(|dir| dir.is_dir());
        // A program brings its installation and its package, wherever its links lead.
        let own = match viewer.program {
            Some(found) => found.places.clone(),
            None => viewer
                .words
                .first()
                .map_or_else(ProgramPlaces::default, |word| places_of(&harness.env, word)),
        };
        let is_program_directory =
            |dir: &PathBuf| dir.file_name().is_some_and(|n| n == "bin" || n == "shims");
        let program = viewer.words.first().map(Path::new).and_then(Path::parent);
        let program = program
            .map(Path::to_owned)
            .into_iter()
            .chain(own.directories);
        let directories = viewer.path.split(':').map(PathBuf::from);
        let directories = directories
            .chain(program.filter(is_program_directory))
            .filter(|dir| dir.is_absolute());
        let programs = Programs::find(directories.collect(), rustup.as_deref());
        let configured = harness.config.harness.read_paths.iter().map(PathBuf::from);
        let facts = ReadFacts {
            search_path: programs.directories,
            packages: own.packages.into_iter().filter_map(both).collect(),
            installations: programs.installations,
            named: configured.filter_map(both).collect(),
            files: named_files(viewer.words)
                .into_iter()
                .chain(programs.files)
                .chain(own.files)
                .collect(),
            sockets: listening(),
            ..surroundings(harness, viewer.repository)
        };
        let mut chosen = read_paths(&facts);
        if viewer.closed_by != ClosedBy::Kernel {
            let looks = look_at(chosen.to_look_at());
            chosen.hide(&looks, viewer.closed_by);
        }
        let mut root = BuiltRoot::system_for(viewer.id);
        for (at, from) in without_nested(&chosen.shown) {
            let from = from.clone();
            root.read_only.push(Shown {
                from,
                at: at.clone(),
            });
        }
        root.read_only.extend(masks_over(&chosen.masked, masks)?);
        let name = |path: &Path| match user_home.as_ref().map(|home| path.strip_prefix(home)) {
            Some(Ok(below)) => format!("~/{}", below.display()),
            Some(Err(_)) | None => path.display().to_string(),
        };
        Ok(Self {
            root,
            shown: chosen.shown.keys().map(|path| name(path)).collect(),
            hidden: hidden_paths(&chosen, name),
            rustup: rustup.filter(|dir| {
                let toolchains = dir.join("toolchains");
                chosen.shown.keys().any(|at| at.starts_with(&toolchains))
            }),
        })
    }
}

impl Inside {
    /// Whether a file of this machine is seen inside where it lies.
    pub(crate) fn shows(&self, real: &Path) -> bool {
        if SYSTEM_ROOTS.iter().any(|root| real.starts_with(root)) {
            return true;
        }
        let over = self
            .root
            .read_only
            .iter()
            .filter(|shown| real.starts_with(&shown.at));
        // The last of the nearest ones lies on top: a mask covers what it is laid over.
        let nearest = over.max_by_key(|shown| shown.at.components().count());
        nearest.is_some_and(|shown| {
            let below = real.strip_prefix(&shown.at);
            below.is_ok_and(|below| match below.as_os_str().is_empty() {
                true => shown.from == real,
                false => shown.from.join(below) == real,
            })
        })
    }
}

/// Makes something empty and closed for each kind of place, and says what it covers.
fn masks_over(masked: &BTreeMap<PathBuf, PlaceKind>, masks: &Path) -> io::Result<Vec<Shown>> {
    let (file, directory) = (masks.join("file"), masks.join("directory"));
    if !masked.is_empty() {
        std::fs::create_dir_all(&directory)?;
        std::fs::File::create(&file)?;
        // As closed as what it covers: who looks is refused, and does not find an empty file in its place.
        for mask in [&file, &directory] {
            std::fs::set_permissions(mask, std::fs::Permissions::from_mode(0o000))?;
        }
    }
    let cover = |(at, kind): (&PathBuf, &PlaceKind)| Shown {
        from: match kind {
            PlaceKind::File => file.clone(),
            PlaceKind::Directory => directory.clone(),
        },
        at: at.clone(),
    };
    Ok(masked.iter().map(cover).collect())
}

/// What a pack says of the places that are not shown.
fn hidden_paths(chosen: &ReadPaths, name: impl Fn(&Path) -> String) -> Vec<HiddenPath> {
    let hidden = chosen.hidden.iter().take(HIDDEN_LISTED_MAX);
    hidden
        .map(|(path, reason)| HiddenPath {
            path: name(path),
            reason: *reason,
        })
        .collect()
}

/// What a pack calls the places of a run: where they lie outside, and where everybody sees them.
pub(crate) fn places(outside: &[(PathBuf, &str)], home: &Path) -> Known {
    let named = outside.iter().cloned().chain([
        (PathBuf::from(WORKSPACE), "$WORKSPACE"),
        (PathBuf::from(SCRATCH), "$SCRATCH"),
        (PathBuf::from(ORACLE), "$CTO_ORACLE"),
        (home.to_owned(), "$CTO_HOME"),
    ]);
    Known::places(
        named
            .map(|(path, name)| (name.to_owned(), path.into_os_string().into_encoded_bytes()))
            .collect(),
    )
}

/// Why a directory that the configuration names is not shown.
#[derive(Debug, thiserror::Error)]
pub enum ReadPathError {
    #[error("`read_paths` of harness.yaml names `{0}`, which is not an absolute path")]
    Relative(String),
    #[error("`read_paths` of harness.yaml names `{path}`, which can't be looked at")]
    Unreadable { path: String, source: io::Error },
    #[error("`read_paths` of harness.yaml names `{path}`: {why}")]
    Refused { path: String, why: InputRefusal },
}

/// A file that the command names, and why it is not shown.
#[derive(Debug, thiserror::Error)]
#[error("`{path}` is not shown inside: {why}")]
pub struct NamedFileError {
    path: String,
    why: InputRefusal,
}

/// Most files that are looked at in a directory that is to be shown.
const LOOKED_AT_MAX: usize = 2_000_000;
/// Most places that a pack names as hidden.
const HIDDEN_LISTED_MAX: usize = 100;

/// Refuses what the configuration names and nobody may be shown, before a run begins.
pub(crate) fn check_read_paths(
    harness: &Harness,
    repository: Option<&Path>,
) -> Result<(), ReadPathError> {
    for name in &harness.config.harness.read_paths {
        let path = PathBuf::from(name);
        if !path.is_absolute() {
            return Err(ReadPathError::Relative(name.clone()));
        }
        let unreadable = |source| ReadPathError::Unreadable {
            path: name.clone(),
            source,
        };
        let real = std::fs::canonicalize(&path).map_err(unreadable)?;
        let mut sockets = listening();
        sockets.extend(socket_below(&real).map_err(unreadable)?);
        let facts = ReadFacts {
            named: vec![(path, real)],
            sockets,
            ..surroundings(harness, repository)
        };
        if let Some((_, why)) = read_paths(&facts).refused.into_iter().next() {
            let path = name.clone();
            return Err(ReadPathError::Refused { path, why });
        }
    }
    Ok(())
}

/// Refuses a command that names files which it could not see: it would only say that they are missing.
pub(crate) fn check_named_files(
    harness: &Harness,
    argv: &[String],
    repository: Option<&Path>,
) -> Result<(), NamedFileError> {
    let facts = ReadFacts {
        files: named_files(argv),
        ..surroundings(harness, repository)
    };
    match read_paths(&facts).refused.into_iter().next() {
        None => Ok(()),
        Some((path, why)) => Err(NamedFileError {
            path: path.display().to_string(),
            why,
        }),
    }
}

/// The files that a command line names, as named and as they really are.
fn named_files(words: &[String]) -> Vec<(PathBuf, PathBuf)> {
    let files = words.iter().map(PathBuf::from);
    let files = files.filter(|word| word.is_absolute() && word.is_file());
    files
        .filter_map(|file| std::fs::canonicalize(&file).ok().map(|real| (file, real)))
        .collect()
}

/// What may never be shown.
fn surroundings(harness: &Harness, repository: Option<&Path>) -> ReadFacts {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    ReadFacts {
        user_homes: user_homes(&harness.env),
        harness: [harness.home.root(), harness.config.dir.as_path()]
            .into_iter()
            .filter_map(real)
            .collect(),
        repository: repository.and_then(real),
        ..ReadFacts::default()
    }
}

/// Finds a socket by its file: one of another network namespace is in no table that can be read here.
fn socket_below(top: &Path) -> io::Result<Option<PathBuf>> {
    let mut left = vec![top.to_owned()];
    let mut looked_at = 0;
    while let Some(path) = left.pop() {
        looked_at += 1;
        if looked_at > LOOKED_AT_MAX {
            return Err(io::Error::other("it holds too many files to look at"));
        }
        let kind = std::fs::symlink_metadata(&path)?.file_type();
        if kind.is_socket() {
            return Ok(Some(path));
        }
        if kind.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() || kind.is_socket() {
                    left.push(entry.path());
                }
                looked_at += 1;
            }
        }
    }
    Ok(None)
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

/// Leaves out what is seen already through a directory that is shown, be it by way of a link in it.
fn without_nested(shown: &BTreeMap<PathBuf, PathBuf>) -> Vec<(&PathBuf, &PathBuf)> {
    let is_seen = |at: &Path, from: &Path| {
        at.ancestors().skip(1).any(|above| {
            let real = shown.get(above);
            let through = real.and_then(|real| Some(real.join(at.strip_prefix(above).ok()?)));
            through.is_some_and(|through| std::fs::canonicalize(through).is_ok_and(|r| r == from))
        })
    };
    shown
        .iter()
        .filter(|(at, from)| !is_seen(at, from))
        .collect()
}
