//! A receipt: the chain of custody of one change in one small document, which a stranger checks without the pack.
//!
//! It holds nothing that has to be believed: what people said with their signatures, and what the harness said with its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approval::{ApprovalRequest, GrantStatement, RequesterStatement};
use crate::operator::Signed;

wire_const! {
    /// Schema tag of a receipt.
    pub struct ReceiptSchema: &'static str = "cto.receipt/v1"
}

/// Who asked for a change, who approved it with which presence, which run made it, what became of it, and how far the
/// ledger had come. Null is what there was not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    pub schema: ReceiptSchema,
    /// The request, whole: its digest is what was approved.
    pub request: Option<Box<ApprovalRequest>>,
    /// The operator who signed that he asked.
    pub asked: Option<Box<Signed<RequesterStatement>>>,
    pub grant: Option<Box<Signed<GrantStatement>>>,
    /// `attestation.dsse.json` of the run, to the byte: run, status, pack digest.
    pub attestation: String,
    /// The files beside the pack, to the byte and in their order: outcome and closeout among them.
    pub addenda: Vec<ReceiptFile>,
    /// A checkpoint of the ledger, to the byte: its id, length and head.
    pub ledger_head: String,
}

/// A file by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiptFile {
    pub name: String,
    pub content: String,
}
