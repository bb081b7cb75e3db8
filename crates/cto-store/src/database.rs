//! The async heart of the store: one connection, one transaction a change.

use std::path::PathBuf;

use cto_contract::ids::{BadId, Digest, RunId};
use cto_contract::ledger::{Record, RunCreated, Seal};
use cto_contract::text;
use cto_contract::time::Utc;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Connection, Row, Sqlite, Transaction};

use crate::cursor::Cursor;
use crate::entries::{append, bad_record};
use crate::error::{StoreError, at};
use crate::index::{bind_row, read_row};
use crate::ledger::LedgerHead;
use crate::open::{FileId, look};
use crate::query::{Counts, Filter, Listing, OwnRuns, Page, Rebuilt, State};
use crate::run::{RunRow, RunSealed, TITLE_CHARS_MAX};
use crate::sql::{self, Arg};

pub(crate) struct Database {
    pub(crate) path: PathBuf,
    pub(crate) file: FileId,
    pub(crate) conn: SqliteConnection,
}

impl Database {
    /// Refuses to write into a file that is no longer the one at the path: nobody would ever see it.
    fn still_there(&self) -> Result<(), StoreError> {
        if look(&self.path)? == Some(self.file) {
            Ok(())
        } else {
            Err(StoreError::Replaced {
                path: self.path.clone(),
            })
        }
    }

