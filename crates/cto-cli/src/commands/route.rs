//! `cto route`: which lane may do a task, and what stands against the others.

use std::path::PathBuf;

use cto_contract::blocker::Blocker;
use cto_contract::eligibility::{EligibilityDecision, GateOutcome};
use cto_contract::text::one_line;
use cto_contract::words::{Lane, RunStatus, Stage};
use cto_runner::RouteRequest;

use super::Outcome;
use super::explain::gates;
use super::run::parse_lane;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printer::{BAD, FAINT, GOOD, Page, STRONG, WARN};
use crate::session::Session;

/// Say which lane may do a task, and what stands against the others
///
/// Every lane is judged. The one that is asked for is judged as a run would judge it, from the same facts; the others
/// by what is known without looking anything up, and none of them is ever chosen instead. Nothing is started and no run id
/// is given out: a key that only a command can tell, a sandbox that only a trial can show and a repository that is not
/// named stay unknown, and an unknown gate lets nothing through.
///
/// The exit code is 3 when something stands against the lane that is asked for.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto route --contract cto-task.yaml
  cto route --contract cto-task.yaml --engine command --stage 3 --repo .
  cto route --contract cto-task.yaml --json | jq '.denied_backends'")]
pub(crate) struct Args {
    /// The task contract; `cto init` writes one to start from
    #[arg(long, value_name = "FILE")]
    contract: PathBuf,
    /// Ask for this lane; `cto engines` lists them
    #[arg(long, value_name = "LANE", default_value = "fake")]
    engine: String,
    /// Ask for a proof stage; a gated lane also needs the environment to permit it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6))]
    stage: Option<u8>,
    /// The repository that the task is to be done on
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let lane = parse_lane(&args.engine)?;
    let stage = args
        .stage
        .map(Stage::try_from)
        .transpose()
        .map_err(|e| Failure::of(Exit::USAGE, "stage_unknown", &e))?;
    let repository = args.repo.as_ref().map(std::path::absolute).transpose();
    let request = RouteRequest {
        contract: cto_runner::read_contract(&args.contract)?,
        contract_file: std::path::absolute(&args.contract).ok(),
        lane,
        stage,
        repository: repository.map_err(|e| {
            Failure::io("repository_unreadable", "the repository can't be named", &e)
        })?,
    };
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let decision = session.harness()?.route(&request, &interrupt.stop)?;
    if session.printer.json {
        session.printer.document(&decision)?;
    } else {
        let mut page = session.printer.page();
        shown(&mut page, &decision);
        session.printer.show(&page)?;
    }
    Ok(if decision.reasons.is_empty() {
        Exit::DONE
    } else {
        Exit::verdict(RunStatus::Blocked)
    })
}

fn shown(page: &mut Page, decision: &EligibilityDecision) {
    let asked = decision.requested_backend;
    for lane in Lane::ALL.iter().copied() {
        if decision.selected_backend.0 == Some(lane) {
            row(page, lane, lane == asked, (GOOD, "eligible"));
            continue;
        }
        let denied = decision.denied_backends.iter();
        let reasons = denied
            .filter(|denied| denied.backend == lane)
            .flat_map(|denied| &denied.reasons);
        let reasons: Vec<&Blocker> = reasons.collect();
        let word = match (reasons.is_empty(), lane == asked) {
            (false, _) => (BAD, "refused"),
            (true, true) => (WARN, "not decided"),
            (true, false) => (FAINT, "nothing known against it"),
        };
        row(page, lane, lane == asked, word);
        for blocker in reasons {
            page.text("    ")
                .text(blocker.code.as_str())
                .text(&format!(" ({}): ", one_line(&blocker.subject)));
            // The whole sentence only where it is of use now.
            if lane == asked {
                page.line(&one_line(&blocker.message)).text("      next: ");
            }
            page.line(&one_line(&blocker.hint));
        }
    }
    page.heading(&format!("Gates of {asked} at stage {}", decision.stage));
    gates(page, &decision.facts);
    let unknown = decision.facts.iter();
    let unknown = unknown.filter(|fact| fact.outcome == GateOutcome::Unknown);
    let names: Vec<&str> = unknown.map(|fact| fact.gate.as_str()).collect();
    page.end();
    if decision.reasons.is_empty() && !names.is_empty() {
        page.line(&format!(
            "Nothing stands against {asked} so far; a run would still look at {}.",
            names.join(", ")
        ));
    }
    page.field("escalate to", decision.escalation_path.as_str());
    page.field("decision", decision.decision_id.as_str());
}

fn row(page: &mut Page, lane: Lane, is_asked: bool, (style, word): (anstyle::Style, &str)) {
    page.styled(STRONG, &format!("{lane:<8}"))
        .text(" ")
        .styled(style, word)
        .text(if is_asked { ", asked for" } else { "" })
        .end();
}
