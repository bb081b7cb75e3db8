//! `cto trust`: which keys make an origin known.

use cto_contract::outputs::TrustListOutput;
use cto_contract::time::Utc;
use cto_runner::{NewTrust, list_trust, revoke_key, trust_key};

use super::Outcome;
use super::verify::read_key;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// Say which keys count
///
/// A pack proves its integrity by itself, but not who sealed it: that needs a key that you know. Trusted keys are
/// files under `<config>/trust/harness/`, one each.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_long_help = "\
Example:
  cto trust add ci.pub --name 'CI machine'"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Trust a public key
    Add {
        /// A PEM file, a file with base64, or base64
        #[arg(value_name = "FILE_OR_BASE64")]
        key: String,
        /// A name for people
        #[arg(long, value_name = "NAME")]
        name: String,
        /// Count only packs sealed from then on, e.g. 2026-06-01T00:00:00Z
        #[arg(long, value_name = "TIME", default_value = "1970-01-01T00:00:00Z")]
        valid_from: Utc,
        /// Count only packs sealed until then
        #[arg(long, value_name = "TIME")]
        valid_until: Option<Utc>,
    },
    /// List the trusted keys
    List,
    /// Trust a key no more: nothing that it ever sealed counts
    Revoke {
        /// The id of the key, or a unique beginning of it
        #[arg(value_name = "KEYID")]
        keyid: String,
    },
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let config = session.config()?;
    let changed = match &args.command {
        Command::List => {
            list(&list_trust(&config), session)?;
            return Ok(Exit::DONE);
        }
        Command::Add {
            key,
            name,
            valid_from,
            valid_until,
        } => {
            let new = NewTrust {
                key: read_key(key)?,
                name: name.clone(),
                valid_from: *valid_from,
                valid_until: *valid_until,
            };
            trust_key(&config, new)?
        }
        Command::Revoke { keyid } => revoke_key(&config, keyid, cto_runner::now())?,
    };
    if session.printer.json {
        session.printer.document(&changed)?;
    } else {
        session.printer.talk(&format!("wrote {}", changed.path));
    }
    Ok(Exit::DONE)
}

fn list(output: &TrustListOutput, session: &Session) -> Result<(), Failure> {
    if session.printer.json {
        return session.printer.document(output);
    }
    let rows: Vec<Vec<String>> = output
        .keys
        .iter()
        .map(|k| {
            let until = match (k.revoked_at, k.valid_until) {
                (Some(at), _) => format!("revoked {at}"),
                (None, Some(until)) => format!("until {until}"),
                (None, None) => "for good".to_owned(),
            };
            vec![
                k.keyid.short().to_owned(),
                k.name.clone(),
                k.valid_from.to_string(),
                until,
            ]
        })
        .collect();
    if rows.is_empty() {
        session.printer.talk("no key is trusted here yet");
        return Ok(());
    }
    let mut page = session.printer.page();
    page.table(&["key", "name", "from", "until"], &rows);
    session.printer.show(&page)
}
