//! The one error at the top: what failed, why, what next, and which exit code.

use std::error::Error;
use std::process::ExitCode;

use cto_contract::ids::RunId;
use cto_ledger::DecideError;
use cto_runner::{
    ApprovalError, CaseError, ConfigError, ContractFileError, FollowError, HarnessError, HomeError,
    IndexError, KeyringError, OutcomeError, PackFileError, ProjectError, ProvenanceError,
    RecoverError, ReferenceError, RequestError, RetellError, RetentionError, RunError, StopError,
    TransferError,
};
use cto_store::StoreError;

/// An exit code, by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    pub(crate) const DONE: Self = Self(0);
    pub(crate) const FAILED: Self = Self(1);
    pub(crate) const USAGE: Self = Self(2);
    pub(crate) const BLOCKED: Self = Self(3);
    /// For a person.
    pub(crate) const WAITING: Self = Self(4);
    pub(crate) const EVIDENCE: Self = Self(5);
    pub(crate) const FAULT: Self = Self(70);

    /// The code of a run's verdict.
    pub(crate) const fn verdict(status: cto_contract::words::RunStatus) -> Self {
        Self(status.exit_code())
    }

    /// The code of a run that a signal ended after its pack was sealed.
    pub(crate) fn signal(signal: i32) -> Self {
        Self(u8::try_from(128 + signal).unwrap_or(130))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Machine-readable, `snake_case`.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) causes: Vec<String>,
    pub(crate) hints: Vec<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            exit,
            code,
            message: message.into(),
            causes: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// Takes an error and everything it rests on.
    pub(crate) fn of(exit: Exit, code: &'static str, error: &dyn Error) -> Self {
        let mut failure = Self::new(exit, code, error.to_string());
        let mut next = error.source();
        while let Some(source) = next {
            failure.causes.push(source.to_string());
            next = source.source();
        }
        failure
    }

    /// A file that could not be read or written.
    pub(crate) fn io(
        code: &'static str,
        message: impl Into<String>,
        source: &std::io::Error,
    ) -> Self {
        let mut failure = Self::new(Exit::FAULT, code, message);
        failure.causes.push(source.to_string());
        failure
    }

    /// A run whose pack was removed; its tombstone holds.
    pub(crate) fn removed(buried: &cto_runner::Buried) -> Self {
        let tombstone = &buried.tombstone;
        let mut failure = Self::new(
            Exit::EVIDENCE,
            "run_removed",
            format!(
                "the pack of run {} was removed at {}",
                tombstone.run_id, tombstone.removed_at
            ),
        );
        failure.causes.push(tombstone.rule.clone());
        failure.causes.push(format!(
            "its tombstone is signed by key {} (origin: {}); the pack was `{}`, sha256:{}",
            buried.keyid.short(),
            buried.origin,
            tombstone.status,
            tombstone.pack_digest
        ));
        failure.hint("`cto import` takes it back from an archive that `cto export --tar` made")
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn hint_if(mut self, hint: Option<String>) -> Self {
        self.hints.extend(hint);
        self
    }

    /// Wraps a sentence around what is known so far.
    pub(crate) fn under(mut self, message: impl Into<String>) -> Self {
        self.causes
            .insert(0, std::mem::replace(&mut self.message, message.into()));
        self
    }
}

