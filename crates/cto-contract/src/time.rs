//! UTC time with one spelling on the wire.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment in UTC, always written with six digits of fraction and a `Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utc(jiff::Timestamp);

impl Utc {
    /// Wraps a timestamp, cut to microseconds so that what is written equals what was held.
    pub fn new(at: jiff::Timestamp) -> Self {
        let micros = at.as_microsecond();
        Self(jiff::Timestamp::from_microsecond(micros).unwrap_or(at))
    }

    /// `20260601T105222Z`.
    pub fn basic(self) -> String {
        self.0.strftime("%Y%m%dT%H%M%SZ").to_string()
    }

    /// `2026-06-01T10:52Z`: the minute in which it lies.
    pub fn minute(self) -> String {
        self.0.strftime("%Y-%m-%dT%H:%MZ").to_string()
    }

    /// The beginning of its minute.
    pub fn at_minute(self) -> Self {
        let micros = self.0.as_microsecond();
        let start = micros - micros.rem_euclid(60_000_000);
        Self(jiff::Timestamp::from_microsecond(start).unwrap_or(self.0))
    }

    /// Milliseconds since the epoch.
    pub fn millis(self) -> i64 {
        self.0.as_millisecond()
    }

    /// Moves by whole seconds, staying within what can be written.
    pub fn plus_seconds(self, seconds: i64) -> Self {
        self.0
            .checked_add(jiff::SignedDuration::from_secs(seconds))
            .map_or(self, Self::new)
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

impl FromStr for Utc {
    type Err = BadTime;
    fn from_str(text: &str) -> Result<Self, BadTime> {
        text.parse().map(Self::new).map_err(|source| BadTime {
            shown: crate::text::shorten(text, 60),
            source,
        })
    }
}

/// Text that is not a UTC time.
#[derive(Debug, thiserror::Error)]
#[error("`{shown}` is not a UTC time such as 2026-06-01T10:52:22Z")]
pub struct BadTime {
    shown: String,
    source: jiff::Error,
}

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Utc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Utc {
    fn schema_name() -> Cow<'static, str> {
        "Utc".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}
