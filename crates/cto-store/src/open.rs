//! Making, opening and migrating the file.
//!
//! A new database is made beside its place, complete with schema and genesis, and then linked into place: of a hundred
//! processes that start at once one wins, and none ever sees half a database.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cto_contract::ids::to_hex;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::database::Database;
use crate::entries::append;
use crate::error::{StoreError, at, primary_code};
use crate::ledger::LedgerInit;
use crate::sql;

/// Marks the file as ours, in the field that SQLite keeps for programs: "cto", and in its last byte the format.
const APPLICATION: i64 = 0x6374_6f00;
/// Raised when a database is laid out so differently that no step leads from one to the other.
const FORMAT: i64 = 4;
/// Schema steps; the version of a database is how many of them it has.
const MIGRATIONS: &[&str] = &[include_str!(
    "../migrations/sqlite/0001_index_and_ledger.sql"
)];
/// How long to wait for another writer. A write takes about a disk sync, so this is thousands of writers on a
/// fast disk and hundreds on a slow one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// Which file a path led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

/// Opens the database, making it first when there is none.
pub(crate) async fn open(path: &Path, init: &LedgerInit) -> Result<Database, StoreError> {
    let path = plain(path);
    let file = match look(&path)? {
        Some(file) => file,
        None => {
            create(&path, init).await?;
            look(&path)?.ok_or_else(|| StoreError::Replaced { path: path.clone() })?
        }
    };
    let mut conn = options(&path).connect().await.map_err(at(&path))?;
    migrate(&mut conn, &path, MIGRATIONS).await?;
    keep_wal(&mut conn, &path).await?;
    Ok(Database { path, file, conn })
}

/// Opens a database that can't be written.
///
/// SQLite reads the log beside it only where the log's index is there too, for it could not make one. Without a log the
/// database is taken as it stands; with one that can't be read, what it says last would be missing, and that is an error.
pub(crate) async fn open_to_read(path: &Path) -> Result<Database, StoreError> {
    let path = plain(path);
    let missing = || StoreError::io("find", &path)(ErrorKind::NotFound.into());
    let file = look(&path)?.ok_or_else(missing)?;
    let log = beside(&path, "-wal");
    let has_log = fs::metadata(&log).is_ok_and(|found| found.len() > 0);
    let options = options(&path).read_only(true).immutable(!has_log);
    let refused = |error: StoreError| {
        let for_want_of_index = matches!(
            error,
            StoreError::CannotOpen { .. } | StoreError::ReadOnly { .. }
        );
        if has_log && for_want_of_index {
            return StoreError::io("read the index of the log", &log)(ErrorKind::NotFound.into());
        }
        error
    };
    let mut conn = options
        .connect()
        .await
        .map_err(at(&path))
        .map_err(refused)?;
    pending(&mut conn, &path, MIGRATIONS)
        .await
        .map_err(refused)?;
    Ok(Database { path, file, conn })
}

/// SQLite gives meaning to names such as `:memory:` and `file:…`; a path with a directory is always a file.
fn plain(path: &Path) -> PathBuf {
    if path.is_absolute() {
        path.to_owned()
    } else {
        Path::new(".").join(path)
    }
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        // A decision in the ledger must outlive a power cut, so every commit is synced.
        .synchronous(SqliteSynchronous::Full)
        // A changed schema must not be able to call functions with effects.
        .pragma("trusted_schema", "OFF")
        .disable_statement_logging()
}

/// Says which file is at the path, without opening it.
///
/// Never opened here, because closing any descriptor of a file drops the locks that SQLite holds on it in this
/// process.
pub(crate) fn look(path: &Path) -> Result<Option<FileId>, StoreError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StoreError::io("look at", path)(e)),
    };
    if !found.is_file() {
        return Err(StoreError::NotAFile {
            path: path.to_owned(),
        });
    }
    if found.len() == 0 {
        return Err(StoreError::Empty {
            path: path.to_owned(),
        });
    }
    // SQLite gives its side files the mode of the database, so they can be loose only when this one is.
    if found.mode() & 0o077 != 0 {
        for file in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
            match fs::set_permissions(&file, fs::Permissions::from_mode(0o600)) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(StoreError::io("tighten the mode of", &file)(e));
                }
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(Some(FileId {
        device: found.dev(),
        inode: found.ino(),
    }))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// A file under construction, removed with its side files when dropped.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        for suffix in ["", "-journal", "-wal", "-shm"] {
            // What is left behind is litter, not damage.
            let _gone = fs::remove_file(beside(&self.0, suffix));
        }
    }
}

