//! Approvals as records of the ledger: what is asked for, what an operator says to it, and the one run that uses it up.
//!
//! A request grants nothing. A grant names everything that it is for, and is void for anything else. A consumption is the
//! one record that lets a run start; there is at most one for each request, ever.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::addendum::{AddendumKind, Bound, Outcome};
use crate::identity::Identity;
use crate::ids::{CaseId, Digest, Nonce, RunId, TreeId};
use crate::landing::{DisposableTerms, LandingPlan};
use crate::ledger::{Header, OnceKey, RecordKind, RunCreated, Seal, is_false};
use crate::operator::{MaybeSigned, OperatorName, Signed, SlotOpened};
use crate::path::PathPattern;
use crate::task::{ApprovalPolicy, TaskContract, VerificationCommand};
use crate::time::Utc;
use crate::words::{Action, Lane, MutationMode, RiskClass, SandboxClass, Stage};

wire_const! {
    /// Schema tag of a request.
    pub struct RequestSchema: &'static str = "cto.request/v1"
}
wire_const! {
    /// Schema tag of the word of whoever asks.
    pub struct RequesterSchema: &'static str = "cto.requester/v1"
}
wire_const! {
    /// Schema tag of a grant.
    pub struct GrantSchema: &'static str = "cto.grant/v1"
}
wire_const! {
    /// Schema tag of a denial.
    pub struct DenialSchema: &'static str = "cto.denial/v1"
}
wire_const! {
    /// Schema tag of an outcome.
    pub struct OutcomeSchema: &'static str = "cto.outcome/v1"
}
wire_const! {
    /// What a grant is good for, in words.
    pub struct ExecutionScope: &'static str = "one approved Harness run only"
}
wire_const! {
    /// What a request never is.
    pub struct NotYet: bool = false
}

checked_string!(
    /// The id of a request, and of what is decided about it.
    pub struct RequestId, "request id", "^rq-[a-z2-7]{16}$", is_request_id
);
fn is_request_id(text: &str) -> bool {
    let digits = text.strip_prefix("rq-");
    digits
        .is_some_and(|d| d.len() == 16 && d.bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7')))
}

impl RequestId {
    /// Makes an id from random bytes.
    pub fn from_bytes(random: [u8; 10]) -> Self {
        const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let bits = random.iter().fold(0_u128, |n, b| n << 8 | u128::from(*b));
        let digit = |i: u32| char::from(DIGITS[(bits >> (75 - 5 * i) & 31) as usize]);
        Self(format!("rq-{}", (0..16).map(digit).collect::<String>()))
    }
}

/// What an approval is for, to the letter. Anything else needs another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bindings {
    pub task_id: CaseId,
    pub contract_digest: Digest,
    /// The repository by its id; for a case, the case by its id.
    pub target_id: String,
    /// The commit of the repository, or the tree of the case.
    pub target_head: String,
    /// Everything that the lane gets to see of it.
    pub baseline_tree_id: TreeId,
    pub lane: Lane,
    /// `none` for a lane without a model.
    pub model: String,
    pub identity_digest: Digest,
    pub sandbox_class: SandboxClass,
    pub stage: Stage,
    pub mutation_mode: MutationMode,
}

/// How much of a head or a digest stands in a sentence.
const SHORT_CHARS: usize = 12;

impl Bindings {
    /// The one sentence that approves this until that minute.
    pub fn sentence(&self, until: Utc) -> String {
        let short = |text: &str| text.chars().take(SHORT_CHARS).collect::<String>();
        format!(
            "I approve one run of {} by {}/{} on {}@{}, contract {}, until {}.",
            self.task_id,
            self.lane,
            self.model,
            self.target_id,
            short(&self.target_head),
            short(self.contract_digest.as_str()),
            until.minute()
        )
    }
}

/// A governed execution request. It changes nothing and allows nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRequest {
    pub schema: RequestSchema,
    pub request_id: RequestId,
    pub ledger: Digest,
    pub at: Utc,
    /// Neither request nor grant counts from this minute on.
    pub expires_at: Utc,
    /// Who asked, by the name of the account. An operator who stands for the request signs it besides.
    pub requester: String,
    pub approval_granted: NotYet,
    pub execution_allowed: NotYet,
    /// What an operator types, byte for byte.
    pub sentence: String,
    pub bindings: Bindings,
    pub identity: Identity,
    pub contract: TaskContract,
    /// The target's admission; null where none is needed.
    pub admission: Option<Bound>,
    pub owner: Option<String>,
    /// Who owns the disposable repository and what becomes of it; null where the change lands in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disposable: Option<DisposableTerms>,
    /// Where the change may land; null where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landing: Option<LandingPlan>,
    pub risk_class: RiskClass,
    pub target_state: TargetState,
    pub forbidden_paths: Vec<PathPattern>,
    pub forbidden_actions: BTreeSet<Action>,
    pub success_criteria: Vec<String>,
    pub verification: Vec<VerificationCommand>,
    pub rollback: Option<String>,
    /// Environment variables that the run will need, each with its value.
    pub gates_to_set: Vec<String>,
    pub evidence_expected: Vec<String>,
    /// Proofs that the run rests on.
    pub proof_pointers: Vec<Bound>,
    /// Signed records that the run rests on: while one of them is another, a grant does not count.
    pub records: Vec<Bound>,
    pub next_allowed_action: String,
}

