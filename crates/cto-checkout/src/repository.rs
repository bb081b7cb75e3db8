//! The owner's repository as a source of baselines.
//!
//! It is only read, and only as data: references and configuration by our own parsers, objects by git through a git
//! directory of ours that borrows them. Git never sees the repository's own configuration, hooks or git directory, so
//! nothing that stands in there can be started.

pub(crate) mod alternates;
pub(crate) mod batch;
mod blobs;
mod config;
mod disposable;
mod error;
mod fingerprint;
mod fixture_layer;
mod git_files;
mod git_layer;
mod history;
mod index_file;
mod index_reader;
mod layer_record;
mod listing;
mod place;
mod refs;
mod source_baseline;
mod stat_pass;
mod status;
mod target;
mod work_tree;

pub(crate) use git_files::GitFiles;
pub(crate) use refs::is_ref_name;
pub(crate) use target::{PlainIndex, RefAt};

pub use error::{RepositoryError, UnsupportedKind};
pub use fingerprint::SourceFingerprint;
pub use git_layer::{GitLayer, History};
pub use history::CommitRecord;
pub use refs::Head;
pub use source_baseline::SourceBaseline;
pub use work_tree::{DirtyKind, DirtyPath};

use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::git::Call;
use crate::git_dir::{GitDir, ObjectKind};
use crate::import::ImportCaps;
use crate::oid::{Oid, TreeId};
use crate::platform::memory_file;
use batch::{Absence, Event, Kind, NoAnswer, Sink};
use config::{BadLine, Config};
use place::Place;

const CONFIG_BYTES_MAX: u64 = 4 << 20;
const COMMIT_BYTES_MAX: u64 = 64 << 20;
const RESOLVE_WALL: Duration = Duration::from_secs(60);
const REV_BYTES_MAX: usize = 512;

/// What is worth a line in a report about a repository; none of it stands in the way of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepositoryTraits {
    pub bare: bool,
    pub linked_work_tree: bool,
    pub shallow: bool,
    pub partial: bool,
    pub sparse: bool,
}

/// A commit that was read and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    pub id: Oid,
    pub tree: TreeId,
}

/// A repository that can be read. It keeps a git directory of its own in the scratch directory it was given.
#[derive(Debug)]
pub struct Repository {
    place: Place,
    config: Config,
    scratch: PathBuf,
    git_dir: GitDir,
    caps: ImportCaps,
    /// How many git directories for a status were made.
    statuses: AtomicU64,
}

impl Repository {
    /// Opens the repository at a directory or above it. `scratch` must not exist yet; the caller removes it.
    pub fn open(path: &Path, scratch: &Path) -> Result<Self, RepositoryError> {
        let place = Place::find(path)?;
        let config = read_config(&place)?;
        check_format(&place, &config)?;
        let objects = alternates::object_directories(&place.common_dir.path().join("objects"))?;
        let scratch = std::path::absolute(scratch).map_err(RepositoryError::write(scratch))?;
        std::fs::create_dir(&scratch).map_err(RepositoryError::write(&scratch))?;
        let git_dir = GitDir::create(&scratch.join("objects.git"))?;
        git_dir.replace(
            "objects/info/alternates",
            &alternates::encode(objects.iter().map(PathBuf::as_path)),
        )?;
        Ok(Self {
            place,
            config,
            scratch,
            git_dir,
            caps: ImportCaps::default(),
            statuses: AtomicU64::new(0),
        })
    }

    /// Says where the git directory of the repository at a directory or above it is, and opens nothing else.
    pub fn git_directory_at(path: &Path) -> Result<PathBuf, RepositoryError> {
        Ok(Place::find(path)?.common_dir.path().to_owned())
    }

    /// Sets other bounds than the usual ones for the trees that are read.
    #[must_use]
    pub fn with_caps(self, caps: ImportCaps) -> Self {
        Self { caps, ..self }
    }

