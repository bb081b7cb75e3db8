//! Rows of the index, to and from the database.

use std::path::Path;
use std::str::FromStr;

use cto_contract::ids::Digest;
use cto_contract::words::Stage;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row, Sqlite};

use crate::error::{BoxError, StoreError};
use crate::run::RunRow;

type Statement = Query<'static, Sqlite, SqliteArguments>;

/// Binds a row in the order of the columns.
pub(crate) fn bind_row(
    statement: Statement,
    row: &RunRow,
    repository: Option<&Digest>,
) -> Statement {
    let text = |value: Option<&dyn ToString>| value.map(ToString::to_string);
    statement
        .bind(row.run_id.to_string())
        .bind(row.case_id.to_string())
        .bind(row.backend.as_str())
        .bind(i64::from(row.stage.number()))
        .bind(row.status.map(|status| status.as_str()))
        .bind(row.started_at.to_string())
        .bind(row.finished_at.map(|at| at.to_string()))
        .bind(row.blocker.map(|code| code.as_str()))
        .bind(row.failure_reason.clone())
        .bind(
            row.changed_files
                .map(|n| i64::try_from(n).unwrap_or(i64::MAX)),
        )
        .bind(row.wall_seconds.and_then(micros))
        .bind(text(row.pack_digest.as_ref().map(|d| d as &dyn ToString)))
        .bind(text(row.keyid.as_ref().map(|d| d as &dyn ToString)))
        .bind(row.origin.map(|origin| origin.as_str()))
        .bind(row.title.clone())
        .bind(i64::from(row.conformance))
        .bind(i64::from(row.fake_baseline))
        .bind(row.listed_at.to_string())
        .bind(repository.map(ToString::to_string))
}

/// Seconds as a whole number of microseconds; none when they are no duration.
fn micros(seconds: f64) -> Option<i64> {
    // Thirty years: far beyond any run, and small enough to survive the way through seconds and back.
    const MICROS_MAX: f64 = 1e15;
    let micros = (seconds * 1e6).round();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number, checked to be within the range"
    )]
    (0.0..=MICROS_MAX)
        .contains(&micros)
        .then_some(micros as i64)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "written by `micros`, so exact in a float"
)]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// Reads a row of the index.
pub(crate) fn read_row(path: &Path, row: &SqliteRow) -> Result<RunRow, StoreError> {
    let columns = Columns { path, row };
    Ok(RunRow {
        run_id: columns.required("run_id")?,
        case_id: columns.required("case_id")?,
        backend: columns.required("backend")?,
        stage: columns.stage()?,
        status: columns.optional("status")?,
        started_at: columns.required("started_at")?,
        finished_at: columns.optional("finished_at")?,
        blocker: columns.optional("blocker")?,
        failure_reason: columns.optional("failure_reason")?,
        changed_files: columns
            .number("changed_files")?
            .map(|n| u64::try_from(n).unwrap_or(0)),
        wall_seconds: columns.number("wall_micros")?.map(seconds),
        pack_digest: columns.optional("pack_digest")?,
        keyid: columns.optional("keyid")?,
        origin: columns.optional("origin")?,
        title: columns.required("title")?,
        conformance: columns.number("conformance")? == Some(1),
        fake_baseline: columns.number("fake_baseline")? == Some(1),
        listed_at: columns.required("listed_at")?,
        of_this_home: columns.number("created_seq")?.is_some(),
    })
}

struct Columns<'a> {
    path: &'a Path,
    row: &'a SqliteRow,
}

impl Columns<'_> {
    fn bad(&self, column: &'static str, source: impl Into<BoxError>) -> StoreError {
        let key = self
            .row
            .try_get::<String, _>("run_id")
            .unwrap_or_else(|_| "a row without a run id".to_owned());
        StoreError::BadColumn {
            path: self.path.to_owned(),
            key,
            column,
            source: source.into(),
        }
    }

    fn optional<T: FromStr<Err: Into<BoxError>>>(
        &self,
        column: &'static str,
    ) -> Result<Option<T>, StoreError> {
        let text: Option<String> = self.row.try_get(column).map_err(|e| self.bad(column, e))?;
        text.map(|text| text.parse().map_err(|e| self.bad(column, e)))
            .transpose()
    }

    fn required<T: FromStr<Err: Into<BoxError>>>(
        &self,
        column: &'static str,
    ) -> Result<T, StoreError> {
        self.optional(column)?
            .ok_or_else(|| self.bad(column, "no value"))
    }

    fn number(&self, column: &'static str) -> Result<Option<i64>, StoreError> {
        self.row.try_get(column).map_err(|e| self.bad(column, e))
    }

    fn stage(&self) -> Result<Stage, StoreError> {
        let number = self
            .number("stage")?
            .and_then(|n| u8::try_from(n).ok())
            .unwrap_or(0);
        Stage::try_from(number).map_err(|e| self.bad("stage", e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_duration_is_not_stored() {
        assert_eq!([f64::NAN, f64::INFINITY, -1.0].map(micros), [None; 3]);
    }

    proptest! {
        #[test]
        fn microseconds_read_back(n in 0_i64..1_000_000_000_000_000) {
            prop_assert_eq!(micros(seconds(n)), Some(n));
        }
    }
}
