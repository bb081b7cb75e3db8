//! `cto stop`: end a live run.

use std::time::Duration;

use cto_runner::stop_run;

use super::Outcome;
use crate::failure::Exit;
use crate::session::Session;

/// Ask a live run to stop, and wait for its sealed pack
///
/// Sends SIGTERM to the harness that works on it, after making sure that it is that very process. The run ends as
/// `interrupted`, with a pack like any other.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  cto stop latest --wait 10")]
pub(crate) struct Args {
    /// A run id, a unique prefix, `latest`, or a path to a pack
    #[arg(value_name = "RUN")]
    run: String,
    /// Wait so many seconds for the seal
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let home = session.home()?;
    let found = session.find(&args.run)?;
    let wait = Duration::from_secs(args.wait);
    let output = stop_run(&home, &found, wait, &mut |pid| {
        session
            .printer
            .talk(&format!("asked process {pid} to stop"));
    })?;
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        let run_id = &output.run_id;
        let mut page = session.printer.page();
        match output.status {
            Some(status) => page.line(&format!("stopped: run {run_id} is sealed as {status}")),
            None => page.line(&format!("run {run_id} is not sealed yet")),
        };
        session.printer.show(&page)?;
    }
    Ok(if output.sealed {
        Exit::DONE
    } else {
        Exit::FAILED
    })
}
