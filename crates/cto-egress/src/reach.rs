//! What in a body would make the upstream itself reach out: tools that it runs, addresses that it fetches.
//!
//! An agent without a network could otherwise have one by way of its model. Tools are looked for at every depth, because a
//! provider takes them in items of the conversation too. What is data to the provider (a schema, the arguments of a call) is
//! not looked at: an honest tool may speak of anything there. The walk keeps nothing of the body.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::refusal::{Objection, Refusal};

/// Most characters of a tool's name that a record keeps.
const SUBJECT_CHARS_MAX: usize = 60;

/// How the requests of one kind of API are read.
pub(crate) struct Rules {
    /// Kinds of tools whose work is done by whoever asked, that is inside. Any other kind is refused.
    own_tools: &'static [&'static str],
    /// The same by how they begin, where a date follows.
    own_tools_dated: &'static [&'static str],
    /// Kinds that are the asker's own where they say `execution: client`.
    client_tools: &'static [&'static str],
    /// Keys of a tool that name a server of its own.
    server_keys: &'static [&'static str],
    /// Keys of the whole request that bring tools of the provider with them.
    hosted_at_top: &'static [&'static str],
    /// The same wherever they stand.
    hosted: &'static [&'static str],
    /// Keys that hold definitions of tools, wherever they stand.
    tool_lists: &'static [&'static str],
    /// Keys under which a provider takes an address to fetch.
    addresses: &'static [&'static str],
    /// Keys of objects that may hold an address as their `url`.
    sources: &'static [&'static str],
    /// Keys of the whole request that are data.
    data_at_top: &'static [&'static str],
    /// Keys of a tool that are data.
    data_of_tool: &'static [&'static str],
    /// Keys of an item of the conversation that are data: the arguments of a call.
    data_of_item: &'static [&'static str],
}

pub(crate) const OPENAI: Rules = Rules {
    own_tools: &[
        "function",
        "custom",
        "local_shell",
        "shell",
        "apply_patch",
        // A group of others, each of which is looked at.
        "namespace",
    ],
    own_tools_dated: &[],
    client_tools: &["tool_search"],
    server_keys: &["server_url", "server_label", "connector_id"],
    hosted_at_top: &["prompt", "web_search"],
    hosted: &[
        "mcp_servers",
        "web_search_options",
        "plugins",
        "search_parameters",
        "enable_search",
        "data_sources",
    ],
    tool_lists: &["tools", "functions"],
    addresses: &[
        "image_url",
        "file_url",
        "audio_url",
        "video_url",
        "server_url",
    ],
    sources: &["source"],
    data_at_top: &["metadata", "client_metadata", "response_format", "text"],
    data_of_tool: &["parameters", "input_schema", "output_schema", "format"],
    data_of_item: &["arguments", "input"],
};

pub(crate) const ANTHROPIC: Rules = Rules {
    // A tool without a kind is the asker's own.
    own_tools: &["custom"],
    own_tools_dated: &["bash_", "text_editor_", "memory_"],
    client_tools: &[],
    server_keys: &["mcp_server_name"],
    // A container of the provider's, with skills in it.
    hosted_at_top: &["container"],
    hosted: &["mcp_servers"],
    tool_lists: &["tools"],
    addresses: &["image_url", "file_url"],
    sources: &["source"],
    data_at_top: &["metadata", "output_config", "output_format"],
    data_of_tool: &["input_schema", "input_examples"],
    data_of_item: &["input"],
};

impl Rules {
    fn is_own(&self, kind: &str) -> bool {
        let dated = |begin: &&str| {
            let rest = kind.strip_prefix(*begin);
            rest.is_some_and(|date| date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()))
        };
        self.own_tools.contains(&kind) || self.own_tools_dated.iter().any(dated)
    }
}

/// Refuses a body that would do so. Text that is no JSON is refused as such.
pub(crate) fn check(rules: &'static Rules, body: &[u8]) -> Result<(), Objection> {
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_slice(body);
    let walk = Walk {
        rules,
        place: Place::Top,
        key: "",
        tool: &mut Tool::default(),
        found: &mut found,
    };
    let walked = walk.deserialize(&mut reader).and_then(|()| reader.end());
    match (found, walked) {
        (Some(objection), _) => Err(objection),
        (None, Err(_)) => Err(Refusal::BadJson.into()),
        (None, Ok(())) => Ok(()),
    }
}

/// Where in the body a value stands, as far as that matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    /// Anything of the request that has no meaning of its own here.
    Item,
    Tools,
    Tool,
    /// A definition inside a tool, such as `function`.
    Definition,
    ToolKind,
    ToolExecution,
    /// An address, or an object that holds one.
    Address,
    Source,
    Hosted,
    /// Nothing below is read as a request.
    Data,
}

