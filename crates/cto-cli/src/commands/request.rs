//! `cto request`: ask for an operator's approval of one run.

use cto_contract::approval::{ApprovalRequest, RequestId, RequesterSchema, RequesterStatement};
use cto_contract::landing::{DisposableTerms, Disposal};
use cto_contract::operator::OperatorName;
use cto_contract::outputs::{ApprovalPhase, ApprovalStanding, RequestOutput, RequestTag};
use cto_evidence::canonical::sha256;
use cto_ledger::{Slot, check_asking};
use cto_rules::operators::floor;
use cto_rules::views::approval::{asking_sentence, request_text};

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::signing::{Question, SignArgs, decide};
use crate::work_args::WorkArgs;

/// Longest name of an owner.
const OWNER_CHARS_MAX: usize = 200;

/// Ask for an operator's approval of one run
///
/// Plans the run as `cto run` would, starts nothing and changes nothing, and enters a request that says all of it: task, lane
/// and model, commit, contract, bounds and checks. An approval is good for exactly that, once, until the request expires. The same words as for `cto run` say which work is
/// asked for, and the same gates must be open. Where a contract wants four eyes, an operator signs that it was he who asked
/// (`--sign ID`), and another one approves.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cto request my-task --cases ./cases            a case whose contract says `approval_required: true`
  cto request --repo . --contract cto-task.yaml --engine command --stage 3 -- my-agent
  cto request --repo . --stage 4 --owner me --disposal delete --engine command -- my-agent
  cto request --sign ID --as NAME --key FILE     stand for a request as the operator who asks
  cto inbox                                      what waits for a decision
  cto run --request ID                           run it, once it is approved")]
pub(crate) struct Args {
    #[command(flatten)]
    work: WorkArgs,
    /// Let request and approval expire after so many minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 480, value_parser = clap::value_parser!(i64).range(2..=43_200))]
    expires: i64,
    /// Who owns the disposable repository in which a change of stage 4 lands
    #[arg(long, value_name = "NAME", requires = "disposal")]
    owner: Option<String>,
    /// What becomes of it afterwards: delete or retain
    #[arg(long, value_name = "POLICY", requires = "owner")]
    disposal: Option<Disposal>,
    /// Sign for an open request: say as an operator that it was you who asked
    #[arg(long, value_name = "ID", conflicts_with_all = ["case", "repo", "contract", "base", "engine", "argv"])]
    sign: Option<RequestId>,
    #[command(flatten)]
    signing: SignArgs,
}

impl Args {
    fn disposable(&self) -> Result<Option<DisposableTerms>, Failure> {
        let Some((owner, disposal_policy)) = self.owner.clone().zip(self.disposal) else {
            return Ok(None);
        };
        let is_plain = (1..=OWNER_CHARS_MAX).contains(&owner.chars().count())
            && !owner.trim().is_empty()
            && !owner.chars().any(char::is_control);
        match is_plain {
            true => Ok(Some(DisposableTerms {
                owner,
                disposal_policy,
            })),
            false => Err(Failure::new(
                Exit::USAGE,
                "owner_refused",
                format!("the owner is one line of 1 to {OWNER_CHARS_MAX} characters"),
            )),
        }
    }
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    if let Some(id) = &args.sign {
        return stand_for(id, args, session);
    }
    if args.signing.is_given() {
        return Err(Failure::new(
            Exit::USAGE,
            "nothing_to_sign",
            "a request is signed for once it is made",
        )
        .hint("make it, then `cto request --sign ID` with the same signing options"));
    }
    let request = args.work.request()?;
    let harness = session.harness()?;
    session.recover(&harness)?;
    let interrupt = Interrupt::listen()
        .map_err(|e| Failure::io("signals_unavailable", "signals can't be listened to", &e))?;
    let disposable = args.disposable()?;
    let (state, document) =
        harness.request_approval(&request, args.expires, disposable, &interrupt.stop)?;
    let standing = harness.approval_standing(&state);
    show(&document, standing, session)?;
    Ok(Exit::DONE)
}

/// An operator says that it was he who asked.
fn stand_for(id: &RequestId, args: &Args, session: &Session) -> Outcome {
    let harness = session.harness()?;
    let (state, document) = harness.approval_request(id)?;
    let opened = state.opened;
    harness
        .store()
        .transact(|ledger| check_asking(ledger, id, cto_runner::now()).map_err(Failure::from))?;
    let shown = request_text(&document);
    let sentence = asking_sentence(&document);
    let make = |slot: Slot, signer: OperatorName| RequesterStatement {
        schema: RequesterSchema,
        ledger: slot.ledger,
        request_id: opened.request_id.clone(),
        request_digest: opened.request_digest.clone(),
        shown_digest: sha256(shown.as_bytes()),
        signer,
        slot: slot.nonce,
        at: slot.at,
    };
    let purpose = format!("ask for {id}");
    let question = Question {
        purpose: &purpose,
        sentence: &sentence,
        shown: &shown,
        floor: floor(opened.bindings.stage, None),
        first: None,
    };
    let entered = decide(
        session,
        &harness,
        &args.signing,
        &question,
        make,
        &|ledger, _| Ok(check_asking(ledger, id, cto_runner::now())?),
    )?;
    if entered.is_none() {
        return Ok(Exit::WAITING);
    }
    let (state, document) = harness.approval_request(id)?;
    let standing = harness.approval_standing(&state);
    show(&document, standing, session)?;
    Ok(Exit::DONE)
}

fn show(
    document: &ApprovalRequest,
    standing: ApprovalStanding,
    session: &Session,
) -> Result<(), Failure> {
    let printer = &session.printer;
    if printer.json {
        return printer.document(&RequestOutput {
            schema_version: RequestTag,
            standing,
            request: document.clone(),
        });
    }
    let mut page = printer.page();
    page.text(&request_text(document));
    page.line(&format!(
        "required: {}, granted: {}, execution allowed: {}",
        standing.required, standing.granted, standing.execution_allowed
    ));
    printer.show(&page)
}

/// Says that a person has to decide first.
pub(super) fn waiting(
    document: &ApprovalRequest,
    standing: ApprovalStanding,
    session: &Session,
) -> Outcome {
    debug_assert_eq!(standing.phase, ApprovalPhase::Requested);
    if session.printer.json {
        show(document, standing, session)?;
    } else {
        session.printer.talk(&format!(
            "{} waits for a decision: `{}`",
            document.request_id, document.next_allowed_action
        ));
    }
    Ok(Exit::WAITING)
}
