//! The answer of `cto verify`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claim::Claim;
use crate::ids::{Digest, RunId};
use crate::operator::OperatorName;
use crate::text;
use crate::time::Utc;
use crate::trust::Origin;
use crate::words::{Custody, Presence, RunStatus};

/// Longest list of withheld files that is shown to a person.
const WITHHELD_CHARS_MAX: usize = 1000;

wire_const! {
    /// Schema tag of the answer.
    pub struct VerifySchema: &'static str = "cto.verify/v1"
}

wire_enum! {
    /// What can be wrong with a pack, each with its own code.
    pub enum VerifyCode {
        NotAPack = "not_a_pack",
        NotSealed = "not_sealed",
        FileMissing = "file_missing",
        FileExtra = "file_extra",
        FileLinked = "file_linked",
        FileSpecial = "file_special",
        FileOversized = "file_oversized",
        FileUnreadable = "file_unreadable",
        WithheldMalformed = "withheld_malformed",
        WithheldPresent = "withheld_present",
        DigestMismatch = "digest_mismatch",
        SumsMalformed = "sums_malformed",
        EnvelopeMalformed = "envelope_malformed",
        EnvelopeNotCanonical = "envelope_not_canonical",
        KeyidMismatch = "keyid_mismatch",
        SignatureInvalid = "signature_invalid",
        StatementMismatch = "statement_mismatch",
        SubjectMismatch = "subject_mismatch",
        SchemaInvalid = "schema_invalid",
        RunMismatch = "run_mismatch",
        ChainBroken = "chain_broken",
        EventSequence = "event_sequence",
        EventOrder = "event_order",
        FreshnessInvalid = "freshness_invalid",
        PolicyMismatch = "policy_mismatch",
        PatchMalformed = "patch_malformed",
        ReportMismatch = "report_mismatch",
        VerdictMismatch = "verdict_mismatch",
        AddendumInvalid = "addendum_invalid",
        ApprovalInvalid = "approval_invalid",
        OperatorUnknown = "operator_unknown",
        OriginUnknown = "origin_unknown",
        OriginExpired = "origin_expired",
        OriginRevoked = "origin_revoked",
        ExpectationMismatch = "expectation_mismatch",
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyError {
    pub code: VerifyCode,
    pub file: Option<String>,
    pub message: String,
}

wire_enum! {
    /// The checks that are made, in order.
    pub enum VerifyCheck {
        Files = "files",
        Digests = "digests",
        Attestation = "attestation",
        Schema = "schema",
        Chain = "event_chain",
        Order = "event_order",
        Freshness = "freshness",
        Policy = "path_policy",
        Verdict = "verdict",
        Approval = "approval",
        Addenda = "addenda",
        Origin = "origin",
        Subject = "subject",
    }
}

wire_enum! {
    /// Whether the pack is what was sealed.
    pub enum Integrity { Ok = "ok", Broken = "broken" }
}

wire_enum! {
    /// Whether the operators who signed are known to the caller.
    pub enum OperatorStanding {
        /// No operator signed anything in it.
        None = "none",
        /// The signatures hold; whose they are, nobody has said.
        Unknown = "unknown",
        /// Every signature is by a key of the operators that the caller named, in the ledger that he named.
        Known = "known",
    }
}

wire_enum! {
    /// What an operator signed.
    pub enum SignedKind {
        Requester = "requester",
        Grant = "grant",
        Denial = "denial",
        Outcome = "outcome",
    }
}

/// A signature of an operator that holds, and what it shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignatureSeen {
    pub signed: SignedKind,
    pub operator: OperatorName,
    /// `<type> <base64>`.
    pub public_key: String,
    pub presence: Presence,
    pub custody: Custody,
    /// By the signer's own word.
    pub at: Utc,
    pub ledger: Digest,
    pub standing: OperatorStanding,
}

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyReport {
    pub schema_version: VerifySchema,
    /// Integrity holds, the subject is the one asked for, and the origin is known or was not asked for.
    pub ok: bool,
    pub integrity: Integrity,
    pub origin: Origin,
    /// Of all signatures: `known` only if each of them is.
    #[serde(default = "nobody")]
    pub operator: OperatorStanding,
    /// What operators signed, as far as it holds.
    #[serde(default)]
    pub signatures: Vec<SignatureSeen>,
    pub run_id: Option<RunId>,
    pub status: Option<RunStatus>,
    pub keyid: Option<Digest>,
    pub pack_digest: Option<Digest>,
    pub files: u64,
    pub bytes: u64,
    pub checked: Vec<VerifyCheck>,
    pub errors: Vec<VerifyError>,
    /// Those of the report, lowered where what they rest on is gone.
    pub claims: Vec<Claim>,
    /// Sealed files that this copy leaves out on purpose, sorted by bytes; their digests could not be checked.
    #[serde(default)]
    pub withheld: Vec<String>,
}

const fn nobody() -> OperatorStanding {
    OperatorStanding::None
}

/// Says how many files are withheld, and which; none when all are there.
pub fn withheld_text(withheld: &[String]) -> Option<String> {
    let files = match withheld.len() {
        0 => return None,
        1 => "1 file".to_owned(),
        many => format!("{many} files"),
    };
    let names = text::shorten(&withheld.join(", "), WITHHELD_CHARS_MAX);
    Some(format!("{files}: {names}"))
}
