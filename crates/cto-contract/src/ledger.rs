//! What the ledger holds: its kinds of record, and what each record says of itself.
//!
//! A new kind is one row of `records!` and one struct with a `header`. Nothing else has to know it: the store writes,
//! finds and checks every record by its header alone.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::approval::{
    AddendumAdded, DenialStatement, GrantConsumed, GrantStatement, OutcomeStatement, RequestId,
    RequestOpened, RequesterStatement,
};
use crate::authority::{AdmissionStatement, TrustStatement};
use crate::identity::Identity;
use crate::ids::{CaseId, Digest, Nonce, RunId};
use crate::landing::{LandingEnded, LandingIntended};
use crate::operator::{
    MaybeSigned, OperatorName, OperatorSignature, OperatorStatement, Signed, SlotClosed, SlotOpened,
};
use crate::time::Utc;
use crate::words::{Lane, RunStatus, Stage};

wire_const! {
    /// Schema tag of a ledger, in its genesis.
    pub struct LedgerSchema: &'static str = "cto.ledger/v1"
}

/// Whether text is printable ASCII without spaces: one line, and the same line to every reader.
fn is_plain(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

checked_string!(
    /// What a record is about: the id of a run, a request, an operator, …
    pub struct Subject, "subject of a ledger record", "^[!-~]{1,160}$", |t| is_plain(t, 160)
);
checked_string!(
    /// A key under which the ledger holds at most one record, ever.
    pub struct OnceKey, "once-key of a ledger record", "^[!-~]{1,200}$", |t| is_plain(t, 200)
);

macro_rules! subjects {
    ($($id:ty)+) => { $(
        impl From<&$id> for Subject {
            fn from(id: &$id) -> Self {
                Self(id.to_string())
            }
        }
    )+ };
}
subjects! { RunId OperatorName Digest RequestId }

impl Subject {
    /// What every signing slot is about.
    pub fn slot() -> Self {
        Self(SlotOpened::SUBJECT.to_owned())
    }
}

impl OnceKey {
    /// The key of records of which there is one for each subject: `<kind>:<subject>`.
    pub fn of(kind: RecordKind, subject: &Subject) -> Self {
        Self(format!("{kind}:{subject}"))
    }

    /// A key of ids and words of ours, which are plain and short.
    pub(crate) fn made(text: String) -> Self {
        debug_assert!(is_plain(&text, 200));
        Self(text)
    }
}

/// What the ledger has to know of a record besides its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub subject: Subject,
    /// Set when there may be only one such record.
    pub once: Option<OnceKey>,
    /// The once-key of a record that must be in the ledger before this one.
    pub after: Option<OnceKey>,
    /// When it happened, as the record says.
    pub at: Utc,
}

/// What the ledger takes: [`Record`], and the made-up kinds by which tests show that nothing else has to know a kind.
pub trait LedgerRecord: Serialize + DeserializeOwned {
    /// The word that the record's JSON has as `kind`.
    fn kind(&self) -> &'static str;
    /// What the columns beside the record say.
    fn header(&self) -> Header;
}