/// How the target was found when the request was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetState {
    pub head: String,
    /// Null for a case, which has no work tree.
    pub clean: Option<bool>,
}

/// A request as the ledger holds it: what it binds, and the digest of the whole.
///
/// The document itself lies in home, so that the ledger holds no text of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestOpened {
    pub request_id: RequestId,
    pub ledger: Digest,
    /// SHA-256 of the request's RFC 8785 form.
    pub request_digest: Digest,
    pub sentence: String,
    pub bindings: Bindings,
    pub requester: String,
    pub policy: Option<ApprovalPolicy>,
    pub records: Vec<Bound>,
    pub at: Utc,
    pub expires_at: Utc,
}
impl MaybeSigned for RequestOpened {}

impl RequestOpened {
    /// The key of a request.
    pub fn key(id: &RequestId) -> OnceKey {
        OnceKey::of(RecordKind::RequestOpened, &id.into())
    }

    pub(crate) fn header(&self) -> Header {
        Header {
            subject: (&self.request_id).into(),
            once: Some(Self::key(&self.request_id)),
            after: None,
            at: self.at,
        }
    }
}

/// An operator stands for a request: it was he who asked. Where a contract wants four eyes, another one decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequesterStatement {
    pub schema: RequesterSchema,
    pub ledger: Digest,
    pub request_id: RequestId,
    /// SHA-256 of the request's RFC 8785 form.
    pub request_digest: Digest,
    /// SHA-256 of the text that was shown, to its last byte.
    pub shown_digest: Digest,
    pub signer: OperatorName,
    pub slot: Nonce,
    pub at: Utc,
}
statement!(RequesterStatement, RequestSigned);

impl Signed<RequesterStatement> {
    /// The key of the word of whoever asked.
    pub fn key(id: &RequestId) -> OnceKey {
        OnceKey::of(RecordKind::RequestSigned, &id.into())
    }

    pub(crate) fn header(&self) -> Header {
        let id = &self.statement.request_id;
        Header {
            subject: id.into(),
            once: Some(Self::key(id)),
            after: Some(RequestOpened::key(id)),
            at: self.statement.at,
        }
    }
}

/// An operator lets one run happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantStatement {
    pub schema: GrantSchema,
    pub ledger: Digest,
    pub request_id: RequestId,
    /// SHA-256 of the request's RFC 8785 form.
    pub request_digest: Digest,
    pub execution_scope: ExecutionScope,
    pub sentence: String,
    pub bindings: Bindings,
    pub expires_at: Utc,
    pub requester: String,
    /// True unless another operator is known to have asked.
    pub self_approved: bool,
    /// SHA-256 of the text that was shown, to its last byte.
    pub shown_digest: Digest,
    pub records: Vec<Bound>,
    pub signer: OperatorName,
    pub slot: Nonce,
    pub at: Utc,
}
statement!(GrantStatement, RequestGranted);

/// The key under which a request is decided: once, by a grant or by a denial.
fn decision_key(id: &RequestId) -> OnceKey {
    OnceKey::made(format!("request.decided:{id}"))
}

impl RequestOpened {
    /// The key of what is decided about a request: a grant or a denial, and only one of them.
    pub fn decision_key(id: &RequestId) -> OnceKey {
        decision_key(id)
    }
}

impl Signed<GrantStatement> {
    pub(crate) fn header(&self) -> Header {
        Header {
            subject: (&self.statement.request_id).into(),
            once: Some(decision_key(&self.statement.request_id)),
            after: Some(SlotOpened::key(&self.statement.slot)),
            at: self.statement.at,
        }
    }
}

/// An operator says no. That is final for this request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DenialStatement {
    pub schema: DenialSchema,
    pub ledger: Digest,
    pub request_id: RequestId,
    pub request_digest: Digest,
    pub note: String,
    pub shown_digest: Digest,
    pub signer: OperatorName,
    pub slot: Nonce,
    pub at: Utc,
}
statement!(DenialStatement, RequestDenied);

