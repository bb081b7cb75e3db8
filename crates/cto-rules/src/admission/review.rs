//! What a program can check of the days in a record: one in `review_trigger` that has passed, and one that lies ahead.

use cto_contract::admission::{Admission, RecordDate};
use cto_contract::time::Utc;

/// The first day in a text that is over, as it is written there. A day is over when the next one has begun, in UTC.
pub(super) fn passed_date(text: &str, now: Utc) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    (0..bytes.len()).find_map(|at| {
        let day = bytes.get(at..at + 10)?;
        let has_shape = day.iter().enumerate().all(|(i, b)| match i {
            4 | 7 => *b == b'-',
            _ => b.is_ascii_digit(),
        });
        // No part of a longer number.
        let is_whole = !is_digit(at + 10) && (at == 0 || !is_digit(at - 1));
        if !has_shape || !is_whole {
            return None;
        }
        let day = std::str::from_utf8(day).ok()?;
        let begins: Utc = format!("{day}T00:00:00Z").parse().ok()?;
        (now >= begins.plus_seconds(24 * 3600)).then(|| day.to_owned())
    })
}

/// How far a clock may be behind that of whoever wrote a record.
const SKEW_SECONDS: i64 = 300;

/// The first field of a record that is dated ahead: what has not happened yet was not seen by anybody.
pub fn dated_ahead(record: &Admission, now: Utc) -> Option<&'static str> {
    let latest = now.plus_seconds(SKEW_SECONDS);
    let dates = record.dates();
    let ahead = |date: &RecordDate| date.begins().is_some_and(|begins| begins > latest);
    let found = dates.into_iter().find(|(_, date)| ahead(date));
    found.map(|(field, _)| field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn passed(text: &str) -> Option<String> {
        passed_date(text, "2026-06-01T10:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_day_that_is_over_makes_a_record_stale() {
        for (text, expected) in [
            ("", None),
            ("before the endpoint changes", None),
            ("review by 2026-05-31", Some("2026-05-31")),
            ("review by 2026-06-01", None),
            ("2026-06-02, or before", None),
            ("2027-01-01 or 2026-01-01", Some("2026-01-01")),
            ("ticket 12026-05-31 and 2026-05-310", None),
            ("2026-13-40", None),
            ("at 2026-05-31T23:00:00Z", Some("2026-05-31")),
            ("é2026-05-31é", Some("2026-05-31")),
        ] {
            assert_eq!(passed(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_has_not_happened_yet_is_named_by_its_field() {
        let ahead = |kind: &str, field: &str, date: &str| {
            let mut record = serde_json::json!({
                "status": "not_admitted", "provider": "p", "model": "m", "credential_source_class": "none",
                "allowed_network_class": "local", "approval_source": "me", "admission_timestamp": "2026-06-01",
                "review_trigger": "x",
            });
            record[field] = date.into();
            let record = Admission::from_value(kind.parse().unwrap(), &record).unwrap();
            dated_ahead(&record, "2026-06-01T10:00:00Z".parse().unwrap())
        };
        for (date, expected) in [
            ("", None),
            ("2020-01-01", None),
            // Somewhere it is that day already.
            ("2026-06-02", None),
            ("2026-06-03", Some("admission_timestamp")),
            ("2026-06-01T10:04:00Z", None),
            ("2026-06-01T10:06:00Z", Some("admission_timestamp")),
            ("2026-06-01T12:06:00+02:00", Some("admission_timestamp")),
            ("2026-06-01T12:04:00+02:00", None),
            ("9999-12-31", Some("admission_timestamp")),
        ] {
            assert_eq!(
                ahead("model", "admission_timestamp", date),
                expected,
                "{date}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_time_never_mends_a_record(text in ".{0,40}", day in 1_u32..29, later in 0_i64..10_000_000) {
            let text = format!("{text} 2026-05-{day:02} {text}");
            let now: Utc = "2026-05-15T00:00:00Z".parse().unwrap();
            if passed_date(&text, now).is_some() {
                prop_assert!(passed_date(&text, now.plus_seconds(later)).is_some());
            }
        }
    }
}
