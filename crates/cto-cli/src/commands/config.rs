//! `cto config show`: every setting and where it came from.

use cto_runner::{Place, settings};

use super::Outcome;
use crate::failure::Exit;
use crate::session::Session;

/// Show the settings
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show every setting and where it came from
    ///
    /// A flag beats the environment, that beats `harness.yaml`, that beats the default. Nothing is read from the
    /// working directory or from a repository that is worked on.
    Show,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    match args.command {
        Command::Show => {}
    }
    let (path, from) = session.home_place()?;
    let (_, config_from) = session.config_place()?;
    let home = Place { path: &path, from };
    let output = settings(home, config_from, &session.config()?, &session.env);
    if session.printer.json {
        session.printer.document(&output)?;
        return Ok(Exit::DONE);
    }
    let rows: Vec<Vec<String>> = output
        .values
        .into_iter()
        .map(|v| vec![v.name, v.value.unwrap_or_else(|| "-".to_owned()), v.source])
        .collect();
    let mut page = session.printer.page();
    page.table(&["setting", "value", "from"], &rows);
    session.printer.show(&page)?;
    Ok(Exit::DONE)
}
