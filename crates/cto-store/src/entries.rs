//! Entries of the ledger, to and from the database.

use std::path::Path;

use cto_contract::ids::{BadId, Digest, RunId};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::database::Database;
use crate::error::{BoxError, StoreError, at};
use crate::ledger::{
    Entry, LedgerEntry, LedgerHead, LedgerListing, LedgerPage, Record, next_entry,
};
use crate::query::Page;
use crate::sql;
use crate::walk::{BreakReason, LedgerCheck, Walk};

/// Entries read at once by a walk over the ledger.
const WALK_ROWS: u32 = 500;

/// Appends a record and returns where it stands. Must run inside a write transaction.
pub(crate) async fn append(
    tx: &mut SqliteConnection,
    path: &Path,
    record: &Record,
) -> Result<LedgerHead, StoreError> {
    let head: Option<(i64, String)> = sqlx::query_as(sql::LEDGER_HEAD)
        .fetch_optional(&mut *tx)
        .await
        .map_err(at(path))?;
    let seq = head.as_ref().map_or(1, |(seq, _)| seq + 1);
    let entry = next_entry(head, record).map_err(|e| bad_record(path, seq, e))?;
    let place = head_of(path, seq, &entry.digest)?;
    sqlx::query(sql::LEDGER_APPEND)
        .bind(entry.seq)
        .bind(entry.prev)
        .bind(entry.digest)
        .bind(entry.kind)
        .bind(entry.run_id)
        .bind(entry.record)
        .execute(tx)
        .await
        .map_err(at(path))?;
    Ok(place)
}

/// Finds what the ledger holds already. Another record of the same kind for the same run is a conflict.
pub(crate) async fn entered(
    tx: &mut SqliteConnection,
    path: &Path,
    lookup: &'static str,
    run_id: &RunId,
    record: &Record,
) -> Result<Option<LedgerHead>, StoreError> {
    let found: Option<(i64, String, String)> = sqlx::query_as(lookup)
        .bind(run_id.as_str())
        .fetch_optional(tx)
        .await
        .map_err(at(path))?;
    let Some((seq, digest, line)) = found else {
        return Ok(None);
    };
    let earlier = Record::read(&line).map_err(|e| bad_record(path, seq, e))?;
    if !record.repeats(&earlier) {
        return Err(StoreError::Conflict {
            kind: record.kind(),
            run_id: run_id.clone(),
        });
    }
    head_of(path, seq, &digest).map(Some)
}

impl Database {
    pub(crate) async fn ledger_id(&mut self) -> Result<Digest, StoreError> {
        let digest: Option<String> = sqlx::query_scalar(sql::LEDGER_GENESIS)
            .fetch_optional(&mut self.conn)
            .await
            .map_err(at(&self.path))?;
        let digest =
            digest.ok_or_else(|| bad_record(&self.path, 1, "the ledger has no genesis"))?;
        digest
            .parse()
            .map_err(|e: BadId| bad_record(&self.path, 1, e))
    }

    pub(crate) async fn ledger_head(&mut self) -> Result<LedgerHead, StoreError> {
        let head: Option<(i64, String)> = sqlx::query_as(sql::LEDGER_HEAD)
            .fetch_optional(&mut self.conn)
            .await
            .map_err(at(&self.path))?;
        let (seq, digest) =
            head.ok_or_else(|| bad_record(&self.path, 1, "the ledger has no genesis"))?;
        head_of(&self.path, seq, &digest)
    }

    async fn ledger_rows(&mut self, after: i64, limit: i64) -> Result<Vec<SqliteRow>, StoreError> {
        let statement = sqlx::query(sql::LEDGER_PAGE).bind(after).bind(limit);
        statement
            .fetch_all(&mut self.conn)
            .await
            .map_err(at(&self.path))
    }

    pub(crate) async fn ledger_entries(
        &mut self,
        page: LedgerPage,
    ) -> Result<LedgerListing, StoreError> {
        let wanted = Page::rows(page.limit);
        let after = i64::try_from(page.after).unwrap_or(i64::MAX);
        let rows = self
            .ledger_rows(after, i64::try_from(wanted + 1).unwrap_or(i64::MAX))
            .await?;
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
            let rows = self.ledger_rows(after, i64::from(WALK_ROWS)).await?;
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
        run_id: row.try_get("run_id")?,
        record: row.try_get("record")?,
    })
}

fn show_entry(path: &Path, entry: Entry) -> Result<LedgerEntry, StoreError> {
    let bad = |e: BadId| bad_record(path, entry.seq, e);
    Ok(LedgerEntry {
        seq: u64::try_from(entry.seq).map_err(|e| bad_record(path, entry.seq, e))?,
        prev: entry.prev.parse().map_err(bad)?,
        digest: entry.digest.parse().map_err(bad)?,
        run_id: entry
            .run_id
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(bad)?,
        record: serde_json::from_str(&entry.record).map_err(|e| bad_record(path, entry.seq, e))?,
        kind: entry.kind,
    })
}

fn head_of(path: &Path, seq: i64, digest: &str) -> Result<LedgerHead, StoreError> {
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
