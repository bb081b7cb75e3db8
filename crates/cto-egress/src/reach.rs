//! What in a body would make the upstream itself reach out: tools that it runs, addresses that it fetches.
//!
//! An agent without a network could otherwise have one by way of its model. The walk keeps nothing of the body.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::refusal::Refusal;

/// Tools whose work is done by whoever asked, that is inside. Any other kind is refused.
const OWN_TOOLS: [&str; 6] = [
    "function",
    "custom",
    "local_shell",
    "shell",
    "apply_patch",
    // A group of others, each of which is looked at.
    "namespace",
];
/// Keys of the whole request that bring tools of the provider with them.
const HOSTED_KEYS: [&str; 3] = ["web_search_options", "plugins", "prompt"];
/// Keys under which a provider takes an address to fetch.
const ADDRESS_KEYS: [&str; 4] = ["image_url", "file_url", "audio_url", "video_url"];

/// Refuses a body that would do so. Text that is no JSON is refused as such.
pub(crate) fn check(body: &[u8]) -> Result<(), Refusal> {
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_slice(body);
    let walk = Walk {
        place: Place::Top,
        found: &mut found,
    };
    let walked = walk.deserialize(&mut reader).and_then(|()| reader.end());
    match (found, walked) {
        (Some(refusal), _) => Err(refusal),
        (None, Err(_)) => Err(Refusal::BadJson),
        (None, Ok(())) => Ok(()),
    }
}

/// Where in the body a value stands, as far as that matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Tools,
    Tool,
    ToolKind,
    /// An address, or an object that holds one.
    Address,
    Hosted,
    Elsewhere,
}

struct Walk<'f> {
    place: Place,
    found: &'f mut Option<Refusal>,
}

impl Walk<'_> {
    fn at(&mut self, place: Place) -> Walk<'_> {
        Walk {
            place,
            found: self.found,
        }
    }

    /// Something is here that is neither absent nor, so far, refused.
    fn note(&mut self) {
        if self.place == Place::Hosted {
            *self.found = Some(Refusal::HostedTool);
        }
    }

    fn below(&self, key: &str) -> Place {
        match (self.place, key) {
            (Place::Top, key) if HOSTED_KEYS.contains(&key) => Place::Hosted,
            (Place::Top | Place::Tool, "tools") => Place::Tools,
            (Place::Tool, "type") => Place::ToolKind,
            (Place::Address, "url") => Place::Address,
            (_, key) if ADDRESS_KEYS.contains(&key) => Place::Address,
            _ => Place::Elsewhere,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.note();
        let inner = if self.place == Place::Tools {
            Place::Tool
        } else {
            self.place
        };
        self.place = inner;
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let place = self.below(&key);
            map.next_value_seed(self.at(place))?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        self.note();
        let place = self.place;
        while list.next_element_seed(self.at(place))?.is_some() {}
        Ok(())
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.note();
        let refusal = match self.place {
            Place::ToolKind if !OWN_TOOLS.contains(&text) => Refusal::HostedTool,
            Place::Address if !text.starts_with("data:") => Refusal::RemoteUrl,
            Place::Top
            | Place::Tools
            | Place::Tool
            | Place::ToolKind
            | Place::Address
            | Place::Hosted
            | Place::Elsewhere => return Ok(()),
        };
        *self.found = Some(refusal);
        Ok(())
    }

    fn visit_bool<E: Error>(mut self, _: bool) -> Result<(), E> {
        self.note();
        Ok(())
    }

    fn visit_i64<E: Error>(mut self, _: i64) -> Result<(), E> {
        self.note();
        Ok(())
    }

    fn visit_u64<E: Error>(mut self, _: u64) -> Result<(), E> {
        self.note();
        Ok(())
    }

    fn visit_f64<E: Error>(mut self, _: f64) -> Result<(), E> {
        self.note();
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upstream_is_no_way_out() {
        let seen = |body: &str| check(body.as_bytes()).map_or_else(Refusal::as_str, |()| "ok");
        let cases = [
            (
                r#"{"tools":[{"type":"function","function":{"name":"f"}}]}"#,
                "ok",
            ),
            (
                r#"{"tools":[{"type":"mcp","server_url":"https://x"}]}"#,
                "hosted_tool",
            ),
            (
                r#"{"tools":[{"server_url":"https://x","type":"web_search"}]}"#,
                "hosted_tool",
            ),
            (r#"{"tools":{"type":"mcp"}}"#, "hosted_tool"),
            (
                r#"{"tools":[{"type":"function","ty\u0070e":"mcp"}]}"#,
                "hosted_tool",
            ),
            (
                r#"{"tools":[{"type":"namespace","tools":[{"type":"mcp"}]}]}"#,
                "hosted_tool",
            ),
            (r#"{"web_search_options":{}}"#, "hosted_tool"),
            (r#"{"web_search_options":null,"tools":[]}"#, "ok"),
            (r#"{"plugins":[{"id":"web"}]}"#, "hosted_tool"),
            (r#"{"prompt":{"id":"p"}}"#, "hosted_tool"),
            (
                r#"{"messages":[{"content":[{"image_url":{"url":"http://x"}}]}]}"#,
                "remote_url",
            ),
            (
                r#"{"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,AA"}}]}]}"#,
                "ok",
            ),
            (
                r#"{"input":[{"content":[{"type":"input_image","image_url":"https://x"}]}]}"#,
                "remote_url",
            ),
            (
                r#"{"input":[{"type":"input_file","file_url":"https://x"}]}"#,
                "remote_url",
            ),
            (
                r#"{"messages":[{"content":"see {\"image_url\":\"http://x\"}"}]}"#,
                "ok",
            ),
            (
                r#"{"tools":[{"type":"function","parameters":{"properties":{"image_url":{"type":"string"},"type":{"enum":["mcp"]},"tools":{"type":"array"}}}}]}"#,
                "ok",
            ),
            ("{", "bad_json"),
            ("{}x", "bad_json"),
        ];
        for (body, expected) in cases {
            assert_eq!(seen(body), expected, "{body}");
        }
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        assert_eq!(seen(&deep), "bad_json");
    }
}
