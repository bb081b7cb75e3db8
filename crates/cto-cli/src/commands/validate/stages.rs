//! `cto validate stage1` and so on: what a lane must show before it may go one stage further.

use std::path::Path;

use cto_contract::outputs::ValidateStageOutput;
use cto_contract::words::{Lane, Stage};
use cto_proving::pool;
use cto_proving::stages::{self, LANES, Options, Program};
use cto_runner::Harness;
use cto_sandbox::{Launcher, StopToken};

use crate::commands::Outcome;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printer::{BAD, GOOD, STRONG};
use crate::session::Session;

/// Show that a lane holds at this stage, and at every stage below it
///
/// The real command line runs in a home of its own below `validation/` in home, where its packs stay to be read: the honest
/// run and every way to fail, by name. The lane's double does the work against a scripted model; with `--real` the installed
/// program does. What came of it is entered in your ledger: it is one half of the proof of a stage. Exit 1 when any check
/// does not hold.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto validate stage1                       the lane `case`, with its double
  cto validate stage3 --lane command
  cto validate stage2 --lane codex --real   the installed program against the scripted model
  cto validate stage2 --json | jq '.failure_reports'")]
pub(super) struct StageArgs {
    /// The lane to validate: case, codex, pi, claude or command
    #[arg(long, value_name = "LANE", default_value = "case")]
    lane: String,
    /// With the installed program instead of its double
    #[arg(long)]
    real: bool,
    /// Run so many at once; without it as many as there are cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
}

pub(super) fn stage(args: &StageArgs, stage: Stage, session: &Session) -> Outcome {
    let lane = validated_lane(&args.lane)?;
    let harness = session.harness()?;
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let asked = Asked {
        lane,
        upto: stage,
        real: args.real,
        jobs: args.jobs.map_or_else(pool::cores, usize::from),
    };
    let done = validate(&asked, &harness, session, &interrupt.stop)?;
    let Some(last) = done.last() else {
        return Ok(Exit::FAULT);
    };
    if session.printer.json {
        session.printer.document(last)?;
    } else {
        show(last, session)?;
    }
    let is_ok = last.ok && last.stage == stage;
    Ok(match interrupt.signal() {
        Some(signal) => Exit::signal(signal),
        None if is_ok => Exit::DONE,
        None => Exit::FAILED,
    })
}

/// The lane by its word, where it has a validator.
pub(crate) fn validated_lane(word: &str) -> Result<Lane, Failure> {
    let names: Vec<&str> = LANES.iter().map(|lane| lane.as_str()).collect();
    let found = word
        .parse::<Lane>()
        .ok()
        .filter(|lane| LANES.contains(lane));
    found.ok_or_else(|| {
        let shown = cto_contract::text::shorten(word, 60);
        let message = format!("there is no validator for the lane `{shown}`");
        Failure::new(Exit::USAGE, "lane_unknown", message)
            .hint(format!("one of {}", names.join(", ")))
    })
}

/// What to validate.
pub(crate) struct Asked {
    pub(crate) lane: Lane,
    pub(crate) upto: Stage,
    pub(crate) real: bool,
    pub(crate) jobs: usize,
}

/// Validates, and enters what each stage came to in the ledger of the real home.
pub(crate) fn validate(
    asked: &Asked,
    harness: &Harness,
    session: &Session,
    stop: &StopToken,
) -> Result<Vec<ValidateStageOutput>, Failure> {
    let program = match asked.real && asked.lane != Lane::Command {
        false => Program::Double,
        true => Program::Real(
            cto_runner::named_program(&session.env, asked.lane).ok_or_else(|| {
                let lane = asked.lane;
                let message = format!("the program of the lane {lane} is not installed here");
                let name = lane.as_str().to_ascii_uppercase();
                Failure::new(Exit::BLOCKED, "program_missing", message).hint(format!(
                    "install it, or set CTO_HARNESS_{name}_BIN to its path"
                ))
            })?,
        ),
    };
    let cto = std::env::current_exe()
        .map_err(|e| Failure::io("program_unknown", "this program can't find itself", &e))?;
    let options = Options {
        directory: harness.home.validation(),
        env: session.env.clone(),
        launcher: Launcher::current_exe(),
        cto,
        lane: asked.lane,
        program,
        jobs: asked.jobs,
    };
    let bar = session.printer.progress();
    let done = stages::validate(&options, asked.upto, stop, &mut |output| {
        let word = if output.ok { "ok" } else { "WRONG" };
        bar.line(&format!(
            "{word:<8} {} stage {} ({:.2} s)",
            output.lane, output.stage, output.seconds
        ));
    })?;
    for output in &done {
        let file = Path::new(&output.directory).join(stages::output_file(output.stage));
        harness
            .enter_conformance(output, &file)
            .map_err(|e| Failure::of(Exit::FAULT, "validation_not_recorded", &e))?;
    }
    Ok(done)
}

fn show(output: &ValidateStageOutput, session: &Session) -> Result<(), Failure> {
    let mut page = session.printer.page();
    let rows: Vec<Vec<String>> = output
        .checked
        .iter()
        .map(|row| {
            let word = if row.passed { "ok" } else { "WRONG" };
            vec![row.check.clone(), word.to_owned()]
        })
        .collect();
    page.table(&["check", ""], &rows);
    if !output.errors.is_empty() {
        page.heading("Errors");
        for error in &output.errors {
            page.text("  ").styled(BAD, "wrong").text("  ").line(error);
        }
    }
    let good = output.checked.iter().filter(|row| row.passed).count();
    page.end();
    if output.ok {
        page.styled(GOOD, "OK");
    } else {
        page.styled(BAD, "WRONG");
    }
    let who = match output.real {
        true => "the installed program",
        false => "its double",
    };
    page.text("  ").styled(
        STRONG,
        &format!(
            "stage {} of the lane {} with {who}: {good} of {} checks hold",
            output.stage,
            output.lane,
            output.checked.len()
        ),
    );
    page.end();
    page.field("packs", &output.directory);
    session.printer.show(&page)
}
