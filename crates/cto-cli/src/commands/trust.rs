//! `cto trust`: which keys make an origin known.

use cto_contract::ids::Digest;
use cto_contract::outputs::{TrustListOutput, TrustListTag, TrustOutput, TrustTag};
use cto_contract::time::Utc;
use cto_contract::trust::{TrustSchema, TrustedKey};
use cto_runner::add_trusted;

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
    match &args.command {
        Command::List => list(&config, session)?,
        Command::Add {
            key,
            name,
            valid_from,
            valid_until,
        } => {
            let key = read_key(key)?;
            let keyid: Digest = key.keyid();
            if valid_until.is_some_and(|until| until <= *valid_from) {
                return Err(Failure::new(
                    Exit::USAGE,
                    "trust_period_empty",
                    "the key would end before it begins to count",
                ));
            }
            if config
                .trusted
                .iter()
                .any(|k| k.keyid == keyid && k.revoked_at.is_some())
            {
                return Err(Failure::new(
                    Exit::USAGE,
                    "trust_revoked",
                    format!("key {} was revoked", keyid.short()),
                )
                .hint("a revoked key stays revoked: whoever holds it can write any date"));
            }
            let record = TrustedKey {
                schema: TrustSchema,
                name: name.clone(),
                keyid,
                public_key: key.to_base64(),
                valid_from: *valid_from,
                valid_until: *valid_until,
                revoked_at: None,
            };
            save(&config, record, session)?;
        }
        Command::Revoke { keyid } => {
            let mut matches: Vec<&TrustedKey> = config
                .trusted
                .iter()
                .filter(|k| !keyid.is_empty() && k.keyid.as_str().starts_with(keyid.as_str()))
                .collect();
            let (Some(key), true) = (matches.pop(), matches.is_empty()) else {
                let code = if config
                    .trusted
                    .iter()
                    .any(|k| k.keyid.as_str().starts_with(keyid.as_str()))
                {
                    "key_ambiguous"
                } else {
                    "key_unknown"
                };
                return Err(Failure::new(
                    Exit::USAGE,
                    code,
                    format!(
                        "`{}` is not the beginning of one trusted key's id",
                        cto_contract::text::shorten(keyid, 80)
                    ),
                )
                .hint("`cto trust list` shows them"));
            };
            let mut record = key.clone();
            record.revoked_at = record.revoked_at.or_else(|| Some(cto_runner::now()));
            save(&config, record, session)?;
        }
    }
    Ok(Exit::DONE)
}

fn save(config: &cto_runner::Config, record: TrustedKey, session: &Session) -> Result<(), Failure> {
    let path = add_trusted(&record, &config.trust_dir())?;
    if session.printer.json {
        return session.printer.document(&TrustOutput {
            schema_version: TrustTag,
            key: record,
            path: path.display().to_string(),
        });
    }
    session.printer.talk(&format!("wrote {}", path.display()));
    Ok(())
}

fn list(config: &cto_runner::Config, session: &Session) -> Result<(), Failure> {
    if session.printer.json {
        let directory = config.trust_dir().display().to_string();
        return session.printer.document(&TrustListOutput {
            schema_version: TrustListTag,
            directory,
            keys: config.trusted.clone(),
        });
    }
    let rows: Vec<Vec<String>> = config
        .trusted
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
