//! `cto key`: the key that seals packs.

use cto_runner::{make_key, rotate_key, show_key};

use super::Outcome;
use crate::failure::Exit;
use crate::session::Session;

/// Show, make or rotate the signing key
///
/// Packs are signed with an ed25519 key that lies in home, readable by you alone, and is made on first use. Give
/// its public half to whoever checks your packs.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_long_help = "\
Example:
  cto key show --json | jq -r .public_key      what `cto verify --key` and `cto trust add` take"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the public half
    Show,
    /// Make the key and trust it on this machine
    New,
    /// Put the key aside, end its validity, and make a new one
    ///
    /// Packs that the old key sealed stay valid; it vouches for none after now.
    Rotate,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let home = session.home()?;
    let trust_dir = session.config()?.trust_dir();
    let key = match args.command {
        Command::Show => show_key(&home)?,
        Command::New => make_key(&home, &trust_dir)?,
        Command::Rotate => rotate_key(&home, &trust_dir)?,
    };
    if session.printer.json {
        session.printer.document(&key)?;
        return Ok(Exit::DONE);
    }
    let mut page = session.printer.page();
    page.field("keyid", key.keyid.as_str());
    page.field("public", &key.public_key);
    page.field("file", &key.path);
    if let Some(retired) = &key.retired {
        page.field("retired", retired);
    }
    page.end().text(&key.public_key_pem);
    session.printer.show(&page)?;
    Ok(Exit::DONE)
}
