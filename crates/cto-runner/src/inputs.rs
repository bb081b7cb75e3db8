//! The contract's inputs on this machine: found, judged, fingerprinted.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use cto_contract::ids::Digest;
use cto_contract::input::{Input, InputMode, InputPath};
use cto_contract::plan::InputPlan;
use cto_evidence::canonical::sha256;
use cto_rules::inputs::{InputFacts, InputRefusal, judge_input};

/// Bounds on what one input may hold.
const ENTRIES_MAX: u64 = 1_000_000;
const DEPTH_MAX: usize = 128;
/// Files up to this size are fingerprinted by content when they are copied.
const HASHED_BYTES_MAX: u64 = 64 << 20;

/// An input that may be used.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedInput {
    pub(crate) path: InputPath,
    pub(crate) mode: InputMode,
    /// Where it really lies.
    pub(crate) from: PathBuf,
    pub(crate) is_directory: bool,
    files: u64,
    bytes: u64,
    fingerprint: Digest,
}

/// Why an input can't be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("the input `{from}` can't be read")]
    Read { from: InputPath, source: io::Error },
    #[error("the input `{from}` is refused: {why}")]
    Refused { from: InputPath, why: InputRefusal },
    #[error("the input `{from}` is relative, and a case has no repository")]
    NoRepository { from: InputPath },
    #[error("the input `{from}` holds more than {ENTRIES_MAX} entries or lies too deep")]
    TooLarge { from: InputPath },
}

/// What inputs are judged against.
pub(crate) struct Surroundings<'a> {
    pub(crate) repository: Option<&'a Path>,
    /// By the environment: what `~` stands for.
    pub(crate) user_home: Option<&'a Path>,
    /// All that are known.
    pub(crate) user_homes: &'a [PathBuf],
    pub(crate) harness_home: &'a Path,
    pub(crate) config: &'a Path,
}

impl Surroundings<'_> {
    /// Finds and judges every input.
    pub(crate) fn resolve(&self, inputs: &[Input]) -> Result<Vec<ResolvedInput>, InputError> {
        inputs.iter().map(|input| self.resolve_one(input)).collect()
    }

    fn resolve_one(&self, input: &Input) -> Result<ResolvedInput, InputError> {
        let path = &input.from;
        let failed = |source| InputError::Read {
            from: path.clone(),
            source,
        };
        let named = match path {
            InputPath::Repository(below) => self
                .repository
                .ok_or_else(|| InputError::NoRepository { from: path.clone() })?
                .join(below),
            InputPath::Home(below) => self
                .user_home
                .ok_or_else(|| failed(io::Error::other("HOME is not set")))?
                .join(below),
            InputPath::Absolute(below) => Path::new("/").join(below),
        };
        let from = fs::canonicalize(named).map_err(failed)?;
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let facts = InputFacts {
            path: &from,
            repository: self.repository.map(real),
            user_homes: self.user_homes.to_vec(),
            harness: vec![real(self.harness_home), real(self.config)],
            other_repository: other_repository(&from, self.repository.map(real).as_deref()),
        };
        if let Some(why) = judge_input(&facts) {
            return Err(InputError::Refused {
                from: path.clone(),
                why,
            });
        }
        let mut survey = Survey {
            input: path,
            by_content: input.mode == InputMode::Copy,
            files: 0,
            bytes: 0,
            entries: 0,
            lines: Vec::new(),
        };
        let is_directory = fs::metadata(&from).map_err(failed)?.is_dir();
        survey.look(&from, Path::new(""), 0)?;
        survey.lines.sort();
        Ok(ResolvedInput {
            path: path.clone(),
            mode: input.mode,
            is_directory,
            files: survey.files,
            bytes: survey.bytes,
            fingerprint: sha256(survey.lines.join(&b'\n').as_slice()),
            from,
        })
    }
}

