//! Which work is asked for: the same words for `cto run` and `cto request`.

use std::path::PathBuf;

use cto_contract::words::{Lane, Stage};
use cto_runner::{ApprovalAsk, Catalog, RepositoryTask, RunRequest, Task, read_contract};

use crate::commands::run::parse_lane;
use crate::failure::{Exit, Failure};
use crate::sandbox_args::SandboxArgs;

/// What `cto init` writes.
const CONTRACT_FILE: &str = "cto-task.yaml";

#[derive(Debug, clap::Args)]
pub(crate) struct WorkArgs {
    /// The case to run; `cto cases` lists them
    #[arg(value_name = "CASE", conflicts_with_all = ["repo", "contract", "base"])]
    case: Option<String>,
    /// Work on a copy of this repository instead of a case; without a case it is the one around this directory
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// The task contract, `cto-task.yaml` of the repository if none is named; `cto init` writes one to start from
    #[arg(long, value_name = "FILE")]
    contract: Option<PathBuf>,
    /// Start from this commit instead of HEAD
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Let this lane do the work: fake, command, case, codex, pi or claude; see `cto engines`
    #[arg(long, value_name = "LANE")]
    engine: Option<String>,
    /// Ask for a proof stage; a gated lane also needs the environment to permit it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6))]
    stage: Option<u8>,
    /// Add a directory of your own cases
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
    /// Stop the backend and each check after so many seconds; the smallest limit wins
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Apply one of the case's cheats instead of its change; the pack is marked as conformance
    #[arg(long, value_name = "NAME", requires = "case")]
    cheat: Option<String>,
    /// Program and arguments of the `command` lane
    #[arg(last = true, value_name = "PROGRAM")]
    argv: Vec<String>,
}

impl WorkArgs {
    /// The work that is asked for.
    fn task(&self) -> Result<Task, Failure> {
        let Some(id) = &self.case else {
            return self.repository_task();
        };
        let catalog = Catalog {
            extra: self.cases.clone(),
        };
        let case = catalog.find(id)?;
        if self.cheat.is_some() {
            case.patch(self.cheat.as_deref())?;
        }
        Ok(Task::Case(case))
    }

    /// A contract on a repository: the one around this directory, and the contract that `cto init` writes there, unless
    /// others are named.
    fn repository_task(&self) -> Result<Task, Failure> {
        let repo = self.repo.clone().unwrap_or_else(|| PathBuf::from("."));
        let contract = self.contract.clone();
        let contract = contract.unwrap_or_else(|| repo.join(CONTRACT_FILE));
        if self.contract.is_none() && !contract.is_file() {
            return Err(Failure::new(
                Exit::USAGE,
                "task_missing",
                format!("no case was named, and there is no `{}`", contract.display()),
            )
            .hint("`cto cases` lists cases; in a repository `cto init` writes a contract to start from"));
        }
        let path = std::path::absolute(&repo).map_err(|e| {
            Failure::io("repository_unreadable", "the repository can't be named", &e)
        })?;
        Ok(Task::Repository(RepositoryTask {
            path,
            contract: read_contract(&contract)?,
            contract_file: std::path::absolute(&contract).ok(),
            rev: self.base.clone(),
        }))
    }

    /// The lane that was named; without a name a program after `--` is a `command`.
    fn lane(&self) -> Result<Lane, Failure> {
        match &self.engine {
            Some(name) => parse_lane(name),
            None if self.argv.is_empty() => Ok(Lane::Fake),
            None => Ok(Lane::Command),
        }
    }

    /// The program as a path where it is one: the backend starts in another directory.
    fn argv(&self) -> Result<Vec<String>, Failure> {
        let mut argv = self.argv.clone();
        if let Some(program) = argv.first_mut()
            && program.contains('/')
        {
            let absolute = std::path::absolute(&*program)
                .map_err(|e| Failure::io("program_unreadable", "the program can't be named", &e))?;
            // Its directory as it really is: inside there is no `..` to go through. Its own name stays, links may mean it.
            let place = absolute.parent().and_then(|dir| dir.canonicalize().ok());
            let named = place.zip(absolute.file_name());
            let path = named.map_or(absolute.clone(), |(dir, name)| dir.join(name));
            *program = path.to_string_lossy().into_owned();
        }
        Ok(argv)
    }

    /// The run that is asked for, without an approval.
    pub(crate) fn request(&self) -> Result<RunRequest, Failure> {
        let lane = self.lane()?;
        let stage = self
            .stage
            .map(Stage::try_from)
            .transpose()
            .map_err(|e| Failure::of(Exit::USAGE, "stage_unknown", &e))?;
        let (task, argv) = (self.task()?, self.argv()?);
        if !argv.is_empty() && !lane.traits().is_built_in {
            return Err(Failure::new(
                Exit::USAGE,
                "lane_not_built_in",
                format!("the {lane} lane is not in this build"),
            )
            .hint("`cto engines` lists the lanes that are; `--engine command` runs any program"));
        }
        if !argv.is_empty() && lane != Lane::Command {
            return Err(Failure::new(
                Exit::USAGE,
                "argv_unused",
                format!("the {lane} lane takes no program"),
            )
            .hint("add `--engine command`, or leave out what follows `--`"));
        }
        Ok(RunRequest {
            task,
            lane,
            argv,
            stage,
            timeout_seconds: self.timeout,
            cheat: self.cheat.clone(),
            parent: None,
            conformance: false,
            sandbox: self.sandbox.ask()?,
            approval: ApprovalAsk::None,
        })
    }
}
