//! Approvals: who may decide about a request, and whether a run may use a grant up.
//!
//! Both collect every reason against, not the first. Whether bytes and signatures hold is found out by others; here stands
//! what has to be true besides. The only way to a [`Consumable`] leads through [`judge_consumption`].

#[cfg(test)]
mod tests;

use cto_contract::approval::{Bindings, RequestId};
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::eligibility::Gate;
use cto_contract::ids::RunId;
use cto_contract::operator::OperatorName;
use cto_contract::outputs::{ApprovalPhase, ApprovalStanding, PacketStatus};
use cto_contract::task::{ApprovalPolicy, TaskContract};
use cto_contract::time::Utc;
use cto_contract::words::{MutationMode, Presence, RunStatus, Stage};

use crate::eligibility::ConsumedApproval;
use crate::operators::meets;
use crate::signatures::KeyState;

/// Whether somebody must approve: by the stage, by the mode, or because the contract says so.
pub fn needs_approval(contract: &TaskContract, stage: Stage) -> bool {
    contract.approval_required
        || contract.mutation_mode >= Some(MutationMode::SandboxRepo)
        || stage.mode() >= MutationMode::SandboxRepo
}

/// Why the policy of a contract lets nobody decide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    #[error("a quorum of {0} is not supported: one operator decides")]
    Quorum(u32),
    #[error("`{0}` may not decide: the contract names its approvers")]
    NotAnApprover(OperatorName),
    #[error("`{0}` asked for the run, and the contract wants four eyes")]
    SameEyes(OperatorName),
    #[error(
        "the contract wants four eyes, and no operator has signed that he asked (`cto request --sign ID`)"
    )]
    UnknownRequester,
}

/// What stands against this operator deciding. `requested_by` is the operator who signed the request, if one did.
pub fn policy_faults(
    policy: Option<&ApprovalPolicy>,
    decides: &OperatorName,
    requested_by: Option<&OperatorName>,
) -> Vec<PolicyFault> {
    let Some(policy) = policy else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    if policy.quorum != 1 {
        faults.push(PolicyFault::Quorum(policy.quorum));
    }
    let is_named = policy.approvers.iter().any(|name| name == decides.as_str());
    if !policy.approvers.is_empty() && !is_named {
        faults.push(PolicyFault::NotAnApprover(decides.clone()));
    }
    if policy.four_eyes {
        match requested_by {
            None => faults.push(PolicyFault::UnknownRequester),
            Some(asked) if asked == decides => faults.push(PolicyFault::SameEyes(asked.clone())),
            Some(_) => {}
        }
    }
    faults
}

/// What the ledger says was decided about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    Nothing,
    Granted,
    Denied { by: OperatorName },
}

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionKind {
    Grant,
    /// To say no, one pair of eyes is enough.
    Denial,
}

/// Everything that a decision at the terminal may look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionFacts<'a> {
    pub decided: Decided,
    pub now: Utc,
    pub expires_at: Utc,
    pub policy: Option<&'a ApprovalPolicy>,
    pub decides: &'a OperatorName,
    pub decision: DecisionKind,
    pub requested_by: Option<&'a OperatorName>,
    /// What has to be typed, and what was; none for a denial, which needs no sentence of its own.
    pub sentence: Option<(&'a str, &'a str)>,
    /// Records that the request names and that are others now.
    pub changed_records: Vec<String>,
}

/// Why a decision is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecisionFault {
    #[error("the request was granted already: it can be used by one run, or left to expire")]
    Granted,
    #[error("the request was denied by `{0}`, and a denial is final")]
    Denied(OperatorName),
    #[error("the request expired at {0}")]
    Expired(Utc),
    #[error("`{0}` has said already that he asked")]
    AskedBy(OperatorName),
    #[error("what was typed is not the sentence, byte for byte")]
    OtherSentence,
    #[error("records that the request rests on have changed since: {0}")]
    RecordsChanged(String),
    #[error(transparent)]
    Policy(#[from] PolicyFault),
}

impl DecisionFault {
    /// Machine-readable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Granted => "request_granted",
            Self::Denied(_) => "request_denied",
            Self::Expired(_) => "request_expired",
            Self::AskedBy(_) => "request_signed",
            Self::OtherSentence => "sentence_mismatch",
            Self::RecordsChanged(_) => "records_changed",
            Self::Policy(PolicyFault::Quorum(_)) => "quorum_unsupported",
            Self::Policy(PolicyFault::NotAnApprover(_)) => "not_an_approver",
            Self::Policy(PolicyFault::SameEyes(_) | PolicyFault::UnknownRequester) => {
                "four_eyes_needed"
            }
        }
    }
}

