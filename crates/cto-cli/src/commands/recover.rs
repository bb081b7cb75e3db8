//! `cto recover`: seal what crashed.

use cto_contract::outputs::{RecoverOutput, RecoverTag, RecoveredAs, RecoveredRun};
use cto_runner::{Search, recover_all};

use super::Outcome;
use crate::failure::Exit;
use crate::session::Session;

/// Seal runs whose harness died
///
/// Cuts a torn last line of the log, says so in it, and seals the pack as `interrupted`. Runs that a living
/// process works on are left alone. `cto run` does this by itself before it starts.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  cto recover")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, session: &Session) -> Outcome {
    let harness = session.harness()?;
    let runs = recover_all(&harness, Search::All)?;
    let runs: Vec<RecoveredRun> = runs.into_iter().map(RecoveredRun::from).collect();
    let failed = runs.iter().any(|r| r.outcome == RecoveredAs::Failed);
    if session.printer.json {
        session.printer.document(&RecoverOutput {
            schema_version: RecoverTag,
            runs,
        })?;
    } else if runs.is_empty() {
        session.printer.talk("nothing to recover");
    } else {
        let cells: Vec<Vec<String>> = runs
            .iter()
            .map(|r| {
                vec![
                    r.name.clone(),
                    r.outcome.to_string(),
                    r.detail.clone().unwrap_or_default(),
                ]
            })
            .collect();
        let mut page = session.printer.page();
        page.table(&["run", "outcome", "detail"], &cells);
        session.printer.show(&page)?;
    }
    Ok(if failed { Exit::FAILED } else { Exit::DONE })
}
