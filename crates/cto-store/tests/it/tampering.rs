//! Whatever one column of one row is changed to, the walk says so.

use std::path::Path;

use cto_contract::words::RunStatus;
use cto_store::Store;
use proptest::prelude::*;
use sqlx::AssertSqlSafe;

use crate::sample::{NO_TRIGGERS, created, home, raw, sealed, store, with_raw};
use crate::seam::{admit, grant};

const ROWS: u64 = 7;
const TEXTS: [&str; 7] = ["prev", "digest", "kind", "subject", "once", "at", "record"];

/// A genesis, two runs, and two records of kinds that the store does not know; one has no once-key.
fn seven(path: &Path) -> Store {
    let store = store(path);
    for number in 0..2 {
        let run = created(number, 0);
        store.run_created(&run).unwrap();
        store.run_sealed(&sealed(&run, RunStatus::Pass)).unwrap();
    }
    grant(&store, "g1", &admit(&store));
    assert_eq!(store.verify_ledger().unwrap().entries, ROWS);
    raw(path, NO_TRIGGERS).unwrap();
    store
}

/// Asks for one text by raw SQL.
fn ask(path: &Path, statement: &str) -> Option<String> {
    with_raw(path, async |conn| {
        let found = sqlx::query_scalar(AssertSqlSafe(statement)).fetch_one(conn);
        found.await.unwrap()
    })
}

/// Sets a column to what SQL says, asks for the break, and puts it back.
fn broken_by(path: &Path, store: &Store, row: u64, column: &str, value: &str) -> Option<u64> {
    let before = ask(
        path,
        &format!(
            "SELECT 'UPDATE ledger SET {column} = ' || quote({column}) || ' WHERE rowid = ' || rowid FROM ledger WHERE seq = {row}"
        ),
    );
    let unsynced = |statement: &str| raw(path, &format!("PRAGMA synchronous = OFF; {statement}"));
    unsynced(&format!(
        "UPDATE ledger SET {column} = {value} WHERE seq = {row}"
    ))
    .unwrap();
    let broken = store.verify_ledger().unwrap().broken;
    unsynced(&before.unwrap()).unwrap();
    broken.map(|found| found.seq)
}

#[test]
fn any_flipped_byte_of_any_column_of_any_row_is_found_at_its_row() {
    let (_dir, path) = home();
    let store = seven(&path);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let change = (
        1..=ROWS,
        0..TEXTS.len(),
        any::<prop::sample::Index>(),
        1_u8..=255,
    );
    let found = runner.run(&change, |(row, column, at, flip)| {
        let column = TEXTS[column];
        let text = ask(
            &path,
            &format!("SELECT {column} FROM ledger WHERE seq = {row}"),
        );
        let mut bytes = text.unwrap_or_else(|| "x".to_owned()).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let value = format!("CAST(x'{hex}' AS TEXT)");
        prop_assert_eq!(
            broken_by(&path, &store, row, column, &value),
            Some(row),
            "{}",
            column
        );
        Ok(())
    });
    found.unwrap();
    assert_eq!(
        store.verify_ledger().unwrap().broken,
        None,
        "all was put back"
    );
}

#[test]
fn a_column_of_another_type_or_number_is_found() {
    let (_dir, path) = home();
    let store = seven(&path);
    for row in 1..=ROWS {
        for column in TEXTS {
            for value in [
                "''",
                "x''",
                &format!("CAST({column} AS BLOB)"),
                &format!("{column} || char(10)"),
            ] {
                // NULL stays NULL whatever is done to it: the row without a once-key gets one below.
                if row == 6 && column == "once" && value.contains(column) {
                    continue;
                }
                assert_eq!(
                    broken_by(&path, &store, row, column, value),
                    Some(row),
                    "{column} = {value} of {row}"
                );
            }
        }
        for value in ["-1", "0", "99", "'many'", "0.5"] {
            assert!(
                broken_by(&path, &store, row, "seq", value).is_some(),
                "seq = {value} of {row}"
            );
        }
        let once = if row == 6 { "'a-key'" } else { "NULL" };
        assert_eq!(broken_by(&path, &store, row, "once", once), Some(row));
    }
}
