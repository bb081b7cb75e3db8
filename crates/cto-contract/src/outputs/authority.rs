//! `cto operator`, `cto ledger` and what waits for a signature: whose word counts, and how each signature was made.

use schemars::JsonSchema;
use serde::Serialize;

use crate::ids::Digest;
use crate::operator::OperatorName;
use crate::time::Utc;
use crate::words::{Custody, Presence};

/// One key of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OperatorRow {
    pub operator: OperatorName,
    pub fingerprint: String,
    /// `<type> <base64>`.
    pub public_key: String,
    /// What the enrolment says of a plain key; a security key shows its presence in each signature.
    pub claims_presence: bool,
    /// What its last signature showed; null when it never signed.
    pub presence: Option<Presence>,
    pub custody: Option<Custody>,
    /// How many decisions it signed.
    pub signatures: u64,
    pub added_at: Utc,
    pub revoked_at: Option<Utc>,
}

/// Somebody is being asked for a signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WaitingSlot {
    pub purpose: String,
    pub expires_at: Utc,
}

/// A fault of the ledger or of a file that is written from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LedgerFinding {
    /// `ledger_rolled_back`, `trust_rolled_back`, `ledger_broken` or `ledger_forged`.
    pub code: String,
    pub message: String,
    pub hint: String,
}

outputs! {
    /// `cto operator list`.
    OperatorsOutput, OperatorsTag = "cto.operators/v1" {
        pub ledger: Digest,
        /// The file that is written from the ledger.
        pub file: String,
        pub operators: Vec<OperatorRow>,
        pub waiting: Option<WaitingSlot>,
    }
    /// What is to be signed elsewhere: any command that decides, where it was given no key.
    SigningOutput, SigningTag = "cto.signing/v1" {
        pub purpose: String,
        pub ledger: Digest,
        pub signer: OperatorName,
        /// Holds exactly the bytes to sign.
        pub file: String,
        /// SHA-256 of these bytes.
        pub sha256: Digest,
        pub namespace: String,
        /// To be given back to the letter.
        pub sentence: String,
        pub expires_at: Utc,
        /// Makes the signature.
        pub command: String,
    }
    /// A decision of an operator that is in the ledger.
    SignedDecisionOutput, SignedDecisionTag = "cto.signed-decision/v1" {
        pub purpose: String,
        pub ledger: Digest,
        pub seq: u64,
        pub digest: Digest,
        pub signer: OperatorName,
        pub presence: Presence,
        pub custody: Custody,
        pub checkpoint: Option<String>,
        /// What could not be written after it; the decision counts all the same.
        pub unfinished: Vec<String>,
    }
    /// `cto ledger verify`.
    LedgerCheckOutput, LedgerCheckTag = "cto.ledger-check/v1" {
        pub ok: bool,
        pub ledger: Option<Digest>,
        pub entries: u64,
        pub head: Option<Digest>,
        /// Entries of a kind that this `cto` does not know.
        pub unknown: u64,
        /// Signed decisions that hold.
        pub decisions: u64,
        pub operators: u64,
        /// Checkpoints that were compared.
        pub checkpoints: u64,
        pub errors: Vec<LedgerFinding>,
    }
    /// `cto ledger checkpoint`.
    CheckpointOutput, CheckpointTag = "cto.checkpoint-written/v1" {
        pub ledger: Digest,
        pub length: u64,
        pub head: Digest,
        pub path: String,
        /// Where it went besides.
        pub second: Option<String>,
    }
    /// `cto ledger release`.
    ReleaseOutput, ReleaseTag = "cto.ledger-release/v1" {
        /// What was being asked for; null when nothing was.
        pub released: Option<String>,
    }
    /// `cto trust repair`.
    TrustRepairOutput, TrustRepairTag = "cto.trust-repair/v1" {
        /// Files that were written or taken away, by their path in the config directory.
        pub files: Vec<String>,
    }
}
