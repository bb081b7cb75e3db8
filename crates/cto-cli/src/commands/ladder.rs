//! `cto ladder`: which stages hold, which are stale and why, and what gets the next proof.

use std::time::Instant;

use clap::Subcommand;
use cto_contract::ladder::{ProofState, StageReason};
use cto_contract::outputs::{LadderOutput, LadderRow};
use cto_contract::words::{Lane, RunStatus, Stage};
use cto_proving::pool;
use cto_proving::stages::LAST;
use cto_runner::{Catalog, Harness, RunRequest, SandboxAsk, Task};
use cto_sandbox::StopToken;

use super::Outcome;
use super::run::parse_lane;
use super::validate::stages::{Asked, validate, validated_lane};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printer::{BAD, GOOD, STRONG};
use crate::session::Session;

/// The case that shows what a program does at stage 2.
const FIRST_CASE: &str = "r1-string-slugify";

/// Show which proof stages hold, and why others do not
///
/// State is derived from the ledger and from packs that verify now, never set by hand. A row is an identity: lane, adapter,
/// program, model and sandbox. A lane that never passed here has one row without an identity.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  cto ladder
  cto ladder --lane codex --json
  cto ladder climb --lane command --to 3"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Only this lane
    #[arg(long, value_name = "LANE")]
    lane: Option<String>,
}

#[derive(Debug, Subcommand)]
enum What {
    Climb(ClimbArgs),
}

/// Get the missing proofs of a lane that need no person
///
/// Runs the validators that are missing or stale, then the real pass that stage 2 needs, with the program and the model that
/// a run would take. Stops with 4 where a person has to decide: from stage 4 on.
#[derive(Debug, clap::Args)]
struct ClimbArgs {
    /// The lane
    #[arg(long, value_name = "LANE")]
    lane: String,
    /// The highest stage to prove
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6))]
    to: u8,
    /// Validate with the installed program instead of its double
    #[arg(long)]
    real: bool,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let harness = session.harness()?;
    match &args.what {
        None => {
            let lane = args.lane.as_deref().map(parse_lane).transpose()?;
            show(&harness.ladder(lane)?, session)?;
            Ok(Exit::DONE)
        }
        Some(What::Climb(args)) => {
            let lane = validated_lane(&args.lane)?;
            let to = Stage::try_from(args.to)
                .map_err(|e| Failure::of(Exit::USAGE, "stage_unknown", &e))?;
            let interrupt = Interrupt::listen().map_err(|e| {
                Failure::io("signals_unavailable", "signals can't be listened to", &e)
            })?;
            let climb = Climb {
                lane,
                to,
                real: args.real,
            };
            let exit = climb.perform(&harness, session, &interrupt.stop)?;
            show(&harness.ladder(Some(lane))?, session)?;
            Ok(match interrupt.signal() {
                Some(signal) => Exit::signal(signal),
                None => exit,
            })
        }
    }
}

/// How far to climb.
pub(crate) struct Climb {
    pub(crate) lane: Lane,
    pub(crate) to: Stage,
    pub(crate) real: bool,
}

impl Climb {
    /// Gets what needs no person, and says what it cost.
    pub(crate) fn perform(
        &self,
        harness: &Harness,
        session: &Session,
        stop: &StopToken,
    ) -> Result<Exit, Failure> {
        let begun = Instant::now();
        let exit = self.climb(harness, session, stop)?;
        let seconds = begun.elapsed().as_secs_f64();
        session
            .printer
            .talk(&format!("climbing took {seconds:.1} s"));
        Ok(exit)
    }

