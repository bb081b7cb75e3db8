//! A grant that a forger signs with a key of his own, for the very run whose pack he forges.

use std::io;

use cto_contract::approval::{Bindings, ExecutionScope, GrantSchema, GrantStatement, RequestId};
use cto_contract::event::{Approval, ApprovalConsumed, EventKind};
use cto_contract::ids::{Digest, Nonce};
use cto_contract::operator::Signed;
use cto_contract::time::Utc;
use cto_evidence::canonical::{digest_of, sha256, to_canonical};
use cto_evidence::chain::Log;
use cto_evidence::key::SigningKey;
use cto_evidence::operators::{PinnedOperators, parse_operators};
use cto_evidence::signed::join;
use cto_evidence::sshsig::{SshPublicKey, SshSig};

/// The name of the operator that the forger makes of himself.
const OPERATOR: &str = "owner";

/// The ledger that there never was.
fn ledger() -> Digest {
    sha256(b"a ledger of the forger's")
}

/// Operators and a ledger as somebody elsewhere knows them: the forger is none of them.
pub(super) fn known_elsewhere() -> io::Result<PinnedOperators> {
    let key = SigningKey::from_random(&[0x58; 32]);
    let line = SshPublicKey::Ed25519(key.public()).to_openssh();
    Ok(PinnedOperators {
        keys: parse_operators(&format!("{OPERATOR} {line}\n")).map_err(io::Error::other)?,
        ledger: ledger(),
    })
}

/// What an approval of this run would be for; none where the log has no plan.
fn bindings(log: &Log) -> io::Result<Option<Bindings>> {
    let (mut started, mut created, mut planned) = (None, None, None);
    for event in &log.events {
        if let EventKind::RunStarted(data) = &event.kind {
            started = Some(data);
        } else if let EventKind::TaskContractCreated(data) = &event.kind {
            created = Some(data);
        } else if let EventKind::PlanUpdated(data) = &event.kind {
            planned = Some(data);
        }
    }
    let (Some(started), Some(created), Some(planned)) = (started, created, planned) else {
        return Ok(None);
    };
    let (plan, identity) = (&planned.plan, &planned.identity);
    let (contract, source) = (&created.contract, plan.source.as_ref());
    let task = contract.task_id.to_string();
    Ok(Some(Bindings {
        task_id: contract.task_id.clone(),
        contract_digest: created.contract_digest.clone(),
        target_id: match source {
            Some(_) => contract
                .target_id
                .clone()
                .unwrap_or_else(|| "repo".to_owned()),
            None => task,
        },
        target_head: source.map_or_else(
            || plan.baseline_tree_id.to_string(),
            |source| source.commit.to_string(),
        ),
        baseline_tree_id: plan.baseline_tree_id.clone(),
        lane: identity.lane,
        model: identity.model.clone().unwrap_or_else(|| "none".to_owned()),
        identity_digest: digest_of(identity).map_err(io::Error::other)?,
        sandbox_class: identity.sandbox_class,
        stage: started.stage,
        mutation_mode: started.mutation_mode,
    }))
}

/// The three events of an approval, whole and signed by the forger. With `for_another` it is good for another contract.
pub(super) fn approvals(
    log: &Log,
    key: &SigningKey,
    at: Utc,
    for_another: bool,
) -> io::Result<Option<[EventKind; 3]>> {
    let Some(mut bindings) = bindings(log)? else {
        return Ok(None);
    };
    if for_another {
        bindings.contract_digest = sha256(b"another contract");
    }
    let grant = signed(bindings, key, at)?;
    let (statement, mode) = (&grant.statement, grant.statement.bindings.mutation_mode);
    let expiry = Some(statement.expires_at);
    let requested = Approval {
        actor: statement.requester.clone(),
        scope: ExecutionScope::VALUE.to_owned(),
        mutation_mode: mode,
        timestamp: at,
        expiry,
        note: None,
        request_id: Some(statement.request_id.clone()),
        asked: None,
        grant: None,
        denial: None,
    };
    let consumed = ApprovalConsumed {
        approval_id: statement.request_id.to_string(),
        actor: statement.signer.to_string(),
        scope: ExecutionScope::VALUE.to_owned(),
        mutation_mode: mode,
        timestamp: at,
        expiry,
        ledger_seq: 1,
    };
    let granted = Approval {
        actor: statement.signer.to_string(),
        grant: Some(Box::new(grant)),
        ..requested.clone()
    };
    Ok(Some([
        EventKind::ApprovalRequested(requested),
        EventKind::ApprovalGranted(granted),
        EventKind::ApprovalConsumed(consumed),
    ]))
}

fn signed(bindings: Bindings, key: &SigningKey, at: Utc) -> io::Result<Signed<GrantStatement>> {
    let expires_at = at.plus_seconds(3600).at_minute();
    let statement = GrantStatement {
        schema: GrantSchema,
        ledger: ledger(),
        request_id: RequestId::from_bytes([0x58; 10]),
        request_digest: sha256(b"a request that nobody made"),
        execution_scope: ExecutionScope,
        sentence: bindings.sentence(expires_at),
        bindings,
        expires_at,
        requester: "agent(0)".to_owned(),
        self_approved: true,
        shown_digest: sha256(b""),
        records: Vec::new(),
        signer: OPERATOR.parse().map_err(io::Error::other)?,
        slot: Nonce::from_bytes(&[0x58; 32]),
        at,
    };
    let message = to_canonical(&statement).map_err(io::Error::other)?;
    join(statement, &SshSig::sign(key, &message), true).map_err(io::Error::other)
}