impl From<ApprovalError> for Failure {
    fn from(error: ApprovalError) -> Self {
        use ApprovalError as Error;
        let (exit, hint) = match &error {
            Error::Blocked(blockers) => {
                let hint = blockers.first().map(|b| b.hint.clone());
                (Exit::BLOCKED, hint)
            }
            Error::Changed(_) => (
                Exit::EVIDENCE,
                Some("open a new request: nobody can say what this one was".to_owned()),
            ),
            Error::NotNeeded => (
                Exit::USAGE,
                Some("`cto run` runs it; `approval_required: true` in the contract would ask for one".to_owned()),
            ),
            Error::Unknown(_) => (Exit::USAGE, Some("`cto inbox --all` lists them".to_owned())),
            Error::NotPlain(_) => (Exit::USAGE, None),
            Error::Ledger(error) => (Exit::FAULT, error.hint()),
            Error::Run(_)
            | Error::Request(_)
            | Error::Canonical(_)
            | Error::Keep { .. }
            | Error::Random(_) => (Exit::FAULT, None),
        };
        let mut failure = Self::of(exit, error.code(), &error).hint_if(hint);
        match error {
            Error::Run(error) => return error.into(),
            Error::Request(error) => return error.into(),
            Error::Blocked(blockers) => {
                let told = blockers
                    .iter()
                    .map(|b| format!("{}: {}", b.code, b.message));
                failure.causes.extend(told);
            }
            Error::NotNeeded
            | Error::NotPlain(_)
            | Error::Ledger(_)
            | Error::Canonical(_)
            | Error::Unknown(_)
            | Error::Changed(_)
            | Error::Keep { .. }
            | Error::Random(_) => {}
        }
        failure
    }
}

impl From<OutcomeError> for Failure {
    fn from(error: OutcomeError) -> Self {
        Self::of(Exit::FAULT, error.code(), &error)
    }
}

impl From<DecideError> for Failure {
    fn from(error: DecideError) -> Self {
        let exit = match &error {
            DecideError::Unknown(_) | DecideError::Refused(_) => Exit::USAGE,
            DecideError::Store(_) => Exit::FAULT,
        };
        Self::of(exit, error.code(), &error)
    }
}

impl From<HomeError> for Failure {
    fn from(error: HomeError) -> Self {
        Self::of(Exit::USAGE, error.code(), &error).hint(error.hint())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::of(Exit::FAULT, error.code(), &error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::of(Exit::USAGE, error.code(), &error).hint_if(error.hint())
    }
}

impl From<KeyringError> for Failure {
    fn from(error: KeyringError) -> Self {
        let exit = match &error {
            KeyringError::Directory(_)
            | KeyringError::Missing { .. }
            | KeyringError::Governed { .. }
            | KeyringError::Exists { .. }
            | KeyringError::Read { .. }
            | KeyringError::Loose { .. }
            | KeyringError::Malformed { .. } => Exit::USAGE,
            KeyringError::Write { .. }
            | KeyringError::Random(_)
            | KeyringError::Encode(_)
            | KeyringError::Record(_) => Exit::FAULT,
        };
        Self::of(exit, error.code(), &error).hint_if(error.hint())
    }
}

impl From<HarnessError> for Failure {
    fn from(error: HarnessError) -> Self {
        let message = error.to_string();
        match error {
            HarnessError::Home(e) => Self::from(e).under(message),
            HarnessError::Config(e) => Self::from(e).under(message),
            HarnessError::Keyring(e) => Self::from(e).under(message),
            HarnessError::Store(e) => Self::from(e).under(message),
            HarnessError::Random(_) => Self::of(Exit::FAULT, error.code(), &error),
        }
    }
}

impl From<CaseError> for Failure {
    fn from(error: CaseError) -> Self {
        let mut failure = Self::of(Exit::USAGE, error.code(), &error);
        match &error {
            CaseError::Unknown { id, known } => {
                if let Some(near) = crate::suggest::nearest(id, known.iter().map(String::as_str)) {
                    failure = failure.hint(format!("did you mean `{near}`?"));
                }
                failure.hint("`cto cases` lists them; `--cases DIR` adds your own")
            }
            CaseError::Invalid(_) | CaseError::Misnamed { .. } => failure.hint("`cto schema case` prints the format of case.yaml"),
            CaseError::UnknownEntry { .. } => {
                failure.hint("a case holds case.yaml, workspace/, fake.patch or fake/, and may hold oracle/, cheats/ and README.md")
            }
            CaseError::NoCheat { id, .. } => failure.hint(format!("`cto cases {id}` lists the cheats of the case")),
            CaseError::BadId(_)
            | CaseError::Read { .. }
            | CaseError::NotPlain { .. }
            | CaseError::Tree { .. }
            | CaseError::Baseline { .. }
            | CaseError::TooLarge { .. }
            | CaseError::NoFakeChange { .. } => failure,
        }
    }
}

impl From<RecoverError> for Failure {
    fn from(error: RecoverError) -> Self {
        Self::of(Exit::FAULT, "recovery_failed", &error)
    }
}

impl From<ReferenceError> for Failure {
    fn from(error: ReferenceError) -> Self {
        let exit = match &error {
            ReferenceError::Removed { .. } | ReferenceError::Lost { .. } => Exit::EVIDENCE,
            ReferenceError::Store(_) => Exit::FAULT,
            ReferenceError::Unknown { .. }
            | ReferenceError::NoRuns
            | ReferenceError::NoRunsHere
            | ReferenceError::NoPack { .. }
            | ReferenceError::Ambiguous { .. }
            | ReferenceError::Read { .. } => Exit::USAGE,
        };
        let failure = Self::of(exit, error.code(), &error);
        match &error {
            ReferenceError::Unknown { .. }
            | ReferenceError::NoRuns
            | ReferenceError::NoRunsHere
            | ReferenceError::NoPack { .. } => {
                failure.hint("give a run id, a unique prefix of one, `latest`, or a path to a pack; `cto runs` lists them")
            }
            ReferenceError::Ambiguous { matches, .. } => {
                let shown: Vec<&str> = matches.iter().take(5).map(RunId::as_str).collect();
                failure.hint(format!("it may be {}", shown.join(", ")))
            }
            ReferenceError::Lost { .. } => {
                failure.hint("a run that was here can't disappear: restore its pack from a copy (`cto import`), or name another run")
            }
            ReferenceError::Removed { .. } | ReferenceError::Read { .. } | ReferenceError::Store(_) => failure,
        }
    }
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let exit = if error.is_about_evidence() {
            Exit::EVIDENCE
        } else if matches!(error, TransferError::NotAPass { .. }) {
            Exit::FAILED
        } else if error.is_about_input() {
            Exit::USAGE
        } else {
            Exit::FAULT
        };
        let hint = error.hint().map(str::to_owned);
        Self::of(exit, error.code(), &error).hint_if(hint)
    }
}