/// What was said of the tool that is being looked at. A key may stand twice: every word counts.
#[derive(Default)]
struct Tool {
    client_kind: Option<String>,
    says_client: bool,
    says_other: bool,
}

impl Tool {
    /// What it is, where it is not surely the asker's own.
    fn hosted_kind(&self) -> Option<&str> {
        let is_own = self.says_client && !self.says_other;
        self.client_kind.as_deref().filter(|_| !is_own)
    }
}

struct Walk<'f> {
    rules: &'static Rules,
    place: Place,
    /// The key that it stands under.
    key: &'f str,
    tool: &'f mut Tool,
    found: &'f mut Option<Objection>,
}

impl Walk<'_> {
    fn at<'w>(&'w mut self, place: Place, key: &'w str) -> Walk<'w> {
        Walk {
            rules: self.rules,
            place,
            key,
            tool: self.tool,
            found: self.found,
        }
    }

    fn object(&mut self, refusal: Refusal, subject: &str) {
        let short: String = subject.chars().take(SUBJECT_CHARS_MAX).collect();
        self.found.get_or_insert(Objection {
            refusal,
            subject: Some(short.escape_debug().to_string()),
            remedy: None,
        });
    }

    /// Something is here that is neither absent nor, so far, refused.
    fn note(&mut self) {
        if self.place == Place::Hosted {
            self.object(Refusal::HostedTool, self.key);
        }
    }

    fn below(&self, key: &str) -> Place {
        let rules = self.rules;
        let is_in = |list: &[&str]| list.contains(&key);
        match self.place {
            Place::Data => Place::Data,
            Place::Hosted => Place::Hosted,
            Place::Top if is_in(rules.hosted_at_top) => Place::Hosted,
            Place::Top if is_in(rules.data_at_top) => Place::Data,
            Place::Item if is_in(rules.data_of_item) => Place::Data,
            Place::Tool | Place::Definition if is_in(rules.data_of_tool) => Place::Data,
            Place::Tool if key == "type" => Place::ToolKind,
            Place::Tool if key == "execution" => Place::ToolExecution,
            Place::Tool if is_in(rules.server_keys) => Place::Hosted,
            Place::Address | Place::Source if key == "url" => Place::Address,
            _ if is_in(rules.hosted) => Place::Hosted,
            _ if is_in(rules.tool_lists) => Place::Tools,
            _ if is_in(rules.addresses) => Place::Address,
            _ if is_in(rules.sources) => Place::Source,
            Place::Tool | Place::Definition => Place::Definition,
            Place::Top
            | Place::Item
            | Place::Tools
            | Place::ToolKind
            | Place::ToolExecution
            | Place::Address
            | Place::Source => Place::Item,
        }
    }

    /// Looks at one tool as a whole: what it is may depend on a word that stands before or behind.
    fn tool<'de, A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut tool = Tool::default();
        let mut inner = Walk {
            rules: self.rules,
            place: Place::Tool,
            key: self.key,
            tool: &mut tool,
            found: self.found,
        };
        inner.entries(&mut map)?;
        if let Some(kind) = tool.hosted_kind() {
            self.object(Refusal::HostedTool, kind);
        }
        Ok(())
    }

    fn entries<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            let place = self.below(&key);
            map.next_value_seed(self.at(place, &key))?;
        }
        Ok(())
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
        match self.place {
            Place::Tools => self.tool(map),
            Place::Top
            | Place::Item
            | Place::Tool
            | Place::Definition
            | Place::ToolKind
            | Place::ToolExecution
            | Place::Address
            | Place::Source
            | Place::Hosted
            | Place::Data => self.entries(&mut map),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let (place, key) = (self.place, self.key);
        // A list at the very top is no request; an empty list of servers is none.
        while list.next_element_seed(self.at(place, key))?.is_some() {}
        Ok(())
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.note();
        match self.place {
            Place::ToolKind if self.rules.client_tools.contains(&text) => {
                self.tool.client_kind = Some(text.to_owned());
            }
            Place::ToolKind if !self.rules.is_own(text) => {
                self.object(Refusal::HostedTool, text);
            }
            Place::ToolExecution if text == "client" => self.tool.says_client = true,
            Place::ToolExecution => self.tool.says_other = true,
            // A tool by its name alone.
            Place::Tools => self.object(Refusal::HostedTool, text),
            Place::Address if !text.starts_with("data:") => {
                self.object(Refusal::RemoteUrl, self.key);
            }
            Place::Top
            | Place::Item
            | Place::Tool
            | Place::Definition
            | Place::ToolKind
            | Place::Address
            | Place::Source
            | Place::Hosted
            | Place::Data => {}
        }
        Ok(())
    }

    fn visit_bool<E: Error>(mut self, is_set: bool) -> Result<(), E> {
        if is_set {
            self.note();
        }
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
mod tests;