macro_rules! records {
    ($($(#[$meta:meta])* $variant:ident($data:ty) = $wire:literal,)+) => {
        wire_enum! {
            /// The kind of a record.
            pub enum RecordKind { $($(#[$meta])* $variant = $wire),+ }
        }

        /// A record of the ledger.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind")]
        pub enum Record { $($(#[$meta])* #[serde(rename = $wire)] $variant($data)),+ }

        impl RecordKind {
            /// Whether an operator signs such records.
            pub const fn is_signed(self) -> bool {
                match self { $(Self::$variant => <$data as MaybeSigned>::IS_SIGNED),+ }
            }
        }

        impl Record {
            /// The operator's signature, if such a record has one.
            pub fn signature(&self) -> Option<&OperatorSignature> {
                match self { $(Self::$variant(data) => MaybeSigned::signature(data)),+ }
            }
        }

        impl LedgerRecord for Record {
            fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $wire),+ }
            }
            fn header(&self) -> Header {
                match self { $(Self::$variant(data) => data.header()),+ }
            }
        }
    };
}

records! {
    /// The first record, and only that.
    Genesis(Genesis) = "genesis",
    /// A run got its id.
    RunCreated(RunCreated) = "run.created",
    /// A run's pack was sealed.
    RunSealed(Seal) = "run.sealed",
    /// A run that the ledger had lost was entered again, on the evidence of its pack.
    RunTakenUp(RunTakenUp) = "run.taken_up",
    /// Entries at the end of a ledger were found to be lost.
    LedgerLost(LedgerLost) = "ledger.lost",
    /// A key began or ceased to count as an operator's.
    OperatorChanged(Signed<OperatorStatement>) = "operator.changed",
    /// A source, a binary, a model, a decision or a target was let in, or no longer is.
    AdmissionChanged(Signed<AdmissionStatement>) = "admission.changed",
    /// A harness key began or ceased to count.
    TrustChanged(Signed<TrustStatement>) = "trust.changed",
    /// A run was asked for that needs an operator's approval.
    RequestOpened(RequestOpened) = "request.opened",
    /// An operator said that it was he who asked.
    RequestSigned(Signed<RequesterStatement>) = "request.signed",
    /// An operator allowed one run.
    RequestGranted(Signed<GrantStatement>) = "request.granted",
    /// An operator said no.
    RequestDenied(Signed<DenialStatement>) = "request.denied",
    /// A run used a grant up.
    GrantConsumed(GrantConsumed) = "grant.consumed",
    /// An operator said what becomes of a run.
    OutcomeRecorded(Signed<OutcomeStatement>) = "outcome.recorded",
    /// A signed record was put beside a pack.
    AddendumAdded(AddendumAdded) = "addendum.added",
    /// A commit is about to be put on a branch, or taken back from one.
    LandingIntended(LandingIntended) = "landing.intended",
    /// That is over, whatever came of it.
    LandingEnded(LandingEnded) = "landing.ended",
    /// A validator ran.
    ConformanceRecorded(ConformanceRecorded) = "conformance.recorded",
    /// A run passed at a stage with an identity that had not passed there, under records that it had not passed under.
    StagePassed(StagePassed) = "stage.passed",
    /// A validator made the home, to be thrown away.
    ValidationHome(ValidationHome) = "validation.home",
    /// Somebody is asked for a signature.
    SlotOpened(SlotOpened) = "slot.opened",
    /// The signature was given, or not.
    SlotClosed(SlotClosed) = "slot.closed",
}

macro_rules! unsigned {
    ($($data:ty)+) => { $(impl MaybeSigned for $data {})+ };
}
unsigned! { Genesis RunCreated Seal RunTakenUp LedgerLost ConformanceRecorded StagePassed ValidationHome }

/// How a ledger begins. Its digest is the id of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    pub schema: LedgerSchema,
    pub at: Utc,
    /// Makes two ledgers different that begin at the same time.
    pub random: Nonce,
}

impl Genesis {
    fn header(&self) -> Header {
        let subject = Subject("ledger".to_owned());
        Header {
            once: Some(OnceKey::of(RecordKind::Genesis, &subject)),
            after: None,
            at: self.at,
            subject,
        }
    }
}

/// A run that got its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCreated {
    pub run_id: RunId,
    pub case_id: CaseId,
    pub backend: Lane,
    pub stage: Stage,
    pub started_at: Utc,
    pub title: String,
    pub conformance: bool,
    /// It is the ruler of another run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fake_baseline: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}

impl RunCreated {
    /// The key of the creation of a run.
    pub fn key(run_id: &RunId) -> OnceKey {
        OnceKey::of(RecordKind::RunCreated, &run_id.into())
    }

    fn header(&self) -> Header {
        Header {
            subject: (&self.run_id).into(),
            once: Some(Self::key(&self.run_id)),
            after: None,
            at: self.started_at,
        }
    }
}

/// The end of a run: which pack it left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    pub run_id: RunId,
    pub at: Utc,
    pub status: RunStatus,
    pub pack_digest: Digest,
}

impl Seal {
    /// The key of the seal of a run.
    pub fn key(run_id: &RunId) -> OnceKey {
        OnceKey::of(RecordKind::RunSealed, &run_id.into())
    }

    fn header(&self) -> Header {
        Header {
            subject: (&self.run_id).into(),
            once: Some(Self::key(&self.run_id)),
            after: Some(RunCreated::key(&self.run_id)),
            at: self.at,
        }
    }
}

/// A run that was entered again: its pack verifies, and a key of this home sealed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunTakenUp {
    pub run_id: RunId,
    /// When it was entered again.
    pub at: Utc,
    pub pack_digest: Digest,
    pub keyid: Digest,
}

impl RunTakenUp {
    fn header(&self) -> Header {
        let subject = Subject::from(&self.run_id);
        Header {
            once: Some(OnceKey::of(RecordKind::RunTakenUp, &subject)),
            after: Some(Seal::key(&self.run_id)),
            at: self.at,
            subject,
        }
    }
}

/// How far a ledger had come, of which the end is lost. What its lost entries said is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerLost {
    /// When it was seen.
    pub at: Utc,
    /// The id of the ledger that was lost: this one or one before it.
    pub ledger: Digest,
    pub seq: u64,
    pub digest: Digest,
}

impl LedgerLost {
    fn header(&self) -> Header {
        Header {
            subject: Subject("ledger".to_owned()),
            once: None,
            after: None,
            at: self.at,
        }
    }
}

/// What a validator came to, and the file that says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConformanceRecorded {
    pub lane: Lane,
    pub stage: Stage,
    pub adapter_revision: u32,
    pub harness_version: String,
    pub ok: bool,
    /// With the installed program; without it with the lane's double.
    pub real: bool,
    /// Its output, as a path below home.
    pub report: String,
    pub report_digest: Digest,
    pub at: Utc,
}

