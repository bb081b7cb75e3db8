//! The ledger: how records are chained, and what an entry must show to be read.
//!
//! A record is one line of RFC 8785 JSON, whatever its kind. Beside it stand columns that repeat what the record says of
//! itself. The digest of an entry is the lower-case hex SHA-256 of seven lines, each with its line feed:
//!
//! ```text
//! <seq> <prev> <kind> <subject> <once> <at> <record>
//! ```
//!
//! `<prev>` is the digest of the entry before (64 zeros for the first) and `<once>` is empty where there is none, so that
//! `printf '%s\n' "$seq" "$prev" "$kind" "$subject" "$once" "$at" "$record" | sha256sum` gives it too. No line can hold
//! a line feed of its own. `seq` counts from 1 without gaps. The first record is the genesis; it holds 32 random bytes,
//! and its digest is the id of the ledger.
//!
//! A chain shows changes within it. That its end was cut off, or that all of it was made anew, only a checkpoint kept
//! elsewhere can show: compare [`crate::LedgerCheck::head`] with it.

use cto_contract::ids::{Digest, Nonce};
use cto_contract::ledger::{
    Genesis, Header, LedgerRecord, LedgerSchema, OnceKey, Record, RecordKind, Subject,
};
use cto_contract::time::Utc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::walk::BreakReason;

/// `prev` of the first record.
pub(crate) const NOTHING_BEFORE: &str =
    "0000000000000000000000000000000000000000000000000000000000000000";

/// What a new ledger begins with; not used when there is one already.
#[derive(Debug, Clone, Copy)]
pub struct LedgerInit {
    /// Makes two ledgers different that begin at the same time.
    pub random: [u8; 32],
    pub at: Utc,
}

impl LedgerInit {
    pub(crate) fn genesis(&self) -> Record {
        Record::Genesis(Genesis {
            schema: LedgerSchema,
            at: self.at,
            random: Nonce::from_bytes(&self.random),
        })
    }
}

/// Where an entry stands. That of the last one is what a checkpoint signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerHead {
    pub seq: u64,
    pub digest: Digest,
}

/// Where a record stands, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// It was appended now.
    New(LedgerHead),
    /// The same record was there already.
    Earlier(LedgerHead),
}

impl Appended {
    /// Where it stands.
    pub fn place(self) -> LedgerHead {
        match self {
            Self::New(place) | Self::Earlier(place) => place,
        }
    }
}

/// A record that the ledger holds, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<R> {
    pub place: LedgerHead,
    pub record: R,
}

/// A row of the ledger as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) seq: i64,
    pub(crate) prev: String,
    pub(crate) digest: String,
    pub(crate) kind: String,
    pub(crate) subject: String,
    pub(crate) once: Option<String>,
    pub(crate) at: String,
    pub(crate) record: String,
}

/// The one spelling of a record.
pub(crate) fn canonical(record: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json_canonicalizer::to_string(record)
}

impl Entry {
    /// Makes the entry that follows `head`.
    pub(crate) fn next(
        head: Option<(i64, String)>,
        record: &impl LedgerRecord,
    ) -> Result<Self, serde_json::Error> {
        let (seq, prev) = head.map_or_else(
            || (1, NOTHING_BEFORE.to_owned()),
            |(seq, digest)| (seq + 1, digest),
        );
        let Header {
            subject,
            once,
            after: _,
            at,
        } = record.header();
        let mut entry = Self {
            seq,
            prev,
            digest: String::new(),
            kind: record.kind().to_owned(),
            subject: subject.to_string(),
            once: once.map(|key| key.to_string()),
            at: at.to_string(),
            record: canonical(record)?,
        };
        entry.digest = entry.sum().to_string();
        Ok(entry)
    }

    /// What its digest has to be.
    pub(crate) fn sum(&self) -> Digest {
        let mut hash = Sha256::new();
        for line in [
            &self.seq.to_string(),
            &self.prev,
            &self.kind,
            &self.subject,
            self.once.as_deref().unwrap_or_default(),
            &self.at,
            &self.record,
        ] {
            hash.update(line);
            hash.update("\n");
        }
        Digest::from_bytes(&hash.finalize().into())
    }

    /// Reads the record, which has to say of itself what the columns say, in the one spelling there is.
    pub(crate) fn read<R: LedgerRecord>(&self) -> Result<R, BreakReason> {
        self.check_digest()?;
        let record: R = serde_json::from_str(&self.record).map_err(|_| BreakReason::Record)?;
        if canonical(&record).ok().as_ref() != Some(&self.record) {
            return Err(BreakReason::Record);
        }
        let Header {
            subject,
            once,
            after: _,
            at,
        } = record.header();
        let said = (
            record.kind(),
            subject.as_str(),
            once.as_ref().map(OnceKey::as_str),
            at.to_string(),
        );
        if said
            == (
                self.kind.as_str(),
                self.subject.as_str(),
                self.once.as_deref(),
                self.at.clone(),
            )
        {
            Ok(record)
        } else {
            Err(BreakReason::Columns)
        }
    }

