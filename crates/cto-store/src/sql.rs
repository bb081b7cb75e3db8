//! Every SQL text but the schema, in the part of SQL that SQLite and PostgreSQL share.
//!
//! Parameters are `$1`, `$2`, … without gaps, because PostgreSQL refuses gaps; columns are TEXT and BIGINT only.

use crate::query::{Filter, Page, State};

macro_rules! columns {
    () => {
        "run_id, case_id, backend, stage, status, started_at, finished_at, blocker, failure_reason, changed_files, \
         wall_micros, pack_digest, keyid, origin, title, conformance, fake_baseline, listed_at, repository"
    };
}
/// The columns of a row as it is read: the ledger's word comes last.
macro_rules! read_columns {
    () => {
        concat!(columns!(), ", created_seq")
    };
}
macro_rules! values {
    () => {
        "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19"
    };
}
/// Where the ledger has the creation of a run.
macro_rules! created_seq {
    ($run_id:literal) => {
        concat!(
            "(SELECT l.seq FROM ledger l WHERE l.once = 'run.created:' || ",
            $run_id,
            ")"
        )
    };
}
macro_rules! insert_run {
    () => {
        concat!(
            "INSERT INTO runs (",
            read_columns!(),
            ") VALUES ",
            values!(),
            ", ",
            created_seq!("$1"),
            ")"
        )
    };
}
macro_rules! entry {
    () => {
        "SELECT seq, prev, digest, kind, subject, once, at, record FROM ledger"
    };
}
macro_rules! only_created {
    () => {
        " FROM ledger c WHERE c.kind = 'run.created' AND NOT EXISTS \
         (SELECT 1 FROM ledger s WHERE s.once = 'run.sealed:' || c.subject)"
    };
}

/// Takes the write lock at once: a transaction that reads first and writes later can fail without waiting.
pub(crate) const BEGIN_WRITE: &str = "BEGIN IMMEDIATE";

pub(crate) const INSERT_RUN_IF_ABSENT: &str =
    concat!(insert_run!(), " ON CONFLICT (run_id) DO NOTHING");
pub(crate) const UPSERT_RUN: &str = concat!(
    insert_run!(),
    " ON CONFLICT (run_id) DO UPDATE SET case_id = excluded.case_id, backend = excluded.backend, \
     stage = excluded.stage, status = excluded.status, started_at = excluded.started_at, \
     finished_at = excluded.finished_at, blocker = excluded.blocker, failure_reason = excluded.failure_reason, \
     changed_files = excluded.changed_files, wall_micros = excluded.wall_micros, pack_digest = excluded.pack_digest, \
     keyid = excluded.keyid, origin = excluded.origin, title = excluded.title, conformance = excluded.conformance, \
     fake_baseline = excluded.fake_baseline, \
     repository = COALESCE(excluded.repository, runs.repository)"
);
pub(crate) const GET_RUN: &str =
    concat!("SELECT ", read_columns!(), " FROM runs WHERE run_id = $1");
pub(crate) const OWN_RUNS: &str = "SELECT created_seq, run_id FROM runs WHERE fake_baseline = 0 AND created_seq < $1 ORDER BY created_seq DESC LIMIT $2";
pub(crate) const OWN_RUNS_OF_REPOSITORY: &str = "SELECT created_seq, run_id FROM runs \
     WHERE fake_baseline = 0 AND repository = $3 AND created_seq < $1 ORDER BY created_seq DESC LIMIT $2";
pub(crate) const OWN_RUNS_OF_NO_REPOSITORY: &str = "SELECT created_seq, run_id FROM runs \
     WHERE fake_baseline = 0 AND repository IS NULL AND created_seq < $1 ORDER BY created_seq DESC LIMIT $2";
pub(crate) const FIND_PREFIX: &str =
    "SELECT run_id FROM runs WHERE run_id >= $1 AND run_id < $2 ORDER BY run_id DESC LIMIT $3";
pub(crate) const COUNTS: &str = "SELECT state, runs FROM run_counts";

pub(crate) const OPEN_RUNS: &str = "SELECT run_id FROM open_runs ORDER BY run_id";

pub(crate) const LEDGER_APPEND: &str = "INSERT INTO ledger \
     (seq, prev, digest, kind, subject, once, at, record) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
pub(crate) const LEDGER_HEAD: &str = "SELECT seq, digest FROM ledger ORDER BY seq DESC LIMIT 1";
pub(crate) const LEDGER_GENESIS: &str = "SELECT digest FROM ledger WHERE seq = 1";
pub(crate) const LEDGER_ONCE: &str = concat!(entry!(), " WHERE once = $1");
pub(crate) const LEDGER_LAST: &str = concat!(
    entry!(),
    " WHERE subject = $1 AND kind = $2 ORDER BY seq DESC LIMIT 1"
);
pub(crate) const LEDGER_PAGE: &str = concat!(entry!(), " WHERE seq > $1 ORDER BY seq LIMIT $2");
pub(crate) const LEDGER_PAGE_OF_KIND: &str = concat!(
    entry!(),
    " WHERE seq > $1 AND kind = $3 ORDER BY seq LIMIT $2"
);

