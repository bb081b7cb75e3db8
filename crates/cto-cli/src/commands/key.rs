//! `cto key`: the key that seals packs.

use cto_contract::authority::{TrustStatement, TrustStatementSchema};
use cto_contract::outputs::KeyOutput;
use cto_contract::trust::{TrustSchema, TrustedKey};
use cto_contract::words::Presence;
use cto_ledger::Slot;
use cto_runner::{make_key, next_key, rotate_key, show_key, take_next_key};

use super::Outcome;
use super::trust::is_governed;
use crate::failure::{Exit, Failure};
use crate::session::Session;
use crate::signing::{ELSEWHERE_SECONDS, Question, SignArgs, decide, nothing_else};

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
    /// Packs that the old key sealed stay valid; it vouches for none after now. Once there is an operator, it needs his
    /// signature, and the old key counts for an hour more, until that is there.
    Rotate {
        #[command(flatten)]
        sign: SignArgs,
    },
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let home = session.home()?;
    let trust_dir = session.config()?.trust_dir();
    let key = match &args.command {
        Command::Show => show_key(&home)?,
        Command::New if is_governed(session)? => {
            // Opening says what is wrong, if the key is missing.
            drop(session.harness()?);
            make_key(&home, &trust_dir)?
        }
        Command::New => make_key(&home, &trust_dir)?,
        Command::Rotate { sign } if is_governed(session)? => match rotate(session, sign)? {
            Some(key) => key,
            None => return Ok(Exit::WAITING),
        },
        Command::Rotate { .. } => rotate_key(&home, &trust_dir)?,
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

/// Lets an operator sign for the next key, then takes it. None when it waits for a signature.
fn rotate(session: &Session, sign: &SignArgs) -> Result<Option<KeyOutput>, Failure> {
    let harness = session.harness()?;
    let old = harness.public_key().keyid();
    let old = harness.config.trusted.iter().find(|key| key.keyid == old);
    let next = next_key(&harness.home)?;
    let ledger = harness.ledger().id()?;
    let (keyid, ledger) = (next.keyid(), ledger.short());
    let (purpose, sentence) = (
        format!("rotate the harness key to {}", keyid.short()),
        format!(
            "I rotate the harness key to {} in ledger {ledger}.",
            keyid.short()
        ),
    );
    let question = Question {
        purpose: &purpose,
        sentence: &sentence,
        shown: "",
        floor: Presence::None,
        first: None,
    };
    let make = |slot: Slot, signer| {
        let retired = old.map(|old| TrustedKey {
            // It goes on sealing until the signature is there.
            valid_until: old
                .valid_until
                .or(Some(slot.at.plus_seconds(ELSEWHERE_SECONDS))),
            ..old.clone()
        });
        let new = TrustedKey {
            schema: TrustSchema,
            name: "this harness".to_owned(),
            keyid: keyid.clone(),
            public_key: next.to_base64(),
            valid_from: slot.at,
            valid_until: None,
            revoked_at: None,
        };
        TrustStatement {
            schema: TrustStatementSchema,
            ledger: slot.ledger,
            keys: retired.into_iter().chain([new]).collect(),
            signer,
            slot: slot.nonce,
            at: slot.at,
        }
    };
    match decide(session, &harness, sign, &question, make, &nothing_else)? {
        None => Ok(None),
        Some(_) => Ok(Some(take_next_key(&harness.home)?)),
    }
}
