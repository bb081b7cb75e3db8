//! Why the ledger refuses, and what to do about it.

use std::io;
use std::path::PathBuf;

use cto_contract::time::Utc;
use cto_evidence::canonical::CanonicalError;
use cto_evidence::signed::SignedError;
use cto_rules::authority::{AdmissionFault, TrustFault};
use cto_rules::operators::OperatorFault;
use cto_rules::signatures::SignatureFault;
use cto_rules::standing::{LedgerFault, REPAIR, TrustFileFault};
use cto_store::StoreError;

use crate::authority::RecordFault;
use crate::checkpoints::CheckpointError;
use crate::files::TrustFilesError;

/// Why something could not be asked for, entered or read.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("the ledger can't be used")]
    Store(#[from] StoreError),
    #[error("entry {seq} of the ledger does not hold: nobody can say who decides")]
    Forged { seq: u64, source: RecordFault },
    #[error("somebody is being asked for a signature already, until {until}: {purpose}")]
    SlotTaken { purpose: String, until: Utc },
    #[error("the ledger is not the one it was: {}", list(.0))]
    RolledBack(Vec<LedgerFault>),
    #[error("files of trust are not those that the ledger holds: {}", list(.0))]
    TrustRolledBack(Vec<TrustFileFault>),
    #[error("too many requests for the same run are open")]
    TooManyRequests,
    #[error("nothing is waiting for a signature")]
    NothingAsked,
    #[error("what waits for a signature is something else: {purpose}")]
    OtherAsked { purpose: String },
    #[error("the signature is not accepted: {}", list(.0))]
    Refused(Vec<SignatureFault>),
    #[error("the signature is not accepted")]
    Signature(#[from] SignedError),
    #[error("the change of operators is not accepted")]
    Operator(#[from] OperatorFault),
    #[error("the change of trusted keys is not accepted")]
    Trust(#[from] TrustFault),
    #[error("the record is not accepted")]
    Admission(#[from] AdmissionFault),
    #[error("the statement has no canonical form")]
    Canonical(#[from] CanonicalError),
    #[error("could not keep what is to be signed in `{path}`")]
    Draft { path: PathBuf, source: io::Error },
    #[error("`{path}` is not what was to be signed")]
    DraftChanged { path: PathBuf },
    #[error("the files of trust could not be written")]
    Files(#[from] TrustFilesError),
    #[error("the checkpoint could not be written")]
    Checkpoint(#[from] CheckpointError),
}

fn list<F: ToString>(faults: &[F]) -> String {
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    faults.join("; ")
}

impl LedgerError {
    /// Machine-readable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::Forged { .. } => "ledger_forged",
            Self::RolledBack(_) => "ledger_rolled_back",
            Self::TrustRolledBack(_) => "trust_rolled_back",
            Self::SlotTaken { .. } => "signing_slot_taken",
            Self::TooManyRequests => "too_many_requests",
            Self::NothingAsked | Self::OtherAsked { .. } => "nothing_to_sign",
            Self::Refused(faults) => faults.first().map_or("signature_refused", |f| f.code()),
            Self::Signature(_) => "signature_invalid",
            Self::Operator(_) => "operator_change_refused",
            Self::Trust(_) => "trust_change_refused",
            Self::Admission(_) => "record_refused",
            Self::Canonical(_) => "statement_not_encoded",
            Self::Draft { .. } => "draft_not_written",
            Self::DraftChanged { .. } => "draft_changed",
            Self::Files(_) => "trust_not_written",
            Self::Checkpoint(error) => error.code(),
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Forged { .. } => {
                "stop and investigate: somebody wrote to the database past `cto`; restore it from a backup"
            }
            Self::RolledBack(faults) => faults.first().map_or("", LedgerFault::hint),
            Self::TrustRolledBack(_) => REPAIR,
            Self::SlotTaken { .. } => {
                "finish or wait; if nobody you know asks, say no to it with `cto ledger release`"
            }
            Self::TooManyRequests => "decide about one of them: `cto inbox` lists them",
            Self::NothingAsked | Self::OtherAsked { .. } => {
                "run the command without --signature first: it says what to sign"
            }
            Self::Refused(faults) => match faults.first() {
                Some(SignatureFault::PresenceTooLow { .. }) => {
                    "sign with a key that asks for a person"
                }
                Some(SignatureFault::UnknownKey(_) | SignatureFault::RevokedKey(_)) => {
                    "`cto operator list` shows whose keys count"
                }
                Some(
                    SignatureFault::OtherLedger
                    | SignatureFault::SlotUnknown
                    | SignatureFault::SlotClosed
                    | SignatureFault::SlotExpired
                    | SignatureFault::OtherStatement
                    | SignatureFault::CounterStuck,
                )
                | None => "run the command again without --signature: it opens a new slot",
            },
            Self::Signature(_) => {
                "sign exactly the bytes that the command named, in namespace cto-approval"
            }
            Self::Admission(_) => "sign with a key that asks for a person",
            Self::DraftChanged { .. } => "`cto ledger release`, then begin again",
            Self::Checkpoint(_) => {
                "the decision itself is recorded; mend the place, then `cto ledger checkpoint`"
            }
            Self::Files(_) => {
                "the decision itself is recorded; mend the place, then `cto trust repair`"
            }
            Self::Store(_)
            | Self::Operator(_)
            | Self::Trust(_)
            | Self::Canonical(_)
            | Self::Draft { .. } => return None,
        };
        Some(hint.to_owned())
    }

    /// Whether what stands in the ledger, or beside it, is not to be believed.
    pub fn is_about_evidence(&self) -> bool {
        matches!(
            self,
            Self::Forged { .. } | Self::RolledBack(_) | Self::TrustRolledBack(_)
        )
    }

    /// Whether the caller could do better, rather than the machine.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::SlotTaken { .. }
            | Self::TooManyRequests
            | Self::NothingAsked
            | Self::OtherAsked { .. }
            | Self::Refused(_)
            | Self::Signature(_)
            | Self::Operator(_)
            | Self::Trust(_)
            | Self::Admission(_)
            | Self::DraftChanged { .. } => true,
            Self::Store(_)
            | Self::Forged { .. }
            | Self::RolledBack(_)
            | Self::TrustRolledBack(_)
            | Self::Canonical(_)
            | Self::Draft { .. }
            | Self::Files(_)
            | Self::Checkpoint(_) => false,
        }
    }
}