// A rebuild collects rows aside, so that it holds the write lock only for the swap and not while packs are read.
pub(crate) const REBUILD_BEGIN: &str = concat!(
    "DROP TABLE IF EXISTS rebuilt; CREATE TEMP TABLE rebuilt AS SELECT ",
    columns!(),
    " FROM runs WHERE 1 = 0; CREATE UNIQUE INDEX rebuilt_run ON rebuilt (run_id)"
);
pub(crate) const REBUILD_COLLECT: &str = concat!(
    "INSERT INTO rebuilt (",
    columns!(),
    ") VALUES ",
    values!(),
    ") ON CONFLICT (run_id) DO NOTHING"
);
/// Keeps what was entered after the rebuild began.
pub(crate) const REBUILD_CLEAR: &str =
    "DELETE FROM runs WHERE run_id NOT IN (SELECT subject FROM ledger WHERE seq > $1)";
pub(crate) const REBUILD_FILL: &str = concat!(
    "INSERT INTO runs (",
    read_columns!(),
    ") SELECT ",
    columns!(),
    ", ",
    created_seq!("rebuilt.run_id"),
    " FROM rebuilt WHERE 1 = 1 ON CONFLICT (run_id) DO NOTHING"
);
pub(crate) const REBUILD_UNSEALED: &str =
    concat!("SELECT c.seq, c.record", only_created!(), " ORDER BY c.seq");
pub(crate) const REBUILD_OPEN_CLEAR: &str = "DELETE FROM open_runs";
pub(crate) const REBUILD_OPEN_FILL: &str = concat!(
    "INSERT INTO open_runs (run_id) SELECT c.subject",
    only_created!()
);
pub(crate) const REBUILD_MISSING: &str = "SELECT COUNT(*) FROM ledger WHERE kind = 'run.sealed' AND subject NOT IN (SELECT run_id FROM runs)";
pub(crate) const REBUILD_UNKNOWN: &str = "SELECT COUNT(*) FROM runs WHERE NOT EXISTS \
     (SELECT 1 FROM ledger l WHERE l.once = 'run.created:' || runs.run_id)";
pub(crate) const REBUILD_END: &str = "DROP TABLE rebuilt";

/// A value to bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arg {
    Text(String),
    Int(i64),
}

/// A place after every run: `~` sorts after all that times and run ids are written in.
const BEFORE_ALL: &str = "~";

/// The listing for a filter. Built from constants only; everything a person gave is an argument.
pub(crate) fn list(filter: &Filter, page: &Page) -> (String, Vec<Arg>) {
    let (at, id) = page.after.as_ref().map_or_else(
        || (BEFORE_ALL.to_owned(), BEFORE_ALL.to_owned()),
        |cursor| (cursor.listed_at.to_string(), cursor.run_id.to_string()),
    );
    let mut sql = String::from(concat!(
        "SELECT ",
        read_columns!(),
        " FROM runs WHERE (listed_at, run_id) < ($1, $2)"
    ));
    let mut args = vec![Arg::Text(at), Arg::Text(id)];
    if let Some(state) = filter.state {
        match state {
            State::Running => sql.push_str(" AND status IS NULL"),
            State::Pass | State::Fail | State::Blocked => {
                sql.push_str(" AND status = ");
                sql.push_str(&place(&mut args, Arg::Text(state.to_string())));
            }
        }
    }
    if let Some(case_id) = &filter.case_id {
        sql.push_str(" AND case_id = ");
        sql.push_str(&place(&mut args, Arg::Text(case_id.to_string())));
    }
    if let Some(backend) = filter.backend {
        sql.push_str(" AND backend = ");
        sql.push_str(&place(&mut args, Arg::Text(backend.to_string())));
    }
    if let Some(prefix) = &filter.prefix {
        // Not a range on run_id: the planner would take it for the index and sort everything that matches.
        let chars = i64::try_from(prefix.chars().count()).unwrap_or(i64::MAX);
        sql.push_str(" AND substr(run_id, 1, ");
        sql.push_str(&place(&mut args, Arg::Int(chars)));
        sql.push_str(") = ");
        sql.push_str(&place(&mut args, Arg::Text(prefix.clone())));
    }
    sql.push_str(" ORDER BY listed_at DESC, run_id DESC LIMIT ");
    // One more than asked for tells whether there is a next page.
    let rows = i64::try_from(Page::rows(page.limit) + 1).unwrap_or(i64::MAX);
    sql.push_str(&place(&mut args, Arg::Int(rows)));
    (sql, args)
}

fn place(args: &mut Vec<Arg>, arg: Arg) -> String {
    args.push(arg);
    format!("${}", args.len())
}
