//! `cto run`: one governed run.

use std::path::PathBuf;

use cto_contract::blocker::BlockerCode;
use cto_contract::event::RunEvent;
use cto_contract::words::{Lane, RunStatus, Stage};
use cto_rules::views::progress::progress;
use cto_runner::{Catalog, RunRequest, RunResult};

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::pack_file;
use crate::printer::{BAD, GOOD, Page, STRONG, WARN};
use crate::session::Session;
use crate::suggest;

/// Run one case and seal its evidence
///
/// The lane works in a confined copy of the case's workspace. The harness takes the change from the files
/// themselves, checks it against the allowed paths, runs the checks in a fresh copy, and seals the pack. The
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
  cto run c-new-file --cheat NAME           see a cheat being caught; `cto cases c-new-file` names them")]
pub(crate) struct Args {
    /// The case to run; `cto cases` lists them
    #[arg(value_name = "CASE")]
    case: String,
    /// Let this lane do the work; `cto engines` lists them
    #[arg(long, value_name = "LANE", default_value = "fake")]
    engine: String,
    /// Ask for a proof stage; a gated lane also needs the environment to permit it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6))]
    stage: Option<u8>,
    /// Add a directory of your own cases
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// Stop the backend and each check after so many seconds; the smallest limit wins
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Print every event as it happens, one JSON a line, instead of the report
    #[arg(long)]
    events: bool,
    /// Apply one of the case's cheats instead of its change; the pack is marked as conformance
    #[arg(long, value_name = "NAME")]
    cheat: Option<String>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let lane = parse_lane(&args.engine)?;
    let stage = args
        .stage
        .map(Stage::try_from)
        .transpose()
        .map_err(|e| Failure::of(Exit::USAGE, "stage_unknown", &e))?;
    let case = Catalog {
        extra: args.cases.clone(),
    }
    .find(&args.case)?;
    if args.cheat.is_some() {
        case.patch(args.cheat.as_deref())?;
    }
    let harness = session.harness()?;
    session.recover(&harness)?;
    let request = RunRequest {
        case,
        lane,
        stage,
        timeout_seconds: args.timeout,
        cheat: args.cheat.clone(),
        parent: None,
        conformance: false,
    };
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let printer = &session.printer;
    let result = {
        let bar = printer.progress();
        let mut written = Ok(());
        let mut observer = |event: &RunEvent| {
            if args.events && written.is_ok() {
                written = printer.json_line(event);
            }
            if let Some(line) = progress(event) {
                bar.line(&line);
            }
        };
        let result = harness.run(&request, &interrupt.stop, &mut observer)?;
        written?;
        result
    };
    if args.events {
    } else if printer.json {
        printer.data(&pack_file::require(
            &result.pack,
            cto_contract::artifact::REPORT_JSON,
        )?)?;
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
}
