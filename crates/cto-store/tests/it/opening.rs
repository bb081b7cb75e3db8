//! What opening makes of what it finds.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use cto_contract::words::RunStatus;
use cto_store::{LedgerInit, Store, StoreError};

use crate::sample::{created, home, init, raw, sealed, store, time, with_raw};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn refusal(path: &Path) -> StoreError {
    let error = Store::open(path, init()).err().unwrap();
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "the message names the file: {error}"
    );
    error
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test puts a bad file there on purpose"
)]
fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

#[test]
fn reopening_keeps_the_ledger() {
    let (_dir, path) = home();
    let first = store(&path);
    let id = first.ledger_id().unwrap();
    let head = first.run_created(&created(1, 0)).unwrap();
    first.close().unwrap();
    let again = Store::open(
        &path,
        LedgerInit {
            random: [1; 32],
            at: time(99),
        },
    )
    .unwrap();
    assert_eq!(again.ledger_id().unwrap(), id);
    assert_eq!(again.ledger_head().unwrap(), head);
}

#[test]
fn every_ledger_has_its_own_id() {
    let id = |random| {
        let (_dir, path) = home();
        Store::open(
            &path,
            LedgerInit {
                random,
                at: time(0),
            },
        )
        .unwrap()
        .ledger_id()
        .unwrap()
    };
    assert_eq!(id([1; 32]), id([1; 32]));
    assert_ne!(id([1; 32]), id([2; 32]));
}

#[test]
fn only_the_owner_can_read_the_files() {
    let (_dir, path) = home();
    let store = store(&path);
    store.run_created(&created(1, 0)).unwrap();
    let files = ["cto.db", "cto.db-wal", "cto.db-shm"].map(|name| path.with_file_name(name));
    assert_eq!(files.each_ref().map(|file| mode(file)), [0o600; 3]);
    for file in &files {
        fs::set_permissions(file, fs::Permissions::from_mode(0o664)).unwrap();
    }
    let _again = Store::open(&path, init()).unwrap();
    assert_eq!(files.each_ref().map(|file| mode(file)), [0o600; 3]);
}

#[test]
fn a_closed_store_leaves_one_file() {
    let (dir, path) = home();
    let store = store(&path);
    store.run_created(&created(1, 0)).unwrap();
    store.close().unwrap();
    let names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["cto.db"]);
}

#[test]
fn a_damaged_file_is_refused_by_name() {
    let (_dir, path) = home();
    put(&path, &[7; 8192]);
    assert!(matches!(refusal(&path), StoreError::Corrupt { .. }));
    put(&path, b"");
    assert!(matches!(refusal(&path), StoreError::Empty { .. }));
    assert_eq!(fs::read(&path).unwrap(), b"", "and left as it was");
}

#[test]
fn a_damaged_page_is_an_error_and_no_answer() {
    let (_dir, path) = home();
    let whole = store(&path);
    for number in 0..200 {
        whole.run_created(&created(number, 0)).unwrap();
    }
    whole.close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096 * 2..].fill(0xa5);
    put(&path, &bytes);
    let outcome = Store::open(&path, init()).and_then(|store| store.verify_ledger());
    assert!(
        matches!(outcome, Err(StoreError::Corrupt { .. })),
        "{outcome:?}"
    );
}

#[test]
fn a_database_of_another_program_is_refused() {
    let (_dir, path) = home();
    raw(
        &path,
        "CREATE TABLE theirs (a TEXT); PRAGMA user_version = 1",
    )
    .unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(refusal(&path), StoreError::Foreign { .. }));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_database_of_another_format_is_refused_and_left_as_it_was() {
    let (_dir, path) = home();
    store(&path).close().unwrap();
    for format in [1, 2, 3, 5] {
        raw(
            &path,
            &format!("PRAGMA application_id = {}", 0x6374_6f00 | format),
        )
        .unwrap();
        let before = fs::read(&path).unwrap();
        assert!(
            matches!(refusal(&path), StoreError::OtherFormat { found, known: 4, .. } if found == format)
        );
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_newer_schema_is_refused() {
    let (_dir, path) = home();
    drop(store(&path));
    raw(&path, "PRAGMA user_version = 1000").unwrap();
    assert!(matches!(
        refusal(&path),
        StoreError::Newer { found: 1000, .. }
    ));
}

#[test]
fn a_link_or_a_directory_is_refused() {
    let (dir, path) = home();
    let real = dir.path().join("real.db");
    store(&real).close().unwrap();
    symlink(&real, &path).unwrap();
    assert!(matches!(refusal(&path), StoreError::NotAFile { .. }));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(refusal(&path), StoreError::NotAFile { .. }));
}

#[test]
fn a_log_without_its_database_is_not_replayed_into_a_new_one() {
    let (_dir, path) = home();
    let log = path.with_file_name("cto.db-wal");
    put(&log, b"frames of a database that is gone");
    let error = Store::open(&path, init()).err().unwrap();
    assert!(
        matches!(&error, StoreError::Orphaned { path } if *path == log),
        "{error}"
    );
    assert!(!path.exists());
    assert!(log.exists());
}

#[test]
fn a_missing_directory_is_named() {
    let (dir, _) = home();
    let path = dir.path().join("nowhere/cto.db");
    assert!(matches!(
        refusal(&path),
        StoreError::Io {
            doing: "create",
            ..
        }
    ));
}

#[test]
fn a_file_that_went_away_takes_no_more_writes() {
    let (dir, path) = home();
    let ours = store(&path);
    let run = created(1, 0);
    ours.run_created(&run).unwrap();
    fs::rename(&path, dir.path().join("elsewhere.db")).unwrap();
    let error = ours.run_sealed(&sealed(&run, RunStatus::Pass)).unwrap_err();
    assert!(matches!(error, StoreError::Replaced { .. }), "{error}");
    let (_other_dir, other) = home();
    store(&other).close().unwrap();
    fs::rename(&other, &path).unwrap();
    assert!(matches!(
        ours.run_created(&created(2, 0)),
        Err(StoreError::Replaced { .. })
    ));
}

#[test]
fn a_restored_copy_without_the_log_gets_it_back() {
    let (_dir, path) = home();
    store(&path).close().unwrap();
    raw(&path, "PRAGMA journal_mode = DELETE").unwrap();
    store(&path).close().unwrap();
    let mode: String = with_raw(&path, async |conn| {
        sqlx::query_scalar("PRAGMA journal_mode")
            .fetch_one(conn)
            .await
            .unwrap()
    });
    assert_eq!(mode, "wal");
}

#[test]
fn names_that_mean_something_to_sqlite_are_only_names() {
    let (dir, _) = home();
    for name in [
        "file:x?mode=memory",
        ":memory:",
        "ü b.db",
        "%41.db",
        "a'b.db",
    ] {
        let path = dir.path().join(name);
        let id = store(&path).ledger_id().unwrap();
        assert!(path.is_file(), "{name}");
        assert_eq!(store(&path).ledger_id().unwrap(), id);
    }
}
