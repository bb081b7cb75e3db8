//! `cto man`: the manual pages.

use std::path::PathBuf;

use cto_contract::outputs::{TextOutput, TextTag};

use super::Outcome;
use super::schema::{make_directory, tell_written};
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// Print the manual page, or write all of them
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto man | man -l -
  cto man ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Write a page for every command into this directory
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let mut command = crate::args::command().disable_help_subcommand(true);
    command.build();
    let Some(dir) = &args.dir else {
        let page = render(&command, "cto")?;
        if session.printer.json {
            let text = String::from_utf8_lossy(&page).into_owned();
            session.printer.document(&TextOutput {
                schema_version: TextTag,
                name: "cto.1".to_owned(),
                text,
            })?;
        } else {
            session.printer.data(&page)?;
        }
        return Ok(Exit::DONE);
    };
    make_directory(dir)?;
    let mut files = Vec::new();
    let mut waiting = vec![(String::from("cto"), command)];
    while let Some((name, command)) = waiting.pop() {
        let file = format!("{name}.1");
        cto_runner::write_file(&dir.join(&file), &render(&command, &name)?)?;
        files.push(file);
        waiting.extend(
            command
                .get_subcommands()
                .map(|sub| (format!("{name}-{}", sub.get_name()), sub.clone())),
        );
    }
    files.sort();
    tell_written(dir, files, session)?;
    Ok(Exit::DONE)
}

fn render(command: &clap::Command, title: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(title)
        .render(&mut bytes)
        .map_err(|e| {
            Failure::io(
                "output_not_encoded",
                "the manual page could not be made",
                &e,
            )
        })?;
    Ok(bytes)
}
