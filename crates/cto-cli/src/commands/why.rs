//! `cto why`: which rule decides about a path or an action.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use cto_contract::task::TaskContract;
use cto_contract::text::one_line;
use cto_rules::why::why;
use cto_runner::{pack_file, read_contract};

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::printer::{BAD, GOOD};
use crate::session::Session;

/// Say which rule decides about a path or an action
///
/// A path is judged in this order: what no contract can allow, `forbidden_paths`, `frozen_paths`, files where a test
/// runner looks for itself or that steer agents, `allowed_paths`; what nothing allows is refused. The answer comes
/// from the code that judges runs. One of the ten actions is looked up by its name; write `./push` for a file of
/// that name.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("of").required(true).args(["contract", "run"]), after_long_help = "\
Examples:
  cto why src/app.py --contract cto-task.yaml
  cto why tests/test_app.py --run latest      by the contract of that run
  cto why push --contract cto-task.yaml")]
pub(crate) struct Args {
    /// A path as it is in the repository, or one of the ten actions
    #[arg(value_name = "PATH|ACTION")]
    subject: OsString,
    /// Ask this contract
    #[arg(long, value_name = "FILE")]
    contract: Option<PathBuf>,
    /// Ask the contract of a run: its id, a unique prefix, `latest`, or a path to a pack
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let contract = contract(args, session)?;
    let why = why(&contract, args.subject.as_bytes())
        .map_err(|error| Failure::of(Exit::USAGE, "path_not_a_file", &error).hint(error.hint()))?;
    let answer = why.document(contract.task_id);
    if session.printer.json {
        session.printer.document(&answer)?;
        return Ok(Exit::DONE);
    }
    let mut page = session.printer.page();
    let style = if answer.allowed { GOOD } else { BAD };
    page.styled(style, &answer.verdict.replace('_', " "))
        .text("  ")
        .line(&one_line(&answer.sentence));
    if let Some(hint) = &answer.hint {
        page.text("  next: ").line(hint);
    }
    session.printer.show(&page)?;
    Ok(Exit::DONE)
}

fn contract(args: &Args, session: &Session) -> Result<TaskContract, Failure> {
    if let Some(file) = &args.contract {
        return Ok(read_contract(file)?);
    }
    let found = session.find(args.run.as_deref().unwrap_or("latest"))?;
    Ok(pack_file::contract(&found)?)
}
