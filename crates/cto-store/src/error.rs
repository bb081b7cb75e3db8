//! What can go wrong with the database, named by what a person has to do about it.

use std::path::{Path, PathBuf};

use cto_contract::ledger::{OnceKey, Subject};

use crate::walk::BreakReason;

/// A failure of the store. The message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(
        "the database `{path}` stayed locked by another process; wait until other `cto` commands end, then try again"
    )]
    Locked { path: PathBuf, source: sqlx::Error },

    #[error(
        "the database `{path}` is damaged; keep a copy, then restore a backup with `cto restore`, for the ledger in it cannot be rebuilt"
    )]
    Corrupt { path: PathBuf, source: sqlx::Error },

    #[error(
        "the database `{path}` is empty, which `cto` never leaves behind; restore a backup, or remove the file to begin a new ledger"
    )]
    Empty { path: PathBuf },

    #[error(
        "the database `{path}` cannot be written; make the file and its directory writable for you"
    )]
    ReadOnly { path: PathBuf, source: sqlx::Error },

    #[error("no space is left for the database `{path}`; free some space on its disk")]
    Full { path: PathBuf, source: sqlx::Error },

    #[error(
        "`{path}` is a database of another program; move it away or choose another home with `--home`"
    )]
    Foreign { path: PathBuf },

    #[error(
        "the database `{path}` has format {found}, and this `cto` reads format {known} only; use the `cto` that made it, or move it away to begin a new ledger"
    )]
    OtherFormat {
        path: PathBuf,
        found: i64,
        known: i64,
    },

    #[error(
        "the database `{path}` has schema {found}, newer than {known} which this `cto` knows; use a newer `cto`"
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },

    #[error(
        "`{path}` is not a regular file; move it away, the database is never reached through a link"
    )]
    NotAFile { path: PathBuf },

    #[error(
        "`{path}` belongs to a database that is gone; restore that one, or move this file away to begin a new ledger"
    )]
    Orphaned { path: PathBuf },

    #[error(
        "the database `{path}` was moved or replaced while it was open; put it back, then run `cto recover`"
    )]
    Replaced { path: PathBuf },

    #[error(
        "the database `{path}` cannot be opened; check that its directory exists, is yours and is writable"
    )]
    CannotOpen { path: PathBuf, source: sqlx::Error },

    #[error("could not {doing} `{path}`; check its disk and its permissions")]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },

    #[error("a statement on the database `{path}` failed; this is a fault of `cto` or of the file")]
    Statement { path: PathBuf, source: sqlx::Error },

    #[error(
        "column `{column}` of `{key}` in the database `{path}` cannot be read; `cto index rebuild` makes the index new"
    )]
    BadColumn {
        path: PathBuf,
        key: String,
        column: &'static str,
        source: BoxError,
    },

    #[error(
        "ledger record {seq} in the database `{path}` cannot be read; `cto ledger verify` says more"
    )]
    BadRecord {
        path: PathBuf,
        seq: i64,
        source: BoxError,
    },

    #[error(
        "a `{kind}` record does not read back as it was written ({reason}), so it was not entered; this is a fault of `cto`"
    )]
    Malformed {
        kind: &'static str,
        reason: BreakReason,
    },

    #[error(
        "the ledger already holds another record as `{once}`, its number {seq}; what is entered once stays as it is"
    )]
    Conflict { once: OnceKey, seq: i64 },

    #[error(
        "the ledger holds no `{after}`, which `{kind}` of `{subject}` has to follow; enter that first"
    )]
    TooEarly {
        kind: &'static str,
        subject: Subject,
        after: OnceKey,
    },

    #[error("could not start the store's runtime")]
    Runtime { source: std::io::Error },
}

