//! `cto approve` and `cto deny`: an operator decides about one request.

use cto_contract::approval::{
    ApprovalRequest, DenialSchema, DenialStatement, ExecutionScope, GrantSchema, GrantStatement,
    RequestId, RequestOpened,
};
use cto_contract::ids::Digest;
use cto_contract::operator::OperatorName;
use cto_contract::outputs::{DecisionOutput, DecisionTag, SignedDecisionOutput};
use cto_evidence::canonical::sha256;
use cto_ledger::{RequestState, Slot, check_decision};
use cto_rules::approval::DecisionKind;
use cto_rules::operators::floor;
use cto_rules::views::approval::{denial_sentence, request_text};
use cto_runner::Harness;

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::session::Session;
use crate::signing::{Question, SignArgs, decide};

/// Longest note.
const NOTE_CHARS_MAX: usize = 2000;

/// Approve one run: show all of it, take the exact sentence, and sign
///
/// The approval is good for one run of exactly what is shown, until it expires. It is signed with the operator's own key; at a
/// terminal the sentence is typed. Nothing says yes in advance.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto approve rq-… --key ~/.ssh/id_ed25519_sk
  cto approve rq-…                                   say what to sign on another machine
  cto approve rq-… --signature FILE --sentence '…'   take what was signed there")]
pub(crate) struct Args {
    /// The request; `cto inbox` lists them
    #[arg(value_name = "ID")]
    id: RequestId,
    #[command(flatten)]
    sign: SignArgs,
}

/// Deny a request: that is final, and signed like an approval
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto deny rq-… --note 'the paths are too wide' --key ~/.ssh/id_ed25519_sk")]
pub(crate) struct DenyArgs {
    /// The request; `cto inbox` lists them
    #[arg(value_name = "ID")]
    id: RequestId,
    /// Why, for whoever asked
    #[arg(long, value_name = "TEXT")]
    note: String,
    #[command(flatten)]
    sign: SignArgs,
}

/// What both decisions rest on.
struct Decision<'a> {
    session: &'a Session,
    harness: Harness,
    state: RequestState,
    document: ApprovalRequest,
    shown: String,
}

impl<'a> Decision<'a> {
    fn open(id: &RequestId, session: &'a Session) -> Result<Self, Failure> {
        let harness = session.harness()?;
        let (state, document) = harness.approval_request(id)?;
        Ok(Self {
            session,
            harness,
            state,
            shown: request_text(&document),
            document,
        })
    }

    fn opened(&self) -> &RequestOpened {
        &self.state.opened
    }

    fn shown_digest(&self) -> Digest {
        sha256(self.shown.as_bytes())
    }

    fn question<'q>(&'q self, purpose: &'q str, sentence: &'q str) -> Question<'q> {
        Question {
            purpose,
            sentence,
            shown: &self.shown,
            floor: floor(self.opened().bindings.stage, None),
            first: None,
        }
    }

    /// Says at once what would be refused later, before anybody is asked for a signature.
    fn check(&self, sign: &SignArgs, decision: DecisionKind) -> Result<(), Failure> {
        let Some(name) = &sign.operator else {
            return self.judge(&self.only_operator()?, decision);
        };
        self.judge(name, decision)
    }

    fn only_operator(&self) -> Result<OperatorName, Failure> {
        let authority = self.harness.ledger().authority()?;
        let first = authority.operators.active().next();
        first.map(|key| key.operator.clone()).ok_or_else(|| {
            Failure::new(
                Exit::USAGE,
                "no_operator",
                "there is no operator here who could decide",
            )
            .hint("`cto operator add NAME KEY` makes you the first")
        })
    }

    fn judge(&self, name: &OperatorName, decision: DecisionKind) -> Result<(), Failure> {
        let authority = self.harness.ledger().authority()?;
        let id = &self.opened().request_id;
        self.harness.store().transact(|ledger| {
            let who = (name, cto_runner::now());
            check_decision(ledger, &authority, id, who, decision).map_err(Failure::from)
        })
    }

    fn tell(&self, entered: Option<SignedDecisionOutput>) -> Outcome {
        let Some(entered) = entered else {
            return Ok(Exit::WAITING);
        };
        let (state, _) = self.harness.approval_request(&self.opened().request_id)?;
        let output = DecisionOutput {
            schema_version: DecisionTag,
            request: self.harness.request_row(&state),
            ledger_seq: entered.seq,
            ledger_digest: entered.digest,
        };
        let printer = &self.session.printer;
        if printer.json {
            printer.document(&output)?;
        } else {
            let mut page = printer.page();
            let row = &output.request;
            page.line(&format!(
                "{} is {}: required: {}, granted: {}, execution allowed: {}",
                row.request_id,
                row.standing.phase,
                row.standing.required,
                row.standing.granted,
                row.standing.execution_allowed
            ));
            if row.standing.execution_allowed {
                page.line(&format!("next: cto run --request {}", row.request_id));
            }
            printer.show(&page)?;
        }
        Ok(Exit::DONE)
    }
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let decision = Decision::open(&args.id, session)?;
    let entered = decision.grant(&args.sign)?;
    decision.tell(entered)
}

