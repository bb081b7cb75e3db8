//! `cto operator`: who decides.

use std::path::{Path, PathBuf};

use cto_contract::operator::{OperatorChange, OperatorName, OperatorSchema, OperatorStatement};
use cto_contract::outputs::OperatorsOutput;
use cto_contract::trust::TrustedKey;
use cto_contract::words::Presence;
use cto_evidence::sshsig::SshPublicKey;
use cto_ledger::{Authority, KeyFile, Protection, Slot};
use cto_runner::{Harness, list_operators};

use super::Outcome;
use super::admit::sign_file;
use crate::failure::{Exit, Failure};
use crate::session::Session;
use crate::signing::{Question, SignArgs, decide, nothing_else};

/// Say who decides
///
/// An operator is a person with keys of his own. Each change is a record of the ledger that an operator signs; the first
/// signs for himself. `operators.allowed_signers` in the config directory is written from these records.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  ssh-keygen -t ed25519-sk -f ~/.ssh/id_cto          a key that asks for a touch
  cto operator add olga ~/.ssh/id_cto --key ~/.ssh/id_cto
  cto operator add olga ~/.ssh/id_spare.pub --key ~/.ssh/id_cto"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Add a key of an operator
    ///
    /// Add a second one soon, on another device: whoever loses all keys starts a new ledger.
    Add {
        /// One word
        #[arg(value_name = "NAME")]
        operator: OperatorName,
        /// A key file of OpenSSH, private or public: ed25519, ed25519-sk or ecdsa-sk
        #[arg(value_name = "KEY_FILE")]
        public: PathBuf,
        /// Enrol a key that nothing holds back; it decides nothing from stage 4 on
        #[arg(long)]
        no_presence: bool,
        #[command(flatten)]
        sign: SignArgs,
    },
    /// Stand for a record: source, binary, model, decision or target
    ///
    /// From stage 4 on, and for targets always, only records count for which an operator signed. Of two about the same thing
    /// the one that was signed last counts.
    Sign {
        /// The record, JSON or YAML
        #[arg(value_name = "RECORD")]
        record: PathBuf,
        #[command(flatten)]
        sign: SignArgs,
    },
    /// List operators and their keys
    List,
    /// Let a key count no more, for good
    Revoke {
        #[arg(value_name = "NAME")]
        operator: OperatorName,
        /// The key's fingerprint or a beginning of it; may be left out where there is one key
        #[arg(value_name = "FINGERPRINT")]
        fingerprint: Option<String>,
        #[command(flatten)]
        sign: SignArgs,
    },
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let harness = session.harness()?;
    match &args.command {
        Command::List => {
            list(&list_operators(&harness, cto_runner::now())?, session)?;
            Ok(Exit::DONE)
        }
        Command::Sign { record, sign } => sign_file(session, &harness, record, sign),
        Command::Add {
            operator,
            public,
            no_presence,
            sign,
        } => add(session, &harness, (operator, public, *no_presence), sign),
        Command::Revoke {
            operator,
            fingerprint,
            sign,
        } => {
            let authority = harness.ledger().authority()?;
            let key = find(&authority, operator, fingerprint.as_deref())?;
            let change = Change {
                what: OperatorChange::Revoke,
                operator,
                public: &key,
                claims_presence: false,
                takes_over: &[],
                first: false,
            };
            change.decide(session, &harness, sign)
        }
    }
}

fn add(
    session: &Session,
    harness: &Harness,
    (operator, file, no_presence): (&OperatorName, &Path, bool),
    sign: &SignArgs,
) -> Outcome {
    let key = KeyFile::open(file)?;
    let is_plain = !key.public.kind().is_security_key();
    if is_plain && !no_presence && key.protection == Some(Protection::None) {
        let shown = file.display();
        return Err(Failure::new(
            Exit::USAGE,
            "key_without_passphrase",
            format!("whoever reads `{shown}` can sign with it: it has no passphrase"),
        )
        .hint(format!("`ssh-keygen -p -f {shown}` gives it one"))
        .hint("or enrol it with --no-presence: it decides nothing from stage 4 on"));
    }
    let authority = harness.ledger().authority()?;
    let first = !authority.is_governed();
    let change = Change {
        what: OperatorChange::Add,
        operator,
        public: &key.public,
        claims_presence: is_plain && !no_presence,
        takes_over: if first { &harness.config.trusted } else { &[] },
        first,
    };
    let exit = change.decide(session, harness, sign)?;
    if harness.ledger().authority()?.operators.active().count() == 1 {
        session.printer.talk(
            "only one key decides here: add a second one now, on another device; whoever loses all keys starts a new ledger, where old proofs do not count",
        );
    }
    Ok(exit)
}

