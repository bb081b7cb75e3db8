//! Where state lives: `<home>`, private to one user, and the layout below it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use cto_contract::ids::RunId;
use rustix::fs::FlockOperation;

const LEDGER_MARK: &str = "ledger-mark";
/// Begins the name of a mark under construction; the id of its maker follows.
pub(crate) const LEDGER_MARK_DRAFT: &str = "ledger-mark.new-";

/// A home or config directory that passed the checks.
#[derive(Debug, Clone)]
pub struct Home {
    root: PathBuf,
    /// Where its runs are, if elsewhere than in the root.
    room: Option<PathBuf>,
}

/// Why a directory can't hold state or authority.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("no home directory is known")]
    Unknown,
    #[error(transparent)]
    NotText(#[from] crate::environment::NotText),
    #[error("`{0}` is not an absolute path")]
    Relative(PathBuf),
    #[error("could not make the directory `{path}`")]
    Create { path: PathBuf, source: io::Error },
    #[error("could not read the directory `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("`{0}` is not a directory")]
    NotADirectory(PathBuf),
    #[error("`{path}` belongs to user {owner}, not to {me}")]
    ForeignOwner { path: PathBuf, owner: u32, me: u32 },
    #[error("`{path}` can be written by group or others (mode {mode:04o})")]
    LooseMode { path: PathBuf, mode: u32 },
    #[error("`{path}` can't be written")]
    ReadOnly { path: PathBuf, source: io::Error },
}

impl HomeError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "home_unknown",
            Self::NotText(_) => "home_not_text",
            Self::Relative(_) => "home_relative",
            Self::Create { .. } => "home_not_created",
            Self::Read { .. } => "home_unreadable",
            Self::NotADirectory(_) => "home_not_a_directory",
            Self::ForeignOwner { .. } => "home_foreign_owner",
            Self::LooseMode { .. } => "home_loose_mode",
            Self::ReadOnly { .. } => "home_read_only",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown => "set CTO_HOME, or HOME".to_owned(),
            Self::NotText(name) => {
                let name = &name.0;
                format!("set {name} to a path in UTF-8, or name the place by --home or --config")
            }
            Self::Relative(_) => "give an absolute path".to_owned(),
            Self::Create { .. } | Self::Read { .. } => {
                "fix its permissions or free space, or choose another with --home".to_owned()
            }
            Self::ReadOnly { .. } => {
                "make it writable, or choose another with --home; what only reads works here"
                    .to_owned()
            }
            Self::NotADirectory(_) => "choose another with --home".to_owned(),
            Self::ForeignOwner { .. } => {
                "use a home of your own: --home DIR or CTO_HOME".to_owned()
            }
            Self::LooseMode { path, .. } => format!("chmod go-w {}", path.display()),
        }
    }
}

/// Checks that a directory belongs to this user and nobody else can write it.
pub(crate) fn check_private(path: &Path) -> Result<(), HomeError> {
    let meta = fs::metadata(path).map_err(|source| HomeError::Read {
        path: path.to_owned(),
        source,
    })?;
    if !meta.is_dir() {
        return Err(HomeError::NotADirectory(path.to_owned()));
    }
    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me {
        return Err(HomeError::ForeignOwner {
            path: path.to_owned(),
            owner: meta.uid(),
            me,
        });
    }
    if meta.mode() & 0o022 != 0 {
        return Err(HomeError::LooseMode {
            path: path.to_owned(),
            mode: meta.mode() & 0o7777,
        });
    }
    Ok(())
}

/// Makes a directory with mode 0700, and its parents.
pub(crate) fn make_private(path: &Path) -> Result<(), HomeError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| HomeError::Create {
            path: path.to_owned(),
            source,
        })
}