    fn climb(
        &self,
        harness: &Harness,
        session: &Session,
        stop: &StopToken,
    ) -> Result<Exit, Failure> {
        let ladder = harness.ladder(Some(self.lane))?;
        if let Some(upto) = self.to_validate(&ladder) {
            let asked = Asked {
                lane: self.lane,
                upto,
                real: self.real,
                jobs: pool::cores(),
            };
            let done = validate(&asked, harness, session, stop)?;
            if !done.iter().all(|output| output.ok) || done.is_empty() {
                return Ok(Exit::FAILED);
            }
        }
        if self.to >= Stage::FIXTURE && self.lane != Lane::Command {
            let ladder = harness.ladder(Some(self.lane))?;
            let has_pass = ladder
                .lanes
                .iter()
                .any(|row| row.state(Stage::FIXTURE) == Some(ProofState::Proven));
            if !has_pass {
                let status = self.first_pass(harness, session, stop)?;
                if status != RunStatus::Pass {
                    return Ok(Exit::verdict(status));
                }
            }
        }
        if self.to > LAST {
            session.printer.talk(&format!(
                "stage {} needs a person: `cto request` asks for an approval",
                Stage::DISPOSABLE
            ));
            return Ok(Exit::WAITING);
        }
        Ok(Exit::DONE)
    }

    /// The highest stage whose validator is missing or stale.
    fn to_validate(&self, ladder: &LadderOutput) -> Option<Stage> {
        let row = ladder.lanes.first()?;
        let is_of_conformance = |reason: &StageReason| {
            matches!(
                reason,
                StageReason::NotValidated
                    | StageReason::ValidationFailed
                    | StageReason::HarnessChanged
                    | StageReason::AdapterChanged
                    | StageReason::EvidenceRemoved
                    | StageReason::EvidenceDoesNotVerify
            )
        };
        let wanted = row
            .stages
            .iter()
            .filter(|s| s.proofs.stage <= self.to.min(LAST));
        let missing = wanted.filter(|s| s.proofs.reasons.iter().any(is_of_conformance));
        missing.map(|s| s.proofs.stage).max()
    }

    /// A real run at stage 2, under the gates and records of any run.
    fn first_pass(
        &self,
        harness: &Harness,
        session: &Session,
        stop: &StopToken,
    ) -> Result<RunStatus, Failure> {
        let case = Catalog { extra: None }.find(FIRST_CASE);
        let case = case.map_err(|e| Failure::of(Exit::FAULT, "case_unknown", &e))?;
        let request = RunRequest {
            task: Task::Case(case),
            lane: self.lane,
            argv: Vec::new(),
            stage: Some(Stage::FIXTURE),
            timeout_seconds: None,
            cheat: None,
            parent: None,
            conformance: false,
            sandbox: SandboxAsk::default(),
            approval: Default::default(),
        };
        let result = harness.run(&request, stop, &mut |_| {})?;
        let verdict = &result.report.verdict;
        session.printer.talk(&format!(
            "run {} of stage 2: {}",
            result.run_id, verdict.status
        ));
        for blocker in &verdict.blockers {
            session
                .printer
                .talk(&format!("  {}: {}", blocker.code, blocker.message));
        }
        Ok(verdict.status)
    }
}

fn show(ladder: &LadderOutput, session: &Session) -> Result<(), Failure> {
    if session.printer.json {
        return session.printer.document(ladder);
    }
    let mut page = session.printer.page();
    for row in &ladder.lanes {
        page.styled(STRONG, row.lane.as_str());
        page.text("  ").line(&named(row));
        for stage in &row.stages {
            let style = match stage.proofs.state {
                ProofState::Proven => GOOD,
                ProofState::Stale | ProofState::Unproven => BAD,
            };
            page.text(&format!("  {} ", stage.proofs.stage))
                .styled(style, stage.proofs.state.as_str());
            page.text("  ").line(&stage.sentences.join("; "));
        }
        if let Some(next) = &row.next {
            page.text("  next  ").line(next);
        }
    }
    session.printer.show(&page)
}

fn named(row: &LadderRow) -> String {
    let Some(identity) = &row.identity else {
        return "never passed here".to_owned();
    };
    let program = identity.binary_digest.as_ref();
    let program = program.map_or_else(|| "no program".to_owned(), |d| d.short().to_string());
    let model = identity.model.as_deref().unwrap_or("no model");
    format!(
        "program {program}, model {model}, sandbox {}",
        identity.sandbox_class
    )
}
