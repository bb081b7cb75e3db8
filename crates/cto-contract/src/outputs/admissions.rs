//! `cto admit` and `cto admissions`: records of people, by what they are about.

use schemars::JsonSchema;
use serde::Serialize;

use crate::admission::AdmissionKind;
use crate::ids::Digest;
use crate::operator::OperatorName;
use crate::time::Utc;
use crate::words::{AdmissionSeal, Custody, Lane, Presence};

outputs! {
    /// `cto admissions`.
    AdmissionsOutput, AdmissionsTag = "cto.admissions/v1" {
        /// The config directory, where records are looked for.
        pub directory: String,
        pub records: Vec<AdmissionRow>,
        /// The `--after` of the next page; null on the last.
        pub next: Option<String>,
    }
    /// `cto admit`.
    AdmitOutput, AdmitTag = "cto.admit/v1" {
        pub kind: AdmissionKind,
        pub subject: String,
        pub state: RecordState,
        pub digest: Digest,
        pub admission: AdmissionSeal,
        /// Who signed for it; null where nobody did.
        pub signature: Option<RecordSignature>,
        pub path: String,
        /// False when the same record was there already.
        pub written: bool,
    }
}

wire_enum! {
    /// How a record stands by itself, whatever a run would ask for.
    pub enum RecordState {
        Admitted = "admitted",
        NotAdmitted = "not_admitted",
        /// Its review is overdue.
        Stale = "stale",
        /// An operator signed another one about the same since, or the file of what he signed is gone.
        RolledBack = "rolled_back",
        /// It can't be used.
        Bad = "bad",
    }
}

/// One file that is a record, or looks like one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AdmissionRow {
    /// Below the config directory.
    pub file: String,
    pub kind: AdmissionKind,
    /// Null for records that are about no lane, and where it can't be told.
    pub lane: Option<Lane>,
    pub subject: Option<String>,
    pub state: RecordState,
    /// Why it is stale or can't be used.
    pub why: Option<String>,
    pub digest: Option<Digest>,
    /// `signed` where it counts from stage 4 on.
    pub admission: Option<AdmissionSeal>,
    /// Who signed for it; null where nobody did.
    pub signature: Option<RecordSignature>,
}

/// Who stands for a record, as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecordSignature {
    pub signer: OperatorName,
    pub presence: Presence,
    pub custody: Custody,
    /// Where the ledger has it. A later record about the same has a greater one.
    pub seq: u64,
    pub at: Utc,
    /// False since the key was revoked: the record counts as unsigned.
    pub key_counts: bool,
}