impl From<ProvenanceError> for Failure {
    fn from(error: ProvenanceError) -> Self {
        match &error {
            ProvenanceError::Store(_) => Self::of(Exit::FAULT, error.code(), &error),
            ProvenanceError::NotTheLedgers { ledger, found, .. } => {
                let mut failure = Self::of(Exit::EVIDENCE, error.code(), &error);
                failure.causes.push(format!(
                    "the ledger has sha256:{ledger}, this is sha256:{found}"
                ));
                failure.hint("do not rely on it; stop and investigate")
            }
            ProvenanceError::Seal { .. }
            | ProvenanceError::OtherRun { .. }
            | ProvenanceError::SealGone { .. }
            | ProvenanceError::NotSealedHere { .. } => {
                Self::of(Exit::EVIDENCE, error.code(), &error)
                    .hint("do not rely on it; `cto verify` shows everything that is wrong")
            }
        }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Case(e) => Self::from(e),
            RequestError::Unknown { .. } => Self::of(Exit::USAGE, error.code(), &error)
                .hint("a pack never names a repository's path: start the task with `cto run`, with what you know of it"),
            RequestError::Broken { .. } => Self::of(Exit::EVIDENCE, error.code(), &error)
                .hint("`cto verify` shows everything; start the task anew with `cto run`"),
            RequestError::Malformed { .. } => Self::of(Exit::USAGE, error.code(), &error)
                .hint("start the task anew with `cto run`"),
            RequestError::EmptyNote | RequestError::LongNote(_) => {
                Self::of(Exit::USAGE, error.code(), &error)
                    .hint("say in a few sentences what the next attempt should know")
            }
            RequestError::Read { .. } => Self::of(Exit::FAULT, error.code(), &error),
        }
    }
}

