//! `cto run`: one governed run.

use std::time::{Duration, Instant};

use cto_contract::approval::RequestId;
use cto_contract::blocker::BlockerCode;
use cto_contract::event::RunEvent;
use cto_contract::outputs::ApprovalPhase;
use cto_contract::words::{Lane, RunStatus, Stage};
use cto_rules::views::next_lines::{next_lines, provider_line};
use cto_rules::views::progress::progress;
use cto_runner::{Harness, LandError, LandingResult, RunRequest, RunResult, pack_file};

use super::{Outcome, plan};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printer::{BAD, GOOD, Page, STRONG, WARN};
use crate::session::Session;
use crate::suggest;
use crate::work_args::WorkArgs;

/// How often a request that is waited for is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

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
    cto run -- my-agent --some-flag         by cto-task.yaml of this directory
  cto run --repo DIR --contract F --engine codex    another repository, an installed agent
  cto export latest --patch change.patch    the sealed, checked change, to apply by hand")]
pub(crate) struct Args {
    #[command(flatten)]
    work: WorkArgs,
    /// Run what this request asks for, with the approval that it got
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["case", "repo", "contract", "base", "engine", "stage", "cases", "timeout", "cheat", "argv", "plan"]
    )]
    request: Option<RequestId>,
    /// Wait until somebody has decided about the request, at most so many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, requires = "request")]
    wait: Option<Option<u64>>,
    /// Print every event as it happens, one JSON a line, instead of the report
    #[arg(long)]
    events: bool,
    /// First get the missing proofs of the stages below that need no person, and say what they cost
    #[arg(long, conflicts_with_all = ["plan", "request"])]
    climb: bool,
    /// Show every gate, mount, argument and cap of the run; start nothing and leave nothing
    #[arg(long, conflicts_with = "events")]
    plan: bool,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let harness = session.harness()?;
    if let Some(id) = &args.request {
        return approved(args, id, &harness, session);
    }
    let request = args.work.request()?;
    if args.plan {
        return plan::show(&harness, &request, session);
    }
    session.recover(&harness)?;
    if args.climb {
        climb_to(&harness, &request, session)?;
    }
    carry_out(&harness, &request, args.events, session)
}

/// Gets the proofs below the stage of a run. What is still missing then is told by the run itself.
fn climb_to(harness: &Harness, request: &RunRequest, session: &Session) -> Result<(), Failure> {
    let stage = harness.stage_of(request);
    let below = Stage::all().take_while(|below| *below < stage).last();
    let is_validated = cto_proving::stages::LANES.contains(&request.lane);
    let Some(to) = below.filter(|_| is_validated) else {
        return Ok(());
    };
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let climb = super::ladder::Climb {
        lane: request.lane,
        to,
        real: false,
    };
    climb.perform(harness, session, &interrupt.stop).map(drop)
}

/// Runs what a request asks for, once somebody has decided. An open request gives out no run id.
fn approved(args: &Args, id: &RequestId, harness: &Harness, session: &Session) -> Outcome {
    let deadline = match args.wait {
        None => Some(Instant::now()),
        Some(None) => None,
        Some(Some(seconds)) => Instant::now().checked_add(Duration::from_secs(seconds)),
    };
    session.recover(harness)?;
    loop {
        let (state, document) = harness.approval_request(id)?;
        let standing = harness.approval_standing(&state);
        if standing.phase != ApprovalPhase::Requested {
            let mut request = harness.requested_run(id)?;
            request.sandbox = args.work.sandbox.ask()?;
            return carry_out(harness, &request, args.events, session);
        }
        if deadline.is_some_and(|end| Instant::now() >= end) {
            return super::request::waiting(&document, standing, session);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// A run that is over, and what was listened to while it went on.
pub(crate) struct Performed {
    pub(crate) result: RunResult,
    interrupt: Interrupt,
}

/// Runs a request to its sealed pack and shows the verdict, or every event as it happens.
pub(crate) fn carry_out(
    harness: &Harness,
    request: &RunRequest,
    events: bool,
    session: &Session,
) -> Outcome {
    let performed = perform(harness, request, events, session)?;
    told(performed, events, session)
}

/// Runs a request to its sealed pack.
pub(crate) fn perform(
    harness: &Harness,
    request: &RunRequest,
    events: bool,
    session: &Session,
) -> Result<Performed, Failure> {
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
    Ok(Performed { result, interrupt })
}

/// Shows the verdict and what came of the landing; the exit is theirs.
pub(crate) fn told(performed: Performed, events: bool, session: &Session) -> Outcome {
    let Performed { result, interrupt } = performed;
    let printer = &session.printer;
    if events {
    } else if printer.json {
        printer.sealed_json(&pack_file::sealed_report_bytes(&result.pack)?)?;
    } else {
        let mut page = printer.page();
        verdict(&mut page, &result);
        printer.show(&page)?;
    }
    let landed = tell_landing(result.landing, session);
    let interrupted = result
        .report
        .verdict
        .blockers
        .iter()
        .any(|b| b.code == BlockerCode::Interrupted);
    Ok(match interrupt.signal() {
        Some(signal) if interrupted => Exit::signal(signal),
        _ => landed.unwrap_or_else(|| Exit::verdict(result.report.verdict.status)),
    })
}

/// Says what came of a landing. The exit is that of a refusal where nothing landed.
fn tell_landing(
    landing: Option<Result<LandingResult, LandError>>,
    session: &Session,
) -> Option<Exit> {
    let printer = &session.printer;
    match landing? {
        Ok(LandingResult {
            commit: Some(commit),
            branch,
            ..
        }) => {
            printer.talk(&format!("landed: commit {commit} on {branch}"));
            None
        }
        Ok(landing) => {
            for blocker in &landing.blockers {
                printer.ask(&format!(
                    "{}: {}\n   hint: {}",
                    blocker.code, blocker.message, blocker.hint
                ));
            }
            Some(Exit::BLOCKED)
        }
        Err(error) => {
            printer.ask(&format!(
                "{}: the run is sealed, but its landing is not finished: {}\n   hint: `cto recover` goes on with it",
                error.code(),
                cto_runner::error_chain(&error)
            ));
            Some(Exit::FAULT)
        }
    }
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
    if let Some(line) = provider_line(report) {
        page.field("provider", &line);
    }
    for line in next_lines(report) {
        page.field("paste", &line);
    }
    page.field("run", result.run_id.as_str());
    page.field("pack", &result.pack.display().to_string());
    page.field("check it", &format!("cto verify {}", result.run_id));
    if report.verdict.status != RunStatus::Pass {
        page.field("why", &format!("cto explain {}", result.run_id));
    }
}
