//! `cto completions`: what a shell needs to complete words.

use clap_complete::Shell;
use cto_contract::outputs::{TextOutput, TextTag};

use super::Outcome;
use crate::failure::Exit;
use crate::session::Session;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  cto completions bash > ~/.local/share/bash-completion/completions/cto")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut crate::args::command(), "cto", &mut bytes);
    if session.printer.json {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        session.printer.document(&TextOutput {
            schema_version: TextTag,
            name: args.shell.to_string(),
            text,
        })?;
    } else {
        session.printer.data(&bytes)?;
    }
    Ok(Exit::DONE)
}
