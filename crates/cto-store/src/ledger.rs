//! The ledger: what a record is, how records are chained, and how the chain is checked.
//!
//! A record is one line of RFC 8785 JSON with at least `kind` and `seq`, and `run_id` when it is about a run.
//! Its digest is the lower-case hex SHA-256 of
//!
//! ```text
//! <prev> LF <record> LF
//! ```
//!
//! where `<prev>` is the digest of the record before (64 zeros for the first), so that
//! `printf '%s\n%s\n' "$prev" "$record" | sha256sum` gives it too. `seq` counts from 1 without gaps. The first record
//! is the genesis; it holds 32 random bytes, and its digest is the id of the ledger. The columns `kind` and `run_id`
//! repeat what the record says and must agree with it.
//!
//! A chain shows changes within it. That its end was cut off, or that all of it was made anew, only a checkpoint kept
//! elsewhere can show: compare [`crate::LedgerCheck::head`] with it.

use cto_contract::ids::{CaseId, Digest, RunId, to_hex};
use cto_contract::text;
use cto_contract::time::Utc;
use cto_contract::wire_const;
use cto_contract::words::{Lane, RunStatus, Stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::run::{RunCreated, TITLE_CHARS_MAX};

/// `prev` of the first record.
pub(crate) const NOTHING_BEFORE: &str =
    "0000000000000000000000000000000000000000000000000000000000000000";

wire_const! {
    /// Schema tag of a ledger, in its genesis.
    pub struct LedgerSchema: &'static str = "cto.ledger/v1"
}

/// What a new ledger begins with; not used when there is one already.
#[derive(Debug, Clone, Copy)]
pub struct LedgerInit {
    /// Makes two ledgers different that begin at the same time.
    pub random: [u8; 32],
    pub at: Utc,
}

/// The facts of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub(crate) enum Record {
    #[serde(rename = "genesis")]
    Genesis {
        schema: LedgerSchema,
        at: Utc,
        random: String,
    },
    #[serde(rename = "run.created")]
    Created {
        run_id: RunId,
        case_id: CaseId,
        backend: Lane,
        stage: Stage,
        at: Utc,
        title: String,
        conformance: bool,
    },
    #[serde(rename = "run.sealed")]
    Sealed {
        run_id: RunId,
        at: Utc,
        status: RunStatus,
        pack_digest: Digest,
    },
}

impl Record {
    pub(crate) fn genesis(init: &LedgerInit) -> Self {
        Self::Genesis {
            schema: LedgerSchema,
            at: init.at,
            random: to_hex(&init.random),
        }
    }

    pub(crate) fn created(run: &RunCreated) -> Self {
        Self::Created {
            run_id: run.run_id.clone(),
            case_id: run.case_id.clone(),
            backend: run.backend,
            stage: run.stage,
            at: run.started_at,
            title: text::shorten(&run.title, TITLE_CHARS_MAX),
            conformance: run.conformance,
        }
    }

    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Genesis { .. } => "genesis",
            Self::Created { .. } => "run.created",
            Self::Sealed { .. } => "run.sealed",
        }
    }

    pub(crate) const fn run_id(&self) -> Option<&RunId> {
        match self {
            Self::Genesis { .. } => None,
            Self::Created { run_id, .. } | Self::Sealed { run_id, .. } => Some(run_id),
        }
    }

    /// Whether entering `self` again changes nothing. A title may differ, for it decides nothing.
    pub(crate) fn repeats(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (
                Self::Created {
                    run_id,
                    case_id,
                    backend,
                    stage,
                    at,
                    conformance,
                    title: _,
                },
                Self::Created {
                    run_id: r,
                    case_id: c,
                    backend: b,
                    stage: s,
                    at: a,
                    conformance: f,
                    title: _,
                },
            ) => (run_id, case_id, backend, stage, at, conformance) == (r, c, b, s, a, f),
            (
                Self::Sealed {
                    run_id,
                    status,
                    pack_digest,
                    at: _,
                },
                Self::Sealed {
                    run_id: r,
                    status: s,
                    pack_digest: p,
                    at: _,
                },
            ) => (run_id, status, pack_digest) == (r, s, p),
            (Self::Genesis { .. } | Self::Created { .. } | Self::Sealed { .. }, _) => false,
        }
    }

    /// Reads the line of a record of a known kind.
    pub(crate) fn read(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }
}

