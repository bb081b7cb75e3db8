//! `cto index rebuild`: make the index of runs new from the packs.

use std::cell::RefCell;

use cto_contract::artifact::ATTESTATION;
use cto_contract::ids::RunId;
use cto_runner::{index_row, reference};
use cto_store::{IndexOutput, IndexTag, RefusedPack};

use super::Outcome;
use crate::failure::{Exit, Failure};
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
    let sealed: Vec<_> = reference::packs(&harness.home)?
        .into_iter()
        .filter(|id| harness.home.pack(id).join(ATTESTATION).exists())
        .collect();
    let buried = cto_runner::buried(&harness.home)?;
    let refused = RefCell::new(Vec::new());
    let refuse = |id: &RunId, reason: String| {
        refused.borrow_mut().push(RefusedPack {
            name: id.to_string(),
            reason,
        });
    };
    let removed = buried.into_iter().filter_map(|id| {
        match cto_runner::burial(&harness.home, &id, &harness.config.trusted) {
            Ok(buried) => buried.map(|b| b.row()),
            Err(error) => {
                refuse(
                    &id,
                    Failure::of(Exit::EVIDENCE, "tombstone_invalid", &error).message,
                );
                None
            }
        }
    });
    let rows = sealed.into_iter().filter_map(|id| {
        let row = index_row(&harness, &harness.home.pack(&id)).and_then(|row| {
            if row.run_id == id {
                Ok(row)
            } else {
                Err(format!("the pack in it is of run {}", row.run_id))
            }
        });
        row.map_err(|reason| refuse(&id, reason)).ok()
    });
    let rebuilt = harness
        .store()
        .rebuild_index(rows.chain(removed))
        .map_err(Failure::from)?;
    let refused = refused.into_inner();
    let ok = refused.is_empty() && rebuilt.missing == 0;
    if session.printer.json {
        session.printer.document(&IndexOutput {
            schema_version: IndexTag,
            rebuilt,
            refused,
        })?;
    } else {
        let mut page = session.printer.page();
        page.line(&format!("{} runs in the index", rebuilt.runs));
        page.field("running", &rebuilt.running.to_string());
        page.field("imported", &rebuilt.unknown.to_string());
        page.field("missing", &rebuilt.missing.to_string());
        for pack in &refused {
            page.field("refused", &format!("{}: {}", pack.name, pack.reason));
        }
        session.printer.show(&page)?;
    }
    Ok(if ok { Exit::DONE } else { Exit::EVIDENCE })
}
