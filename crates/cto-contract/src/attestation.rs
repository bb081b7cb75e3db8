//! The signed statement about a pack: in-toto Statement v1 in a DSSE envelope.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{CaseId, Digest, Nonce, RunId, TreeId};
use crate::time::Utc;
use crate::words::{Lane, NeverActive, RunStatus};

/// DSSE payload type of an in-toto statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

wire_const! {
    /// `_type` of an in-toto statement.
    pub struct StatementType: &'static str = "https://in-toto.io/Statement/v1"
}
wire_const! {
    /// `predicateType` of ours.
    pub struct PredicateType: &'static str = "urn:cto:evidence-pack:v1"
}

/// A signature of an envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// SHA-256 of the raw 32-byte public key.
    pub keyid: Digest,
    /// Base64 of the 64-byte ed25519 signature.
    pub sig: String,
}

/// A DSSE envelope. Its file holds the RFC 8785 form and one newline, nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// Base64 of the statement.
    pub payload: String,
    #[serde(rename = "payloadType")]
    pub payload_type: String,
    pub signatures: Vec<Signature>,
}

/// What a statement is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    pub name: String,
    pub digest: SubjectDigest,
}

/// The digest set of a subject; only SHA-256 is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubjectDigest {
    pub sha256: Digest,
}

/// The predicate: what the harness signs besides the digest of `SHA256SUMS`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Predicate {
    pub run_id: RunId,
    pub case_id: CaseId,
    pub backend: Lane,
    pub nonce: Nonce,
    pub status: RunStatus,
    /// SHA-256 of the last line of the log, without its newline.
    pub event_chain_head: Digest,
    pub events: u64,
    pub contract_digest: Digest,
    /// Null when the run ended before its plan.
    pub identity_digest: Option<Digest>,
    pub approval_id: Option<String>,
    /// Tree id that the patch gives on the baseline; null when no patch was taken.
    pub patch_tree_id: Option<TreeId>,
    pub run_finished_at: Utc,
    pub conformance: bool,
    /// Base64 of the raw public key. It proves integrity, never origin.
    pub harness_public_key: String,
    pub harness_version: String,
    pub runtime_default_activation: NeverActive,
}

/// The in-toto statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    #[serde(rename = "_type")]
    pub statement_type: StatementType,
    pub subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    pub predicate_type: PredicateType,
    pub predicate: Predicate,
}
