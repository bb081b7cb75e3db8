//! `cto engines`: the lanes and their gates.

use cto_runner::list_engines;

use super::Outcome;
use crate::failure::Exit;
use crate::session::Session;

/// List the lanes and whether their gates are open
///
/// `fake` is the default and nothing can change that. Every other lane is closed until its environment name has
/// the exact value 1, and its stage name the exact digit of the stage.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  CTO_HARNESS_ALLOW_CODEX=1 cto engines     see the gate of a lane open")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, session: &Session) -> Outcome {
    let config = session.config()?;
    let output = list_engines(&config, &session.env);
    if session.printer.json {
        session.printer.document(&output)?;
        return Ok(Exit::DONE);
    }
    let rows: Vec<Vec<String>> = output
        .engines
        .iter()
        .map(|row| {
            let state = match (row.available, row.disabled) {
                (_, true) => "disabled",
                (true, false) => "available",
                (false, false) => "not in this build",
            };
            let gate = row.gate.as_ref().map_or_else(
                || "none".to_owned(),
                |name| format!("{name} ({})", if row.gate_open { "open" } else { "closed" }),
            );
            let stage = row.stage.map_or_else(|| "-".to_owned(), |s| s.to_string());
            vec![
                row.lane.to_string(),
                if row.default { "default" } else { "" }.to_owned(),
                state.to_owned(),
                gate,
                stage,
            ]
        })
        .collect();
    let mut page = session.printer.page();
    page.table(&["lane", "", "state", "gate", "stage"], &rows);
    session.printer.show(&page)?;
    Ok(Exit::DONE)
}
