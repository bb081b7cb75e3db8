//! Shows by the planner's own word, not by a clock, that a hundred thousand runs are never walked through.

use std::path::Path;

use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Row as _};

use crate::cursor::Cursor;
use crate::ledger::LedgerInit;
use crate::open::open;
use crate::query::{Filter, Page, State};
use crate::sql;

const RUNS: u32 = 100_000;

/// Makes the rows inside the database; the ledger's own guards are for writers, and would make this slow.
async fn fill(conn: &mut SqliteConnection) {
    let numbers = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {RUNS}) "
    );
    let id = "printf('%08dT%06dZ-a-%06d', 20260000 + i / 1000, i % 1000, i)";
    let runs = format!(
        "{numbers} INSERT INTO runs SELECT {id}, 'case-' || (i % 13), 'fake', 2, \
         CASE i % 3 WHEN 0 THEN 'pass' WHEN 1 THEN 'fail' END, printf('2026-06-01T10:52:22.%06dZ', i), NULL, NULL, NULL, \
         NULL, NULL, NULL, NULL, NULL, 'a title', 0, 0, printf('2026-06-01T10:52:22.%06dZ', i), \
         CASE i % 7 WHEN 0 THEN 'aa' WHEN 1 THEN NULL ELSE 'bb' END, CASE WHEN i % 50 > 0 THEN i + 1 END FROM n"
    );
    let ledger = format!(
        "DROP TRIGGER ledger_only_append; DROP TRIGGER open_runs_created; {numbers} INSERT INTO ledger \
         SELECT i + 1, 'p', 'd', 'run.created', {id}, 'run.created:' || {id}, '2026', '{{}}' FROM n"
    );
    for statement in [runs, ledger] {
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut *conn)
            .await
            .unwrap();
    }
}

async fn plan(conn: &mut SqliteConnection, statement: &str) -> String {
    let rows = sqlx::raw_sql(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")))
        .fetch_all(conn)
        .await
        .unwrap();
    rows.iter()
        .map(|row| row.get::<String, _>("detail"))
        .collect::<Vec<_>>()
        .join("; ")
}

fn filters() -> Vec<Filter> {
    let mut filters = Vec::new();
    for state in [None, Some(State::Running), Some(State::Fail)] {
        for case_id in [None, Some("case-1".parse().unwrap())] {
            for backend in [None, Some(cto_contract::words::Lane::Fake)] {
                for prefix in [None, Some("2026".to_owned())] {
                    filters.push(Filter {
                        state,
                        case_id: case_id.clone(),
                        backend,
                        prefix,
                    });
                }
            }
        }
    }
    filters
}

async fn check(path: &Path) {
    let init = LedgerInit {
        random: [1; 32],
        at: "2026-06-01T00:00:00Z".parse().unwrap(),
    };
    let mut database = open(path, &init).await.unwrap();
    let conn = &mut database.conn;
    fill(conn).await;

    let run_id: cto_contract::ids::RunId = "20260001T000100Z-a-001100".parse().unwrap();
    let after = Some(Cursor {
        listed_at: "2026-06-01T10:52:22.050000Z".parse().unwrap(),
        run_id,
    });
    for filter in filters() {
        for page in [
            Page::first(50),
            Page {
                limit: 50,
                after: after.clone(),
            },
        ] {
            let (text, _) = sql::list(&filter, &page);
            let found = plan(conn, &text).await;
            assert!(
                found.starts_with("SEARCH runs USING INDEX runs_"),
                "{filter:?}: {found}"
            );
            assert!(
                !found.contains("SCAN") && !found.contains("TEMP B-TREE"),
                "{filter:?}: {found}"
            );
        }
    }
    for statement in [
        sql::GET_RUN,
        sql::FIND_PREFIX,
        sql::OWN_RUNS,
        sql::OWN_RUNS_OF_REPOSITORY,
        sql::OWN_RUNS_OF_NO_REPOSITORY,
        sql::LEDGER_GENESIS,
        sql::LEDGER_ONCE,
        sql::LEDGER_LAST,
        sql::LEDGER_PAGE,
        sql::LEDGER_PAGE_OF_KIND,
        // What the guards of the ledger ask and do on every insert, besides what is above.
        "SELECT MAX(seq) FROM ledger",
        "DELETE FROM open_runs WHERE run_id = $1",
    ] {
        let found = plan(conn, statement).await;
        assert!(
            found.starts_with("SEARCH") && !found.contains("SCAN") && !found.contains("TEMP"),
            "{statement}: {found}"
        );
    }
    // The end of an index, one row: written as a scan, and stopped by its limit.
    for (statement, index) in [(sql::LEDGER_HEAD, "sqlite_autoindex_ledger_1")] {
        let found = plan(conn, statement).await;
        assert!(
            found.contains(index) && !found.contains("TEMP"),
            "{statement}: {found}"
        );
        assert!(statement.ends_with("LIMIT 1"));
    }

    // The plans are of use: pages are full, and a last page ends.
    for filter in filters() {
        let first = database.list(&filter, &Page::first(50)).await.unwrap();
        assert_eq!(
            (first.rows.len(), first.next.is_some()),
            (50, true),
            "{filter:?}"
        );
    }
    assert_eq!(database.counts().await.unwrap().total(), u64::from(RUNS));
}

#[test]
fn a_hundred_thousand_runs_are_listed_and_entered_by_index() {
    let dir = tempfile::tempdir().unwrap();
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(check(&dir.path().join("cto.db")));
}