/// A row of the ledger as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) seq: i64,
    pub(crate) prev: String,
    pub(crate) digest: String,
    pub(crate) kind: String,
    pub(crate) run_id: Option<String>,
    pub(crate) record: String,
}

/// The end of the ledger: what a checkpoint signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerHead {
    pub seq: u64,
    pub digest: Digest,
}

/// Makes the entry that follows `head`.
pub(crate) fn next_entry(
    head: Option<(i64, String)>,
    record: &Record,
) -> Result<Entry, serde_json::Error> {
    #[derive(Serialize)]
    struct Line<'a> {
        seq: i64,
        #[serde(flatten)]
        record: &'a Record,
    }
    let (seq, prev) = head.map_or_else(
        || (1, NOTHING_BEFORE.to_owned()),
        |(seq, digest)| (seq + 1, digest),
    );
    let line = serde_json_canonicalizer::to_string(&Line { seq, record })?;
    Ok(Entry {
        seq,
        digest: chain(&prev, &line).to_string(),
        prev,
        kind: record.kind().to_owned(),
        run_id: record.run_id().map(ToString::to_string),
        record: line,
    })
}

pub(crate) fn chain(prev: &str, line: &str) -> Digest {
    let mut hash = Sha256::new();
    for part in [prev, "\n", line, "\n"] {
        hash.update(part);
    }
    Digest::from_bytes(&hash.finalize().into())
}

/// One record, for people and programs that look through the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerEntry {
    pub seq: u64,
    pub prev: Digest,
    pub digest: Digest,
    pub kind: String,
    pub run_id: Option<RunId>,
    pub record: serde_json::Value,
}

/// Which part of the ledger, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerPage {
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

    /// A chain of a genesis and so many runs.
    pub(crate) fn sample(runs: usize) -> Vec<Entry> {
        let at: Utc = "2026-06-01T10:52:22.5Z".parse().unwrap();
        let mut records = vec![Record::genesis(&LedgerInit {
            random: [7; 32],
            at,
        })];
        for n in 0..runs {
            let run_id: RunId = format!("20260601T105222Z-a-{n:06}").parse().unwrap();
            records.push(Record::created(&RunCreated {
                run_id: run_id.clone(),
                case_id: "a".parse().unwrap(),
                backend: Lane::Fake,
                stage: Stage::FIXTURE,
                started_at: at,
                title: "Tïtle \u{1b}[31m".to_owned(),
                conformance: false,
            }));
            records.push(Record::Sealed {
                run_id,
                at,
                status: RunStatus::Pass,
                pack_digest: Digest::from_bytes(&[1; 32]),
            });
        }
        let mut head = None;
        let mut entries = Vec::new();
        for record in records {
            let entry = next_entry(head, &record).unwrap();
            head = Some((entry.seq, entry.digest.clone()));
            entries.push(entry);
        }
        entries
    }

    #[test]
    fn a_record_and_its_digest_are_frozen() {
        let genesis = &sample(1)[0];
        assert_eq!(
            genesis.record,
            r#"{"at":"2026-06-01T10:52:22.500000Z","kind":"genesis","random":"0707070707070707070707070707070707070707070707070707070707070707","schema":"cto.ledger/v1","seq":1}"#
        );
        assert_eq!(
            sample(1)[1].record,
            r#"{"at":"2026-06-01T10:52:22.500000Z","backend":"fake","case_id":"a","conformance":false,"kind":"run.created","run_id":"20260601T105222Z-a-000000","seq":2,"stage":2,"title":"Tïtle \\u{1b}[31m"}"#
        );
        assert_eq!(
            sample(1)[2].record,
            r#"{"at":"2026-06-01T10:52:22.500000Z","kind":"run.sealed","pack_digest":"0101010101010101010101010101010101010101010101010101010101010101","run_id":"20260601T105222Z-a-000000","seq":3,"status":"pass"}"#
        );
        let by_hand = Sha256::digest(format!("{}\n{}\n", "0".repeat(64), genesis.record));
        assert_eq!(genesis.digest, to_hex(&by_hand));
    }

    #[test]
    fn records_read_back() {
        for entry in sample(1) {
            let record = Record::read(&entry.record).unwrap();
            assert_eq!(record.kind(), entry.kind);
            assert_eq!(record.repeats(&record), entry.kind != "genesis");
        }
    }
}