impl ConformanceRecorded {
    fn header(&self) -> Header {
        Header {
            subject: Subject(self.lane.to_string()),
            once: None,
            after: None,
            at: self.at,
        }
    }
}

/// A pass that the ladder may rest on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StagePassed {
    pub run_id: RunId,
    pub stage: Stage,
    pub identity: Identity,
    /// The record that admitted its model; none for a lane without one.
    pub model_admission: Option<Digest>,
    pub conformance: bool,
    pub dirty_source: bool,
    pub pack_digest: Digest,
    pub at: Utc,
}

impl StagePassed {
    fn header(&self) -> Header {
        let subject = Subject::from(&self.run_id);
        Header {
            once: Some(OnceKey::of(RecordKind::StagePassed, &subject)),
            after: Some(Seal::key(&self.run_id)),
            at: self.at,
            subject,
        }
    }
}

/// The mark of a home that a validator made. It comes right after the genesis, or it says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidationHome {
    pub at: Utc,
}

impl ValidationHome {
    /// Where the mark stands.
    pub const SEQ: u64 = 2;

    /// The key of the mark.
    pub fn key() -> OnceKey {
        OnceKey::of(RecordKind::ValidationHome, &Self::subject())
    }

    fn subject() -> Subject {
        Subject("home".to_owned())
    }

    fn header(&self) -> Header {
        Header {
            subject: Self::subject(),
            once: Some(Self::key()),
            after: None,
            at: self.at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_kind_leaves_room_for_the_longest_subject() {
        let longest: Subject = "x".repeat(160).parse().unwrap();
        for kind in RecordKind::ALL {
            let key = OnceKey::of(*kind, &longest);
            assert_eq!(key.as_str().parse(), Ok(key));
        }
    }

    #[test]
    fn what_a_person_decides_is_signed_and_what_the_harness_notes_is_not() {
        let signed: Vec<&str> = RecordKind::ALL
            .iter()
            .filter(|kind| kind.is_signed())
            .map(|kind| kind.as_str())
            .collect();
        assert_eq!(
            signed,
            [
                "operator.changed",
                "admission.changed",
                "trust.changed",
                "request.signed",
                "request.granted",
                "request.denied",
                "outcome.recorded"
            ]
        );
    }

    #[test]
    fn a_record_with_a_field_too_many_is_not_read() {
        let line = r#"{"kind":"run.sealed","run_id":"20260601T105222Z-a-aaaaaa","at":"2026-06-01T10:52:22Z","status":"pass","pack_digest":"0101010101010101010101010101010101010101010101010101010101010101"}"#;
        assert!(serde_json::from_str::<Record>(line).is_ok());
        let more = line.replacen('{', r#"{"more":1,"#, 1);
        assert!(serde_json::from_str::<Record>(&more).is_err());
    }

    proptest! {
        #[test]
        fn subjects_and_keys_are_one_line_without_spaces(
            text in prop_oneof![any::<String>(), "[!-~]{0,220}", "[ -~\n]{0,20}"],
        ) {
            let plain = !text.is_empty() && text.chars().all(|c| ('!'..='~').contains(&c));
            prop_assert_eq!(text.parse::<Subject>().is_ok(), plain && text.len() <= 160);
            prop_assert_eq!(text.parse::<OnceKey>().is_ok(), plain && text.len() <= 200);
        }
    }
}
