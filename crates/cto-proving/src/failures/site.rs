//! The site of one fixture: directories, a repository, a program and a harness of its own, and the run on it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cto_contract::document::DocumentError;
use cto_contract::event::{EventKind, RunEvent};
use cto_contract::ids::to_hex;
use cto_contract::task::TaskContract;
use cto_contract::words::{Lane, Stage, UnknownWord};
use cto_runner::{
    CaseError, Catalog, Environment, Harness, HarnessError, OpenOptions, RepositoryTask, RunError,
    RunRequest, Task,
};
use cto_sandbox::{
    End, LaunchError, LaunchRequest, Launcher, Limits, Network, SandboxMessage, StopToken,
};

use super::check::Seen;
use super::fixture::{Fixture, Launch, Meddling, Program, Work};
use super::outside::Surroundings;
use super::{Options, table};

/// A user that no machine has, for a repository that is somebody else's.
const STRANGER: u32 = 424_242;
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
/// What belongs to the harness in a fixture's directory, and so may change.
const HARNESS_DIRS: [&str; 2] = ["home", "config"];

/// Why a fixture did not come to a pack.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SiteError {
    #[error("left out: {0}")]
    LeftOut(String),
    #[error("could not make `{path}`")]
    Make { path: PathBuf, source: io::Error },
    #[error("could not look at `{path}`")]
    Look { path: PathBuf, source: io::Error },
    #[error("the repository's owner could not work")]
    Owner(#[source] LaunchError),
    #[error("the repository's owner ended with {end:?}: {said}")]
    OwnerFailed { end: End, said: String },
    #[error("the contract can't be read")]
    Contract(#[from] DocumentError),
    #[error("the case can't be read")]
    Case(#[from] CaseError),
    #[error("the stage is none")]
    Stage(#[from] UnknownWord),
    #[error("no stop token could be made")]
    Stop(#[source] io::Error),
    #[error("the harness can't be opened")]
    Harness(#[from] Box<HarnessError>),
    #[error("the run came to no pack")]
    Run(#[from] Box<RunError>),
    #[error("the home of the validation can't be marked")]
    Home(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no random bytes from the kernel")]
    Random(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Everything that a fixture needs, made.
pub(crate) struct FixtureSite {
    place: PathBuf,
    harness: Harness,
    request: RunRequest,
}

impl FixtureSite {
    pub(crate) fn make(
        fixture: &Fixture,
        name: &str,
        directory: &Path,
        options: &Options,
    ) -> Result<Self, SiteError> {
        let place = directory.join(name);
        private(&place)?;
        for (path, text, mode) in [
            ("bin/python3", table::TOY_RUNNER, 0o755),
            ("bin/bwrap", table::BROKEN_PROVIDER, 0o755),
            ("beside/keep.txt", "nobody writes here\n", 0o644),
        ] {
            put(&place.join(path), text, mode)?;
        }
        let random = cto_runner::random::<16>().map_err(|e| SiteError::Random(e.into()))?;
        let secret = to_hex(&random);
        let caller_path = options.env.get("PATH").unwrap_or(PATH_DEFAULT);
        let path = format!("{}:{caller_path}", place.join("bin").display());
        let task = match fixture.work {
            Work::Case => case(fixture, name, &place)?,
            Work::Repository | Work::ForeignRepository => {
                repository(fixture, name, &place, &path, &options.launcher)?
            }
        };
        private(&place.join("config"))?;
        if !fixture.config.is_empty() {
            let config = fixture
                .config
                .replace("$PLACE", &place.display().to_string());
            let text = format!("schema: cto.harness/v1\n{config}\n");
            put(&place.join("config/harness.yaml"), &text, 0o600)?;
        }
        for (name, text) in fixture.records {
            let text = text.replace("$PLACE", &place.display().to_string());
            put(&place.join("config").join(name), &text, 0o600)?;
        }
        let gates = [
            (Lane::Command.gate(), fixture.gate),
            (Lane::Command.stage_gate(), fixture.stage_gate),
        ];
        let pairs = [
            ("PATH".to_owned(), path),
            ("HOME".to_owned(), place.display().to_string()),
            ("CTO_PROVING_TOKEN".to_owned(), secret.clone()),
        ];
        let open = gates
            .into_iter()
            .filter_map(|(name, value)| Some((name?, value?.to_owned())));
        let more = fixture.env.iter();
        let here = place.display().to_string();
        let more = more.map(|(name, value)| (name.to_string(), value.replace("$PLACE", &here)));
        let launcher = Launcher {
            force_group: fixture.launch == Launch::WithoutNamespaces,
            ..options.launcher.clone()
        };
        let harness = Harness::open(OpenOptions {
            home: place.join("home"),
            config: place.join("config"),
            env: Environment::new(pairs.into_iter().chain(open).chain(more)),
            launcher,
        })
        .map_err(Box::new)?;
        for (name, text) in fixture.planted {
            put(&place.join("config").join(name), text, 0o600)?;
        }
        let request = RunRequest {
            task,
            lane: Lane::Command,
            argv: argv(fixture, &place, &secret)?,
            stage: Some(Stage::try_from(fixture.stage)?),
            timeout_seconds: None,
            cheat: None,
            parent: None,
            conformance: true,
            sandbox: fixture.sandbox,
            approval: Default::default(),
        };
        Ok(Self {
            place,
            harness,
            request,
        })
    }

    /// Runs it, meddles where the fixture says so, and looks at everything around before and after.
    pub(crate) fn run(&self, fixture: &Fixture, stop: &StopToken) -> Result<Seen, SiteError> {
        let look = || {
            Surroundings::look(&self.place, &HARNESS_DIRS).map_err(|source| SiteError::Look {
                path: self.place.clone(),
                source,
            })
        };
        let before = look()?;
        let own = StopToken::new().map_err(SiteError::Stop)?;
        let mut troubles = Vec::new();
        let result = {
            let mut observer = |event: &RunEvent| {
                if stop.is_asked() && !own.is_asked() {
                    own.ask();
                }
                if let Err(error) = self.meddle(fixture.meddling, event, &own) {
                    troubles.push(format!("the meddling failed: {error}"));
                }
            };
            self.harness
                .run(&self.request, &own, &mut observer)
                .map_err(Box::new)?
        };
        let mut outside = before.differences(&look()?);
        let work = self.harness.home.work();
        let left = fs::read_dir(&work)
            .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
            .map_err(|source| SiteError::Look { path: work, source })?;
        outside.extend(left.iter().map(|e| {
            let name = e.file_name();
            format!("home/work/{}", name.to_string_lossy())
        }));
        Ok(Seen {
            pack: result.pack,
            trusted: self.harness.config.trusted.clone(),
            outside,
            troubles,
        })
    }

    fn meddle(&self, meddling: Meddling, event: &RunEvent, own: &StopToken) -> io::Result<()> {
        match (meddling, &event.kind) {
            (Meddling::Stop, EventKind::BackendPlan(_)) => {
                own.ask();
                Ok(())
            }
            (Meddling::ChangeSource, EventKind::PatchApplied(_)) => File::options()
                .append(true)
                .open(self.place.join("repo/other.txt"))?
                .write_all(b"changed by its owner\n"),
            (Meddling::ChangeProtected, EventKind::BackendStarted(_)) => File::options()
                .append(true)
                .open(self.place.join("beside/keep.txt"))?
                .write_all(b"changed by somebody\n"),
            (Meddling::Occupy { step, file }, EventKind::StepStarted(s)) if s.step == step => {
                File::create_new(self.harness.home.pack(&event.run_id).join(file)).map(drop)
            }
            (Meddling::Occupy { step, file }, EventKind::StepFinished(s)) if s.step == step => {
                fs::remove_file(self.harness.home.pack(&event.run_id).join(file))
            }
            (
                Meddling::None
                | Meddling::Stop
                | Meddling::ChangeSource
                | Meddling::ChangeProtected
                | Meddling::Occupy { .. },
                _,
            ) => Ok(()),
        }
    }
}

fn argv(fixture: &Fixture, place: &Path, secret: &str) -> Result<Vec<String>, SiteError> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    Ok(match fixture.program {
        Program::Script(script) => {
            let file = place.join("agent.sh");
            // Not by an input: none is taken where the place lies in somebody's repository.
            let script = script.replace("$SECRET", secret);
            let quoted = text(place.to_owned()).replace('\'', r"'\''");
            put(
                &file,
                &format!("set -e\nplace='{quoted}'\n{script}\n"),
                0o644,
            )?;
            vec!["/bin/sh".to_owned(), text(file)]
        }
        Program::Absent(name) => vec![name.to_owned()],
        Program::Broken => {
            let file = place.join("agent");
            put(&file, "#!/no/such/interpreter\n", 0o755)?;
            vec![text(file)]
        }
    })
}

/// The fields of the contract, with those of the fixture in the place of the usual ones.
fn terms(usual: &[(&str, &str)], fixture: &Fixture) -> String {
    let own = |name: &str| fixture.terms.iter().find(|(n, _)| *n == name);
    let kept = usual.iter().filter(|(name, _)| own(name).is_none());
    kept.chain(fixture.terms)
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect()
}

fn case(fixture: &Fixture, name: &str, place: &Path) -> Result<Task, SiteError> {
    let cases = place.join("cases");
    let text = format!(
        "schema: cto.case/v1\nid: {name}\ntitle: {name}\n{}",
        terms(table::CASE_TERMS, fixture)
    );
    put(&cases.join(name).join("case.yaml"), &text, 0o644)?;
    for (path, text) in table::FILES {
        put(&cases.join(name).join("workspace").join(path), text, 0o644)?;
    }
    // What the lane is measured by.
    put(&cases.join(name).join("fake/src/a.txt"), "new\n", 0o644)?;
    let catalog = Catalog { extra: Some(cases) };
    Ok(Task::Case(catalog.find(name)?))
}

fn repository(
    fixture: &Fixture,
    name: &str,
    place: &Path,
    path: &str,
    launcher: &Launcher,
) -> Result<Task, SiteError> {
    let repo = place.join("repo");
    for (path, text) in table::FILES {
        put(&repo.join(path), text, 0o644)?;
    }
    let script = format!("git init -q -b main .\n{}", fixture.owner);
    owner_works(&script, &repo, path, launcher)?;
    if fixture.work == Work::ForeignRepository {
        give_away(&repo)?;
    }
    let text = format!(
        "schema: cto.contract/v1\ntask_id: {name}\ntitle: {name}\n{}",
        terms(table::CONTRACT_TERMS, fixture)
    );
    Ok(Task::Repository(RepositoryTask {
        path: repo,
        contract: TaskContract::read("contract", text.as_bytes())?,
        contract_file: None,
        rev: None,
    }))
}

/// Lets the owner of the repository run a script in it, with a git that no configuration of this machine touches.
pub(crate) fn owner_works(
    script: &str,
    repo: &Path,
    path: &str,
    launcher: &Launcher,
) -> Result<(), SiteError> {
    let argv = ["/bin/sh", "-ec", script].map(OsString::from).to_vec();
    bare(argv, repo, path, launcher).map(drop)
}

/// Runs a command with the host's files as its own, and gives what it said.
pub(crate) fn bare(
    argv: Vec<OsString>,
    cwd: &Path,
    path: &str,
    launcher: &Launcher,
) -> Result<String, SiteError> {
    let env: BTreeMap<OsString, OsString> = [
        ("PATH", path),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "owner"),
        ("GIT_AUTHOR_EMAIL", "owner@example.org"),
        ("GIT_COMMITTER_NAME", "owner"),
        ("GIT_COMMITTER_EMAIL", "owner@example.org"),
    ]
    .into_iter()
    .map(|(name, value)| (name.into(), value.into()))
    .collect();
    let request = LaunchRequest {
        argv,
        env,
        cwd: cwd.to_owned(),
        stdin: cto_sandbox::Stdin::Closed,
        binds: Vec::new(),
        overlay: None,
        limits: Limits {
            wall: Duration::from_secs(60),
            output_bytes: 1 << 20,
            cpu_seconds: None,
            file_bytes: None,
            open_files: None,
            processes: None,
        },
        // Where there are namespaces, its owner needs no network; without them he has it anyway.
        network: if launcher.force_group {
            Network::Host
        } else {
            Network::None
        },
        grace: Duration::from_secs(1),
        root: cto_sandbox::Root::default(),
        tree: cto_sandbox::TreeLimits::default(),
        run_as: None,
        recorder: cto_sandbox::Recorder::Off,
        endpoint: None,
    };
    let stop = StopToken::new().map_err(SiteError::Stop)?;
    let mut said = Vec::new();
    let outcome = launcher
        .launch(&request, &stop, &mut |message, _| {
            if let SandboxMessage::Output(_, bytes) = message {
                said.extend_from_slice(bytes);
            }
        })
        .map_err(SiteError::Owner)?;
    if outcome.end != End::Exited(0) {
        return Err(SiteError::OwnerFailed {
            end: outcome.end,
            said: cto_contract::text::shorten(&String::from_utf8_lossy(&said), 300),
        });
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// Makes the repository another user's, which only root can.
fn give_away(repo: &Path) -> Result<(), SiteError> {
    let refused = |e: io::Error| {
        SiteError::LeftOut(format!(
            "only root can make a repository of another user, and this process can't: {e}"
        ))
    };
    let mut dirs = vec![repo.to_owned()];
    while let Some(dir) = dirs.pop() {
        std::os::unix::fs::lchown(&dir, Some(STRANGER), None).map_err(refused)?;
        let entries = fs::read_dir(&dir)
            .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
            .map_err(refused)?;
        for entry in entries {
            if entry.file_type().map_err(refused)?.is_dir() {
                dirs.push(entry.path());
            } else {
                std::os::unix::fs::lchown(entry.path(), Some(STRANGER), None).map_err(refused)?;
            }
        }
    }
    Ok(())
}

pub(crate) fn private(path: &Path) -> Result<(), SiteError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| SiteError::Make {
            path: path.to_owned(),
            source,
        })
}

/// Writes a file that is not there yet, and the directories above it.
pub(crate) fn put(path: &Path, text: &str, mode: u32) -> Result<(), SiteError> {
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| {
            File::options()
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(path)?
                .write_all(text.as_bytes())
        });
    written.map_err(|source| SiteError::Make {
        path: path.to_owned(),
        source,
    })
}
