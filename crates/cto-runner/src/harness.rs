//! The harness: what stays the same from run to run, and the loop of one run.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use cto_checkout::{Repository, RepositoryError};
use cto_contract::approval::RequestId;
use cto_contract::config::CheckpointPlace;
use cto_contract::ids::{Digest, RunId};
use cto_contract::landing::DisposableTerms;
use cto_contract::lanes::ProgramSource;
use cto_contract::report::Report;
use cto_contract::time::Utc;
use cto_contract::trust::Origin;
use cto_contract::verify::VerifyReport;
use cto_contract::words::{Lane, RunStatus, SandboxChoice, Stage};
use cto_evidence::key::{PublicKey, SigningKey};
use cto_ledger::{Authority, Ledger, LedgerError, OPERATORS_FILE, SecondPlace};
use cto_rules::admission::{NamedRecord, bound_by_target};
use cto_rules::authority::AdmissionBook;
use cto_rules::sandbox_choice::ChoiceError;
use cto_rules::secrets::{Known, scan_text};
use cto_sandbox::{Launcher, StopToken};
use cto_store::{LedgerInit, Store, StoreError};

use crate::cases::CaseError;
use crate::clock;
use crate::config::{Config, ConfigError};
use crate::eligibility::{stage_asked, target_record};
use crate::environment::{Environment, user_homes};
use crate::home::{Home, HomeError};
use crate::inputs::{InputError, ResolvedInput, Surroundings};
use crate::inside::{NamedFileError, ReadPathError, check_named_files, check_read_paths};
use crate::journal::{JournalError, Observer};
use crate::keyring::{self, KeyStanding, KeyringError};
use crate::landing::{LandError, LandingResult};
use crate::lock::{LockError, maker_tag};
use crate::open_run::OpenRun;
use crate::reconcile::{Reconciled, reconcile};
use crate::recover::free_scratch;
use crate::reserve::is_disk_full;
use crate::sandbox::SandboxAsk;
use crate::sealing::seal_run;
use crate::task::Task;
use crate::transfer::finish_imports;
use crate::walk::walk;

/// Where to open the harness.
pub struct OpenOptions {
    pub home: PathBuf,
    pub config: PathBuf,
    pub env: Environment,
    pub launcher: Launcher,
}

/// An open harness.
///
/// It seals with its key; nobody outside this crate gets hold of it, so a face can show packs but not sign one:
///
/// ```compile_fail,E0616
/// fn sign(harness: &cto_runner::Harness) {
///     let _key = &harness.key;
/// }
/// ```
pub struct Harness {
    pub home: Home,
    pub config: Config,
    pub env: Environment,
    pub launcher: Launcher,
    pub(crate) key: SigningKey,
    /// Set when this call made the key.
    pub key_created: bool,
    /// What opening had to enter again.
    pub reconciled: Reconciled,
    pub(crate) store: Store,
    /// The database that says who decides, where that is another one: a plan's own is thrown away.
    pub(crate) decisions: Option<Store>,
}