    /// Returns the top of the work tree, which a bare repository has not.
    pub fn work_tree(&self) -> Option<&Path> {
        self.place.work_tree.as_deref()
    }

    /// Returns the directory that holds objects, references and configuration.
    pub fn git_directory(&self) -> &Path {
        self.place.common_dir.path()
    }

    pub fn head(&self) -> Result<Head, RepositoryError> {
        self.place.head()
    }

    pub fn traits(&self) -> Result<RepositoryTraits, RepositoryError> {
        Ok(RepositoryTraits {
            bare: self.place.work_tree.is_none(),
            linked_work_tree: self.place.git_dir.path() != self.place.common_dir.path(),
            shallow: self.is_shallow()?,
            partial: self.is_partial(),
            sparse: self.config.is_true("core.sparsecheckout"),
        })
    }

    fn is_shallow(&self) -> Result<bool, RepositoryError> {
        let cuts = self.place.common_dir.bytes("shallow", CONFIG_BYTES_MAX)?;
        Ok(cuts.is_some_and(|cuts| !cuts.trim_ascii().is_empty()))
    }

    fn is_partial(&self) -> bool {
        let mut remotes = self.config.below("remote.");
        self.config.get("extensions.partialclone").is_some()
            || remotes.any(|(name, _)| name.ends_with(b".promisor"))
    }

    /// Finds a commit: `HEAD`, a branch, a tag or an id, with `~n` and `^n` behind it if need be.
    pub fn resolve(&self, rev: Option<&str>) -> Result<CommitInfo, RepositoryError> {
        let rev = rev.unwrap_or("HEAD");
        let none = || RepositoryError::NoSuchRevision {
            rev: crate::TreePath::from(rev).to_string(),
        };
        let (name, steps) = rev.split_at(rev.find(['~', '^']).unwrap_or(rev.len()));
        let known = |c: char| c.is_ascii_digit() || "~^".contains(c);
        if rev.len() > REV_BYTES_MAX || name.is_empty() || !steps.chars().all(known) {
            return Err(none());
        }
        let hex = name.len() >= 4 && name.bytes().all(|digit| digit.is_ascii_hexdigit());
        let start = if name.parse::<Oid>().is_ok() {
            name.to_owned()
        } else if let Some(id) = self.place.named(name)? {
            id.to_string()
        } else if name == "HEAD" {
            return Err(RepositoryError::unsupported(
                UnsupportedKind::NoCommits,
                "`HEAD` names a branch that has no commit yet",
            ));
        } else if hex {
            name.to_ascii_lowercase()
        } else {
            return Err(none());
        };
        match self.read_commit(&format!("{start}{steps}^{{commit}}"))? {
            Ok(commit) => Ok(commit),
            Err(Absence::Missing) => Err(none()),
            Err(Absence::Ambiguous) => Err(RepositoryError::AmbiguousRevision {
                rev: rev.to_owned(),
            }),
        }
    }

    fn read_commit(&self, question: &str) -> Result<Result<CommitInfo, Absence>, RepositoryError> {
        let call = Call {
            verb: "cat-file",
            arguments: vec!["--batch".into()],
            git_dir: self.git_dir.path(),
            work_tree: None,
            wall: RESOLVE_WALL,
            output_bytes_max: COMMIT_BYTES_MAX,
        };
        let input = || {
            let mut file = memory_file()?;
            writeln!(file, "{question}")?;
            file.rewind()?;
            Ok(file)
        };
        let input = input().map_err(|source| call.talk(source))?;
        let (mut found, mut content, mut absence) = (None, Vec::new(), None);
        let mut sink = Sink::new(|event| {
            match event {
                Event::Begin {
                    id,
                    kind: Kind::Commit,
                    ..
                } => found = Some(id),
                Event::Begin { .. } => return Err(NoAnswer.into()),
                Event::Piece(piece) => content.extend_from_slice(piece),
                Event::End => {}
                Event::Absent(reason) => absence = Some(reason),
            }
            Ok::<_, RepositoryError>(())
        });
        let finished = call.run_with(OBJECT_SETTINGS, input.into(), &mut sink);
        if let Some(error) = sink.into_error() {
            return Err(error);
        }
        call.expect_success(finished?, &[])?;
        if let Some(absence) = absence {
            return Ok(Err(absence));
        }
        let id = found.ok_or(NoAnswer)?;
        if object_id(ObjectKind::Commit, &content) != id {
            return Err(RepositoryError::Corrupt {
                path: crate::TreePath::from(id.to_string().as_str()),
                oid: id,
            });
        }
        let tree = tree_of(&content).ok_or(NoAnswer)?;
        Ok(Ok(CommitInfo { id, tree }))
    }
}