    /// Checks what can be checked of a kind that a newer `cto` wrote.
    pub(crate) fn check_unknown(&self) -> Result<(), BreakReason> {
        self.check_digest()?;
        let value: serde_json::Value =
            serde_json::from_str(&self.record).map_err(|_| BreakReason::Record)?;
        // Only one spelling: a line with a name twice would read differently to different readers.
        if canonical(&value).ok().as_ref() != Some(&self.record) {
            return Err(BreakReason::Record);
        }
        let once = self.once.as_deref().map(str::parse::<OnceKey>);
        let at: Result<Utc, _> = self.at.parse();
        let holds = value.get("kind").and_then(serde_json::Value::as_str) == Some(&self.kind)
            && self.subject.parse::<Subject>().is_ok()
            && once.is_none_or(|key| key.is_ok())
            && at.is_ok_and(|at| at.to_string() == self.at);
        if holds {
            Ok(())
        } else {
            Err(BreakReason::Columns)
        }
    }

    fn check_digest(&self) -> Result<(), BreakReason> {
        if self.sum().as_str() == self.digest {
            Ok(())
        } else {
            Err(BreakReason::Digest)
        }
    }
}

/// One entry, for people and programs that look through the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerEntry {
    pub seq: u64,
    pub prev: Digest,
    pub digest: Digest,
    /// A newer `cto` may know more kinds.
    pub kind: String,
    pub subject: Subject,
    pub once: Option<OnceKey>,
    pub at: Utc,
    pub record: serde_json::Value,
}

/// Which part of the ledger, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerPage {
    /// Only entries of this kind; absent means any.
    pub kind: Option<RecordKind>,
    /// Entries with a greater number only; 0 for the beginning.
    pub after: u64,
    /// At least 1 and at most [`crate::PAGE_ROWS_MAX`] are given.
    pub limit: u32,
}

/// One page of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerListing {
    pub entries: Vec<LedgerEntry>,
    /// The `after` of the next page; null at the end.
    pub next: Option<u64>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use cto_contract::ids::{RunId, to_hex};
    use cto_contract::ledger::{RunCreated, Seal};
    use cto_contract::words::{Lane, RunStatus, Stage};

    /// A chain of a genesis and so many runs.
    pub(crate) fn sample(runs: usize) -> Vec<Entry> {
        let at: Utc = "2026-06-01T10:52:22.5Z".parse().unwrap();
        let init = LedgerInit {
            random: [7; 32],
            at,
        };
        let mut records = vec![init.genesis()];
        for n in 0..runs {
            let run_id: RunId = format!("20260601T105222Z-a-{n:06}").parse().unwrap();
            records.push(Record::RunCreated(RunCreated {
                run_id: run_id.clone(),
                case_id: "a".parse().unwrap(),
                backend: Lane::Fake,
                stage: Stage::FIXTURE,
                started_at: at,
                title: "Tïtle \u{1b}[31m".to_owned(),
                conformance: false,
                fake_baseline: false,
            }));
            records.push(Record::RunSealed(Seal {
                run_id,
                at,
                status: RunStatus::Pass,
                pack_digest: Digest::from_bytes(&[1; 32]),
            }));
        }
        let mut head = None;
        let mut entries = Vec::new();
        for record in records {
            let entry = Entry::next(head, &record).unwrap();
            head = Some((entry.seq, entry.digest.clone()));
            entries.push(entry);
        }
        entries
    }

    #[test]
    fn records_and_their_columns_are_frozen() {
        let shown: Vec<_> = sample(1)
            .into_iter()
            .map(|entry| {
                [
                    entry.kind,
                    entry.subject,
                    entry.once.unwrap_or_default(),
                    entry.at,
                    entry.record,
                ]
                .join(" ")
            })
            .collect();
        assert_eq!(
            shown,
            [
                r#"genesis ledger genesis:ledger 2026-06-01T10:52:22.500000Z {"at":"2026-06-01T10:52:22.500000Z","kind":"genesis","random":"0707070707070707070707070707070707070707070707070707070707070707","schema":"cto.ledger/v1"}"#,
                r#"run.created 20260601T105222Z-a-000000 run.created:20260601T105222Z-a-000000 2026-06-01T10:52:22.500000Z {"backend":"fake","case_id":"a","conformance":false,"kind":"run.created","run_id":"20260601T105222Z-a-000000","stage":2,"started_at":"2026-06-01T10:52:22.500000Z","title":"Tïtle \u001b[31m"}"#,
                r#"run.sealed 20260601T105222Z-a-000000 run.sealed:20260601T105222Z-a-000000 2026-06-01T10:52:22.500000Z {"at":"2026-06-01T10:52:22.500000Z","kind":"run.sealed","pack_digest":"0101010101010101010101010101010101010101010101010101010101010101","run_id":"20260601T105222Z-a-000000","status":"pass"}"#,
            ]
        );
    }

    #[test]
    fn a_digest_is_that_of_seven_lines() {
        let [genesis, created, _] = sample(1).try_into().unwrap();
        let by_hand = Sha256::digest(format!(
            "2\n{}\nrun.created\n{}\nrun.created:{}\n{}\n{}\n",
            genesis.digest, created.subject, created.subject, created.at, created.record
        ));
        assert_eq!(created.digest, to_hex(&by_hand));
        assert_eq!(genesis.prev, "0".repeat(64));
    }

    #[test]
    fn entries_read_back() {
        for entry in sample(2) {
            let record: Record = entry.read().unwrap();
            assert_eq!(record.kind(), entry.kind);
        }
    }
}
