//! `cto rerun`: a new attempt at a task, with feedback on the one before.

use super::{Outcome, run};
use crate::failure::{Exit, Failure};
use crate::sandbox_args::SandboxArgs;
use crate::session::Session;

/// Try a task again, with feedback on the earlier attempt
///
/// The same task, lane, stage and program as the run that is named, which becomes the parent of the new one. The note is
/// added to the instruction under the heading "Feedback on the earlier attempt", so it is in the contract, in the
/// brief and in the pack. The gates come from the environment of this call, and the sandbox from its flags, not from the
/// earlier run.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto rerun latest --note \"Keep the public names as they are.\"
  cto rerun 20260601T1052 --note \"The empty string is a case too.\" --json")]
pub(crate) struct Args {
    /// A run of this home: its id, a unique prefix, `latest`, or the path to its pack
    #[arg(value_name = "RUN")]
    run: String,
    /// What the next attempt should know
    #[arg(long, value_name = "TEXT")]
    note: String,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Print every event as it happens, one JSON a line, instead of the report
    #[arg(long)]
    events: bool,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let found = session.find(&args.run)?;
    let Some(run_id) = found.run_id else {
        return Err(Failure::new(
            Exit::USAGE,
            "run_unknown",
            format!(
                "`{}` is not named like a run",
                cto_contract::text::shorten(&args.run, 120)
            ),
        )
        .hint("name a run of this home; `cto runs` lists them"));
    };
    let harness = session.harness()?;
    session.recover(&harness)?;
    let mut again = cto_runner::again(&harness, &run_id, &found.pack, &args.note)?;
    again.request.sandbox = args.sandbox.ask()?;
    if again.case_changed {
        session
            .printer
            .talk("note: the case has changed since; this attempt is at the case as it is now");
    }
    run::carry_out(&harness, &again.request, args.events, session)
}
