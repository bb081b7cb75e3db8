//! What operators decide about records and keys, as statements that they sign.
//!
//! Both hold the whole of what is decided, not a pointer to it: the files in the config directory are written from the
//! ledger, so the ledger must be able to say what stands in them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::admission::AdmissionKind;
use crate::ids::{Digest, Nonce};
use crate::ledger::{Header, Subject};
use crate::operator::{OperatorName, Signed, SlotOpened};
use crate::time::Utc;
use crate::trust::TrustedKey;

wire_const! {
    /// Schema tag of a signed admission.
    pub struct AdmissionStatementSchema: &'static str = "cto.signed-admission/v1"
}
wire_const! {
    /// Schema tag of a signed change of the trusted keys.
    pub struct TrustStatementSchema: &'static str = "cto.signed-trust/v1"
}

/// An operator stands for a record: from now on this one counts for what it is about, and no older one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdmissionStatement {
    pub schema: AdmissionStatementSchema,
    pub ledger: Digest,
    pub admission: AdmissionKind,
    /// What the record is about: of two with the same kind and subject the later one counts.
    pub about: String,
    /// SHA-256 of the record's RFC 8785 form.
    pub digest: Digest,
    /// The record itself.
    pub record: Value,
    pub signer: OperatorName,
    pub slot: Nonce,
    pub at: Utc,
}
statement!(AdmissionStatement, AdmissionChanged);

impl Signed<AdmissionStatement> {
    pub(crate) fn header(&self) -> Header {
        Header {
            subject: Subject::from(&self.statement.digest),
            once: None,
            after: Some(SlotOpened::key(&self.statement.slot)),
            at: self.statement.at,
        }
    }
}

/// Harness keys as they stand from now on. A key that is not named stays as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustStatement {
    pub schema: TrustStatementSchema,
    pub ledger: Digest,
    pub keys: Vec<TrustedKey>,
    pub signer: OperatorName,
    pub slot: Nonce,
    pub at: Utc,
}
statement!(TrustStatement, TrustChanged);

impl Signed<TrustStatement> {
    pub(crate) fn header(&self) -> Header {
        Header {
            subject: Subject::from(&self.statement.signer),
            once: None,
            after: Some(SlotOpened::key(&self.statement.slot)),
            at: self.statement.at,
        }
    }
}
