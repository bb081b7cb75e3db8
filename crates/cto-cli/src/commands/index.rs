//! `cto index rebuild`: make the index of runs new from the packs.

use cto_runner::rebuild_index;

use super::Outcome;
use crate::failure::Exit;
use crate::session::Session;

/// Look after the index of runs
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make the index new from the packs in home
    ///
    /// Every pack is verified; one that does not is left out and named. Of a pack that `cto gc` removed, its tombstone
    /// stands for it. The ledger is not touched: it says which
    /// runs were here and are gone.
    Rebuild,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    match args.command {
        Command::Rebuild => rebuild(session),
    }
}

fn rebuild(session: &Session) -> Outcome {
    let harness = session.harness()?;
    let output = rebuild_index(&harness)?;
    let rebuilt = &output.rebuilt;
    let ok = output.refused.is_empty() && rebuilt.missing == 0;
    if session.printer.json {
        session.printer.document(&output)?;
    } else {
        let mut page = session.printer.page();
        page.line(&format!("{} runs in the index", rebuilt.runs));
        page.field("running", &rebuilt.running.to_string());
        page.field("imported", &rebuilt.unknown.to_string());
        page.field("missing", &rebuilt.missing.to_string());
        for pack in &output.refused {
            page.field("refused", &format!("{}: {}", pack.name, pack.reason));
        }
        session.printer.show(&page)?;
    }
    Ok(if ok { Exit::DONE } else { Exit::EVIDENCE })
}