impl Home {
    /// Opens or makes the home.
    pub fn open(root: &Path) -> Result<Self, HomeError> {
        if !root.is_absolute() {
            return Err(HomeError::Relative(root.to_owned()));
        }
        match fs::metadata(root) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => make_private(root)?,
            Err(source) => {
                return Err(HomeError::Read {
                    path: root.to_owned(),
                    source,
                });
            }
            Ok(_) => {}
        }
        check_private(root)?;
        let home = Self {
            root: root.to_owned(),
            room: None,
        };
        for dir in [home.runs(), home.work(), home.baselines()] {
            if !dir.exists() {
                make_private(&dir)?;
            }
            check_private(&dir)?;
        }
        rustix::fs::access(&home.root, rustix::fs::Access::WRITE_OK).map_err(|e| {
            HomeError::ReadOnly {
                path: home.root.clone(),
                source: e.into(),
            }
        })?;
        Ok(home)
    }

    /// Opens a home that can't be written, for commands that only read; none where it can be, or is not there.
    pub fn read_only(root: &Path) -> Result<Option<Self>, HomeError> {
        if !root.is_absolute() || !root.is_dir() {
            return Ok(None);
        }
        if rustix::fs::access(root, rustix::fs::Access::WRITE_OK).is_ok() {
            return Ok(None);
        }
        check_private(root)?;
        let home = Self {
            root: root.to_owned(),
            room: None,
        };
        for dir in [home.runs(), home.work()] {
            check_private(&dir)?;
        }
        Ok(Some(home))
    }

    /// The same home with an empty room for its runs: baselines, locks and keys are shared, no run is seen.
    pub(crate) fn aside(&self, room: &Path) -> Result<Self, HomeError> {
        let home = Self {
            root: self.root.clone(),
            room: Some(room.to_owned()),
        };
        for dir in [home.runs(), home.work()] {
            make_private(&dir)?;
        }
        Ok(home)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
    pub(crate) fn room(&self) -> &Path {
        self.room.as_deref().unwrap_or(&self.root)
    }
    pub fn runs(&self) -> PathBuf {
        self.room().join("harness-runs")
    }
    pub fn work(&self) -> PathBuf {
        self.room().join("work")
    }
    /// Trees and rooms of live runs, by names that tell nothing.
    pub fn rooms(&self) -> PathBuf {
        self.room().join("rooms")
    }
    /// How runs were asked for, for `cto rerun`.
    pub fn requests(&self) -> PathBuf {
        self.room().join("requests")
    }
    /// Homes of validators.
    pub fn validation(&self) -> PathBuf {
        self.root.join("validation")
    }
    pub fn baselines(&self) -> PathBuf {
        self.root.join("baselines")
    }
    /// How far the ledger of these runs had come.
    pub(crate) fn ledger_mark(&self) -> PathBuf {
        self.room().join(LEDGER_MARK)
    }
    /// Packs of elsewhere on their way in.
    pub(crate) fn incoming(&self) -> PathBuf {
        self.root.join("incoming")
    }
    pub fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }
    pub fn keys(&self) -> PathBuf {
        self.root.join("keys")
    }
    /// Records that runs used, by digest.
    pub fn admissions(&self) -> PathBuf {
        self.root.join("admissions")
    }
    pub fn quarantine(&self, run: &RunId) -> PathBuf {
        self.root.join("quarantine").join(run.as_str())
    }
    pub fn database(&self) -> PathBuf {
        self.root.join("cto.db")
    }
    pub fn pack(&self, run: &RunId) -> PathBuf {
        self.runs().join(run.as_str())
    }
    /// The repository that is made for the landing of one run.
    pub fn disposable(&self, run: &RunId) -> PathBuf {
        self.room().join("disposable").join(run.as_str())
    }
    pub fn addenda(&self, run: &RunId) -> PathBuf {
        self.runs().join(format!("{run}.addenda"))
    }
    /// Takes the lock of a repository, shared with other runs that only copy from it, for as long as the file is open.
    pub(crate) fn lock_target(&self, git_directory: &Path) -> io::Result<fs::File> {
        use std::os::unix::ffi::OsStrExt as _;
        let name = cto_evidence::canonical::sha256(git_directory.as_os_str().as_bytes());
        self.lock(name.as_str(), FlockOperation::LockShared)
    }
    /// Takes the lock of a repository alone, to change it; none while runs copy from it.
    pub(crate) fn lock_target_alone(&self, git_directory: &Path) -> io::Result<Option<fs::File>> {
        use std::os::unix::ffi::OsStrExt as _;
        let name = cto_evidence::canonical::sha256(git_directory.as_os_str().as_bytes());
        self.try_lock(name.as_str())
    }
    /// Takes a lock alone, or says that somebody has it.
    pub(crate) fn try_lock(&self, name: &str) -> io::Result<Option<fs::File>> {
        match self.lock(name, FlockOperation::NonBlockingLockExclusive) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
    /// Takes the lock of all baselines: shared while a run chooses one, alone while some are taken out of the cache.
    pub(crate) fn lock_baselines(&self, how: FlockOperation) -> io::Result<fs::File> {
        self.lock("baselines", how)
    }
    fn lock(&self, name: &str, how: FlockOperation) -> io::Result<fs::File> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.locks())?;
        let file = fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.locks().join(name))?;
        rustix::fs::flock(&file, how)?;
        Ok(file)
    }
    pub fn work_of(&self, run: &RunId) -> PathBuf {
        self.work().join(run.as_str())
    }
}

/// Finds the home: the flag, `CTO_HOME`, Hermes' profile, or the XDG state directory.
pub fn resolve_home(
    flag: Option<&Path>,
    env: &crate::Environment,
) -> Result<(PathBuf, &'static str), HomeError> {
    if let Some(path) = flag {
        return Ok((
            std::path::absolute(path).map_err(|_| HomeError::Unknown)?,
            "--home",
        ));
    }
    if let Some(path) = env.place("CTO_HOME")? {
        return Ok((PathBuf::from(path), "CTO_HOME"));
    }
    if let Some(path) = env.place("HERMES_HOME")? {
        return Ok((Path::new(path).join("profiles/cto-planb"), "HERMES_HOME"));
    }
    if let Some(path) = env
        .place("XDG_STATE_HOME")?
        .filter(|p| Path::new(p).is_absolute())
    {
        return Ok((Path::new(path).join("cto"), "XDG_STATE_HOME"));
    }
    let home = env.place("HOME")?.ok_or(HomeError::Unknown)?;
    Ok((Path::new(home).join(".local/state/cto"), "default"))
}

/// Finds the config directory: the flag, or the XDG config directory.
pub fn resolve_config(
    flag: Option<&Path>,
    env: &crate::Environment,
) -> Result<(PathBuf, &'static str), HomeError> {
    if let Some(path) = flag {
        return Ok((
            std::path::absolute(path).map_err(|_| HomeError::Unknown)?,
            "--config",
        ));
    }
    if let Some(path) = env
        .place("XDG_CONFIG_HOME")?
        .filter(|p| Path::new(p).is_absolute())
    {
        return Ok((Path::new(path).join("cto"), "XDG_CONFIG_HOME"));
    }
    let home = env.place("HOME")?.ok_or(HomeError::Unknown)?;
    Ok((Path::new(home).join(".config/cto"), "default"))
}
