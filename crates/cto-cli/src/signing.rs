//! An operator decides: he is shown exactly what is signed, types the sentence, and signs with a key of his own.
//!
//! Every command that records a decision goes through [`decide`]. There is no way to say yes in advance: a person at a
//! terminal types the sentence, or brings it along with a signature that was made elsewhere.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use cto_contract::ids::Nonce;
use cto_contract::operator::{OperatorName, Statement};
use cto_contract::outputs::{SignedDecisionOutput, SignedDecisionTag, SigningOutput, SigningTag};
use cto_contract::words::Presence;
use cto_evidence::canonical::sha256;
use cto_evidence::sshsig::{ARMOUR_BYTES_MAX, NAMESPACE, SshPublicKey, SshSig};
use cto_ledger::{
    Agent, AgentError, Asked, Authority, Entered, KeyFile, KeyFileError, Ledger, LedgerError, Slot,
    Unfinished,
};
use cto_runner::Harness;
use cto_store::LedgerTransaction;

use crate::failure::{Exit, Failure};
use crate::session::Session;

/// Seconds for a person at a terminal.
const AT_TERMINAL_SECONDS: i64 = 300;
/// Seconds for a signature that is made elsewhere.
pub(crate) const ELSEWHERE_SECONDS: i64 = 3600;

/// How an operator signs
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Signing")]
pub(crate) struct SignArgs {
    /// Who decides; needed where there is more than one operator
    #[arg(id = "sign_as", long = "as", value_name = "OPERATOR")]
    pub(crate) operator: Option<OperatorName>,
    /// Sign with this key: ssh-keygen asks for its passphrase, or for a touch
    #[arg(id = "sign_key", long = "key", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Sign with a key that the ssh-agent holds
    #[arg(id = "sign_agent", long = "agent", conflicts_with = "sign_key")]
    pub(crate) agent: bool,
    /// Take a signature that was made elsewhere; without any of the three the command says what to sign
    #[arg(id = "sign_signature", long = "signature", value_name = "FILE", conflicts_with_all = ["sign_key", "sign_agent"])]
    pub(crate) signature: Option<PathBuf>,
    /// The sentence to the letter, instead of typing it
    #[arg(
        id = "sign_sentence",
        long = "sentence",
        value_name = "TEXT",
        requires = "sign_signature"
    )]
    pub(crate) sentence: Option<String>,
}

impl SignArgs {
    /// Whether somebody said how to sign.
    pub(crate) fn is_given(&self) -> bool {
        self.operator.is_some() || self.key.is_some() || self.agent || self.signature.is_some()
    }
}

/// What an operator is asked.
pub(crate) struct Question<'a> {
    /// In one line, for whoever finds the slot taken.
    pub(crate) purpose: &'a str,
    /// To be typed to the letter.
    pub(crate) sentence: &'a str,
    /// What he is shown besides the statement itself, all of it.
    pub(crate) shown: &'a str,
    /// What the signature has to show at least.
    pub(crate) floor: Presence,
    /// The first operator signs for himself, with the key that he adds.
    pub(crate) first: Option<(OperatorName, SshPublicKey)>,
}

/// What else a decision rests on, looked at in the transaction that enters it.
pub(crate) type Also<'a> =
    &'a dyn Fn(&mut LedgerTransaction<'_>, &Authority) -> Result<(), Failure>;

/// Nothing else.
pub(crate) fn nothing_else(_: &mut LedgerTransaction<'_>, _: &Authority) -> Result<(), Failure> {
    Ok(())
}