    /// Takes the write lock: what is read from here on stays true until the end of the transaction.
    pub(crate) async fn begin(&mut self) -> Result<Transaction<'_, Sqlite>, StoreError> {
        self.still_there()?;
        let begun = self.conn.begin_with(sql::BEGIN_WRITE).await;
        begun.map_err(at(&self.path))
    }

    pub(crate) async fn run_created(
        &mut self,
        run: &RunCreated,
        repository: Option<&Digest>,
    ) -> Result<LedgerHead, StoreError> {
        let path = self.path.clone();
        let record = Record::RunCreated(RunCreated {
            title: text::shorten(&run.title, TITLE_CHARS_MAX),
            ..run.clone()
        });
        let mut tx = self.begin().await?;
        let appended = append(&mut tx, &path, &record).await?;
        let insert = sqlx::query(sql::INSERT_RUN_IF_ABSENT);
        bind_row(insert, &RunRow::from(run), repository)
            .execute(&mut *tx)
            .await
            .map_err(at(&path))?;
        tx.commit().await.map_err(at(&path))?;
        Ok(appended.place())
    }

    pub(crate) async fn run_sealed(&mut self, run: &RunSealed) -> Result<LedgerHead, StoreError> {
        let path = self.path.clone();
        let record = Record::RunSealed(Seal {
            run_id: run.run_id.clone(),
            at: run.finished_at,
            status: run.status,
            pack_digest: run.pack_digest.clone(),
        });
        let mut tx = self.begin().await?;
        let appended = append(&mut tx, &path, &record).await?;
        let upsert = sqlx::query(sql::UPSERT_RUN);
        bind_row(upsert, &RunRow::from(run), run.repository.as_ref())
            .execute(&mut *tx)
            .await
            .map_err(at(&path))?;
        tx.commit().await.map_err(at(&path))?;
        Ok(appended.place())
    }

    pub(crate) async fn index_pack(&mut self, run: &RunSealed, now: Utc) -> Result<(), StoreError> {
        self.still_there()?;
        bind_row(
            sqlx::query(sql::UPSERT_RUN),
            &listed(run, now),
            run.repository.as_ref(),
        )
        .execute(&mut self.conn)
        .await
        .map_err(at(&self.path))?;
        Ok(())
    }

    pub(crate) async fn get(&mut self, run_id: &RunId) -> Result<Option<RunRow>, StoreError> {
        let statement = sqlx::query(sql::GET_RUN).bind(run_id.as_str());
        let row = statement
            .fetch_optional(&mut self.conn)
            .await
            .map_err(at(&self.path))?;
        row.map(|row| read_row(&self.path, &row)).transpose()
    }

    pub(crate) async fn own_runs(
        &mut self,
        which: &OwnRuns,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<(u64, RunId)>, StoreError> {
        let before = before.and_then(|seq| i64::try_from(seq).ok());
        let ask = |statement| {
            sqlx::query(statement)
                .bind(before.unwrap_or(i64::MAX))
                .bind(i64::from(limit))
        };
        let ask = match which {
            OwnRuns::All => ask(sql::OWN_RUNS),
            OwnRuns::OfNoRepository => ask(sql::OWN_RUNS_OF_NO_REPOSITORY),
            OwnRuns::OfRepository(key) => ask(sql::OWN_RUNS_OF_REPOSITORY).bind(key.to_string()),
        };
        let rows = ask
            .fetch_all(&mut self.conn)
            .await
            .map_err(at(&self.path))?;
        let mut places = Vec::with_capacity(rows.len());
        for row in &rows {
            let seq: i64 = row.try_get("created_seq").map_err(at(&self.path))?;
            places.push(u64::try_from(seq).unwrap_or(0));
        }
        Ok(places.into_iter().zip(self.run_ids(&rows)?).collect())
    }

    pub(crate) async fn find_prefix(
        &mut self,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<RunId>, StoreError> {
        let rows = sqlx::query(sql::FIND_PREFIX)
            .bind(prefix)
            // Sorts after everything that a run id can go on with.
            .bind(format!("{prefix}~"))
            .bind(i64::from(limit))
            .fetch_all(&mut self.conn)
            .await
            .map_err(at(&self.path))?;
        self.run_ids(&rows)
    }

    pub(crate) async fn unsealed(&mut self) -> Result<Vec<RunId>, StoreError> {
        let rows = sqlx::query(sql::OPEN_RUNS)
            .fetch_all(&mut self.conn)
            .await
            .map_err(at(&self.path))?;
        self.run_ids(&rows)
    }

    fn run_ids(&self, rows: &[SqliteRow]) -> Result<Vec<RunId>, StoreError> {
        rows.iter()
            .map(|row| {
                let text: String = row.try_get("run_id").map_err(at(&self.path))?;
                text.parse().map_err(|e: BadId| StoreError::BadColumn {
                    path: self.path.clone(),
                    key: cto_contract::text::shorten(&text, 80),
                    column: "run_id",
                    source: e.into(),
                })
            })
            .collect()
    }

    pub(crate) async fn list(
        &mut self,
        filter: &Filter,
        page: &Page,
    ) -> Result<Listing, StoreError> {
        let (text, args) = sql::list(filter, page);
        let mut statement = sqlx::query(AssertSqlSafe(text));
        for arg in args {
            statement = match arg {
                Arg::Text(text) => statement.bind(text),
                Arg::Int(number) => statement.bind(number),
            };
        }
        let found = statement
            .fetch_all(&mut self.conn)
            .await
            .map_err(at(&self.path))?;
        let wanted = Page::rows(page.limit);
        let rows: Vec<RunRow> = found
            .iter()
            .take(wanted)
            .map(|row| read_row(&self.path, row))
            .collect::<Result<_, _>>()?;
        let last = rows.last().filter(|_| found.len() > wanted);
        let next = last.map(|row| Cursor {
            listed_at: row.listed_at,
            run_id: row.run_id.clone(),
        });
        Ok(Listing { rows, next })
    }

    pub(crate) async fn counts(&mut self) -> Result<Counts, StoreError> {
        let rows: Vec<(String, i64)> = sqlx::query_as(sql::COUNTS)
            .fetch_all(&mut self.conn)
            .await
            .map_err(at(&self.path))?;
        let mut counts = Counts::default();
        for (state, runs) in rows {
            let runs = u64::try_from(runs).unwrap_or(0);
            match state.parse() {
                Ok(State::Running) => counts.running = runs,
                Ok(State::Pass) => counts.pass = runs,
                Ok(State::Fail) => counts.fail = runs,
                Ok(State::Blocked) => counts.blocked = runs,
                Err(_) => {}
            }
        }
        Ok(counts)
    }

    /// Makes the place where rows are collected, and says where the ledger ended.
    pub(crate) async fn rebuild_begin(&mut self) -> Result<i64, StoreError> {
        self.still_there()?;
        sqlx::raw_sql(sql::REBUILD_BEGIN)
            .execute(&mut self.conn)
            .await
            .map_err(at(&self.path))?;
        let head: Option<(i64, String)> = sqlx::query_as(sql::LEDGER_HEAD)
            .fetch_optional(&mut self.conn)
            .await
            .map_err(at(&self.path))?;
        Ok(head.map_or(0, |(seq, _)| seq))
    }

    pub(crate) async fn rebuild_collect(
        &mut self,
        runs: &[RunSealed],
        now: Utc,
    ) -> Result<(), StoreError> {
        let at = at(&self.path);
        let mut tx = self.conn.begin().await.map_err(at)?;
        for run in runs {
            let collect = sqlx::query(sql::REBUILD_COLLECT);
            bind_row(collect, &listed(run, now), run.repository.as_ref())
                .execute(&mut *tx)
                .await
                .map_err(at)?;
        }
        tx.commit().await.map_err(at)
    }

    /// Puts the collected rows in place of the index, and back what was entered since `begun`.
    pub(crate) async fn rebuild_swap(&mut self, begun: i64) -> Result<Rebuilt, StoreError> {
        let at = at(&self.path);
        let mut tx = self.conn.begin_with(sql::BEGIN_WRITE).await.map_err(at)?;
        sqlx::query(sql::REBUILD_CLEAR)
            .bind(begun)
            .execute(&mut *tx)
            .await
            .map_err(at)?;
        for statement in [
            sql::REBUILD_FILL,
            sql::REBUILD_OPEN_CLEAR,
            sql::REBUILD_OPEN_FILL,
        ] {
            sqlx::query(statement).execute(&mut *tx).await.map_err(at)?;
        }
        let unsealed: Vec<(i64, String)> = sqlx::query_as(sql::REBUILD_UNSEALED)
            .fetch_all(&mut *tx)
            .await
            .map_err(at)?;
        let mut running = 0;
        for (seq, line) in unsealed {
            let record = serde_json::from_str(&line).map_err(|e| bad_record(&self.path, seq, e))?;
            if let Record::RunCreated(run) = record {
                let insert = sqlx::query(sql::INSERT_RUN_IF_ABSENT);
                running += bind_row(insert, &RunRow::from(&run), None)
                    .execute(&mut *tx)
                    .await
                    .map_err(at)?
                    .rows_affected();
            }
        }
        let count = async |tx: &mut SqliteConnection, statement: &'static str| {
            let n: i64 = sqlx::query_scalar(statement)
                .fetch_one(tx)
                .await
                .map_err(at)?;
            Ok::<u64, StoreError>(u64::try_from(n).unwrap_or(0))
        };
        let missing = count(&mut tx, sql::REBUILD_MISSING).await?;
        let unknown = count(&mut tx, sql::REBUILD_UNKNOWN).await?;
        tx.commit().await.map_err(at)?;
        sqlx::raw_sql(sql::REBUILD_END)
            .execute(&mut self.conn)
            .await
            .map_err(at)?;
        Ok(Rebuilt {
            runs: self.counts().await?.total(),
            running,
            missing,
            unknown,
        })
    }
}

/// The row of a pack whose dates are nobody's word here: it is listed at the latest by when it came.
fn listed(run: &RunSealed, now: Utc) -> RunRow {
    let row = RunRow::from(run);
    RunRow {
        listed_at: row.listed_at.min(now),
        ..row
    }
}
