//! `cto matrix`: all cases, side by side.

use std::path::PathBuf;

use cto_contract::outputs::MatrixOutput;
use cto_contract::words::RunStatus;
use cto_proving::matrix::{MatrixError, Options, run_all};
use cto_proving::pool;
use cto_runner::Catalog;

use super::Outcome;
use super::run::{parse_lane, status_word};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printer::BAD;
use crate::sandbox_args::{self, SandboxArgs};
use crate::session::Session;

/// Run all cases side by side
///
/// Each gets its own run and its own sealed pack; the matrix report names them. Exit 1 when any does not pass.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto matrix
  cto matrix --jobs 1 --cases ./cases")]
pub(crate) struct Args {
    /// Let this lane do the work
    #[arg(long, value_name = "LANE", default_value = "fake")]
    engine: String,
    /// Run so many at once; without it as many as there are cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Add a directory of your own cases
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    #[command(flatten)]
    sandbox: SandboxArgs,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let options = Options {
        lane: parse_lane(&args.engine)?,
        sandbox: args.sandbox.ask()?,
        jobs: args.jobs.map_or_else(pool::cores, usize::from),
    };
    let catalog = Catalog {
        extra: args.cases.clone(),
    };
    let harness = session.harness()?;
    sandbox_args::choose(&harness, options.sandbox, session)?;
    session.recover(&harness)?;
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let output = {
        let bar = session.printer.progress();
        run_all(&harness, &catalog, &options, &interrupt.stop, &mut |run| {
            let word = run.status.map_or("error", RunStatus::as_str);
            bar.line(&format!("{word:<8} {} ({:.2} s)", run.case_id, run.seconds));
        })?
    };
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        show(&output, session)?;
    }
    Ok(match interrupt.signal() {
        Some(signal) => Exit::signal(signal),
        None if output.ok => Exit::DONE,
        None => Exit::FAILED,
    })
}

impl From<MatrixError> for Failure {
    fn from(error: MatrixError) -> Self {
        match error {
            MatrixError::Cases(e) => Self::from(e),
            MatrixError::Random(_) => Self::of(Exit::FAULT, "no_randomness", &error),
            MatrixError::Name(_) | MatrixError::Write { .. } => {
                Self::of(Exit::FAULT, "matrix_not_written", &error)
            }
        }
    }
}

fn show(output: &MatrixOutput, session: &Session) -> Result<(), Failure> {
    let mut page = session.printer.page();
    for run in &output.runs {
        let (word, style) = run.status.map_or(("ERROR", BAD), status_word);
        page.styled(style, &format!("{word:<8}"))
            .text(&format!("{:<28} {:>7.2} s  ", run.case_id, run.seconds));
        page.line(&cto_contract::text::shorten(
            run.failure_reason.as_deref().unwrap_or_default(),
            80,
        ));
    }
    page.end().line(&format!(
        "{} pass, {} fail, {} blocked, {} error in {:.2} s with {} jobs",
        output.counts.pass,
        output.counts.fail,
        output.counts.blocked,
        output.counts.error,
        output.seconds,
        output.jobs
    ));
    page.field("report", &output.report_path);
    session.printer.show(&page)
}
