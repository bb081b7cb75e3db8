//! `cto replay`: fold the log again and compare.

use cto_contract::outputs::ReplayOutput;
use cto_runner::replay_pack;

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::printer::{BAD, GOOD};
use crate::session::Session;

/// Replay the log of a run
///
/// Prints the same lines that were printed while it ran, makes the report from the log again, and compares it
/// with the sealed one. Exit 5 when they differ.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  cto replay latest")]
pub(crate) struct Args {
    /// A run id, a unique prefix, `latest`, or a path to a pack
    #[arg(value_name = "RUN")]
    run: String,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let found = session.find(&args.run)?;
    let output = replay_pack(&found)?;
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        session.tell_provenance(&found);
        show(&output, session)?;
    }
    Ok(if output.same == Some(false) {
        Exit::EVIDENCE
    } else {
        Exit::DONE
    })
}

fn show(output: &ReplayOutput, session: &Session) -> Result<(), Failure> {
    let mut page = session.printer.page();
    for line in &output.progress {
        page.line(line);
    }
    session.printer.show(&page)?;
    let mut page = session.printer.page();
    match output.same {
        Some(false) => {
            page.styled(BAD, "differs").line(&format!(
                ": the sealed report says otherwise about {}",
                output.differences.join(", ")
            ));
        }
        Some(true) if session.printer.verbose => {
            page.styled(GOOD, "same")
                .line(": the sealed report follows from the log");
        }
        Some(true) => session
            .printer
            .talk("same: the sealed report follows from the log"),
        None => session
            .printer
            .talk("not sealed: there is no report to compare with"),
    }
    session.printer.show(&page)
}
