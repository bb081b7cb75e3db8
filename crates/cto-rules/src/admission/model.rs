//! Whether the pair of provider and model that a run asks for is let in. The environment asks; the record is the authority.

use cto_contract::admission::{AdmissionKind, AdmissionStatus, ModelAdmission};
use cto_contract::blocker::BlockerCode;
use cto_contract::text;
use cto_contract::words::{Lane, ModelAdmissionStatus, Stage};

use super::{Moment, Records, Standing, Stored};

/// The provider of the scripted model: it proves only itself.
pub const SCRIPTED: &str = "scripted";
/// The provider that the bridge of `case` speaks to, which is nobody's admitted one.
const BRIDGE: &str = "openai";
/// Most admitted pairs that one message names.
const PAIRS_SHOWN_MAX: usize = 5;

/// A record that a variable of the environment names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedRecord<T> {
    Missing,
    /// Line, and what is wrong.
    Invalid(String),
    Record(Box<Stored<T>>),
}

/// What the environment asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelRequest {
    pub provider: Option<String>,
    pub model: Option<String>,
    /// Where it names a file, that file alone is the authority.
    pub file: Option<NamedRecord<ModelAdmission>>,
}

impl ModelRequest {
    /// Nothing is asked for.
    pub const NOTHING: Self = Self {
        provider: None,
        model: None,
        file: None,
    };
}

/// How a lane's model stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelVerdict<'a> {
    pub status: ModelAdmissionStatus,
    /// Why not, by code; none where it is admitted.
    pub refusal: Option<(BlockerCode, String)>,
    /// The record that lets it in.
    pub used: Option<&'a Stored<ModelAdmission>>,
}

impl<'a> ModelVerdict<'a> {
    fn refused(status: ModelAdmissionStatus, why: String) -> Self {
        let code = match status {
            ModelAdmissionStatus::Mismatch => BlockerCode::ModelAdmissionMismatch,
            ModelAdmissionStatus::InvalidAdmission => BlockerCode::ModelAdmissionInvalid,
            ModelAdmissionStatus::Admitted
            | ModelAdmissionStatus::MissingAdmission
            | ModelAdmissionStatus::NotAdmitted => BlockerCode::ModelNotAdmitted,
        };
        Self {
            status,
            refusal: Some((code, why)),
            used: None,
        }
    }

    fn not_admitted(why: String) -> Self {
        Self::refused(ModelAdmissionStatus::NotAdmitted, why)
    }

    fn missing(why: String) -> Self {
        Self::refused(ModelAdmissionStatus::MissingAdmission, why)
    }
}

/// Judges what a lane asks for.
pub fn judge<'a>(
    records: &'a Records,
    request: &'a ModelRequest,
    lane: Lane,
    moment: Moment,
) -> ModelVerdict<'a> {
    match &request.file {
        Some(NamedRecord::Missing) => {
            let name = lane.as_str().to_ascii_uppercase();
            let why = format!("CTO_HARNESS_{name}_MODEL_ADMISSION_FILE names no file");
            ModelVerdict::missing(why)
        }
        Some(NamedRecord::Invalid(why)) => {
            ModelVerdict::refused(ModelAdmissionStatus::InvalidAdmission, why.clone())
        }
        Some(NamedRecord::Record(stored)) => {
            let own = [&**stored];
            match asked(request, lane, &own) {
                Err(verdict) => verdict,
                Ok((provider, model)) if !stored.record.is_of(provider, model) => {
                    let status = ModelAdmissionStatus::Mismatch;
                    let (asked, held) = (pair(provider, model), pair_of(stored));
                    ModelVerdict::refused(
                        status,
                        format!("{asked} is asked for, and the record is about {held}"),
                    )
                }
                Ok(_) => stands(&own, lane, moment),
            }
        }
        None => by_directory(records, request, lane, moment),
    }
}

fn by_directory<'a>(
    records: &'a Records,
    request: &'a ModelRequest,
    lane: Lane,
    moment: Moment,
) -> ModelVerdict<'a> {
    let all: Vec<&Stored<ModelAdmission>> = records.models.iter().collect();
    let (provider, model) = match asked(request, lane, &all) {
        Ok(pair) => pair,
        Err(verdict) => {
            let mut bad = records.bad.iter();
            let bad = bad.find(|bad| bad.kind == AdmissionKind::Model);
            return match bad.filter(|_| all.is_empty()) {
                // The one that was meant is there, and can't be used.
                Some(bad) => {
                    ModelVerdict::refused(ModelAdmissionStatus::InvalidAdmission, bad.why.clone())
                }
                None => verdict,
            };
        }
    };
    let own: Vec<_> = all
        .iter()
        .copied()
        .filter(|s| s.record.is_of(provider, model))
        .collect();
    if !own.is_empty() {
        return stands(&own, lane, moment);
    }
    let mut bad = records
        .bad
        .iter()
        .filter(|b| b.kind == AdmissionKind::Model);
    let about = |b: &&super::BadRecord| {
        b.pair
            .as_ref()
            .is_none_or(|(p, m)| p == provider && m == model)
    };
    if let Some(bad) = bad.find(about) {
        return ModelVerdict::refused(ModelAdmissionStatus::InvalidAdmission, bad.why.clone());
    }
    ModelVerdict::missing(format!(
        "no record admits {}{}",
        pair(provider, model),
        others(&all)
    ))
}

