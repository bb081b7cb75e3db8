//! `cto key`: the key that seals packs.

use cto_contract::ids::Digest;
use cto_contract::outputs::{KeyOutput, KeyTag};
use cto_evidence::key::SigningKey;
use cto_runner::{key_path, load_or_create, rotate};

use super::Outcome;
use crate::failure::{Exit, Failure};
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
    let path = key_path(&home);
    let there = path.symlink_metadata().is_ok();
    let missing = || {
        Failure::new(
            Exit::USAGE,
            "key_missing",
            format!("there is no signing key at `{}`", path.display()),
        )
        .hint("`cto key new` makes one")
    };
    let (key, created, retired) = match args.command {
        Command::Show if there => (load_or_create(&home, &trust_dir)?.0, false, None),
        Command::Rotate if there => {
            let (key, aside) = rotate(&home, &trust_dir)?;
            (key, true, Some(aside.display().to_string()))
        }
        Command::Show | Command::Rotate => return Err(missing()),
        Command::New if there => {
            return Err(Failure::new(
                Exit::USAGE,
                "key_exists",
                format!("there is a signing key at `{}`", path.display()),
            )
            .hint("`cto key rotate` puts it aside and makes a new one"));
        }
        Command::New => {
            let (key, created) = load_or_create(&home, &trust_dir)?;
            (key, created, None)
        }
    };
    tell(&key, path.display().to_string(), created, retired, session)?;
    Ok(Exit::DONE)
}

fn tell(
    key: &SigningKey,
    path: String,
    created: bool,
    retired: Option<String>,
    session: &Session,
) -> Result<(), Failure> {
    let public = key.public();
    let keyid: Digest = public.keyid();
    let pem = public
        .to_pem()
        .map_err(|e| Failure::of(Exit::FAULT, "key_not_encoded", &e))?;
    if session.printer.json {
        return session.printer.document(&KeyOutput {
            schema_version: KeyTag,
            keyid,
            public_key: public.to_base64(),
            public_key_pem: pem,
            path,
            created,
            retired,
        });
    }
    let mut page = session.printer.page();
    page.field("keyid", keyid.as_str());
    page.field("public", &public.to_base64());
    page.field("file", &path);
    if let Some(retired) = retired {
        page.field("retired", &retired);
    }
    page.end().text(&pem);
    session.printer.show(&page)
}
