//! `cto health`: everything that can be checked here, side by side, and one verdict.

use std::path::Path;

use cto_contract::outputs::{HealthOutput, HealthStatus};
use cto_proving::health::{Options, check};
use cto_proving::{pool, stages};
use cto_sandbox::Launcher;

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::printer::{BAD, GOOD, STRONG};
use crate::session::Session;

/// Check this harness as a whole, and give one verdict
///
/// The stage validators of the lane `case`, the checks of its adapter, the failure matrix and the matrix of all cases, side by
/// side; with `--all` the stage validators of the other lanes and the red team too. What the stage validators come to is entered
/// in your ledger. Exit 1 when any part does not pass.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto health
  cto health --all --json | jq '.parts'")]
pub(crate) struct Args {
    /// The other lanes and the red team, too
    #[arg(long)]
    all: bool,
    /// Run so many of each part at once; without it as many as there are cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let harness = session.harness()?;
    session.recover(&harness)?;
    let cto = std::env::current_exe()
        .map_err(|e| Failure::io("program_unknown", "this program can't find itself", &e))?;
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let options = Options {
        harness: &harness,
        env: session.env.clone(),
        launcher: Launcher::current_exe(),
        cto,
        jobs: args.jobs.map_or_else(pool::cores, usize::from),
        all: args.all,
    };
    let health = {
        let bar = session.printer.progress();
        check(&options, &interrupt.stop, &mut |name, part| {
            bar.line(&format!(
                "{:<8} {name} ({:.2} s)",
                part.status, part.seconds
            ));
        })
    };
    for output in &health.stages {
        let file = Path::new(&output.directory).join(stages::output_file(output.stage));
        harness
            .enter_conformance(output, &file)
            .map_err(|e| Failure::of(Exit::FAULT, "validation_not_recorded", &e))?;
    }
    if session.printer.json {
        session.printer.document(&health.output)?;
    } else {
        show(&health.output, session)?;
    }
    Ok(match interrupt.signal() {
        Some(signal) => Exit::signal(signal),
        None if health.output.status == HealthStatus::Pass => Exit::DONE,
        None => Exit::FAILED,
    })
}

fn show(output: &HealthOutput, session: &Session) -> Result<(), Failure> {
    let mut page = session.printer.page();
    let rows: Vec<Vec<String>> = output
        .parts
        .iter()
        .map(|(name, part)| {
            vec![
                name.clone(),
                part.status.to_string(),
                part.checked.to_string(),
                format!("{:.2}", part.seconds),
            ]
        })
        .collect();
    page.table(&["part", "status", "checked", "seconds"], &rows);
    for (name, part) in output.parts.iter().filter(|(_, part)| !part.passed) {
        page.heading(name);
        for error in &part.errors {
            page.text("  ").styled(BAD, "wrong").text("  ").line(error);
        }
    }
    page.end();
    match output.status {
        HealthStatus::Pass => page.styled(GOOD, "PASS"),
        HealthStatus::Fail => page.styled(BAD, "FAIL"),
    };
    let good = output.parts.values().filter(|part| part.passed).count();
    page.text("  ").styled(
        STRONG,
        &format!(
            "{good} of {} parts hold, in {:.1} s",
            output.parts.len(),
            output.seconds
        ),
    );
    page.end();
    session.printer.show(&page)
}