impl ResolvedInput {
    pub(crate) fn plan(&self) -> InputPlan {
        InputPlan {
            from: self.path.clone(),
            at: match &self.path {
                InputPath::Repository(path) => format!("$WORKSPACE/{path}"),
                InputPath::Home(path) => format!("$SCRATCH/home/{path}"),
                InputPath::Absolute(path) => format!("/{path}"),
            },
            mode: self.mode,
            files: self.files,
            bytes: self.bytes,
            fingerprint: self.fingerprint.clone(),
        }
    }
}

/// The nearest repository at or above a path, or the path itself when it is a bare one; not the one that is worked on.
fn other_repository(path: &Path, own: Option<&Path>) -> Option<PathBuf> {
    let is_bare = |dir: &Path| {
        dir.join("HEAD").is_file() && dir.join("objects").is_dir() && dir.join("refs").is_dir()
    };
    path.ancestors()
        .take_while(|dir| Some(*dir) != own)
        .find(|dir| dir.join(".git").symlink_metadata().is_ok() || is_bare(dir))
        .map(Path::to_owned)
}

struct Survey<'a> {
    input: &'a InputPath,
    by_content: bool,
    files: u64,
    bytes: u64,
    entries: u64,
    lines: Vec<Vec<u8>>,
}

impl Survey<'_> {
    fn look(&mut self, path: &Path, below: &Path, depth: usize) -> Result<(), InputError> {
        let failed = |source| InputError::Read {
            from: self.input.clone(),
            source,
        };
        self.entries += 1;
        if self.entries > ENTRIES_MAX || depth > DEPTH_MAX {
            return Err(InputError::TooLarge {
                from: self.input.clone(),
            });
        }
        let meta = fs::symlink_metadata(path).map_err(failed)?;
        let kind = meta.file_type();
        let mut line = below.as_os_str().as_encoded_bytes().to_vec();
        let mut add = |part: &[u8]| {
            line.push(0);
            line.extend_from_slice(part);
        };
        add(format!("{:o}", meta.mode()).as_bytes());
        if kind.is_symlink() {
            let target = fs::read_link(path).map_err(failed)?;
            add(target.as_os_str().as_encoded_bytes());
        } else if kind.is_dir() {
        } else if kind.is_file() {
            self.files += 1;
            self.bytes += meta.len();
            if self.by_content && meta.len() <= HASHED_BYTES_MAX {
                let mut content = Vec::new();
                fs::File::open(path)
                    .and_then(|f| f.take(HASHED_BYTES_MAX).read_to_end(&mut content))
                    .map_err(failed)?;
                add(sha256(&content).to_string().as_bytes());
            } else {
                let stamp = format!("{} {}.{}", meta.len(), meta.mtime(), meta.mtime_nsec());
                add(stamp.as_bytes());
            }
        } else {
            let why = if kind.is_socket() {
                InputRefusal::HoldsSocket(below.to_owned())
            } else {
                InputRefusal::HoldsSpecialFile(below.to_owned())
            };
            return Err(InputError::Refused {
                from: self.input.clone(),
                why,
            });
        }
        self.lines.push(line);
        if kind.is_dir() {
            for entry in fs::read_dir(path).map_err(failed)? {
                let name = entry.map_err(failed)?.file_name();
                self.look(&path.join(&name), &below.join(&name), depth + 1)?;
            }
        }
        Ok(())
    }
}

/// Copies an input that was surveyed: plain files, directories and links as they are.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(above) = to.parent() {
        fs::create_dir_all(above)?;
    }
    let meta = fs::symlink_metadata(from)?;
    let kind = meta.file_type();
    if kind.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if kind.is_file() {
        return fs::copy(from, to).map(drop);
    }
    if !kind.is_dir() {
        return Err(io::Error::other("neither file, directory nor link"));
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        copy_tree(&from.join(&name), &to.join(&name))?;
    }
    // Last, since it may take the right to write from the owner.
    fs::set_permissions(to, fs::Permissions::from_mode(meta.mode() & 0o7777 | 0o700))
}
