//! Requests, grants and outcomes for the tests, signed by keys in software.

use cto_contract::addendum::Outcome;
use cto_contract::approval::{
    Bindings, DenialSchema, DenialStatement, ExecutionScope, GrantSchema, GrantStatement,
    OutcomeSchema, OutcomeStatement, RequesterSchema, RequesterStatement,
};
use cto_contract::event::{Approval, ApprovalConsumed, EventKind};
use cto_contract::ids::{Digest, Nonce};
use cto_contract::operator::{Signed, Statement};
use cto_contract::task::TaskContract;
use cto_contract::words::{Lane, MutationMode, SandboxClass, Stage};
use cto_evidence::canonical::{digest_of, sha256, to_canonical};
use cto_evidence::operators::{PinnedOperators, parse_operators};
use cto_evidence::signed::join;
use cto_evidence::sshsig::{NAMESPACE, SshSig};
use cto_testkit::authenticator::{SoftKey, UP_UV};

use crate::sample::{Pack, at, contract, identity};

pub(crate) const ID: &str = "rq-aaaaaaaaaaaaaaaa";

pub(crate) fn ledger() -> Digest {
    sha256(b"ledger")
}

/// Touch and PIN.
pub(crate) fn olga() -> SoftKey {
    SoftKey::sk_ed25519(1)
}

/// The same, with the other curve.
pub(crate) fn ivan() -> SoftKey {
    SoftKey::sk_ecdsa(2)
}

/// A file with a passphrase.
pub(crate) fn petra() -> SoftKey {
    SoftKey::ed25519(3)
}

/// The file that a stranger got elsewhere.
pub(crate) fn operators_file() -> String {
    format!(
        "olga namespaces=\"cto-approval\" {}\nivan namespaces=\"cto-approval\" {}\npetra {} presence=claimed\n",
        olga().public_line(),
        ivan().public_line(),
        petra().public_line()
    )
}

pub(crate) fn pinned() -> PinnedOperators {
    PinnedOperators {
        keys: parse_operators(&operators_file()).unwrap(),
        ledger: ledger(),
    }
}

pub(crate) fn sign<T: Statement>(
    statement: T,
    key: &SoftKey,
    (flags, counter): (u8, u32),
) -> Signed<T> {
    let message = to_canonical(&statement).unwrap();
    let armour = key.sign(NAMESPACE, &message, flags, counter);
    join(statement, &SshSig::from_armour(&armour).unwrap(), true).unwrap()
}

/// What the sample run is.
pub(crate) fn bindings(contract: &TaskContract) -> Bindings {
    let tree = "1".repeat(40);
    Bindings {
        task_id: contract.task_id.clone(),
        contract_digest: digest_of(contract).unwrap(),
        target_id: contract.task_id.to_string(),
        target_head: tree.clone(),
        baseline_tree_id: tree.parse().unwrap(),
        lane: Lane::Fake,
        model: "none".to_owned(),
        identity_digest: digest_of(&identity()).unwrap(),
        sandbox_class: SandboxClass::Full,
        stage: Stage::FIXTURE,
        mutation_mode: MutationMode::CopiedFixture,
    }
}

pub(crate) fn grant_for(bindings: Bindings) -> GrantStatement {
    let expires_at = at(3600);
    GrantStatement {
        schema: GrantSchema,
        ledger: ledger(),
        request_id: ID.parse().unwrap(),
        request_digest: sha256(b"request"),
        execution_scope: ExecutionScope,
        sentence: bindings.sentence(expires_at),
        bindings,
        expires_at,
        requester: "u(1000)".to_owned(),
        self_approved: true,
        shown_digest: sha256(b"shown"),
        records: Vec::new(),
        signer: "olga".parse().unwrap(),
        slot: Nonce::from_bytes(&[2; 32]),
        at: at(-60),
    }
}

/// The grant for the sample run.
pub(crate) fn grant() -> GrantStatement {
    grant_for(bindings(&contract()))
}

pub(crate) fn denial() -> DenialStatement {
    DenialStatement {
        schema: DenialSchema,
        ledger: ledger(),
        request_id: ID.parse().unwrap(),
        request_digest: sha256(b"request"),
        note: "not so".to_owned(),
        shown_digest: sha256(b"shown"),
        signer: "olga".parse().unwrap(),
        slot: Nonce::from_bytes(&[2; 32]),
        at: at(-60),
    }
}

pub(crate) fn requester(signer: &str) -> RequesterStatement {
    RequesterStatement {
        schema: RequesterSchema,
        ledger: ledger(),
        request_id: ID.parse().unwrap(),
        request_digest: sha256(b"request"),
        shown_digest: sha256(b"shown"),
        signer: signer.parse().unwrap(),
        slot: Nonce::from_bytes(&[1; 32]),
        at: at(-120),
    }
}

pub(crate) fn outcome(pack: &Pack, outcome: Outcome) -> OutcomeStatement {
    OutcomeStatement {
        schema: OutcomeSchema,
        ledger: ledger(),
        run_id: pack.sealed.report.run.run_id.clone(),
        pack_digest: pack.sealed.pack_digest.clone(),
        outcome,
        note: None,
        rollback: false,
        shown_digest: sha256(b"shown"),
        signer: "olga".parse().unwrap(),
        slot: Nonce::from_bytes(&[3; 32]),
        at: at(60),
    }
}

/// What the log says of a request.
pub(crate) fn requested(asked: Option<Signed<RequesterStatement>>) -> Approval {
    Approval {
        actor: "u(1000)".to_owned(),
        scope: ExecutionScope::VALUE.to_owned(),
        mutation_mode: MutationMode::CopiedFixture,
        timestamp: at(-180),
        expiry: Some(at(3600)),
        note: None,
        request_id: ID.parse().ok(),
        asked: asked.map(Box::new),
        grant: None,
        denial: None,
    }
}

/// What the log says of a grant: request, decision, use.
pub(crate) fn told(
    asked: Option<Signed<RequesterStatement>>,
    grant: Signed<GrantStatement>,
) -> [EventKind; 3] {
    let statement = grant.statement.clone();
    let actor = statement.signer.to_string();
    [
        EventKind::ApprovalRequested(requested(asked)),
        EventKind::ApprovalGranted(Approval {
            actor: actor.clone(),
            timestamp: statement.at,
            grant: Some(Box::new(grant)),
            ..requested(None)
        }),
        EventKind::ApprovalConsumed(ApprovalConsumed {
            approval_id: ID.to_owned(),
            actor,
            scope: ExecutionScope::VALUE.to_owned(),
            mutation_mode: MutationMode::CopiedFixture,
            timestamp: at(0),
            expiry: Some(statement.expires_at),
            ledger_seq: 7,
        }),
    ]
}

/// An approval of the sample run that is right in all.
pub(crate) fn approved() -> [EventKind; 3] {
    told(None, sign(grant(), &olga(), (UP_UV, 3)))
}