/// The pair that is asked for. Without one the only admitted pair is meant; not for `case`, whose program would choose one
/// by itself.
fn asked<'a>(
    request: &'a ModelRequest,
    lane: Lane,
    records: &[&'a Stored<ModelAdmission>],
) -> Result<(&'a str, &'a str), ModelVerdict<'static>> {
    let name = |variable: Option<String>| variable.unwrap_or_default();
    match (&request.provider, &request.model) {
        (Some(provider), Some(model)) => Ok((provider, model)),
        (None, None) => {
            let admitted: Vec<_> = records
                .iter()
                .filter(|s| s.record.status == AdmissionStatus::Admitted)
                .collect();
            match admitted.as_slice() {
                [only] if lane != Lane::Case => {
                    Ok((only.record.provider.as_str(), only.record.model.as_str()))
                }
                _ => Err(ModelVerdict::missing(format!(
                    "`{}` and `{}` ask for no pair{}",
                    name(lane.model_provider()),
                    name(lane.model()),
                    others(records)
                ))),
            }
        }
        (Some(_), None) => Err(ModelVerdict::missing(format!(
            "`{}` names no model beside the provider",
            name(lane.model())
        ))),
        (None, Some(_)) => Err(ModelVerdict::missing(format!(
            "`{}` names no provider beside the model",
            name(lane.model_provider())
        ))),
    }
}

/// Whether the records about one pair let it in.
fn stands<'a>(own: &[&'a Stored<ModelAdmission>], lane: Lane, moment: Moment) -> ModelVerdict<'a> {
    let is_refused = |s: &&Stored<ModelAdmission>| s.record.status == AdmissionStatus::NotAdmitted;
    if let Some(stored) = own.iter().copied().find(is_refused) {
        let why = format!("the record of {} says not_admitted", pair_of(stored));
        return ModelVerdict::not_admitted(why);
    }
    let mut first = None;
    for stored in own {
        let record = &stored.record;
        if record.provider.as_str() == SCRIPTED && moment.stage >= Stage::DISPOSABLE {
            let why = format!(
                "the scripted model proves nothing above stage 3, and this is stage {}",
                moment.stage
            );
            return ModelVerdict::not_admitted(why);
        }
        if lane == Lane::Case && record.provider.as_str() == BRIDGE {
            let why = "`openai` is what the bridge speaks, and never the admitted provider";
            return ModelVerdict::not_admitted(why.to_owned());
        }
        let standing = Standing::of(record.review_trigger.as_str(), stored.seal, moment);
        match standing.into_refusal() {
            None => {
                return ModelVerdict {
                    status: ModelAdmissionStatus::Admitted,
                    refusal: None,
                    used: Some(stored),
                };
            }
            Some(why) => first = first.or(Some(why)),
        }
    }
    ModelVerdict::not_admitted(first.unwrap_or_default())
}

fn pair(provider: &str, model: &str) -> String {
    format!(
        "{}/{}",
        text::shorten(provider, 64),
        text::shorten(model, 100)
    )
}

fn pair_of(stored: &Stored<ModelAdmission>) -> String {
    pair(
        stored.record.provider.as_str(),
        stored.record.model.as_str(),
    )
}

/// The pairs that are admitted, for whoever asked for another.
fn others(records: &[&Stored<ModelAdmission>]) -> String {
    let admitted = records
        .iter()
        .filter(|s| s.record.status == AdmissionStatus::Admitted);
    let mut pairs: Vec<String> = admitted.map(|s| pair_of(s)).collect();
    pairs.sort();
    pairs.dedup();
    let more = pairs.len().saturating_sub(PAIRS_SHOWN_MAX);
    pairs.truncate(PAIRS_SHOWN_MAX);
    match (pairs.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("; admitted: {}", pairs.join(", ")),
        (false, more) => format!("; admitted: {}, and {more} more", pairs.join(", ")),
    }
}