impl From<PackFileError> for Failure {
    fn from(error: PackFileError) -> Self {
        let exit = match &error {
            PackFileError::Withheld { .. } => Exit::USAGE,
            PackFileError::Unreadable { .. }
            | PackFileError::Special { .. }
            | PackFileError::Oversized { .. }
            | PackFileError::Missing { .. }
            | PackFileError::Altered { .. }
            | PackFileError::Report { .. }
            | PackFileError::Decision { .. }
            | PackFileError::Contract { .. }
            | PackFileError::Log { .. } => Exit::EVIDENCE,
        };
        Self::of(exit, error.code(), &error).hint_if(error.hint())
    }
}

impl From<RetellError> for Failure {
    fn from(error: RetellError) -> Self {
        match error {
            RetellError::Pack(e) => Self::from(e),
            RetellError::Log(_) => Self::of(Exit::EVIDENCE, "log_broken", &error),
            RetellError::Encode(_) | RetellError::Digest(_) => {
                Self::of(Exit::FAULT, "report_not_encoded", &error)
            }
        }
    }
}

impl From<FollowError> for Failure {
    fn from(error: FollowError) -> Self {
        match &error {
            FollowError::Unreadable { .. } => Self::of(Exit::FAULT, "file_unreadable", &error),
            FollowError::NoEvent(_) | FollowError::LongLine => {
                Self::of(Exit::EVIDENCE, "log_broken", &error)
            }
        }
    }
}

impl From<StopError> for Failure {
    fn from(error: StopError) -> Self {
        match error {
            StopError::Pack(e) => Self::from(e),
            StopError::NotLive { .. } => Self::of(Exit::USAGE, "run_not_live", &error)
                .hint("`cto runs` shows which are live; `cto recover` seals one that crashed"),
            StopError::Refused { .. } => Self::of(Exit::FAULT, "signal_refused", &error),
        }
    }
}

impl From<ContractFileError> for Failure {
    fn from(error: ContractFileError) -> Self {
        let exit = match &error {
            ContractFileError::Unreadable { .. }
            | ContractFileError::Special { .. }
            | ContractFileError::Invalid { .. }
            | ContractFileError::Secret { .. }
            | ContractFileError::Project(_) => Exit::USAGE,
            ContractFileError::Encode(_) | ContractFileError::Digest(_) => Exit::FAULT,
        };
        Self::of(exit, error.code(), &error).hint_if(error.hint())
    }
}

impl From<ProjectError> for Failure {
    fn from(error: ProjectError) -> Self {
        Self::of(Exit::USAGE, error.code(), &error)
    }
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Packs(e) => Self::from(e),
            IndexError::Store(e) => Self::from(e),
        }
    }
}

impl From<RetentionError> for Failure {
    fn from(error: RetentionError) -> Self {
        match error {
            RetentionError::Packs(e) => Self::from(e),
            RetentionError::Store(e) => Self::from(e),
            RetentionError::Read { .. } => Self::of(Exit::FAULT, "home_unreadable", &error),
            RetentionError::Ledger { .. } => Self::of(Exit::EVIDENCE, "ledger_broken", &error)
                .hint("nothing was removed; stop and investigate"),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let exit = match &error {
            RunError::Case(_)
            | RunError::StageNeedsRepository(_)
            | RunError::FakeNeedsCase
            | RunError::RepositoryNeedsStage
            | RunError::NoCommand
            | RunError::Repository(_)
            | RunError::Input(_)
            | RunError::NamedFile(_)
            | RunError::ReadPath(_)
            | RunError::SecretInContract { .. }
            | RunError::KeyDoesNotCount { .. }
            | RunError::Sandbox(_) => Exit::USAGE,
            RunError::NotVerified { .. } => Exit::EVIDENCE,
            RunError::Create(_)
            | RunError::Lock(_)
            | RunError::Journal { .. }
            | RunError::Seal { .. }
            | RunError::Store(_)
            | RunError::Random(_) => Exit::FAULT,
        };
        if let RunError::Case(case) = error {
            return Self::from(case);
        }
        let mut failure = Self::of(exit, error.code(), &error).hint_if(error.hint());
        if let RunError::NotVerified { report, .. } = &error {
            let errors = report.errors.iter();
            let causes = errors.map(|e| format!("{}: {}", e.code, e.message));
            failure.causes.extend(causes);
        }
        failure
    }
}