/// Asks an operator to sign a statement, and enters it. None when it now waits for a signature made elsewhere: then all has
/// been said, and the command ends with [`Exit::WAITING`].
///
/// `make` makes the statement from its slot and signer; called again with the same slot it has to give the same.
pub(crate) fn decide<T: Statement + PartialEq>(
    session: &Session,
    harness: &Harness,
    args: &SignArgs,
    question: &Question<'_>,
    make: impl Fn(Slot, OperatorName) -> T,
    also: Also<'_>,
) -> Result<Option<SignedDecisionOutput>, Failure> {
    let ledger = harness.ledger();
    let authority = ledger.authority()?;
    let signer = signer(&authority, args, question)?;
    let deciding = Deciding {
        session,
        ledger: &ledger,
        question,
        signer,
    };
    let entered = match (&args.signature, &args.key, args.agent) {
        (Some(file), _, _) => deciding.take_signature(file, args, &make, also)?,
        (None, Some(file), _) => {
            let key = KeyFile::open(file)?;
            deciding.at_terminal(&make, also, |message| {
                let path = session.env.get("PATH").unwrap_or_default();
                Ok(key.sign(message, path, &tool_environment(session))?)
            })?
        }
        (None, None, true) => {
            let socket = session.env.get("SSH_AUTH_SOCK");
            let mut agent = Agent::connect(socket)?;
            let keys = agent.keys()?;
            let public = keys.into_iter().map(|key| key.public);
            let public = public
                .into_iter()
                .find(|public| deciding.counts(&authority, public))
                .ok_or_else(|| deciding.no_key_in_agent())?;
            deciding.at_terminal(&make, also, |message| Ok(agent.sign(&public, message)?))?
        }
        (None, None, false) => {
            deciding.wait(&make)?;
            return Ok(None);
        }
    };
    let output = deciding.told(&entered)?;
    Ok(Some(output))
}

/// What `ssh-keygen` may see of the environment: where the person's things are, and a driver for security keys.
fn tool_environment(session: &Session) -> Vec<(String, String)> {
    let names = ["HOME", "TERM", "SSH_SK_PROVIDER"];
    let value = |name: &str| {
        let value = session.env.get(name)?;
        Some((name.to_owned(), value.to_owned()))
    };
    names.into_iter().filter_map(value).collect()
}

fn signer(
    authority: &Authority,
    args: &SignArgs,
    question: &Question<'_>,
) -> Result<OperatorName, Failure> {
    if let Some((name, _)) = &question.first {
        return Ok(name.clone());
    }
    if let Some(name) = &args.operator {
        return Ok(name.clone());
    }
    let mut names: Vec<&OperatorName> = authority.operators.active().map(|k| &k.operator).collect();
    names.sort();
    names.dedup();
    match names[..] {
        [only] => Ok(only.clone()),
        [] => Err(Failure::new(
            Exit::USAGE,
            "no_operator",
            "there is no operator here who could decide",
        )
        .hint("`cto operator add NAME KEY` makes you the first")),
        _ => Err(Failure::new(
            Exit::USAGE,
            "operator_not_named",
            "there are several operators here: say who decides",
        )
        .hint("--as NAME; `cto operator list` shows them")),
    }
}

struct Deciding<'a> {
    session: &'a Session,
    ledger: &'a Ledger<'a>,
    question: &'a Question<'a>,
    signer: OperatorName,
}