impl Signed<DenialStatement> {
    pub(crate) fn header(&self) -> Header {
        Header {
            subject: (&self.statement.request_id).into(),
            once: Some(decision_key(&self.statement.request_id)),
            after: Some(SlotOpened::key(&self.statement.slot)),
            at: self.statement.at,
        }
    }
}

/// A grant was used up by a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantConsumed {
    pub request_id: RequestId,
    /// Where the grant stands in the ledger.
    pub grant_seq: u64,
    pub grant_digest: Digest,
    pub run_id: RunId,
    /// Where the run's creation stands: a run that somebody else has closed since has lost its turn.
    pub epoch: u64,
    pub at: Utc,
}
impl MaybeSigned for GrantConsumed {}

impl GrantConsumed {
    pub fn key(id: &RequestId) -> OnceKey {
        OnceKey::of(RecordKind::GrantConsumed, &id.into())
    }

    pub(crate) fn header(&self) -> Header {
        Header {
            subject: (&self.request_id).into(),
            once: Some(Self::key(&self.request_id)),
            after: Some(RunCreated::key(&self.run_id)),
            at: self.at,
        }
    }
}

/// An operator says what becomes of a verified run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutcomeStatement {
    pub schema: OutcomeSchema,
    pub ledger: Digest,
    pub run_id: RunId,
    pub pack_digest: Digest,
    pub outcome: Outcome,
    pub note: Option<String>,
    /// The landed change is to be taken back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rollback: bool,
    pub shown_digest: Digest,
    pub signer: OperatorName,
    pub slot: Nonce,
    pub at: Utc,
}
statement!(OutcomeStatement, OutcomeRecorded);

impl Signed<OutcomeStatement> {
    /// The key of the outcome of a run.
    pub fn key(run_id: &RunId) -> OnceKey {
        OnceKey::of(RecordKind::OutcomeRecorded, &run_id.into())
    }

    pub(crate) fn header(&self) -> Header {
        let run_id = &self.statement.run_id;
        Header {
            subject: run_id.into(),
            once: Some(Self::key(run_id)),
            after: Some(Seal::key(run_id)),
            at: self.statement.at,
        }
    }
}

/// A signed record was put beside a pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddendumAdded {
    pub run_id: RunId,
    pub number: u32,
    pub addendum: AddendumKind,
    /// SHA-256 of its file.
    pub digest: Digest,
    pub at: Utc,
}
impl MaybeSigned for AddendumAdded {}

impl AddendumAdded {
    /// The key of one addendum of a run.
    pub fn key(run_id: &RunId, number: u32) -> OnceKey {
        OnceKey::made(format!(
            "{}:{run_id}:{number:04}",
            RecordKind::AddendumAdded
        ))
    }

    pub(crate) fn header(&self) -> Header {
        Header {
            subject: (&self.run_id).into(),
            once: Some(Self::key(&self.run_id, self.number)),
            after: Some(Seal::key(&self.run_id)),
            at: self.at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn bindings() -> Bindings {
        Bindings {
            task_id: "r1-string-slugify".parse().unwrap(),
            contract_digest: Digest::from_bytes(&[0xab; 32]),
            target_id: "app".to_owned(),
            target_head: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            baseline_tree_id: "0123456789abcdef0123456789abcdef01234567".parse().unwrap(),
            lane: Lane::Command,
            model: "none".to_owned(),
            identity_digest: Digest::from_bytes(&[1; 32]),
            sandbox_class: SandboxClass::Full,
            stage: Stage::FIXTURE,
            mutation_mode: MutationMode::CopiedFixture,
        }
    }

    #[test]
    fn the_sentence_is_this_one_to_the_letter() {
        assert_eq!(
            bindings().sentence("2026-06-01T10:52:22.5Z".parse().unwrap()),
            "I approve one run of r1-string-slugify by command/none on app@0123456789ab, contract abababababab, until 2026-06-01T10:52Z."
        );
    }

    #[test]
    fn ids_of_requests_have_one_spelling() {
        let id = RequestId::from_bytes([0xff; 10]);
        assert_eq!(id.as_str(), "rq-7777777777777777");
        assert_eq!(id.as_str().parse(), Ok(id));
        for bad in [
            "",
            "rq-",
            "rq-777777777777777",
            "rq-7777777777777771",
            "RQ-7777777777777777",
        ] {
            assert!(bad.parse::<RequestId>().is_err(), "{bad}");
        }
    }
}