/// The graph file that a repository may have can say anything about its commits; git must read the commits.
const OBJECT_SETTINGS: &[&str] = &["core.commitGraph=false"];

fn tree_of(commit: &[u8]) -> Option<TreeId> {
    let line = commit.split(|&byte| byte == b'\n').next()?;
    let id = line.strip_prefix(b"tree ")?;
    std::str::from_utf8(id).ok()?.parse().ok()
}

pub(crate) fn object_id(kind: ObjectKind, content: &[u8]) -> Oid {
    use sha1::{Digest as _, Sha1};
    let mut sha = Sha1::new();
    sha.update(format!("{} {}\0", kind.name(), content.len()));
    sha.update(content);
    Oid::from_bytes(sha.finalize().into())
}

fn read_config(place: &Place) -> Result<Config, RepositoryError> {
    let read = |files: &git_files::GitFiles, name: &str| {
        let text = files.bytes(name, CONFIG_BYTES_MAX)?.unwrap_or_default();
        Config::parse(&text).map_err(|BadLine(line)| RepositoryError::Malformed {
            path: files.path().join(name),
            detail: format!("line {line}"),
        })
    };
    let mut config = read(&place.common_dir, "config")?;
    if config.is_true("extensions.worktreeconfig") {
        config.extend(read(&place.git_dir, "config.worktree")?);
    }
    Ok(config)
}

/// Refuses formats whose objects or references this cannot read.
fn check_format(place: &Place, config: &Config) -> Result<(), RepositoryError> {
    let refuse = |kind, detail: String| Err(RepositoryError::unsupported(kind, detail));
    let version = config.text("core.repositoryformatversion").unwrap_or("0");
    if !matches!(version, "0" | "1") {
        let detail = format!("repository format version `{}`", shown(version.as_bytes()));
        return refuse(UnsupportedKind::UnknownExtension, detail);
    }
    for (name, value) in config.below("extensions.") {
        let value = value.unwrap_or(b"true");
        let kind = match name {
            b"objectformat" if value == b"sha1" => continue,
            b"objectformat" => UnsupportedKind::Sha256Objects,
            b"refstorage" if value == b"files" => continue,
            b"refstorage" => UnsupportedKind::Reftable,
            b"noop" | b"noop-v1" | b"preciousobjects" | b"partialclone" | b"worktreeconfig"
            | b"relativeworktrees" => continue,
            _ if version == "0" => continue,
            _ => UnsupportedKind::UnknownExtension,
        };
        let detail = format!("the extension `{}` is `{}`", shown(name), shown(value));
        return refuse(kind, detail);
    }
    let own = place.git_dir.path() == place.common_dir.path();
    if let (Some(work_tree), Some(Some(named)), true) =
        (&place.work_tree, config.get("core.worktree"), own)
    {
        let named = crate::TreePath::from(named);
        let path = place.git_dir.path().join(named.as_path());
        if std::fs::canonicalize(path).ok().as_ref() != Some(work_tree) {
            let detail = format!("`core.worktree` is `{named}`");
            return refuse(UnsupportedKind::SeparateWorkTree, detail);
        }
    }
    Ok(())
}

fn shown(bytes: &[u8]) -> String {
    crate::TreePath::from(bytes).to_string()
}