/// Asks an operator for his approval, here and now.
pub(super) fn grant(id: &RequestId, sign: &SignArgs, session: &Session) -> Result<(), Failure> {
    Decision::open(id, session)?.grant(sign).map(drop)
}

impl Decision<'_> {
    fn grant(&self, sign: &SignArgs) -> Result<Option<SignedDecisionOutput>, Failure> {
        let decision = self;
        decision.check(sign, DecisionKind::Grant)?;
        let session = self.session;
        let opened = decision.opened();
        let asked_by = decision.state.requested_by();
        let make = |slot: Slot, signer: OperatorName| GrantStatement {
            schema: GrantSchema,
            ledger: slot.ledger,
            request_id: opened.request_id.clone(),
            request_digest: opened.request_digest.clone(),
            execution_scope: ExecutionScope,
            sentence: opened.sentence.clone(),
            bindings: opened.bindings.clone(),
            expires_at: opened.expires_at,
            requester: opened.requester.clone(),
            self_approved: asked_by.is_none_or(|asked| *asked == signer),
            shown_digest: decision.shown_digest(),
            records: opened.records.clone(),
            signer,
            slot: slot.nonce,
            at: slot.at,
        };
        let purpose = format!("approve {}", opened.request_id);
        decide(
            session,
            &decision.harness,
            sign,
            &decision.question(&purpose, &opened.sentence),
            make,
            &|ledger, authority| {
                let who = signer_of(sign, authority)?;
                Ok(check_decision(
                    ledger,
                    authority,
                    &opened.request_id,
                    (&who, cto_runner::now()),
                    DecisionKind::Grant,
                )?)
            },
        )
    }
}

/// Who signs: the one who is named, or the only one there is.
fn signer_of(sign: &SignArgs, authority: &cto_ledger::Authority) -> Result<OperatorName, Failure> {
    let only = authority.operators.active().next();
    let name = sign
        .operator
        .clone()
        .or_else(|| only.map(|k| k.operator.clone()));
    name.ok_or_else(|| Failure::new(Exit::USAGE, "no_operator", "there is no operator here"))
}

pub(crate) fn deny(args: &DenyArgs, session: &Session) -> Outcome {
    check_note(&args.note)?;
    let decision = Decision::open(&args.id, session)?;
    decision.check(&args.sign, DecisionKind::Denial)?;
    let opened = decision.opened();
    let make = |slot: Slot, signer: OperatorName| DenialStatement {
        schema: DenialSchema,
        ledger: slot.ledger,
        request_id: opened.request_id.clone(),
        request_digest: opened.request_digest.clone(),
        note: args.note.clone(),
        shown_digest: decision.shown_digest(),
        signer,
        slot: slot.nonce,
        at: slot.at,
    };
    let purpose = format!("deny {}", opened.request_id);
    let sentence = denial_sentence(&decision.document);
    let entered = decide(
        session,
        &decision.harness,
        &args.sign,
        &decision.question(&purpose, &sentence),
        make,
        &|ledger, authority| {
            let who = signer_of(&args.sign, authority)?;
            Ok(check_decision(
                ledger,
                authority,
                &opened.request_id,
                (&who, cto_runner::now()),
                DecisionKind::Denial,
            )?)
        },
    )?;
    decision.tell(entered)
}

/// A note is for people, stays for ever, and may hold no secret.
pub(super) fn check_note(note: &str) -> Result<(), Failure> {
    let refused = |why: String| Failure::new(Exit::USAGE, "note_refused", why);
    if note.trim().is_empty() {
        return Err(refused("the note is empty".to_owned()));
    }
    if note.chars().count() > NOTE_CHARS_MAX {
        return Err(refused(format!(
            "the note has more than {NOTE_CHARS_MAX} characters"
        )));
    }
    match cto_rules::secrets::refuse_in_record(note) {
        None => Ok(()),
        Some(found) => Err(refused(format!(
            "the note holds something that looks like a secret ({})",
            found.rule
        ))),
    }
}