/// Every reason why a grant or a denial can't be entered now; none when it can.
pub fn judge_decision(facts: &DecisionFacts<'_>) -> Vec<DecisionFault> {
    let mut faults = Vec::new();
    match &facts.decided {
        Decided::Nothing => {}
        Decided::Granted => faults.push(DecisionFault::Granted),
        Decided::Denied { by } => faults.push(DecisionFault::Denied(by.clone())),
    }
    if facts.now >= facts.expires_at {
        faults.push(DecisionFault::Expired(facts.expires_at));
    }
    if facts
        .sentence
        .is_some_and(|(wanted, typed)| wanted != typed)
    {
        faults.push(DecisionFault::OtherSentence);
    }
    if !facts.changed_records.is_empty() {
        let names = facts.changed_records.join(", ");
        faults.push(DecisionFault::RecordsChanged(names));
    }
    let policy = policy_faults(facts.policy, facts.decides, facts.requested_by);
    let holds_here = |fault: &PolicyFault| match facts.decision {
        DecisionKind::Grant => true,
        DecisionKind::Denial => matches!(fault, PolicyFault::NotAnApprover(_)),
    };
    faults.extend(
        policy
            .into_iter()
            .filter(holds_here)
            .map(DecisionFault::from),
    );
    faults
}

/// What stands against an operator saying that it was he who asked.
pub fn judge_asking(
    decided: &Decided,
    (now, expires_at): (Utc, Utc),
    asked: Option<&OperatorName>,
) -> Vec<DecisionFault> {
    let mut faults = Vec::new();
    match decided {
        Decided::Nothing => {}
        Decided::Granted => faults.push(DecisionFault::Granted),
        Decided::Denied { by } => faults.push(DecisionFault::Denied(by.clone())),
    }
    if now >= expires_at {
        faults.push(DecisionFault::Expired(expires_at));
    }
    faults.extend(asked.map(|by| DecisionFault::AskedBy(by.clone())));
    faults
}

/// A grant as the ledger holds it, and what became of its signer since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantFacts {
    pub bindings: Bindings,
    pub expires_at: Utc,
    pub signer: OperatorName,
    pub key: KeyState,
    pub presence: Presence,
    pub floor: Presence,
    /// It names this ledger, and the request that stands there.
    pub is_of_this_ledger: bool,
    /// Its sentence is that of its bindings and its expiry.
    pub sentence_fits: bool,
    /// Records that it names and that are others now.
    pub changed_records: Vec<String>,
    pub policy: Option<ApprovalPolicy>,
    /// What it says of who asked.
    pub self_approved: bool,
    pub requested_by: Option<OperatorName>,
}

/// What was decided, for a run that wants to use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nobody asked, or nobody has answered.
    Undecided,
    Denied {
        by: OperatorName,
    },
    Granted(Box<GrantFacts>),
}

/// Everything that a consumption may look at, seen in the transaction that enters it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumptionFacts {
    pub request_id: RequestId,
    pub run_id: RunId,
    pub now: Utc,
    /// What the run is, as it is about to start.
    pub asked: Bindings,
    pub standing: Standing,
    pub consumed_by: Option<RunId>,
    /// Nobody has closed the run since it began.
    pub has_its_turn: bool,
}

/// Why a run may not use an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalRefusal {
    Missing {
        request_id: RequestId,
    },
    Denied {
        by: OperatorName,
    },
    Consumed {
        by: RunId,
    },
    Expired {
        at: Utc,
    },
    /// Names of what differs.
    OtherScope {
        what: Vec<String>,
    },
    SignatureInvalid {
        why: String,
    },
    PresenceTooLow {
        shown: Presence,
        needed: Presence,
    },
}

impl ApprovalRefusal {
    pub const fn code(&self) -> BlockerCode {
        match self {
            Self::Missing { .. } => BlockerCode::ApprovalMissing,
            Self::Denied { .. } => BlockerCode::ApprovalDenied,
            Self::Consumed { .. } => BlockerCode::ApprovalConsumed,
            Self::Expired { .. } => BlockerCode::ApprovalExpired,
            Self::OtherScope { .. } => BlockerCode::ApprovalScopeMismatch,
            Self::SignatureInvalid { .. } => BlockerCode::ApprovalSignatureInvalid,
            Self::PresenceTooLow { .. } => BlockerCode::ApprovalPresenceTooLow,
        }
    }

    pub fn blocker(&self) -> Blocker {
        let gate = Gate::Approval;
        let message = match self {
            Self::Missing { request_id } => {
                format!("`{gate}` is needed for this run, and nobody has granted {request_id}")
            }
            Self::Denied { by } => format!("`{gate}` was denied by {by}"),
            Self::Consumed { by } => format!("`{gate}` was used up by run {by}"),
            Self::Expired { at } => format!("`{gate}` expired at {at}"),
            Self::OtherScope { what } => {
                format!("`{gate}` was given for something else: {}", what.join(", "))
            }
            Self::SignatureInvalid { why } => format!("`{gate}` does not count: {why}"),
            Self::PresenceTooLow { shown, needed } => {
                format!("`{gate}` shows presence {shown}, and {needed} is needed")
            }
        };
        Blocker::new(self.code(), gate.as_str(), message)
    }
}

/// A grant that this run may use up, once the ledger has entered that it did. Only [`judge_consumption`] makes one.
#[derive(Debug, PartialEq, Eq)]
pub struct Consumable {
    request_id: RequestId,
}