/// The cause of an unreadable value.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl StoreError {
    /// A stable word for `--json` errors.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Locked { .. } => "store_locked",
            Self::Corrupt { .. } => "store_corrupt",
            Self::Empty { .. } => "store_empty",
            Self::ReadOnly { .. } => "store_read_only",
            Self::Full { .. } => "store_full",
            Self::Foreign { .. } => "store_foreign",
            Self::OtherFormat { .. } => "store_other_format",
            Self::Newer { .. } => "store_newer",
            Self::NotAFile { .. } => "store_not_a_file",
            Self::Orphaned { .. } => "store_orphaned",
            Self::Replaced { .. } => "store_replaced",
            Self::CannotOpen { .. } => "store_cannot_open",
            Self::Io { .. } => "store_io",
            Self::Statement { .. } => "store_statement",
            Self::BadColumn { .. } => "store_bad_column",
            Self::BadRecord { .. } => "store_bad_record",
            Self::Malformed { .. } => "store_malformed_record",
            Self::Conflict { .. } => "store_conflict",
            Self::TooEarly { .. } => "store_too_early",
            Self::Runtime { .. } => "store_runtime",
        }
    }

    /// Names a failure of the driver by SQLite's primary result code.
    pub(crate) fn of(path: &Path, source: sqlx::Error) -> Self {
        let path = path.to_owned();
        // The log's index could not be made as large as it must be: the one way in which a full disk is no "full".
        if code_of(&source) == Some(IOERR_SHMSIZE) {
            return Self::Full { path, source };
        }
        match primary_code(&source) {
            // 15, "protocol", is what is left after SQLite gave up on a race for the log's index.
            Some(5 | 6 | 15) => Self::Locked { path, source },
            Some(11 | 26) => Self::Corrupt { path, source },
            Some(3 | 8) => Self::ReadOnly { path, source },
            Some(13) => Self::Full { path, source },
            Some(14) => Self::CannotOpen { path, source },
            _ => Self::Statement { path, source },
        }
    }

    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }
}

/// Binds a path to failures of the driver.
pub(crate) fn at(path: &Path) -> impl Fn(sqlx::Error) -> StoreError + Copy {
    move |source| StoreError::of(path, source)
}

/// SQLite's extended result code for a log index that can't be made larger.
const IOERR_SHMSIZE: i32 = 4874;

fn code_of(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

pub(crate) fn primary_code(error: &sqlx::Error) -> Option<i32> {
    code_of(error).map(|code| code & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
    use sqlx::{AssertSqlSafe, ConnectOptions};
    use std::error::Error as _;
    use std::time::Duration;

    /// What one connection meets after another did `before` and keeps its own open.
    fn check(
        before: &str,
        options: impl FnOnce(SqliteConnectOptions) -> SqliteConnectOptions,
        statement: &str,
    ) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let run = async |conn: &mut SqliteConnection, sql: &str| {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await
        };
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(async {
                let plain = SqliteConnectOptions::new()
                    .filename(&path)
                    .busy_timeout(Duration::ZERO);
                let mut first = plain
                    .clone()
                    .create_if_missing(true)
                    .connect()
                    .await
                    .unwrap();
                run(&mut first, "CREATE TABLE t (a TEXT)").await.unwrap();
                run(&mut first, before).await.unwrap();
                let mut second = options(plain).connect().await.unwrap();
                let error = StoreError::of(&path, run(&mut second, statement).await.unwrap_err());
                let message = error.to_string();
                assert!(message.contains(path.to_str().unwrap()));
                assert!(
                    !message.contains(&error.source().unwrap().to_string()),
                    "the cause speaks for itself"
                );
                error.code().to_owned()
            })
    }

    #[test]
    fn each_kind_of_trouble_has_its_own_name() {
        let insert = "INSERT INTO t VALUES (zeroblob(100000))";
        assert_eq!(check("BEGIN IMMEDIATE", |o| o, insert), "store_locked");
        assert_eq!(
            check("SELECT 1", |o| o.read_only(true), insert),
            "store_read_only"
        );
        assert_eq!(
            check("SELECT 1", |o| o.pragma("max_page_count", "2"), insert),
            "store_full"
        );
        assert_eq!(
            check("SELECT 1", |o| o, "SELECT nothing"),
            "store_statement"
        );
    }
}