impl Deciding<'_> {
    fn counts(&self, authority: &Authority, public: &SshPublicKey) -> bool {
        match &self.question.first {
            Some((_, first)) => first == public,
            None => {
                let line = public.to_openssh();
                authority.operators.find(&self.signer, &line).is_some()
            }
        }
    }

    fn no_key_in_agent(&self) -> Failure {
        let message = format!(
            "the ssh-agent holds no key of `{}` that counts",
            self.signer
        );
        Failure::new(Exit::USAGE, "agent_has_no_key", message)
            .hint("`ssh-add -c FILE` adds one that asks before each signature")
    }

    fn ask<T: Statement>(
        &self,
        seconds: i64,
        make: &impl Fn(Slot, OperatorName) -> T,
    ) -> Result<Asked<T>, Failure> {
        let nonce = Nonce::from_bytes(
            &cto_runner::random().map_err(|e| Failure::of(Exit::FAULT, "no_randomness", &e))?,
        );
        let when = (cto_runner::now(), seconds);
        let signer = self.signer.clone();
        let purpose = self.question.purpose;
        Ok(self
            .ledger
            .ask(purpose, nonce, when, |slot| make(slot, signer))?)
    }

    /// Shows what is signed: all of it, and so that nothing in it steers the terminal.
    fn show<T: Statement>(&self, asked: &Asked<T>) -> Result<(), Failure> {
        let pretty = serde_json::to_string_pretty(&asked.statement)
            .map_err(|e| Failure::of(Exit::FAULT, "output_not_encoded", &e))?;
        let shown = self.question.shown;
        let separator = if shown.is_empty() { "" } else { "\n\n" };
        self.session.printer.ask(&format!(
            "{shown}{separator}`{}` is asked to sign exactly this (sha256 of its RFC 8785 form: {}):\n{pretty}",
            self.signer,
            sha256(&asked.message),
        ));
        Ok(())
    }

    /// A person at a terminal: the sentence, then the key.
    fn at_terminal<T: Statement>(
        &self,
        make: &impl Fn(Slot, OperatorName) -> T,
        also: Also<'_>,
        sign: impl FnOnce(&[u8]) -> Result<SshSig, Failure>,
    ) -> Result<Entered, Failure> {
        if !io::stdin().is_terminal() {
            return Err(Failure::new(
                Exit::USAGE,
                "no_terminal",
                "a person decides at a terminal, and there is none",
            )
            .hint("without --key and --agent the command says what to sign elsewhere; --signature FILE brings it back"));
        }
        let asked = self.ask(AT_TERMINAL_SECONDS, make)?;
        let done = self.show(&asked).and_then(|()| {
            self.typed()?;
            let signature = sign(&asked.message)?;
            self.enter(asked.statement, &signature, also)
        });
        if done.is_err() {
            // Nobody should have to wait for a slot that is of no use any more.
            self.ledger.release(cto_runner::now()).ok();
        }
        done
    }

    fn typed(&self) -> Result<(), Failure> {
        let sentence = self.question.sentence;
        self.session
            .printer
            .ask(&format!("\nTo decide, type this sentence:\n  {sentence}"));
        let mut line = String::new();
        io::stdin()
            .read_line(&mut line)
            .map_err(|e| Failure::io("sentence_not_read", "the sentence could not be read", &e))?;
        same_sentence(sentence, line.strip_suffix('\n').unwrap_or(&line))
    }

    /// Nobody signs here: says what to sign elsewhere.
    fn wait<T: Statement + PartialEq>(
        &self,
        make: &impl Fn(Slot, OperatorName) -> T,
    ) -> Result<(), Failure> {
        // The same command again finds its own slot still open.
        let asked = match self.waiting(make) {
            Some(asked) => asked,
            None => self.ask(ELSEWHERE_SECONDS, make)?,
        };
        self.show(&asked)?;
        let file = asked.file.display().to_string();
        let output = SigningOutput {
            schema_version: SigningTag,
            purpose: asked.purpose.clone(),
            ledger: asked.statement.ledger().clone(),
            signer: self.signer.clone(),
            sha256: sha256(&asked.message),
            namespace: NAMESPACE.to_owned(),
            sentence: self.question.sentence.to_owned(),
            expires_at: asked.expires_at,
            command: format!("ssh-keygen -Y sign -n {NAMESPACE} -f KEY {file}"),
            file,
        };
        if self.session.printer.json {
            return self.session.printer.document(&output);
        }
        let mut page = self.session.printer.page();
        page.line(&format!("waiting for the signature of `{}`", output.signer));
        page.field("file", &output.file);
        page.field("sign", &output.command);
        page.field("until", &output.expires_at.to_string());
        page.line("then give this command again with:");
        page.line(&format!(
            "  --signature {}.sig --sentence '{}'",
            output.file, output.sentence
        ));
        self.session.printer.show(&page)
    }

    fn waiting<T: Statement + PartialEq>(
        &self,
        make: &impl Fn(Slot, OperatorName) -> T,
    ) -> Option<Asked<T>> {
        let asked = self.ledger.asked::<T>(cto_runner::now()).ok()?;
        self.is_this(&asked, make).then_some(asked)
    }

    /// Whether what waits is what this command would ask for.
    fn is_this<T: Statement + PartialEq>(
        &self,
        asked: &Asked<T>,
        make: &impl Fn(Slot, OperatorName) -> T,
    ) -> bool {
        let slot = Slot {
            ledger: asked.statement.ledger().clone(),
            nonce: asked.statement.slot().clone(),
            at: asked.statement.at(),
        };
        make(slot, self.signer.clone()) == asked.statement
    }

    /// A signature that was made elsewhere, for what waits.
    fn take_signature<T: Statement + PartialEq>(
        &self,
        file: &Path,
        args: &SignArgs,
        make: &impl Fn(Slot, OperatorName) -> T,
        also: Also<'_>,
    ) -> Result<Entered, Failure> {
        let signature = read_signature(file)?;
        let asked = self.ledger.asked::<T>(cto_runner::now())?;
        if !self.is_this(&asked, make) {
            return Err(LedgerError::OtherAsked {
                purpose: asked.purpose,
            }
            .into());
        }
        self.show(&asked)?;
        match &args.sentence {
            Some(sentence) => same_sentence(self.question.sentence, sentence)?,
            None if io::stdin().is_terminal() => self.typed()?,
            None => {
                return Err(Failure::new(
                    Exit::USAGE,
                    "sentence_missing",
                    "the sentence is missing",
                )
                .hint(format!("--sentence '{}'", self.question.sentence)));
            }
        }
        self.enter(asked.statement, &signature, also)
    }

    fn enter<T: Statement>(
        &self,
        statement: T,
        signature: &SshSig,
        also: Also<'_>,
    ) -> Result<Entered, Failure> {
        let when = (self.question.floor, cto_runner::now());
        self.ledger.enter(statement, signature, when, also)
    }

    fn told(&self, entered: &Entered) -> Result<SignedDecisionOutput, Failure> {
        let unfinished = entered.unfinished.iter().map(|left| match left {
            Unfinished::Files(error) | Unfinished::Checkpoint(error) => {
                let hint = error.hint().unwrap_or_default();
                format!("{}: {hint}", cto_runner::error_chain(error))
            }
        });
        let output = SignedDecisionOutput {
            schema_version: SignedDecisionTag,
            purpose: self.question.purpose.to_owned(),
            ledger: self.ledger.id()?,
            seq: entered.place.seq,
            digest: entered.place.digest.clone(),
            signer: self.signer.clone(),
            presence: entered.presence,
            custody: entered.custody,
            checkpoint: entered.checkpoint.as_ref().map(|p| p.display().to_string()),
            unfinished: unfinished.collect(),
        };
        for left in &output.unfinished {
            self.session.printer.talk(&format!("warning: {left}"));
        }
        self.session.printer.talk(&format!(
            "recorded: entry {} of ledger {}, signed by {} (presence: {}, custody: {})",
            output.seq,
            output.ledger.short(),
            output.signer,
            output.presence,
            output.custody
        ));
        Ok(output)
    }
}