async fn create(path: &Path, init: &LedgerInit) -> Result<(), StoreError> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let unique = format!(
        ".new-{}-{number}-{}",
        std::process::id(),
        to_hex(&init.random[..8])
    );
    let draft = Draft(beside(path, &unique));
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft.0);
    drop(made.map_err(StoreError::io("create", &draft.0))?);
    build(&draft.0, init).await?;
    File::open(&draft.0)
        .and_then(|file| file.sync_all())
        .map_err(StoreError::io("sync", &draft.0))?;
    // A log without its database would be replayed into the new one. Others may have linked theirs by now, and then
    // the log is theirs: a log is made only after the link.
    let log = beside(path, "-wal");
    if fs::symlink_metadata(&log).is_ok() && look(path)?.is_none() {
        return Err(StoreError::Orphaned { path: log });
    }
    match fs::hard_link(&draft.0, path) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(e) => return Err(StoreError::io("link into place", path)(e)),
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(StoreError::io("sync", dir))
}

/// Fills a draft. Not synced on the way, because the whole file is synced before anybody can see it.
async fn build(draft: &Path, init: &LedgerInit) -> Result<(), StoreError> {
    let at = at(draft);
    let mut conn = options(draft)
        .synchronous(SqliteSynchronous::Off)
        .connect()
        .await
        .map_err(at)?;
    let mut tx = conn.begin_with(sql::BEGIN_WRITE).await.map_err(at)?;
    let mark = format!("PRAGMA application_id = {}", APPLICATION | FORMAT);
    sqlx::raw_sql(AssertSqlSafe(mark))
        .execute(&mut *tx)
        .await
        .map_err(at)?;
    apply(&mut tx, MIGRATIONS, 0).await.map_err(at)?;
    append(&mut tx, draft, &init.genesis()).await?;
    tx.commit().await.map_err(at)?;
    sqlx::raw_sql("PRAGMA journal_mode = WAL")
        .execute(&mut conn)
        .await
        .map_err(at)?;
    conn.close().await.map_err(at)
}

async fn apply(
    tx: &mut SqliteConnection,
    steps: &[&'static str],
    from: usize,
) -> Result<(), sqlx::Error> {
    for step in steps.iter().skip(from) {
        sqlx::raw_sql(*step).execute(&mut *tx).await?;
    }
    let version = format!("PRAGMA user_version = {}", steps.len());
    sqlx::raw_sql(AssertSqlSafe(version))
        .execute(&mut *tx)
        .await?;
    Ok(())
}

/// Refuses what is not ours or too new, and brings an older schema up to date: one query when there is nothing to do.
async fn migrate(
    conn: &mut SqliteConnection,
    path: &Path,
    steps: &[&'static str],
) -> Result<(), StoreError> {
    if pending(conn, path, steps).await?.is_none() {
        return Ok(());
    }
    let at = at(path);
    let mut tx = conn.begin_with(sql::BEGIN_WRITE).await.map_err(at)?;
    // Asked again under the lock: another process may have done it meanwhile.
    if let Some(from) = pending(&mut tx, path, steps).await? {
        apply(&mut tx, steps, from).await.map_err(at)?;
    }
    tx.commit().await.map_err(at)
}

/// The first step that is still to do.
async fn pending(
    conn: &mut SqliteConnection,
    path: &Path,
    steps: &[&str],
) -> Result<Option<usize>, StoreError> {
    const IDENTITY: &str =
        "SELECT application_id, user_version FROM pragma_application_id(), pragma_user_version()";
    let (application, found): (i64, i64) = sqlx::query_as(IDENTITY)
        .fetch_one(conn)
        .await
        .map_err(at(path))?;
    if application & !0xff != APPLICATION {
        return Err(StoreError::Foreign {
            path: path.to_owned(),
        });
    }
    let format = application & 0xff;
    if format != FORMAT {
        return Err(StoreError::OtherFormat {
            path: path.to_owned(),
            found: format,
            known: FORMAT,
        });
    }
    let known = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found,
            known,
        });
    }
    Ok(usize::try_from(found)
        .ok()
        .filter(|done| *done < steps.len()))
}

