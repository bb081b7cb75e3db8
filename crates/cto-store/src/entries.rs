//! Entries of the ledger, to and from the database. Every kind goes the same way.

use std::path::Path;

use cto_contract::ids::{BadId, Digest};
use cto_contract::ledger::{LedgerRecord, OnceKey, RecordKind, Subject};
use cto_contract::time::BadTime;
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::database::Database;
use crate::error::{BoxError, StoreError, at};
use crate::ledger::{Appended, Entry, Found, LedgerEntry, LedgerHead, LedgerListing, LedgerPage};
use crate::query::Page;
use crate::sql;
use crate::walk::{BreakReason, LedgerCheck, Walk};

/// Entries read at once by a walk over the ledger.
const WALK_ROWS: i64 = 500;

/// Appends a record, unless it is there already. Must run inside a write transaction.
pub(crate) async fn append<R: LedgerRecord>(
    tx: &mut SqliteConnection,
    path: &Path,
    record: &R,
) -> Result<Appended, StoreError> {
    let head: Option<(i64, String)> = sqlx::query_as(sql::LEDGER_HEAD)
        .fetch_optional(&mut *tx)
        .await
        .map_err(at(path))?;
    let seq = head.as_ref().map_or(1, |(seq, _)| seq + 1);
    let entry = Entry::next(head, record).map_err(|e| bad_record(path, seq, e))?;
    // What does not read back must not get in: nothing could ever take it out again.
    entry.read::<R>().map_err(|reason| StoreError::Malformed {
        kind: record.kind(),
        reason,
    })?;

    let header = record.header();
    if let Some(once) = header.once
        && let Some(earlier) = by_once(tx, path, &once).await?
    {
        if (&earlier.kind, &earlier.record) != (&entry.kind, &entry.record) {
            return Err(StoreError::Conflict {
                once,
                seq: earlier.seq,
            });
        }
        return place_of(path, &earlier).map(Appended::Earlier);
    }
    if let Some(after) = header.after
        && by_once(tx, path, &after).await?.is_none()
    {
        return Err(StoreError::TooEarly {
            kind: record.kind(),
            subject: header.subject,
            after,
        });
    }

    let place = place_of(path, &entry)?;
    sqlx::query(sql::LEDGER_APPEND)
        .bind(entry.seq)
        .bind(entry.prev)
        .bind(entry.digest)
        .bind(entry.kind)
        .bind(entry.subject)
        .bind(entry.once)
        .bind(entry.at)
        .bind(entry.record)
        .execute(tx)
        .await
        .map_err(at(path))?;
    Ok(Appended::New(place))
}

async fn by_once(
    conn: &mut SqliteConnection,
    path: &Path,
    once: &OnceKey,
) -> Result<Option<Entry>, StoreError> {
    let row = sqlx::query(sql::LEDGER_ONCE)
        .bind(once.as_str())
        .fetch_optional(conn)
        .await
        .map_err(at(path))?;
    row.map(|row| read_entry(&row))
        .transpose()
        .map_err(at(path))
}

/// Finds the record with this key.
pub(crate) async fn find<R: LedgerRecord>(
    conn: &mut SqliteConnection,
    path: &Path,
    once: &OnceKey,
) -> Result<Option<Found<R>>, StoreError> {
    let entry = by_once(conn, path, once).await?;
    entry.map(|entry| found(path, &entry)).transpose()
}

/// Finds the newest record of this kind about this subject.
pub(crate) async fn last<R: LedgerRecord>(
    conn: &mut SqliteConnection,
    path: &Path,
    kind: &str,
    subject: &Subject,
) -> Result<Option<Found<R>>, StoreError> {
    let row = sqlx::query(sql::LEDGER_LAST)
        .bind(subject.as_str())
        .bind(kind)
        .fetch_optional(conn)
        .await
        .map_err(at(path))?;
    let entry = row.map(|row| read_entry(&row)).transpose();
    let entry = entry.map_err(at(path))?;
    entry.map(|entry| found(path, &entry)).transpose()
}

/// All records of these kinds, in their order. For kinds of which there are few: what people decide.
pub(crate) async fn of_kinds<R: LedgerRecord>(
    conn: &mut SqliteConnection,
    path: &Path,
    kinds: &[RecordKind],
) -> Result<Vec<Found<R>>, StoreError> {
    let mut all = Vec::new();
    for kind in kinds {
        let mut after = 0;
        loop {
            let rows = sqlx::query(sql::LEDGER_PAGE_OF_KIND)
                .bind(after)
                .bind(WALK_ROWS)
                .bind(kind.as_str())
                .fetch_all(&mut *conn)
                .await
                .map_err(at(path))?;
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                let entry = read_entry(row).map_err(at(path))?;
                after = entry.seq;
                all.push(found(path, &entry)?);
            }
        }
    }
    all.sort_by_key(|found| found.place.seq);
    Ok(all)
}

/// Where the entry with this number stands; none where there is none.
pub(crate) async fn entry_at(
    conn: &mut SqliteConnection,
    path: &Path,
    seq: u64,
) -> Result<Option<LedgerHead>, StoreError> {
    let before = i64::try_from(seq).unwrap_or(i64::MAX).saturating_sub(1);
    let row = sqlx::query(sql::LEDGER_PAGE)
        .bind(before)
        .bind(1_i64)
        .fetch_optional(conn)
        .await
        .map_err(at(path))?;
    let entry = row.map(|row| read_entry(&row)).transpose();
    let entry = entry.map_err(at(path))?;
    let place = entry.map(|entry| place_of(path, &entry)).transpose()?;
    Ok(place.filter(|place| place.seq == seq))
}

