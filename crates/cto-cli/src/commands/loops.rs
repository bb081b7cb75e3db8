//! `cto loop`: runs that are asked for again and again, with everything about them fixed but where things are.

use cto_proving::qwen_loop;

use super::Outcome;
use super::run::carry_out;
use crate::session::Session;

/// Repeat a fixed trial of a lane
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, clap::Subcommand)]
enum Which {
    Qwen(Qwen),
}

/// Let Case mend a shipped case with a local Qwen
///
/// The same as `cto run r1-string-slugify --engine case --stage 2` with provider `qwen-local` and model `qwen3.6-35b-a3b`
/// fixed. You name the program, the record that admits the pair, and where the model is; nothing stands in for one that is
/// missing, and each missing one blocks the run by name. The lane's gates are yours too. The pack is an ordinary one and
/// never tells where the model is.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  CTO_HARNESS_ALLOW_CASE=1 CTO_HARNESS_CASE_STAGE=2 \\
  CTO_HARNESS_CASE_BIN=/opt/case/ca \\
  CTO_HARNESS_CASE_MODEL_ADMISSION_FILE=qwen.json \\
  CTO_HARNESS_CASE_LOCAL_BASE_URL=http://127.0.0.1:8000/v1 \\
    cto loop qwen --json

A decision for `case` must lie in the config directory: `cto admit decision`.")]
struct Qwen {
    /// Print every event as it happens, one JSON a line, instead of the report
    #[arg(long)]
    events: bool,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    match &args.which {
        Which::Qwen(args) => {
            let request = qwen_loop::request()?;
            let mut harness = session.harness()?;
            session.recover(&harness)?;
            harness.env = qwen_loop::environment(&harness.env);
            carry_out(&harness, &request, args.events, session)
        }
    }
}