/// Why the harness can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    #[error("the home directory can't be used")]
    Home(#[from] HomeError),
    #[error("the configuration can't be used")]
    Config(#[from] ConfigError),
    #[error("the signing key can't be used")]
    Keyring(#[from] KeyringError),
    #[error("the database can't be used")]
    Store(#[from] StoreError),
    #[error("no random bytes from the kernel")]
    Random(#[from] getrandom::Error),
}

/// The run that another one belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parent {
    /// An earlier attempt at the same task.
    Earlier(RunId),
    /// The run of a gated lane that this one of `fake` measures.
    Measured(RunId),
}

impl Parent {
    pub(crate) fn run_id(&self) -> &RunId {
        match self {
            Self::Earlier(run_id) | Self::Measured(run_id) => run_id,
        }
    }
}

/// One run, as asked for.
#[derive(Debug, Clone)]
pub struct RunRequest {
    pub task: Task,
    pub lane: Lane,
    /// Program and arguments of the `command` lane.
    pub argv: Vec<String>,
    pub stage: Option<Stage>,
    pub timeout_seconds: Option<u64>,
    /// A cheat of the case instead of its honest change; the pack is marked as conformance.
    pub cheat: Option<String>,
    pub parent: Option<Parent>,
    pub conformance: bool,
    pub sandbox: SandboxAsk,
    pub approval: ApprovalAsk,
}

/// How a run stands to approvals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ApprovalAsk {
    /// No request was named.
    #[default]
    None,
    /// Only planned, to find out what a request has to say. Nothing can start from it.
    Planned(Option<DisposableTerms>),
    /// The grant of this request is to be used up.
    Request(RequestId),
}

/// A sealed run.
#[derive(Debug)]
pub struct RunResult {
    pub run_id: RunId,
    pub pack: PathBuf,
    pub report: Report,
    /// The answer of the verification after sealing.
    pub verified: VerifyReport,
    /// What came of the landing; none where nothing was to land.
    pub landing: Option<Result<LandingResult, LandError>>,
}

/// A run that could not be started, or not be sealed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the case can't be run")]
    Case(#[from] CaseError),
    #[error("a case runs at stage 1 or 2; stage {0} needs a repository")]
    StageNeedsRepository(Stage),
    #[error("the fake lane does shipped cases; a repository needs a lane that can work on it")]
    FakeNeedsCase,
    #[error("a repository is copied at stage 3; stage 2 is for cases")]
    RepositoryNeedsStage,
    #[error("the command lane needs a program to run")]
    NoCommand,
    #[error("the repository can't be used")]
    Repository(#[source] Box<cto_checkout::RepositoryError>),
    #[error("the contract's inputs can't be used")]
    Input(#[from] InputError),
    #[error("the configuration shows too much")]
    ReadPath(#[from] ReadPathError),
    #[error("the command names a file that it could not see")]
    NamedFile(#[from] NamedFileError),
    #[error(
        "the case holds something that looks like a secret ({rule}, line {line} of its contract)"
    )]
    SecretInContract { rule: String, line: usize },
    #[error("the sandbox provider can't be used")]
    Sandbox(#[from] ChoiceError),
    #[error("the key {} that seals here does not count: {}", keyid.short(), why_not(*origin))]
    KeyDoesNotCount { keyid: Digest, origin: Origin },
    #[error("the run directory can't be made")]
    Create(#[source] io::Error),
    #[error("the run can't be locked")]
    Lock(#[from] LockError),
    #[error("run {run_id}: the log can't be written")]
    Journal { run_id: RunId, source: JournalError },
    #[error("run {run_id}: the pack can't be sealed")]
    Seal {
        run_id: RunId,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("run {run_id}: the sealed pack does not verify")]
    NotVerified {
        run_id: RunId,
        report: Box<VerifyReport>,
    },
    #[error("the database can't be used")]
    Store(#[from] StoreError),
    #[error("no random bytes from the kernel")]
    Random(#[from] getrandom::Error),
}

/// Why what a key seals counts for nothing.
const fn why_not(origin: Origin) -> &'static str {
    match origin {
        Origin::Known | Origin::Unknown => "it is not among the trusted ones",
        Origin::Expired => "its time is over",
        Origin::Revoked => "it was revoked",
    }
}

impl Harness {
    /// Opens home, config, key and database, and makes what is not there yet.
    pub fn open(options: OpenOptions) -> Result<Self, HarnessError> {
        let home = Home::open(&options.home)?;
        let mut config = Config::load(&options.config)?;
        // A database can't even be read where it has no room for its log.
        if is_disk_full(home.root()) {
            free_scratch(&home);
        }
        let store = open_store(&home)?;
        keyring::finish_rotation(&home, &config.trust_dir())?;
        let (key, key_created) = if is_governed(&store, &config) {
            (keyring::load_governed(&home)?, false)
        } else {
            keyring::load_or_create(&home, &config.trust_dir())?
        };
        // Another process may have made the key since the trusted ones were read.
        if !config
            .trusted
            .iter()
            .any(|known| known.keyid == key.keyid())
        {
            config = Config::load(&options.config)?;
        }
        let mut harness = Self {
            home,
            config,
            env: options.env,
            launcher: options.launcher,
            key,
            key_created,
            reconciled: Reconciled::default(),
            store,
            decisions: None,
        };
        finish_imports(&harness)?;
        harness.reconciled = match reconcile(&harness) {
            // Nobody is kept from making space; the next command looks again.
            Err(StoreError::Full { .. }) => Reconciled::default(),
            looked => looked?,
        };
        Ok(harness)
    }

    /// The public half of the key that seals packs.
    pub fn public_key(&self) -> PublicKey {
        self.key.public()
    }

    /// Whether what the key seals at this time counts here.
    pub(crate) fn key_standing(&self, now: Utc) -> KeyStanding {
        keyring::standing(&self.key.keyid(), &self.config.trusted, now)
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Who decides here: the ledger with its files and its checkpoints.
    pub fn ledger(&self) -> Ledger<'_> {
        let second = self.config.harness.checkpoints.clone();
        Ledger {
            store: self.decisions.as_ref().unwrap_or(&self.store),
            key: &self.key,
            home: self.home.root(),
            config: &self.config.dir,
            trusted: &self.config.trusted,
            second: second.map(|place| match place {
                CheckpointPlace::Directory(path) => SecondPlace::Directory(path.into()),
                CheckpointPlace::Git(place) => SecondPlace::Git {
                    repository: place.repository.into(),
                    reference: place.reference,
                },
                CheckpointPlace::Command(argv) => SecondPlace::Command(argv),
            }),
            path: self.env.get("PATH").unwrap_or_default().to_owned(),
        }
    }

    /// Finds the mistakes that are the caller's: a repository or commit that is not there, inputs that are refused.
    fn look_ahead(&self, request: &RunRequest) -> Result<Vec<ResolvedInput>, RunError> {
        let mut top = None;
        if let Task::Repository(task) = &request.task {
            let scratch = self.home.work().join(scratch_name("look")?);
            let looked = Repository::open(&task.path, &scratch).and_then(|repository| {
                repository.resolve(task.rev.as_deref())?;
                Ok(repository.work_tree().map(Path::to_owned))
            });
            cto_checkout::remove_tree(&scratch)
                .map_err(|e| RunError::Create(io::Error::other(e)))?;
            top = match looked {
                Ok(top) => top,
                Err(
                    error @ (RepositoryError::NotFound { .. }
                    | RepositoryError::NoSuchRevision { .. }
                    | RepositoryError::AmbiguousRevision { .. }),
                ) => return Err(RunError::Repository(Box::new(error))),
                // The rules refuse the rest by name, in a pack.
                Err(_) => return Ok(Vec::new()),
            };
        }
        check_read_paths(self, top.as_deref())?;
        let is_bare = self.sandbox(request.sandbox)?.provider == SandboxChoice::None;
        if request.lane.traits().program == ProgramSource::CommandLine && !is_bare {
            check_named_files(self, &request.argv, top.as_deref())?;
        }
        let user_home = self.env.get("HOME").map(PathBuf::from);
        let surroundings = Surroundings {
            repository: top.as_deref(),
            user_home: user_home.as_deref(),
            user_homes: &user_homes(&self.env),
            harness_home: self.home.root(),
            config: &self.config.dir,
        };
        Ok(surroundings.resolve(&request.task.contract().inputs)?)
    }

    /// The same request, its contract within what the owner of its target forbids. Whether that target may change at all
    /// is decided later, by the gates.
    pub(crate) fn bounded<'r>(&self, request: &'r RunRequest) -> Cow<'r, RunRequest> {
        let asked = stage_asked(self, request.lane, request.stage, request.task.work());
        let Task::Repository(task) = &request.task else {
            return Cow::Borrowed(request);
        };
        if asked.stage < Stage::OWNED {
            return Cow::Borrowed(request);
        }
        match target_record(self, request.lane, task) {
            NamedRecord::Record(stored) => {
                let mut task = task.clone();
                bound_by_target(&mut task.contract, &stored.record);
                Cow::Owned(RunRequest {
                    task: Task::Repository(task),
                    ..request.clone()
                })
            }
            NamedRecord::Missing | NamedRecord::Invalid(_) => Cow::Borrowed(request),
        }
    }

    /// Refuses what can't be meant, before a run id is given out, and finds the inputs.
    pub(crate) fn admit(&self, request: &RunRequest) -> Result<Vec<ResolvedInput>, RunError> {
        // However the stage was asked for: by the flag, or by the environment alone.
        let asked = stage_asked(self, request.lane, request.stage, request.task.work());
        request.task.check(request.lane, asked.stage)?;
        if request.lane == Lane::Command && request.argv.is_empty() {
            return Err(RunError::NoCommand);
        }
        self.sandbox(request.sandbox)?;
        // A clock that stands before the key is told in a pack; a key that will never count again makes none.
        if let KeyStanding::Never(origin) = self.key_standing(clock::now()) {
            return Err(RunError::KeyDoesNotCount {
                keyid: self.key.keyid(),
                origin,
            });
        }
        let contract = serde_json::to_string_pretty(&request.task.contract()).unwrap_or_default();
        let known = Known::new(self.env.secrets());
        if let Some(finding) = scan_text(contract.as_bytes(), &known).into_iter().next() {
            return Err(RunError::SecretInContract {
                rule: finding.rule.to_string(),
                line: finding.line,
            });
        }
        self.look_ahead(request)
    }

    /// Runs one task to a sealed pack. Blocked and failed are results, not errors.
    pub fn run(
        &self,
        request: &RunRequest,
        stop: &StopToken,
        observer: Observer<'_>,
    ) -> Result<RunResult, RunError> {
        let request = &*self.bounded(request);
        let inputs = self.admit(request)?;
        let mut run = OpenRun::create(self, request, inputs, stop.clone(), observer)?;
        let lands = run.state().started.stage >= Stage::DISPOSABLE;
        // From before the seal: nobody may take a landing that is about to begin for one that was left.
        let hold = lands.then(|| self.hold_landing(&run.run_id));
        walk(&mut run)?;
        let mut result = seal_run(run)?;
        if result.report.verdict.status == RunStatus::Pass {
            let run_id = &result.run_id;
            result.landing = hold.map(|hold| {
                let hold = hold?.ok_or_else(|| LandError::Held(run_id.clone()))?;
                self.land(run_id, hold)
            });
        } else if let Some(Ok(Some(hold))) = hold {
            hold.release();
        }
        Ok(result)
    }
}

fn open_store(home: &Home) -> Result<Store, HarnessError> {
    let init = LedgerInit {
        random: clock::random()?,
        at: clock::now(),
    };
    Ok(Store::open(&home.database(), init)?)
}

/// Whether operators decide here. A ledger that can't be believed, or that lost them, is no reason to ask nobody.
fn is_governed(store: &Store, config: &Config) -> bool {
    config.dir.join(OPERATORS_FILE).exists()
        || Authority::read(store).map_or(true, |authority| authority.is_governed())
}

/// The same before a harness is open: where operators decide, keys and trust need a signature.
pub fn needs_operator(home: &Home, config: &Config) -> Result<bool, HarnessError> {
    if !home.database().exists() {
        return Ok(config.dir.join(OPERATORS_FILE).exists());
    }
    Ok(is_governed(&open_store(home)?, config))
}

/// What operators signed about records, before a harness is open; nothing where there is no ledger yet.
pub fn signed_admissions(home: &Path) -> Result<AdmissionBook, LedgerError> {
    let database = home.join("cto.db");
    if !database.exists() {
        return Ok(AdmissionBook::default());
    }
    let store = Store::open_to_read(&database)?;
    Ok(Authority::read(&store)?.admissions)
}

/// A name below `work/` that is no run's; recovery clears it when the process in it is gone.
pub(crate) fn scratch_name(what: &str) -> Result<String, RunError> {
    let random = cto_contract::ids::to_hex(&clock::random::<8>()?);
    Ok(format!(".{what}-{}-{random}", maker_tag()))
}

/// Says of a pack that it does not verify, and what is wrong first.
pub(crate) fn does_not_verify(pack: &Path, verified: &VerifyReport) -> String {
    let first = verified.errors.first();
    let first = first.map_or_else(String::new, |e| format!("{}: {}", e.code, e.message));
    format!("`{}` does not verify: {first}", pack.display())
}

/// Reads a sealed pack into the row that ledger and index keep of it.
pub(crate) fn index_row(
    harness: &Harness,
    pack: &std::path::Path,
) -> Result<cto_store::RunSealed, String> {
    let options = cto_evidence::verify::VerifyOptions {
        trusted: harness.config.trusted.clone(),
        integrity_only: true,
        ..Default::default()
    };
    let verified = cto_evidence::verify::verify(pack, &options);
    if verified.integrity != cto_contract::verify::Integrity::Ok {
        return Err(does_not_verify(pack, &verified));
    }
    let bytes =
        std::fs::read(pack.join(cto_contract::artifact::REPORT_JSON)).map_err(|e| e.to_string())?;
    let report: Report = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
    let digest = verified
        .pack_digest
        .clone()
        .ok_or("the pack has no digest")?;
    let row = crate::sealing::sealed_row(&report, &digest, &verified);
    Ok(cto_store::RunSealed {
        repository: crate::requests::repository_of(&harness.home, &row.run_id),
        ..row
    })
}