/// Byte for byte: other quotes, a changed letter or a trailing space are another sentence.
fn same_sentence(expected: &str, found: &str) -> Result<(), Failure> {
    if expected == found {
        return Ok(());
    }
    Err(Failure::new(
        Exit::USAGE,
        "sentence_differs",
        "that is not the sentence: nothing was decided",
    )
    .hint(format!("it has to be, to the letter: {expected}")))
}

fn read_signature(file: &Path) -> Result<SshSig, Failure> {
    let shown = file.display();
    let unreadable = |e: &io::Error| {
        let mut failure = Failure::io(
            "signature_unreadable",
            format!("the signature `{shown}` could not be read"),
            e,
        );
        failure.exit = Exit::USAGE;
        failure
    };
    let found = std::fs::metadata(file).map_err(|e| unreadable(&e))?;
    let text = if found.is_file() && found.len() <= ARMOUR_BYTES_MAX as u64 {
        std::fs::read_to_string(file).map_err(|e| unreadable(&e))?
    } else {
        String::new()
    };
    SshSig::from_armour(&text).map_err(|e| {
        Failure::of(Exit::USAGE, "signature_invalid", &e)
            .under(format!("`{shown}` holds no signature that counts"))
    })
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        let exit = if error.is_about_evidence() {
            Exit::EVIDENCE
        } else if error.is_refusal() {
            Exit::USAGE
        } else {
            Exit::FAULT
        };
        Self::of(exit, error.code(), &error).hint_if(error.hint())
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        Self::of(Exit::USAGE, error.code(), &error)
            .hint("start one and add a key (`ssh-add -c FILE`), or use --key FILE")
    }
}

impl From<KeyFileError> for Failure {
    fn from(error: KeyFileError) -> Self {
        Self::of(Exit::USAGE, error.code(), &error)
    }
}
