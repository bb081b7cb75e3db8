//! `cto contract check`: read a task contract, and say what in it is likely a mistake.

use std::path::PathBuf;

use clap::Subcommand;
use cto_contract::text::one_line;
use cto_rules::outputs::ContractCheckOutput;
use cto_runner::check_contract;

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::printer::{GOOD, STRONG, WARN};
use crate::session::Session;

/// Check a task contract before anything runs on it
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Check(CheckArgs),
}

/// Read a contract and warn about what is likely a mistake
///
/// A contract that can't be read is refused with line and column. One that can be may still let a change rewrite the
/// script that checks it, allow a path that is not there, or forbid what it allows: each is a warning with what to
/// do. Warnings block nothing, and the exit code stays 0.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto contract check cto-task.yaml
  cto contract check task.json --repo ../project
  cto contract check cto-task.yaml --json | jq '.warnings[].code'")]
struct CheckArgs {
    /// The contract, YAML or JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Look at this repository; without it at the one that the file lies at the top of
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    match &args.what {
        What::Check(args) => check(args, session),
    }
}

fn check(args: &CheckArgs, session: &Session) -> Outcome {
    let output = check_contract(&args.file, args.repo.as_deref())?;
    if session.printer.json {
        session.printer.document(&output)?;
        return Ok(Exit::DONE);
    }
    show(&output, session)?;
    Ok(Exit::DONE)
}

fn show(output: &ContractCheckOutput, session: &Session) -> Result<(), Failure> {
    let mut page = session.printer.page();
    match output.warnings.len() {
        0 => page.styled(GOOD, "in order"),
        1 => page.styled(WARN, "1 warning"),
        count => page.styled(WARN, &format!("{count} warnings")),
    };
    page.text("  ")
        .styled(STRONG, &one_line(&output.file))
        .end();
    page.field("task", output.task_id.as_str());
    page.field("digest", output.contract_digest.short());
    let looked_at = match (&output.repository, output.tree_complete) {
        (Some(path), true) => path.clone(),
        (Some(path), false) => format!("{path}, in part: it is too large or can't all be read"),
        (None, _) => "no repository; `--repo DIR` compares the paths with one".to_owned(),
    };
    page.field("tree", &looked_at);
    for warning in &output.warnings {
        page.text("\n  ")
            .styled(WARN, warning.code.as_str())
            .text(": ")
            .line(&one_line(&warning.message));
        page.text("    next: ").line(&one_line(&warning.hint));
    }
    session.printer.show(&page)
}
