//! Runs to enter, and a raw connection for what an attacker would do.

use std::path::{Path, PathBuf};

use cto_contract::blocker::BlockerCode;
use cto_contract::ids::Digest;
use cto_contract::time::Utc;
use cto_contract::trust::Origin;
use cto_contract::words::{Lane, RunStatus, Stage};
use cto_store::{LedgerInit, RunCreated, RunSealed, Store};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tempfile::TempDir;

/// What an attacker drops first.
pub(crate) const NO_TRIGGERS: &str = "DROP TRIGGER ledger_no_update; DROP TRIGGER ledger_no_delete; DROP TRIGGER ledger_only_append;";

pub(crate) fn init() -> LedgerInit {
    LedgerInit {
        random: [42; 32],
        at: time(0),
    }
}

pub(crate) fn time(seconds: i64) -> Utc {
    "2026-06-01T10:52:22.000001Z"
        .parse::<Utc>()
        .unwrap()
        .plus_seconds(seconds)
}

/// A home with no database yet.
pub(crate) fn home() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cto.db");
    (dir, path)
}

pub(crate) fn store(path: &Path) -> Store {
    Store::open(path, init()).unwrap()
}

pub(crate) fn created(number: u32, started: i64) -> RunCreated {
    let started_at = time(started);
    RunCreated {
        run_id: format!("{}-a-{number:06}", started_at.basic())
            .parse()
            .unwrap(),
        case_id: if number.is_multiple_of(2) {
            "even"
        } else {
            "odd"
        }
        .parse()
        .unwrap(),
        backend: if number.is_multiple_of(3) {
            Lane::Codex
        } else {
            Lane::Fake
        },
        stage: Stage::FIXTURE,
        started_at,
        title: format!("Run {number}"),
        conformance: false,
        fake_baseline: false,
    }
}

pub(crate) fn sealed(run: &RunCreated, status: RunStatus) -> RunSealed {
    let failed = status != RunStatus::Pass;
    RunSealed {
        run_id: run.run_id.clone(),
        case_id: run.case_id.clone(),
        backend: run.backend,
        stage: run.stage,
        status,
        started_at: run.started_at,
        finished_at: run.started_at.plus_seconds(3),
        blocker: failed.then_some(BlockerCode::NoDiff),
        failure_reason: failed.then(|| "no diff".to_owned()),
        changed_files: 2,
        wall_seconds: Some(3.25),
        pack_digest: Digest::from_bytes(&[9; 32]),
        keyid: Digest::from_bytes(&[8; 32]),
        origin: Origin::Known,
        title: run.title.clone(),
        conformance: run.conformance,
        fake_baseline: run.fake_baseline,
        repository: None,
    }
}

/// Runs statements past the store; `Err` holds what SQLite said.
pub(crate) fn raw(path: &Path, sql: &str) -> Result<(), sqlx::Error> {
    with_raw(path, async |conn| {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(conn)
            .await
            .map(|_| ())
    })
}

pub(crate) fn with_raw<T>(path: &Path, work: impl AsyncFnOnce(&mut SqliteConnection) -> T) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(async {
            let options = SqliteConnectOptions::new()
                .filename(path)
                .create_if_missing(true);
            let mut conn = options.connect().await.unwrap();
            let out = work(&mut conn).await;
            conn.close().await.unwrap();
            out
        })
}
