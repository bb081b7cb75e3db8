//! A place in the listing: the last row that was shown.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use cto_contract::ids::RunId;
use cto_contract::text;
use cto_contract::time::Utc;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where the next page begins. Written `<listed_at>~<run_id>`: opaque to people, legal in a URL.
///
/// It names both columns of the order, so that a page begins at the right place even when the row is gone
/// and when many runs are listed at the same microsecond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    pub listed_at: Utc,
    pub run_id: RunId,
}

/// Text that is no cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a place in the listing; take the `next` of an earlier page")]
pub struct BadCursor {
    shown: String,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{}", self.listed_at, self.run_id)
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;
    fn from_str(cursor: &str) -> Result<Self, BadCursor> {
        let parts = cursor.split_once('~');
        parts
            .and_then(|(at, id)| {
                Some(Self {
                    listed_at: at.parse().ok()?,
                    run_id: id.parse().ok()?,
                })
            })
            .ok_or_else(|| BadCursor {
                shown: text::shorten(cursor, 120),
            })
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Cursor {
    fn schema_name() -> Cow<'static, str> {
        "Cursor".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[^~]+~[^~]+$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cursor_reads_back(seconds in 0_i64..4_000_000_000, suffix in "[a-z0-9]{6}") {
            let at: Utc = "1970-01-01T00:00:00.123456Z".parse().unwrap();
            let listed_at = at.plus_seconds(seconds);
            let run_id = format!("{}-a-{suffix}", listed_at.basic()).parse().unwrap();
            let cursor = Cursor { listed_at, run_id };
            prop_assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _result = text.parse::<Cursor>();
        }
    }
}
