//! `cto trust`: which keys make an origin known.

use cto_contract::authority::{TrustStatement, TrustStatementSchema};
use cto_contract::outputs::{TrustListOutput, TrustRepairOutput, TrustRepairTag};
use cto_contract::time::Utc;
use cto_contract::trust::TrustedKey;
use cto_contract::words::Presence;
use cto_ledger::{OPERATORS_FILE, Slot};
use cto_runner::{
    NewTrust, TrustError, find_trusted, list_trust, needs_operator, new_trusted, repair_trust,
    revoke_key, trust_key,
};

use super::Outcome;
use super::verify::read_key;
use crate::failure::{Exit, Failure};
use crate::session::Session;
use crate::signing::{Question, SignArgs, decide, nothing_else};

/// Say which keys count
///
/// A pack proves its integrity by itself, but not who sealed it: that needs a key that you know. Trusted keys are
/// files under `<config>/trust/harness/`, one each. Once there is an operator, each change needs his signature.
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
        #[command(flatten)]
        sign: SignArgs,
    },
    /// List the trusted keys
    List,
    /// Trust a key no more: nothing that it ever sealed counts
    Revoke {
        /// The id of the key, or a unique beginning of it
        #[arg(value_name = "KEYID")]
        keyid: String,
        #[command(flatten)]
        sign: SignArgs,
    },
    /// Write the files of trust again from the ledger
    Repair,
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
            sign,
        } => {
            let new = NewTrust {
                key: read_key(key)?,
                name: name.clone(),
                valid_from: *valid_from,
                valid_until: *valid_until,
            };
            if is_governed(session)? {
                let key = new_trusted(&config, new)?;
                return sign_for(session, sign, &key, false);
            }
            trust_key(&config, new)?
        }
        Command::Revoke { keyid, sign } => {
            if is_governed(session)? {
                let key = find_trusted(&config, keyid)?;
                return sign_for(session, sign, &key, true);
            }
            revoke_key(&config, keyid, cto_runner::now())?
        }
        Command::Repair => {
            let files = repair_trust(&session.harness()?)?;
            if session.printer.json {
                session.printer.document(&TrustRepairOutput {
                    schema_version: TrustRepairTag,
                    files,
                })?;
            } else {
                for file in &files {
                    session.printer.talk(&format!("wrote {file}"));
                }
            }
            return Ok(Exit::DONE);
        }
    };
    if session.printer.json {
        session.printer.document(&changed)?;
    } else {
        session.printer.talk(&format!("wrote {}", changed.path));
    }
    Ok(Exit::DONE)
}

/// Whether an operator has to sign.
pub(super) fn is_governed(session: &Session) -> Result<bool, Failure> {
    let (place, _) = session.home_place()?;
    if !place.join("cto.db").exists() && !place.join("keys").exists() {
        return Ok(session.config()?.dir.join(OPERATORS_FILE).exists());
    }
    Ok(needs_operator(&session.home()?, &session.config()?)?)
}

/// Lets an operator sign for a key as it is to stand.
fn sign_for(session: &Session, sign: &SignArgs, key: &TrustedKey, revoke: bool) -> Outcome {
    let harness = session.harness()?;
    let ledger = harness.ledger().id()?;
    let (keyid, ledger) = (key.keyid.short(), ledger.short());
    let (purpose, sentence) = if revoke {
        (
            format!("revoke harness key {keyid}"),
            format!("I revoke harness key {keyid} in ledger {ledger}."),
        )
    } else {
        (
            format!("trust harness key {keyid}"),
            format!("I trust harness key {keyid} in ledger {ledger}."),
        )
    };
    let question = Question {
        purpose: &purpose,
        sentence: &sentence,
        shown: "",
        floor: Presence::None,
        first: None,
    };
    let make = |slot: Slot, signer| {
        let mut key = key.clone();
        if revoke {
            key.revoked_at = key.revoked_at.or(Some(slot.at));
        }
        TrustStatement {
            schema: TrustStatementSchema,
            ledger: slot.ledger,
            keys: vec![key],
            signer,
            slot: slot.nonce,
            at: slot.at,
        }
    };
    match decide(session, &harness, sign, &question, make, &nothing_else)? {
        None => Ok(Exit::WAITING),
        Some(output) => {
            if session.printer.json {
                session.printer.document(&output)?;
            }
            Ok(Exit::DONE)
        }
    }
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

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Keyring(e) => Self::from(e),
            TrustError::PeriodEmpty
            | TrustError::Revoked { .. }
            | TrustError::Unknown { .. }
            | TrustError::Ambiguous { .. } => {
                Self::of(Exit::USAGE, error.code(), &error).hint_if(error.hint())
            }
        }
    }
}
