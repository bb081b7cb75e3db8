//! Who decides, as records of the ledger: operators, their signatures, and the slots in which they sign.
//!
//! An operator signs a *statement*: its RFC 8785 form is the signed message. A record holds the statement and the signature
//! beside each other. Every statement names its ledger and its signing slot, so that it counts once and in one place only.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ids::{Digest, Nonce};
use crate::ledger::{Header, OnceKey, Record, RecordKind, Subject};
use crate::time::Utc;
use crate::trust::TrustedKey;
use crate::words::{Custody, Presence};

checked_string!(
    /// The name of an operator, as `operators.allowed_signers` has it.
    pub struct OperatorName, "operator name", "^[a-z0-9][a-z0-9._-]{0,63}$", is_operator_name
);
fn is_operator_name(text: &str) -> bool {
    let starts = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let goes_on = |b: u8| starts(&b) || matches!(b, b'.' | b'_' | b'-');
    text.len() <= 64 && text.as_bytes().first().is_some_and(starts) && text.bytes().all(goes_on)
}

wire_const! {
    /// Schema tag of a change of the operators.
    pub struct OperatorSchema: &'static str = "cto.operator/v1"
}

/// What an operator may sign. `statement!` implements it for a struct with these four fields.
pub trait Statement: Serialize + DeserializeOwned {
    /// The ledger in which it counts.
    fn ledger(&self) -> &Digest;
    /// The slot that it was signed for.
    fn slot(&self) -> &Nonce;
    /// Who signs.
    fn signer(&self) -> &OperatorName;
    fn at(&self) -> Utc;
    /// The record that holds it with its signature.
    fn into_record(signed: Signed<Self>) -> Record;
}

/// What a record of the ledger tells of a signature: only [`Signed`] has one.
pub trait MaybeSigned {
    const IS_SIGNED: bool = false;
    fn signature(&self) -> Option<&OperatorSignature> {
        None
    }
}

impl<T> MaybeSigned for Signed<T> {
    const IS_SIGNED: bool = true;
    fn signature(&self) -> Option<&OperatorSignature> {
        Some(&self.signature)
    }
}

/// A signature, and what it shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperatorSignature {
    /// `<type> <base64>`, without a comment.
    pub public_key: String,
    pub presence: Presence,
    pub custody: Custody,
    /// What a security key counts; null for a plain key.
    pub counter: Option<u32>,
    /// SSHSIG, as `ssh-keygen -Y sign` writes it.
    pub armour: String,
}

/// A statement and who signed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signed<T> {
    pub statement: T,
    pub signature: OperatorSignature,
}

wire_enum! {
    /// What happens to a key of an operator.
    pub enum OperatorChange { Add = "add", Revoke = "revoke" }
}

/// A key begins or ceases to count as an operator's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperatorStatement {
    pub schema: OperatorSchema,
    pub ledger: Digest,
    pub change: OperatorChange,
    pub operator: OperatorName,
    /// `<type> <base64>`, without a comment.
    pub public_key: String,
    /// What is said of a plain key: a passphrase or an agent's question holds it. A signature can't show it.
    pub claims_presence: bool,
    /// Harness keys that counted before there was an operator. Only the first change takes them over: what he does not
    /// sign for counts no longer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes_over: Vec<TrustedKey>,
    pub signer: OperatorName,
    pub slot: Nonce,
    pub at: Utc,
}
statement!(OperatorStatement, OperatorChanged);

impl Signed<OperatorStatement> {
    pub(crate) fn header(&self) -> Header {
        Header {
            subject: Subject::from(&self.statement.operator),
            once: None,
            after: Some(SlotOpened::key(&self.statement.slot)),
            at: self.statement.at,
        }
    }
}

/// Somebody is being asked for a signature: one at a time, and not for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotOpened {
    pub nonce: Nonce,
    /// SHA-256 of the statement's RFC 8785 form.
    pub statement: Digest,
    /// What is to be signed, for people.
    pub purpose: String,
    pub at: Utc,
    pub expires_at: Utc,
}

impl MaybeSigned for SlotOpened {}

impl SlotOpened {
    /// What every slot is about: the last one is the only one that can be open.
    pub const SUBJECT: &'static str = "slot";

    /// The key of the beginning of a slot.
    pub fn key(nonce: &Nonce) -> OnceKey {
        OnceKey::made(format!("{}:{nonce}", RecordKind::SlotOpened))
    }

    pub(crate) fn header(&self) -> Header {
        Header {
            subject: Subject::slot(),
            once: Some(Self::key(&self.nonce)),
            after: None,
            at: self.at,
        }
    }
}

/// A slot was used, or given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotClosed {
    pub nonce: Nonce,
    pub used: bool,
    pub at: Utc,
}

impl MaybeSigned for SlotClosed {}

impl SlotClosed {
    /// The key of the end of a slot.
    pub fn key(nonce: &Nonce) -> OnceKey {
        OnceKey::made(format!("{}:{nonce}", RecordKind::SlotClosed))
    }

    pub(crate) fn header(&self) -> Header {
        Header {
            subject: Subject::slot(),
            once: Some(Self::key(&self.nonce)),
            after: Some(SlotOpened::key(&self.nonce)),
            at: self.at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_that_every_file_can_hold() {
        for bad in ["", "Olga", "a b", "-a", "a,b", "a*", "ö", &"a".repeat(65)] {
            assert!(bad.parse::<OperatorName>().is_err(), "{bad}");
        }
        assert!("olga.k-2_x".parse::<OperatorName>().is_ok());
    }
}
