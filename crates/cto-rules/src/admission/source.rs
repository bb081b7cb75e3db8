//! Whether the source of a lane is let in for a mode.

use cto_contract::admission::{AdmissionKind, AdmissionStatus, ExecutionMode, SourceAdmission};
use cto_contract::words::{Lane, MutationMode, SourceAdmissionStatus, Stage};

use super::{Moment, Records, Standing, Stored};

/// First stage at which somebody must have said what the licence allows.
const LICENCE_FROM: u8 = 5;

/// How the source of a lane stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceVerdict<'a> {
    pub status: SourceAdmissionStatus,
    /// Why it is not admitted; empty where it is.
    pub why: String,
    /// The record that lets it in.
    pub used: Option<&'a Stored<SourceAdmission>>,
}

/// Judges all records about a lane's source. One that admits is enough; one that refuses outright outweighs it.
pub fn judge(
    records: &Records,
    lane: Lane,
    mode: Option<MutationMode>,
    moment: Moment,
) -> SourceVerdict<'_> {
    let refused = |status, why: String| SourceVerdict {
        status,
        why,
        used: None,
    };
    let not_admitted = |why: String| refused(SourceAdmissionStatus::NotAdmitted, why);
    let own = || records.sources.iter().filter(|s| s.record.lane == lane);
    if own().any(|s| s.record.status == AdmissionStatus::NotAdmitted) {
        return not_admitted(format!(
            "a record says that the source of {lane} is not admitted"
        ));
    }
    let mut first = None;
    for stored in own() {
        match fits(stored, mode, moment) {
            Ok(()) => {
                return SourceVerdict {
                    status: SourceAdmissionStatus::Admitted,
                    why: String::new(),
                    used: Some(stored),
                };
            }
            Err(verdict) => first = first.or(Some(verdict)),
        }
    }
    if let Some((status, why)) = first {
        return refused(status, why);
    }
    match records.bad_of(AdmissionKind::Source, lane) {
        Some(why) => not_admitted(format!("its record can't be used: {why}")),
        None => not_admitted(format!("no record admits the source of {lane}")),
    }
}

fn fits(
    stored: &Stored<SourceAdmission>,
    mode: Option<MutationMode>,
    moment: Moment,
) -> Result<(), (SourceAdmissionStatus, String)> {
    let record = &stored.record;
    let no = |why: String| Err((SourceAdmissionStatus::NotAdmitted, why));
    match Standing::of(record.review_trigger.as_str(), stored.seal, moment) {
        Standing::Good => {}
        Standing::Stale(why) => return Err((SourceAdmissionStatus::Stale, why)),
        Standing::Unsigned(why) => return no(why),
    }
    let wanted = ExecutionMode::of(mode.unwrap_or(moment.stage.mode()));
    if !record.allowed_execution_modes.contains(&wanted) {
        let allowed: Vec<&str> = record
            .allowed_execution_modes
            .iter()
            .map(|mode| mode.as_str())
            .collect();
        return no(format!(
            "its record allows {}, and the run is {wanted}",
            allowed.join(", ")
        ));
    }
    if moment.stage.number() >= LICENCE_FROM && !record.is_licence_resolved() {
        return no(format!(
            "its licence note is unresolved, and stage {} needs it",
            moment.stage
        ));
    }
    Ok(())
}

const _: () = assert!(LICENCE_FROM > Stage::DISPOSABLE.number());
