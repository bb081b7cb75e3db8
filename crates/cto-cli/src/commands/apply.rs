//! `cto apply`: the checked patch of a run into the working tree.

use std::path::PathBuf;

use cto_runner::ApplyRunError;

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// Apply the checked patch of a run to the working tree
///
/// Only the patch of a pass of this home, whose pack verifies, whose signer is known and whose digest the ledger has; only in
/// the repository it was made for, at the very commit; only where the files it changes are as that commit has them.
/// Otherwise it says why and touches nothing. It never commits and leaves the index alone.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto apply latest
  git diff                      look at it, then commit it as your own
  cto apply 20260601T1052 --repo ~/src/app")]
pub(crate) struct Args {
    /// A run of this home: its id, a unique prefix, `latest`, or the path to its pack
    #[arg(value_name = "RUN")]
    run: String,
    /// The repository that the run was made for
    #[arg(long, value_name = "DIR", default_value = ".")]
    repo: PathBuf,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let found = session.find(&args.run)?;
    let harness = session.harness()?;
    let output = harness.apply(&found, &args.repo)?;
    let printer = &session.printer;
    if printer.json {
        printer.document(&output)?;
        return Ok(Exit::DONE);
    }
    let mut page = printer.page();
    for path in &output.changed_files {
        page.line(path);
    }
    printer.show(&page)?;
    let count = output.changed_files.len();
    let run_id = &output.run_id;
    printer.talk(&match output.was_there {
        true => format!("the change of run {run_id} is there already; nothing was written"),
        false => format!(
            "applied {count} paths of run {run_id}; nothing is committed (`git diff` shows it)"
        ),
    });
    let others = output.other_changes_count;
    if others > 0 {
        printer.talk(&format!(
            "{others} other paths here are not as the base commit has them, and no check has seen them together with this \
             change: {}",
            output.other_changes.join(", ")
        ));
    }
    Ok(Exit::DONE)
}

impl From<ApplyRunError> for Failure {
    fn from(error: ApplyRunError) -> Self {
        let (code, hint) = (error.code(), error.hint());
        let exit = match error {
            ApplyRunError::Pack(error) => return Self::from(error),
            ApplyRunError::NoRepository { .. } => Exit::USAGE,
            ref error if error.is_about_evidence() => Exit::EVIDENCE,
            ref error if error.is_about_state() => Exit::BLOCKED,
            ApplyRunError::NotOfThisHome { .. }
            | ApplyRunError::File(_)
            | ApplyRunError::Unreadable { .. }
            | ApplyRunError::Busy
            | ApplyRunError::Repository(_)
            | ApplyRunError::Refused(_)
            | ApplyRunError::Scratch(_) => Exit::FAULT,
        };
        Self::of(exit, code, &error).hint_if(hint)
    }
}
