//! `cto admit` and `cto admissions`: records of people, by what they are about.

use schemars::JsonSchema;
use serde::Serialize;

use crate::admission::AdmissionKind;
use crate::ids::Digest;
use crate::words::{AdmissionSeal, Lane};

outputs! {
    /// `cto admissions`.
    AdmissionsOutput, AdmissionsTag = "cto.admissions/v1" {
        /// The config directory, where records are looked for.
        pub directory: String,
        pub records: Vec<AdmissionRow>,
        /// The `--after` of the next page; null on the last.
        pub next: Option<String>,
    }
    /// `cto admit --file`.
    AdmitOutput, AdmitTag = "cto.admit/v1" {
        pub kind: AdmissionKind,
        pub subject: String,
        pub state: RecordState,
        pub digest: Digest,
        pub admission: AdmissionSeal,
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
    pub admission: Option<AdmissionSeal>,
}
