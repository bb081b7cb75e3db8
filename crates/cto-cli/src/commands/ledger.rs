//! `cto ledger`: whether what was decided still stands.

use cto_contract::outputs::{LedgerCheckOutput, ReleaseOutput, ReleaseTag};
use cto_runner::{check_ledger, make_checkpoint};

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// Check the ledger
///
/// Every run and every decision is an entry of the ledger, each chained to the one before. A checkpoint says how far it had
/// come; it is signed and lies where the ledger does not.
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Walk the chain, check every signature, and compare checkpoints and files of trust
    Verify,
    /// Sign how far the ledger has come
    Checkpoint,
    /// Give up what waits for a signature: nothing that is signed for it counts
    Release,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let harness = session.harness()?;
    let now = cto_runner::now();
    match args.command {
        Command::Verify => verify(&check_ledger(&harness)?, session),
        Command::Checkpoint => {
            let made = make_checkpoint(&harness, now)?;
            if session.printer.json {
                session.printer.document(&made)?;
            } else {
                let (length, path) = (made.length, &made.path);
                session
                    .printer
                    .talk(&format!("wrote {path} ({length} entries)"));
                if let Some(second) = &made.second {
                    session.printer.talk(&format!("and {second}"));
                }
            }
            Ok(Exit::DONE)
        }
        Command::Release => {
            let released = harness.ledger().release(now)?.map(|slot| slot.purpose);
            if session.printer.json {
                session.printer.document(&ReleaseOutput {
                    schema_version: ReleaseTag,
                    released,
                })?;
            } else {
                session.printer.talk(&match released {
                    Some(purpose) => format!("given up: {purpose}"),
                    None => "nothing was waiting for a signature".to_owned(),
                });
            }
            Ok(Exit::DONE)
        }
    }
}

fn verify(output: &LedgerCheckOutput, session: &Session) -> Outcome {
    let exit = if output.ok {
        Exit::DONE
    } else {
        Exit::EVIDENCE
    };
    if session.printer.json {
        session.printer.document(output)?;
        return Ok(exit);
    }
    let mut page = session.printer.page();
    if let Some(ledger) = &output.ledger {
        page.field("ledger", ledger.as_str());
    }
    if let Some(head) = &output.head {
        page.field("head", head.as_str());
    }
    page.field("entries", &output.entries.to_string());
    page.field("decisions", &output.decisions.to_string());
    page.field("operators", &output.operators.to_string());
    page.field("compared", &format!("{} checkpoints", output.checkpoints));
    session.printer.show(&page)?;
    let Some(first) = output.errors.first() else {
        return Ok(exit);
    };
    let code = match first.code.as_str() {
        "trust_rolled_back" => "trust_rolled_back",
        "ledger_rolled_back" => "ledger_rolled_back",
        "ledger_forged" => "ledger_forged",
        _ => "ledger_broken",
    };
    let mut failure = Failure::new(exit, code, "the ledger does not stand as it was");
    for error in &output.errors {
        failure
            .causes
            .push(format!("{}: {}", error.code, error.message));
        failure = failure.hint(error.hint.clone());
    }
    Err(failure)
}
