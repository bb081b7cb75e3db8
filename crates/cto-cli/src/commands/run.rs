//! `cto run`: one governed run.

use std::path::PathBuf;

use cto_contract::blocker::BlockerCode;
use cto_contract::event::RunEvent;
use cto_contract::words::{Lane, RunStatus, Stage};
use cto_rules::views::progress::progress;
use cto_runner::{
    Catalog, Harness, RepositoryTask, RunRequest, RunResult, Task, pack_file, read_contract,
};

use super::{Outcome, plan};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printer::{BAD, GOOD, Page, STRONG, WARN};
use crate::sandbox_args::SandboxArgs;
use crate::session::Session;
use crate::suggest;

/// Run one task and seal its evidence
///
/// A task is a case, or a contract on a repository of yours, which is only read: the lane works in a confined copy. The
/// harness takes the change from the files themselves, checks it against the allowed paths, runs the checks in a fresh copy, and seals the pack. The
/// exit code is the verdict: 0 pass, 1 fail, 3 blocked.
///
/// Ctrl-C asks the run to stop, a second one kills it; both leave a sealed pack that says `interrupted`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto run r1-string-slugify                 do a shipped case
  cto run my-task --cases ./cases           do a case of your own: ./cases/my-task/case.yaml
  cto run r1-string-slugify --json          the content of report.json, for a program
  cto run r1-string-slugify --events        every event as it happens, one JSON a line
  cto run r1-string-slugify --plan          what would be in force, without starting anything
  cto run c-new-file --cheat NAME           see a cheat being caught; `cto cases c-new-file` names them

On a repository, by any program that edits files in its working directory:
  cto init                                  write a contract to start from
  CTO_HARNESS_ALLOW_COMMAND=1 CTO_HARNESS_COMMAND_STAGE=3 \\
    cto run --repo . --contract cto-task.yaml --engine command --stage 3 -- my-agent --some-flag
  cto export latest --patch change.patch    the sealed, checked change, to apply by hand")]
pub(crate) struct Args {
    /// The case to run; `cto cases` lists them
    #[arg(value_name = "CASE", required_unless_present = "repo", conflicts_with_all = ["repo", "contract", "base"])]
    case: Option<String>,
    /// Work on a copy of this repository instead of a case
    #[arg(long, value_name = "DIR", requires = "contract")]
    repo: Option<PathBuf>,
    /// The task contract; `cto init` writes one to start from
    #[arg(long, value_name = "FILE", requires = "repo")]
    contract: Option<PathBuf>,
    /// Start from this commit instead of HEAD
    #[arg(long, value_name = "REV", requires = "repo")]
    base: Option<String>,
    /// Let this lane do the work; `cto engines` lists them
    #[arg(long, value_name = "LANE", default_value = "fake")]
    engine: String,
    /// Ask for a proof stage; a gated lane also needs the environment to permit it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6))]
    stage: Option<u8>,
    /// Add a directory of your own cases
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Stop the backend and each check after so many seconds; the smallest limit wins
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Print every event as it happens, one JSON a line, instead of the report
    #[arg(long)]
    events: bool,
    /// Show every gate, mount, argument and cap of the run; start nothing and leave nothing
    #[arg(long, conflicts_with = "events")]
    plan: bool,
    /// Apply one of the case's cheats instead of its change; the pack is marked as conformance
    #[arg(long, value_name = "NAME", requires = "case")]
    cheat: Option<String>,
    /// Program and arguments of the `command` lane
    #[arg(last = true, value_name = "PROGRAM")]
    argv: Vec<String>,
}