/// The one key of an operator that is meant.
fn find(
    authority: &Authority,
    operator: &OperatorName,
    fingerprint: Option<&str>,
) -> Result<SshPublicKey, Failure> {
    let keys = authority.operators.active();
    let keys = keys.filter(|key| key.operator == *operator);
    let keys = keys.filter_map(|key| SshPublicKey::from_openssh(&key.public_key).ok());
    let is_meant = |key: &SshPublicKey| match fingerprint {
        None => true,
        Some(text) => {
            let whole = key.fingerprint();
            let digits = whole.strip_prefix("SHA256:").unwrap_or(&whole);
            !text.is_empty() && (whole.starts_with(text) || digits.starts_with(text))
        }
    };
    let mut keys: Vec<SshPublicKey> = keys.filter(is_meant).collect();
    match (keys.pop(), keys.is_empty()) {
        (Some(key), true) => Ok(key),
        (found, _) => {
            let (code, message) = match found {
                None => (
                    "operator_key_unknown",
                    format!("`{operator}` has no such key that counts"),
                ),
                Some(_) => (
                    "operator_key_ambiguous",
                    format!("`{operator}` has several keys: say which"),
                ),
            };
            Err(Failure::new(Exit::USAGE, code, message).hint("`cto operator list` shows them"))
        }
    }
}

struct Change<'a> {
    what: OperatorChange,
    operator: &'a OperatorName,
    public: &'a SshPublicKey,
    claims_presence: bool,
    takes_over: &'a [TrustedKey],
    first: bool,
}

impl Change<'_> {
    fn decide(&self, session: &Session, harness: &Harness, sign: &SignArgs) -> Outcome {
        let ledger = harness.ledger().id()?;
        let (operator, fingerprint) = (self.operator, self.public.fingerprint());
        let (purpose, sentence) = match self.what {
            OperatorChange::Add => (
                format!("add {operator} with key {fingerprint}"),
                format!(
                    "I add {operator} with key {fingerprint} as an operator of ledger {}.",
                    ledger.short()
                ),
            ),
            OperatorChange::Revoke => (
                format!("revoke key {fingerprint} of {operator}"),
                format!(
                    "I revoke key {fingerprint} of {operator} in ledger {}.",
                    ledger.short()
                ),
            ),
        };
        let question = Question {
            purpose: &purpose,
            sentence: &sentence,
            shown: "",
            floor: Presence::None,
            first: self.first.then(|| (operator.clone(), self.public.clone())),
        };
        let make = |slot: Slot, signer| OperatorStatement {
            schema: OperatorSchema,
            ledger: slot.ledger,
            change: self.what,
            operator: operator.clone(),
            public_key: self.public.to_openssh(),
            claims_presence: self.claims_presence,
            takes_over: self.takes_over.to_vec(),
            signer,
            slot: slot.nonce,
            at: slot.at,
        };
        let decided = decide(session, harness, sign, &question, make, &nothing_else)?;
        let Some(output) = decided else {
            return Ok(Exit::WAITING);
        };
        if session.printer.json {
            session.printer.document(&output)?;
        }
        Ok(Exit::DONE)
    }
}

fn list(output: &OperatorsOutput, session: &Session) -> Result<(), Failure> {
    if session.printer.json {
        return session.printer.document(output);
    }
    let rows: Vec<Vec<String>> = output
        .operators
        .iter()
        .map(|row| {
            let presence = match (row.presence, row.claims_presence) {
                (Some(shown), _) => shown.to_string(),
                (None, true) => "claimed".to_owned(),
                (None, false) => "none yet".to_owned(),
            };
            vec![
                row.operator.to_string(),
                row.fingerprint.clone(),
                presence,
                row.custody
                    .map_or_else(|| "-".to_owned(), |c| c.to_string()),
                row.signatures.to_string(),
                match row.revoked_at {
                    Some(at) => format!("revoked {at}"),
                    None => format!("since {}", row.added_at),
                },
            ]
        })
        .collect();
    if let Some(waiting) = &output.waiting {
        session.printer.talk(&format!(
            "a signature is being asked for, until {}: {}",
            waiting.expires_at, waiting.purpose
        ));
    }
    if rows.is_empty() {
        session
            .printer
            .talk("nobody decides here yet: `cto operator add NAME KEY` makes you the first");
        return Ok(());
    }
    let mut page = session.printer.page();
    page.field("ledger", output.ledger.as_str());
    page.table(
        &["operator", "key", "presence", "custody", "signed", "counts"],
        &rows,
    );
    session.printer.show(&page)
}
