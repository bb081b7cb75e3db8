//! The cases: those embedded in the binary and those of a directory, which are untrusted input.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use cto_checkout::{
    Baseline, BaselineCache, BaselineError, EntryMode, ImportCaps, ImportError, TreeEntry,
    check_tree, import, write_entries,
};
use cto_contract::case::CaseFile;
use cto_contract::document::DocumentError;
use cto_contract::ids::{BadId, CaseId};
use cto_contract::text::shorten;

/// Longest `fake.patch` or cheat that is read.
const PATCH_BYTES_MAX: u64 = 64 << 20;
const CASE_FILE: &str = "case.yaml";
const ENTRIES: [&str; 7] = [
    CASE_FILE,
    "workspace",
    "fake.patch",
    "fake",
    "oracle",
    "cheats",
    "README.md",
];

pub(crate) struct EmbeddedFile {
    path: &'static str,
    mode: EntryMode,
    content: &'static [u8],
}

pub(crate) struct EmbeddedCase {
    id: &'static str,
    files: &'static [EmbeddedFile],
}

include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// A case that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    #[error("there is no case `{id}`")]
    Unknown { id: String, known: Vec<String> },
    #[error(transparent)]
    BadId(#[from] BadId),
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("`{path}` must be a plain file or directory of its own, no link and no device")]
    NotPlain { path: PathBuf },
    #[error("`{path}` does not belong in a case directory")]
    UnknownEntry { path: PathBuf },
    #[error("invalid case")]
    Invalid(#[source] DocumentError),
    #[error("`{path}` calls itself `{id}`, which is not its directory's name")]
    Misnamed { path: PathBuf, id: String },
    #[error("case `{id}`: the tree can't be used")]
    Tree {
        id: CaseId,
        source: Box<ImportError>,
    },
    #[error("case `{id}`: the baseline can't be made")]
    Baseline {
        id: CaseId,
        source: Box<BaselineError>,
    },
    #[error("`{path}` is larger than {PATCH_BYTES_MAX} bytes")]
    TooLarge { path: PathBuf },
    #[error("case `{id}` has neither `fake.patch` nor `fake/`, so the fake lane can't do it")]
    NoFakeChange { id: CaseId },
    #[error("case `{id}` has no cheat `{name}`")]
    NoCheat { id: CaseId, name: String },
}

impl CaseError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "case_unknown",
            Self::BadId(_) => "case_id_invalid",
            Self::Read { .. } => "case_unreadable",
            Self::NotPlain { .. } => "case_not_plain",
            Self::UnknownEntry { .. } => "case_unknown_entry",
            Self::Invalid(_) => "case_invalid",
            Self::Misnamed { .. } => "case_misnamed",
            Self::Tree { .. } => "case_tree_refused",
            Self::Baseline { .. } => "case_baseline_failed",
            Self::TooLarge { .. } => "case_too_large",
            Self::NoFakeChange { .. } => "case_no_fake_change",
            Self::NoCheat { .. } => "case_no_cheat",
        }
    }
}

#[derive(Debug, Clone)]
enum Source {
    Embedded(&'static EmbeddedCase),
    Directory(PathBuf),
}

impl std::fmt::Debug for EmbeddedCase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

/// A case that was read and checked; its tree is taken in later.
#[derive(Debug, Clone)]
pub struct Case {
    pub file: CaseFile,
    source: Source,
}

/// Where cases come from.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Directory of the user's own cases; they may not hide a shipped one.
    pub extra: Option<PathBuf>,
}

impl Catalog {
    /// All ids, shipped ones first.
    pub fn ids(&self) -> Result<Vec<String>, CaseError> {
        let mut ids: Vec<String> = CASES.iter().map(|c| c.id.to_owned()).collect();
        if let Some(dir) = &self.extra {
            let failed = |source| CaseError::Read {
                path: dir.clone(),
                source,
            };
            let mut own = Vec::new();
            for entry in fs::read_dir(dir).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                if entry.path().join(CASE_FILE).exists() {
                    own.push(entry.file_name().to_string_lossy().into_owned());
                }
            }
            own.sort();
            own.retain(|id| !ids.contains(id));
            ids.extend(own);
        }
        Ok(ids)
    }

    /// Reads one case.
    pub fn find(&self, id: &str) -> Result<Case, CaseError> {
        let id: CaseId = id.parse()?;
        // A directory that was named and is not there is the mistake, not the case that is then missing.
        if let Some(dir) = &self.extra {
            fs::read_dir(dir).map_err(|source| CaseError::Read {
                path: dir.clone(),
                source,
            })?;
        }
        if let Some(embedded) = CASES.iter().find(|c| c.id == id.as_str()) {
            let yaml = embedded
                .files
                .iter()
                .find(|f| f.path == CASE_FILE)
                .map_or(&[][..], |f| f.content);
            let file =
                CaseFile::read(&format!("{id}/{CASE_FILE}"), yaml).map_err(CaseError::Invalid)?;
            return Ok(Case {
                file,
                source: Source::Embedded(embedded),
            });
        }
        let own = self
            .extra
            .as_ref()
            .map(|dir| dir.join(id.as_str()))
            .filter(|dir| dir.symlink_metadata().is_ok());
        match own {
            Some(dir) => Case::read_directory(&id, &dir),
            None => Err(CaseError::Unknown {
                id: id.to_string(),
                known: self.ids().unwrap_or_default(),
            }),
        }
    }
}