impl Args {
    /// The work that is asked for.
    fn task(&self) -> Result<Task, Failure> {
        let Some(id) = &self.case else {
            let (Some(repo), Some(contract)) = (&self.repo, &self.contract) else {
                return Err(Failure::new(
                    Exit::USAGE,
                    "task_missing",
                    "neither a case nor a repository with its contract was named",
                ));
            };
            let path = std::path::absolute(repo).map_err(|e| {
                Failure::io("repository_unreadable", "the repository can't be named", &e)
            })?;
            return Ok(Task::Repository(RepositoryTask {
                path,
                contract: read_contract(contract)?,
                contract_file: std::path::absolute(contract).ok(),
                rev: self.base.clone(),
            }));
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
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let lane = parse_lane(&args.engine)?;
    let stage = args
        .stage
        .map(Stage::try_from)
        .transpose()
        .map_err(|e| Failure::of(Exit::USAGE, "stage_unknown", &e))?;
    let (task, argv) = (args.task()?, args.argv()?);
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
    let request = RunRequest {
        task,
        lane,
        argv,
        stage,
        timeout_seconds: args.timeout,
        cheat: args.cheat.clone(),
        parent: None,
        conformance: false,
        sandbox: args.sandbox.ask()?,
    };
    let harness = session.harness()?;
    if args.plan {
        return plan::show(&harness, &request, session);
    }
    session.recover(&harness)?;
    carry_out(&harness, &request, args.events, session)
}

/// Runs a request to its sealed pack and shows the verdict, or every event as it happens.
pub(crate) fn carry_out(
    harness: &Harness,
    request: &RunRequest,
    events: bool,
    session: &Session,
) -> Outcome {
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let printer = &session.printer;
    let result = {
        let bar = printer.progress();
        let mut written = Ok(());
        let mut observer = |event: &RunEvent| {
            if events && written.is_ok() {
                written = printer.json_line(event);
            }
            if let Some(line) = progress(event) {
                bar.line(&line);
            }
        };
        let result = harness.run(request, &interrupt.stop, &mut observer)?;
        written?;
        result
    };
    if events {
    } else if printer.json {
        printer.sealed_json(&pack_file::sealed_report_bytes(&result.pack)?)?;
    } else {
        let mut page = printer.page();
        verdict(&mut page, &result);
        printer.show(&page)?;
    }
    let interrupted = result
        .report
        .verdict
        .blockers
        .iter()
        .any(|b| b.code == BlockerCode::Interrupted);
    Ok(match interrupt.signal() {
        Some(signal) if interrupted => Exit::signal(signal),
        _ => Exit::verdict(result.report.verdict.status),
    })
}

/// Reads the name of a lane.
pub(crate) fn parse_lane(name: &str) -> Result<Lane, Failure> {
    name.parse::<Lane>().map_err(|e| {
        let mut failure = Failure::new(
            Exit::USAGE,
            "engine_unknown",
            format!(
                "there is no engine `{}`",
                cto_contract::text::shorten(name, 60)
            ),
        );
        failure.causes.push(e.to_string());
        match suggest::nearest(name, Lane::ALL.iter().map(|l| l.as_str())) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`cto engines` lists them"),
        }
    })
}

/// The word of a status and its style.
pub(crate) fn status_word(status: RunStatus) -> (&'static str, anstyle::Style) {
    match status {
        RunStatus::Pass => ("PASS", GOOD),
        RunStatus::Fail => ("FAIL", BAD),
        RunStatus::Blocked => ("BLOCKED", WARN),
    }
}

fn verdict(page: &mut Page, result: &RunResult) {
    let report = &result.report;
    let (word, style) = status_word(report.verdict.status);
    page.styled(style, word)
        .text("  ")
        .styled(STRONG, &cto_contract::text::one_line(&report.run.title))
        .end();
    if let Some(reason) = &report.verdict.failure_reason {
        page.field("reason", reason);
    }
    for blocker in &report.verdict.blockers {
        page.field("blocker", &format!("{}: {}", blocker.code, blocker.message));
        page.field("next", &blocker.hint);
    }
    page.field("run", result.run_id.as_str());
    page.field("pack", &result.pack.display().to_string());
    page.field("check it", &format!("cto verify {}", result.run_id));
    if report.verdict.status != RunStatus::Pass {
        page.field("why", &format!("cto explain {}", result.run_id));
    }
}