impl Consumable {
    /// The right that comes of it. For the ledger alone, after its transaction is committed.
    pub fn entered(self, ledger_seq: u64) -> ConsumedApproval {
        ConsumedApproval::new(self.request_id, ledger_seq)
    }
}

/// What of two scopes differs, by name.
pub fn differing(granted: &Bindings, asked: &Bindings) -> Vec<String> {
    let Bindings {
        task_id,
        contract_digest,
        target_id,
        target_head,
        baseline_tree_id,
        lane,
        model,
        identity_digest,
        sandbox_class,
        stage,
        mutation_mode,
    } = granted;
    let pairs = [
        ("task_id", *task_id == asked.task_id),
        ("contract_digest", *contract_digest == asked.contract_digest),
        ("target_id", *target_id == asked.target_id),
        ("target_head", *target_head == asked.target_head),
        (
            "baseline_tree_id",
            *baseline_tree_id == asked.baseline_tree_id,
        ),
        ("lane", *lane == asked.lane),
        ("model", *model == asked.model),
        ("identity", *identity_digest == asked.identity_digest),
        ("sandbox_class", *sandbox_class == asked.sandbox_class),
        ("stage", *stage == asked.stage),
        ("mutation_mode", *mutation_mode == asked.mutation_mode),
    ];
    let names = pairs.iter().filter(|(_, same)| !same);
    names.map(|(name, _)| (*name).to_owned()).collect()
}

/// Whether the run may use the grant up, or every reason why not.
pub fn judge_consumption(facts: &ConsumptionFacts) -> Result<Consumable, Vec<ApprovalRefusal>> {
    let mut against = Vec::new();
    if let Some(by) = &facts.consumed_by {
        against.push(ApprovalRefusal::Consumed { by: by.clone() });
    }
    match &facts.standing {
        Standing::Undecided => against.push(ApprovalRefusal::Missing {
            request_id: facts.request_id.clone(),
        }),
        Standing::Denied { by } => against.push(ApprovalRefusal::Denied { by: by.clone() }),
        Standing::Granted(grant) => against.extend(against_grant(grant, facts)),
    }
    if against.is_empty() {
        Ok(Consumable {
            request_id: facts.request_id.clone(),
        })
    } else {
        Err(against)
    }
}

fn against_grant(grant: &GrantFacts, facts: &ConsumptionFacts) -> Vec<ApprovalRefusal> {
    let mut against = Vec::new();
    if facts.now >= grant.expires_at {
        against.push(ApprovalRefusal::Expired {
            at: grant.expires_at,
        });
    }
    let mut what = differing(&grant.bindings, &facts.asked);
    if !grant.is_of_this_ledger {
        what.push("ledger".to_owned());
    }
    if !facts.has_its_turn {
        what.push("run".to_owned());
    }
    what.extend(grant.changed_records.iter().cloned());
    if !what.is_empty() {
        against.push(ApprovalRefusal::OtherScope { what });
    }
    let signer = &grant.signer;
    let mut invalid = Vec::new();
    match grant.key {
        KeyState::Active => {}
        KeyState::Revoked => invalid.push(format!("the key of `{signer}` was revoked")),
        KeyState::Unknown => invalid.push(format!("`{signer}` has no such key")),
    }
    if !grant.sentence_fits {
        invalid.push("its sentence is not that of what it grants".to_owned());
    }
    let is_alone = (grant.requested_by.as_ref()).is_none_or(|asked| asked == signer);
    if grant.self_approved != is_alone {
        invalid.push("it says otherwise than the ledger who asked".to_owned());
    }
    let policy = policy_faults(grant.policy.as_ref(), signer, grant.requested_by.as_ref());
    invalid.extend(policy.iter().map(ToString::to_string));
    if !invalid.is_empty() {
        let why = invalid.join("; ");
        against.push(ApprovalRefusal::SignatureInvalid { why });
    }
    if !meets(grant.presence, grant.floor) {
        against.push(ApprovalRefusal::PresenceTooLow {
            shown: grant.presence,
            needed: grant.floor,
        });
    }
    against
}

/// Where a request stands, for everybody who shows it.
pub fn standing(
    decided: &Decided,
    (now, expires_at): (Utc, Utc),
    consumed: Option<Option<RunStatus>>,
) -> ApprovalStanding {
    let state = |phase, granted, execution_allowed, status| ApprovalStanding {
        phase,
        required: true,
        granted,
        execution_allowed,
        status,
    };
    match (decided, consumed) {
        (Decided::Denied { .. }, _) => state(ApprovalPhase::Denied, false, false, None),
        (_, Some(run)) => {
            let status = match run {
                Some(RunStatus::Pass) => PacketStatus::ConsumedByPassEvidence,
                Some(RunStatus::Fail | RunStatus::Blocked) | None => {
                    PacketStatus::ConsumedWithoutPass
                }
            };
            state(ApprovalPhase::Consumed, true, false, Some(status))
        }
        (_, None) if now >= expires_at => state(ApprovalPhase::Expired, false, false, None),
        (Decided::Granted, None) => state(ApprovalPhase::Granted, true, true, None),
        (Decided::Nothing, None) => state(ApprovalPhase::Requested, false, false, None),
    }
}