impl Case {
    fn read_directory(id: &CaseId, dir: &Path) -> Result<Self, CaseError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| CaseError::Read { path, source }
        };
        let kind = fs::symlink_metadata(dir).map_err(failed(dir))?.file_type();
        if !kind.is_dir() {
            return Err(CaseError::NotPlain {
                path: dir.to_owned(),
            });
        }
        for entry in fs::read_dir(dir).map_err(failed(dir))? {
            let entry = entry.map_err(failed(dir))?;
            let path = entry.path();
            let name = entry.file_name();
            let Some(known) = ENTRIES.iter().find(|e| name == **e) else {
                return Err(CaseError::UnknownEntry { path });
            };
            let kind = entry.file_type().map_err(failed(&path))?;
            let wants_file = known.contains('.');
            if (wants_file && !kind.is_file()) || (!wants_file && !kind.is_dir()) {
                return Err(CaseError::NotPlain { path });
            }
        }
        let path = dir.join(CASE_FILE);
        let bytes = read_capped(&path, cto_contract::document::DOCUMENT_BYTES_MAX as u64 + 1)?;
        let file =
            CaseFile::read(&path.display().to_string(), &bytes).map_err(CaseError::Invalid)?;
        if file.id != *id {
            return Err(CaseError::Misnamed {
                path,
                id: file.id.to_string(),
            });
        }
        Ok(Self {
            file,
            source: Source::Directory(dir.to_owned()),
        })
    }

    /// Refuses a case whose trees can't be taken in, before a run id is given out. Shipped ones are known to be fit.
    pub fn check(&self) -> Result<(), CaseError> {
        let Source::Directory(dir) = &self.source else {
            return Ok(());
        };
        for part in ["workspace", "fake", "oracle"] {
            let tree = dir.join(part);
            if part == "workspace" || tree.exists() {
                check_tree(&tree, &ImportCaps::default()).map_err(|source| CaseError::Tree {
                    id: self.file.id.clone(),
                    source: Box::new(source),
                })?;
            }
        }
        Ok(())
    }

    /// Whether the case ships with the binary.
    pub fn is_embedded(&self) -> bool {
        matches!(self.source, Source::Embedded(_))
    }

    /// The directory of cases that it was found in; none for a shipped one.
    pub fn found_in(&self) -> Option<&Path> {
        match &self.source {
            Source::Embedded(_) => None,
            Source::Directory(dir) => dir.parent(),
        }
    }

    /// Takes the workspace tree into the cache. `scratch` is a place for a tree that is partly generated.
    pub fn baseline(&self, cache: &BaselineCache, scratch: &Path) -> Result<Baseline, CaseError> {
        let caps = ImportCaps::default();
        let fill: Vec<(String, String)> = self.file.fill.iter().flat_map(|f| f.files()).collect();
        let baseline = match &self.source {
            Source::Embedded(case) => {
                let mut entries = Self::embedded_below(case, "workspace/");
                entries.extend(fill.iter().map(|(path, content)| TreeEntry {
                    path: path.as_bytes(),
                    mode: EntryMode::Regular,
                    content: content.as_bytes(),
                }));
                cache.ensure_entries(&entries, &caps)
            }
            Source::Directory(dir) if fill.is_empty() => {
                cache.ensure_dir(&dir.join("workspace"), &caps)
            }
            Source::Directory(dir) => {
                let tree = |source| CaseError::Tree {
                    id: self.file.id.clone(),
                    source: Box::new(source),
                };
                import(&dir.join("workspace"), scratch, &caps).map_err(tree)?;
                for (path, content) in &fill {
                    let full = scratch.join(path);
                    let written = full
                        .parent()
                        .map_or(Ok(()), fs::create_dir_all)
                        .and_then(|()| {
                            let mut file = File::create_new(&full)?;
                            io::Write::write_all(&mut file, content.as_bytes())
                        });
                    written.map_err(|source| CaseError::Read { path: full, source })?;
                }
                cache.ensure_dir(scratch, &caps)
            }
        };
        baseline.map_err(|source| CaseError::Baseline {
            id: self.file.id.clone(),
            source: Box::new(source),
        })
    }

    fn embedded_below(case: &EmbeddedCase, prefix: &str) -> Vec<TreeEntry<'static>> {
        case.files
            .iter()
            .filter_map(|f| {
                f.path.strip_prefix(prefix).map(|path| TreeEntry {
                    path: path.as_bytes(),
                    mode: f.mode,
                    content: f.content,
                })
            })
            .collect()
    }

    /// The patch that the fake lane applies, or one of the cheats that must not pass.
    pub fn patch(&self, cheat: Option<&str>) -> Result<Option<Vec<u8>>, CaseError> {
        let name = match cheat {
            None => "fake.patch".to_owned(),
            Some(name) if name.contains(['/', '\\', '\0']) || name.starts_with('.') => {
                return Err(CaseError::NoCheat {
                    id: self.file.id.clone(),
                    name: shorten(name, 60),
                });
            }
            Some(name) => format!("cheats/{name}.patch"),
        };
        let found = match &self.source {
            Source::Embedded(case) => case
                .files
                .iter()
                .find(|f| f.path == name)
                .map(|f| f.content.to_vec()),
            Source::Directory(dir) => {
                let path = dir.join(&name);
                match path.symlink_metadata() {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => None,
                    Err(source) => return Err(CaseError::Read { path, source }),
                    Ok(_) => Some(read_capped(&path, PATCH_BYTES_MAX)?),
                }
            }
        };
        match (found, cheat) {
            (None, Some(name)) => Err(CaseError::NoCheat {
                id: self.file.id.clone(),
                name: shorten(name, 60),
            }),
            (found, _) => Ok(found),
        }
    }

    /// Names of the cheats.
    pub fn cheats(&self) -> Result<Vec<String>, CaseError> {
        let stem = |name: &str| name.strip_suffix(".patch").map(str::to_owned);
        let mut names: Vec<String> = match &self.source {
            Source::Embedded(case) => case
                .files
                .iter()
                .filter_map(|f| stem(f.path.strip_prefix("cheats/")?))
                .collect(),
            Source::Directory(dir) => {
                let dir = dir.join("cheats");
                if !dir.exists() {
                    return Ok(Vec::new());
                }
                let failed = |source| CaseError::Read {
                    path: dir.clone(),
                    source,
                };
                let entries = fs::read_dir(&dir)
                    .map_err(failed)?
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(failed)?;
                entries
                    .iter()
                    .filter_map(|e| stem(&e.file_name().to_string_lossy()))
                    .collect()
            }
        };
        names.sort();
        Ok(names)
    }

    /// Lays a part of the case (`oracle`, `fake`) out at `dest`; false when the case has none.
    pub fn lay_out(&self, part: &str, dest: &Path) -> Result<bool, CaseError> {
        let caps = ImportCaps::default();
        let tree = |source| CaseError::Tree {
            id: self.file.id.clone(),
            source: Box::new(source),
        };
        match &self.source {
            Source::Embedded(case) => {
                let entries = Self::embedded_below(case, &format!("{part}/"));
                if entries.is_empty() {
                    return Ok(false);
                }
                write_entries(dest, &entries, &caps).map_err(tree)?;
            }
            Source::Directory(dir) => {
                let dir = dir.join(part);
                if !dir.exists() {
                    return Ok(false);
                }
                import(&dir, dest, &caps).map_err(tree)?;
            }
        }
        Ok(true)
    }
}

/// Reads a plain file without following a link.
fn read_capped(path: &Path, max: u64) -> Result<Vec<u8>, CaseError> {
    let failed = |source| CaseError::Read {
        path: path.to_owned(),
        source,
    };
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(|source| {
            if source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
                CaseError::NotPlain {
                    path: path.to_owned(),
                }
            } else {
                failed(source)
            }
        })?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(CaseError::NotPlain {
            path: path.to_owned(),
        });
    }
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max {
        return Err(CaseError::TooLarge {
            path: path.to_owned(),
        });
    }
    Ok(bytes)
}