pub(crate) async fn ledger_id(
    conn: &mut SqliteConnection,
    path: &Path,
) -> Result<Digest, StoreError> {
    let digest: Option<String> = sqlx::query_scalar(sql::LEDGER_GENESIS)
        .fetch_optional(conn)
        .await
        .map_err(at(path))?;
    let digest = digest.ok_or_else(|| bad_record(path, 1, "the ledger has no genesis"))?;
    digest.parse().map_err(|e: BadId| bad_record(path, 1, e))
}

pub(crate) async fn head(
    conn: &mut SqliteConnection,
    path: &Path,
) -> Result<LedgerHead, StoreError> {
    let head: Option<(i64, String)> = sqlx::query_as(sql::LEDGER_HEAD)
        .fetch_optional(conn)
        .await
        .map_err(at(path))?;
    let (seq, digest) = head.ok_or_else(|| bad_record(path, 1, "the ledger has no genesis"))?;
    place(path, seq, &digest)
}

impl Database {
    pub(crate) async fn ledger_id(&mut self) -> Result<Digest, StoreError> {
        ledger_id(&mut self.conn, &self.path).await
    }

    pub(crate) async fn ledger_entries(
        &mut self,
        page: LedgerPage,
    ) -> Result<LedgerListing, StoreError> {
        let wanted = Page::rows(page.limit);
        let after = i64::try_from(page.after).unwrap_or(i64::MAX);
        let one_more = i64::try_from(wanted + 1).unwrap_or(i64::MAX);
        let statement = match page.kind {
            None => sqlx::query(sql::LEDGER_PAGE).bind(after).bind(one_more),
            Some(kind) => sqlx::query(sql::LEDGER_PAGE_OF_KIND)
                .bind(after)
                .bind(one_more)
                .bind(kind.as_str()),
        };
        let rows = statement
            .fetch_all(&mut self.conn)
            .await
            .map_err(at(&self.path))?;
        let mut entries = Vec::with_capacity(rows.len().min(wanted));
        for row in rows.iter().take(wanted) {
            let entry = read_entry(row).map_err(at(&self.path))?;
            entries.push(show_entry(&self.path, entry)?);
        }
        let next = entries
            .last()
            .filter(|_| rows.len() > wanted)
            .map(|entry| entry.seq);
        Ok(LedgerListing { entries, next })
    }

    /// Walks the whole chain, a page at a time: append-only rows need no snapshot.
    pub(crate) async fn verify_ledger(&mut self) -> Result<LedgerCheck, StoreError> {
        let mut walk = Walk::new();
        // Numbers below 1 are breaks too, so the walk begins before them.
        let mut after = i64::MIN;
        loop {
            let rows = sqlx::query(sql::LEDGER_PAGE)
                .bind(after)
                .bind(WALK_ROWS)
                .fetch_all(&mut self.conn)
                .await
                .map_err(at(&self.path))?;
            if rows.is_empty() {
                return Ok(walk.finish(None));
            }
            for row in &rows {
                let step = read_entry(row)
                    .map_err(|_| BreakReason::Record)
                    .and_then(|entry| {
                        after = entry.seq;
                        walk.step(&entry)
                    });
                if let Err(reason) = step {
                    return Ok(walk.finish(Some(reason)));
                }
            }
        }
    }
}

fn read_entry(row: &SqliteRow) -> Result<Entry, sqlx::Error> {
    Ok(Entry {
        seq: row.try_get("seq")?,
        prev: row.try_get("prev")?,
        digest: row.try_get("digest")?,
        kind: row.try_get("kind")?,
        subject: row.try_get("subject")?,
        once: row.try_get("once")?,
        at: row.try_get("at")?,
        record: row.try_get("record")?,
    })
}

/// Reads an entry that holds in itself; whether the whole chain holds is for a walk to say.
fn found<R: LedgerRecord>(path: &Path, entry: &Entry) -> Result<Found<R>, StoreError> {
    let bad = |reason| bad_record(path, entry.seq, format!("it does not hold: {reason}"));
    Ok(Found {
        place: place_of(path, entry)?,
        record: entry.read().map_err(bad)?,
    })
}

fn show_entry(path: &Path, entry: Entry) -> Result<LedgerEntry, StoreError> {
    let bad = |e: BadId| bad_record(path, entry.seq, e);
    Ok(LedgerEntry {
        seq: u64::try_from(entry.seq).map_err(|e| bad_record(path, entry.seq, e))?,
        prev: entry.prev.parse().map_err(bad)?,
        digest: entry.digest.parse().map_err(bad)?,
        subject: entry.subject.parse().map_err(bad)?,
        once: entry
            .once
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(bad)?,
        at: entry
            .at
            .parse()
            .map_err(|e: BadTime| bad_record(path, entry.seq, e))?,
        record: serde_json::from_str(&entry.record).map_err(|e| bad_record(path, entry.seq, e))?,
        kind: entry.kind,
    })
}

fn place_of(path: &Path, entry: &Entry) -> Result<LedgerHead, StoreError> {
    place(path, entry.seq, &entry.digest)
}

fn place(path: &Path, seq: i64, digest: &str) -> Result<LedgerHead, StoreError> {
    Ok(LedgerHead {
        seq: u64::try_from(seq).map_err(|e| bad_record(path, seq, e))?,
        digest: digest
            .parse()
            .map_err(|e: BadId| bad_record(path, seq, e))?,
    })
}

pub(crate) fn bad_record(path: &Path, seq: i64, source: impl Into<BoxError>) -> StoreError {
    StoreError::BadRecord {
        path: path.to_owned(),
        seq,
        source: source.into(),
    }
}
