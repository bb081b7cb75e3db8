//! Whether a person's record lets a run use what it is about: a source, a binary, a model, a provider class, a target.
//!
//! The record says what was let in; these functions compare it with the run. A record that is stale, or unsigned where a
//! signature is needed, counts as none. Where two records about the same thing disagree, the one that refuses wins.

mod binary;
mod decision;
mod model;
mod review;
mod source;
mod target;
#[cfg(test)]
pub(crate) mod tests;

use cto_contract::admission::{
    Admission, AdmissionKind, BinaryAdmission, ModelAdmission, ProviderDecision, SourceAdmission,
    TargetAdmission,
};
use cto_contract::document::DocumentError;
use cto_contract::ids::Digest;
use cto_contract::outputs::RecordState;
use cto_contract::time::Utc;
use cto_contract::words::{AdmissionSeal, Lane, Stage};

use crate::secrets::refuse_in_record;

pub use binary::{ProgramSeen, is_refused as binary_is_refused, judge as judge_binary};
pub use decision::judge as judge_decision;
pub use model::{ModelRequest, ModelVerdict, NamedRecord, SCRIPTED, judge as judge_model};
pub use review::dated_ahead;
pub use source::{SourceVerdict, judge as judge_source};
pub use target::{
    TargetFacts, TargetGate, TargetVerdict, bound as bound_by_target, find as find_target,
    judge as judge_target, unreadable as unreadable_target,
};

/// A record as it is kept: read once, and named by the digest of its canonical form ever after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored<T> {
    pub record: T,
    pub digest: Digest,
    pub seal: AdmissionSeal,
}

/// A file that looks like a record and is none that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRecord {
    pub kind: AdmissionKind,
    /// Its file and line.
    pub place: String,
    /// Its file, line and what is wrong.
    pub why: String,
    /// What it seems to be about, as far as that could be read.
    pub lane: Option<Lane>,
    pub pair: Option<(String, String)>,
}

/// All records of the authority.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    pub sources: Vec<Stored<SourceAdmission>>,
    pub binaries: Vec<Stored<BinaryAdmission>>,
    pub models: Vec<Stored<ModelAdmission>>,
    pub decisions: Vec<Stored<ProviderDecision>>,
    pub targets: Vec<Stored<TargetAdmission>>,
    pub bad: Vec<BadRecord>,
}

impl Records {
    /// Takes one more. The same record in two files is one record.
    pub fn add(&mut self, record: Admission, digest: Digest, seal: AdmissionSeal) {
        fn put<T>(held: &mut Vec<Stored<T>>, record: T, digest: Digest, seal: AdmissionSeal) {
            if held.iter().all(|stored| stored.digest != digest) {
                held.push(Stored {
                    record,
                    digest,
                    seal,
                });
            }
        }
        match record {
            Admission::Source(record) => put(&mut self.sources, record, digest, seal),
            Admission::Binary(record) => put(&mut self.binaries, record, digest, seal),
            Admission::Model(record) => put(&mut self.models, record, digest, seal),
            Admission::Decision(record) => put(&mut self.decisions, record, digest, seal),
            Admission::Target(record) => put(&mut self.targets, record, digest, seal),
        }
    }

    /// What is wrong with a record that would be about a lane.
    fn bad_of(&self, kind: AdmissionKind, lane: Lane) -> Option<&str> {
        let mut bad = self.bad.iter().filter(|bad| bad.kind == kind);
        let found = bad.find(|bad| bad.lane.is_none_or(|of| of == lane));
        found.map(|bad| bad.why.as_str())
    }
}

/// Reads a record of a kind: JSON or YAML, and nothing in it that looks like a secret.
pub fn read(kind: AdmissionKind, name: &str, bytes: &[u8]) -> Result<Admission, DocumentError> {
    // Before anything of it is quoted in a message.
    let text = String::from_utf8_lossy(bytes);
    if let Some(found) = refuse_in_record(&text) {
        return Err(DocumentError {
            name: name.to_owned(),
            line: found.line as u64,
            column: found.column as u64,
            message: format!("something here looks like a secret ({})", found.rule),
        });
    }
    Admission::read(kind, name, bytes)
}

/// How a record stands by itself, and why where it is overdue.
pub fn state_of(record: &Admission, at: Utc) -> (RecordState, Option<String>) {
    if !record.is_admitted() {
        return (RecordState::NotAdmitted, None);
    }
    let trigger = match record {
        Admission::Source(record) => &record.review_trigger,
        Admission::Binary(record) => &record.review_trigger,
        Admission::Model(record) => &record.review_trigger,
        Admission::Decision(record) => &record.review_trigger,
        Admission::Target(record) => &record.review_trigger,
    };
    match review::passed_date(trigger.as_str(), at) {
        None => (RecordState::Admitted, None),
        Some(date) => {
            let why = format!("its review was due on {date}, which has passed");
            (RecordState::Stale, Some(why))
        }
    }
}

/// When a record is looked at, and at which stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub stage: Stage,
    pub at: Utc,
}

/// Whether a record counts at all.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Good,
    Stale(String),
    Unsigned(String),
}

impl Standing {
    fn of(trigger: &str, seal: AdmissionSeal, moment: Moment) -> Self {
        if let Some(date) = review::passed_date(trigger, moment.at) {
            return Self::Stale(format!("its review was due on {date}, which has passed"));
        }
        if seal == AdmissionSeal::Unsigned && moment.stage >= Stage::DISPOSABLE {
            let stage = moment.stage;
            return Self::Unsigned(format!(
                "it is unsigned, and stage {stage} needs an operator's signature"
            ));
        }
        Self::Good
    }

    fn into_refusal(self) -> Option<String> {
        match self {
            Self::Good => None,
            Self::Stale(why) => Some(format!("the record is stale: {why}")),
            Self::Unsigned(why) => Some(format!("the record does not count: {why}")),
        }
    }
}