/// Turns the write-ahead log on again where a restored copy came without it.
async fn keep_wal(conn: &mut SqliteConnection, path: &Path) -> Result<(), StoreError> {
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut *conn)
        .await
        .map_err(at(path))?;
    if mode == "wal" {
        return Ok(());
    }
    match sqlx::raw_sql("PRAGMA journal_mode = WAL")
        .execute(conn)
        .await
    {
        Ok(_) => Ok(()),
        // Somebody else uses the file; it works without the log too, and the next one to open it tries again.
        Err(e) if matches!(primary_code(&e), Some(5 | 6)) => Ok(()),
        Err(e) => Err(StoreError::of(path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: &[&str] = &[
        MIGRATIONS[0],
        "CREATE TABLE later (a TEXT NOT NULL); INSERT INTO later VALUES ('once')",
    ];

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(work)
    }

    #[test]
    fn many_that_find_an_older_schema_bring_it_up_to_date_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cto.db");
        let init = LedgerInit {
            random: [1; 32],
            at: "2026-06-01T00:00:00Z".parse().unwrap(),
        };
        let before =
            block_on(async { open(&path, &init).await.unwrap().ledger_id().await.unwrap() });
        let start = std::sync::Barrier::new(20);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    start.wait();
                    block_on(async {
                        let mut conn = options(&path).connect().await.unwrap();
                        migrate(&mut conn, &path, NEXT).await.unwrap();
                    });
                });
            }
        });
        block_on(async {
            let mut conn = options(&path).connect().await.unwrap();
            let rows: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM later")
                .fetch_one(&mut conn)
                .await
                .unwrap();
            let id: String = sqlx::query_scalar(sql::LEDGER_GENESIS)
                .fetch_one(&mut conn)
                .await
                .unwrap();
            assert_eq!((rows, id.as_str()), (1, before.as_str()));
            assert!(matches!(
                migrate(&mut conn, &path, MIGRATIONS).await,
                Err(StoreError::Newer {
                    found: 2,
                    known: 1,
                    ..
                })
            ));
        });
    }

    #[test]
    fn a_failed_step_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cto.db");
        let init = LedgerInit {
            random: [1; 32],
            at: "2026-06-01T00:00:00Z".parse().unwrap(),
        };
        block_on(async {
            let mut database = open(&path, &init).await.unwrap();
            let steps = [
                MIGRATIONS[0],
                "CREATE TABLE half (a TEXT); SELECT wrong FROM nowhere",
            ];
            assert!(migrate(&mut database.conn, &path, &steps).await.is_err());
            assert_eq!(
                pending(&mut database.conn, &path, MIGRATIONS)
                    .await
                    .unwrap(),
                None
            );
            assert!(
                sqlx::query("SELECT * FROM half")
                    .fetch_all(&mut database.conn)
                    .await
                    .is_err()
            );
        });
    }

    #[test]
    fn the_connection_is_set_as_it_has_to_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cto.db");
        let init = LedgerInit {
            random: [1; 32],
            at: "2026-06-01T00:00:00Z".parse().unwrap(),
        };
        block_on(async {
            let mut database = open(&path, &init).await.unwrap();
            let mode: String = sqlx::query_scalar("PRAGMA journal_mode")
                .fetch_one(&mut database.conn)
                .await
                .unwrap();
            assert_eq!(mode, "wal");
            for (pragma, value) in [
                ("PRAGMA synchronous", 2_i64),
                ("PRAGMA foreign_keys", 1),
                ("PRAGMA busy_timeout", 60_000),
                ("PRAGMA trusted_schema", 0),
            ] {
                let found: i64 = sqlx::query_scalar(pragma)
                    .fetch_one(&mut database.conn)
                    .await
                    .unwrap();
                assert_eq!(found, value, "{pragma}");
            }
        });
    }
}
